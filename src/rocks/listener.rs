//! What hears of the events of a database: of the flushes, compactions and ingestions of all its families.

use std::sync::Arc;

use super::bell::Bell;
use super::columns::Columns;
use crate::planted::planted;

/// The one listener of a database.
#[derive(Debug)]
pub(crate) struct Listener {
    bell: Arc<Bell>,
    columns: Arc<Columns>,
}

impl Listener {
    /// One that wakes upkeep, and tells these fronts of what is ingested.
    pub(crate) fn new(bell: Arc<Bell>, columns: Arc<Columns>) -> Self {
        Self { bell, columns }
    }

    pub(crate) fn engine_changed(&self) {
        self.bell.ring();
    }

    /// Keys came into the families with this name past their memtables. Only what an ingestion into the bare
    /// engine brings is news.
    pub(crate) fn keys_ingested(&self, family: &[u8]) {
        if planted!(IngestionUnheard) {
            return;
        }
        let fronts = self.columns.all();
        let concerned = fronts
            .iter()
            .filter(|front| front.name().as_bytes() == family);
        concerned.for_each(|front| front.foreign_keys_arrived());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options, SstFileWriter};

    use crate::rocks::{SieveDb, SieveOptions};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Nobody announces those: not `SieveDb`, and not whoever borrowed the engine from it.
    #[test]
    fn families_hear_of_ingestions_into_the_bare_engine() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let (path, sieve) = (home.path().join("db"), SieveOptions::default().audit(0));
        let db = SieveDb::open_cf(&options, &sieve, path, ["early"]).unwrap();
        db.create_cf("late", &options).unwrap();
        for name in [DEFAULT_COLUMN_FAMILY_NAME, "early", "late"] {
            assert!(db.wait_until_covered(PATIENCE));
            let family = db.cf_handle(name).unwrap();
            assert!(db.answer_cf(&family, name).is_absent());
            let file = home.path().join(name);
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).unwrap();
            writer.put(name, b"ingested").unwrap();
            writer.finish().unwrap();
            let ingested = db.engine().ingest_external_file_cf(&family, vec![&file]);
            ingested.unwrap();
            assert!(!db.answer_cf(&family, name).is_absent(), "{name}");
            // The others hear nothing.
            let heard = db
                .columns()
                .all()
                .into_iter()
                .filter(|front| !front.is_settled());
            let heard: Vec<_> = heard.map(|front| front.name().to_owned()).collect();
            assert!(heard.iter().all(|heard| heard == name), "{heard:?}");
        }
    }
}

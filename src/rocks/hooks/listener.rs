//! The event listener of a database: flushes, compactions and ingestions in all its column
//! families.

use std::sync::Arc;

use crate::fault::fault;
use crate::front::cf_filters::CfFilters;
use crate::front::wakeup::Wakeup;

/// The one listener of a database.
#[derive(Debug)]
pub(crate) struct Listener {
    wakeup: Arc<Wakeup>,
    cf_filters: Arc<CfFilters>,
}

impl Listener {
    /// A listener that wakes maintenance, and reports ingestions to these filters.
    pub(crate) fn new(wakeup: Arc<Wakeup>, cf_filters: Arc<CfFilters>) -> Self {
        Self { wakeup, cf_filters }
    }

    pub(crate) fn engine_changed(&self) {
        self.wakeup.notify();
    }

    /// External writes went into the column families with this name. They were not announced only
    /// if the file was ingested past the handle.
    pub(crate) fn keys_ingested(&self, cf: &[u8]) {
        fault!(EngineIngestionUnannounced, return);
        let filters = self.cf_filters.all();
        let concerned = filters
            .iter()
            .filter(|cf_filter| cf_filter.name().as_bytes() == cf);
        concerned.for_each(|cf_filter| cf_filter.external_writes_happened());
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options, SstFileWriter};

    use crate::rocks::{SieveDb, SieveOptions};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// These are announced neither by `SieveDb` nor by the caller that borrowed the engine.
    #[test]
    fn families_hear_of_ingestions_into_the_bare_engine() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let (path, sieve) = (home.path().join("db"), SieveOptions::default().audit(0));
        let db = SieveDb::builder(path)
            .options(&options)
            .filters(&sieve)
            .cfs(["early"])
            .open()
            .unwrap();
        db.create_cf("late", &options).unwrap();
        for name in [DEFAULT_COLUMN_FAMILY_NAME, "early", "late"] {
            assert!(db.wait_until_complete(PATIENCE));
            let cf = db.cf_handle(name).unwrap();
            assert!(db.filter_answer_cf(&cf, name).is_absent());
            let file = home.path().join(name);
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).unwrap();
            writer.put(name, b"ingested").unwrap();
            writer.finish().unwrap();
            let ingested = db.engine().ingest_external_file_cf(&cf, vec![&file]);
            ingested.unwrap();
            assert!(!db.filter_answer_cf(&cf, name).is_absent(), "{name}");
            // The others get no event.
            let heard = db
                .cf_filters()
                .all()
                .into_iter()
                .filter(|cf_filter| !cf_filter.is_complete_by_construction());
            let heard: Vec<_> = heard.map(|cf_filter| cf_filter.name().to_owned()).collect();
            assert!(heard.iter().all(|heard| heard == name), "{heard:?}");
        }
    }
}

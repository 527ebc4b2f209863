//! The law suite over RocksDB.

use std::path::Path;
use std::time::Duration;

use lsm_sieve::rocksdb::{IngestExternalFileOptions, Options, SstFileWriter, WriteBatch};
use lsm_sieve::{Items, SieveDb, SieveOptions};
use lsm_sieve_stores::FilterOptions;
use lsm_sieve_stores::laws::{BoxError, Subject, Suite};

const LIMIT: Duration = Duration::from_secs(60);

struct Db(SieveDb);

impl Subject for Db {
    fn write(&self, batch: &[(Vec<u8>, bool)]) -> Result<(), BoxError> {
        let mut writes = WriteBatch::default();
        for (key, is_set) in batch {
            match is_set {
                true => writes.put(key, b"value"),
                false => writes.delete(key),
            }
        }
        Ok(self.0.write(writes)?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.0.get(key)?.is_some())
    }

    fn contains_past_filters(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.0.with_engine_untracked(|engine| {
            let mut keys = engine.raw_iterator();
            keys.seek(key);
            keys.status().map(|()| keys.key() == Some(key))
        })?)
    }

    fn is_denied(&self, key: &[u8]) -> bool {
        self.0.filters().answer(key).is_absent()
    }

    fn settle(&self) -> bool {
        self.0.filters().wait_until_complete(LIMIT) && self.0.filters().wait_for_maintenance(LIMIT)
    }

    fn flush(&self) -> Result<(), BoxError> {
        Ok(self.0.flush()?)
    }

    fn merge(&self) -> Result<(), BoxError> {
        self.0.compact_range(None::<&[u8]>, None::<&[u8]>);
        Ok(())
    }

    fn ingest(&self, keys: &[Vec<u8>]) -> Result<bool, BoxError> {
        let home = tempfile::tempdir()?;
        let file = home.path().join("new.sst");
        let options = Options::default();
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file)?;
        let mut keys = keys.to_vec();
        keys.sort();
        keys.iter().try_for_each(|key| writer.put(key, b"value"))?;
        writer.finish()?;
        let options = IngestExternalFileOptions::default();
        self.0.ingest_external_file_opts(&options, vec![file])?;
        Ok(true)
    }

    fn rebuild_filters(&self) {
        _ = self.0.filters().consolidate();
    }
}

#[test]
fn rocksdb_keeps_the_rules() {
    let open = |folder: &Path, _: &FilterOptions| {
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().expected_keys(Items::new(64));
        Ok(Db(SieveDb::open(&options, &sieve, folder)?))
    };
    println!("{}", Suite::new(open).histories(5).run());
}

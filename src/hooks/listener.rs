//! The event listener of a database: flushes, compactions and ingestions in all its column
//! families.

use std::sync::Arc;

use crate::fault::fault;
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::wakeup::Wakeup;

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
    use std::ffi::CString;
    use std::path::Path;
    use std::time::Duration;

    use librocksdb_sys as sys;
    use rocksdb::{AsColumnFamilyRef, DEFAULT_COLUMN_FAMILY_NAME, Options, SstFileWriter};

    use crate::hooks::abi;
    use crate::{SieveDb, SieveOptions};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Ingests a file into RocksDB's own object, as C++ code may that has it from `GetRootDB`.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one program of calls of the C API"
    )]
    fn ingest_past_the_handle(cf: &impl AsColumnFamilyRef, file: &Path) {
        let file = CString::new(file.to_str().unwrap()).unwrap();
        let mut error = std::ptr::null_mut();
        // SAFETY: the engine is open, and its column family and the file's name live through the
        // calls. A handle of the C API is a pointer to RocksDB's object and no more.
        unsafe {
            let engine = abi::lsm_sieve_engine(cf.inner());
            let handle = (&raw const engine).cast_mut().cast();
            let options = sys::rocksdb_ingestexternalfileoptions_create();
            let files = [file.as_ptr()];
            sys::rocksdb_ingest_external_file_cf(
                handle,
                cf.inner(),
                files.as_ptr(),
                1,
                options,
                &raw mut error,
            );
            sys::rocksdb_ingestexternalfileoptions_destroy(options);
        }
        assert!(error.is_null());
    }

    /// These are announced neither by the handle nor by a caller of `with_engine_untracked`.
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
            assert!(db.filters().wait_until_complete(PATIENCE));
            let cf = db.cf_handle(name).unwrap();
            assert!(db.filters().answer_cf(&cf, name).is_absent());
            let file = home.path().join(name);
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).unwrap();
            writer.put(name, b"ingested").unwrap();
            writer.finish().unwrap();
            ingest_past_the_handle(&cf, &file);
            assert!(!db.filters().answer_cf(&cf, name).is_absent(), "{name}");
            // The others get no event.
            let heard = db
                .cf_filters()
                .all()
                .into_iter()
                .filter(|cf_filter| !cf_filter.coverage().is_complete_by_construction());
            let heard: Vec<_> = heard.map(|cf_filter| cf_filter.name().to_owned()).collect();
            assert!(heard.iter().all(|heard| heard == name), "{heard:?}");
        }
    }
}

//! Opening a database as it was opened last.

use std::path::Path;

use rocksdb::{Error, Options};

use super::SieveDb;
use crate::rocks::ffi;

impl SieveDb {
    /// The options that a database was opened with last, as RocksDB has written them down, and those of each of
    /// its families: for [`SieveDb::open_cf_with_opts`], and for those that open it to read only or as a secondary.
    /// It stands for `Options::load_latest` of `rocksdb`, whose descriptors hide their options.
    ///
    /// `options` have what no file holds: the environment, which is also read through, and a block cache, which all
    /// families get. What is programs is not written down either, such as merge operators, compaction filters and
    /// comparators of your own: set them again on what is returned.
    ///
    /// # Errors
    /// What RocksDB says: that there is no such file, or none that it can read.
    ///
    /// ```no_run
    /// # use lsm_sieve::{SieveDb, SieveOptions};
    /// # let path = "/tmp/users";
    /// let (options, families) = SieveDb::latest_options(&rocksdb::Options::default(), path)?;
    /// let db = SieveDb::open_cf_with_opts(&options, &SieveOptions::default(), path, families)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn latest_options(
        options: &Options,
        path: impl AsRef<Path>,
    ) -> Result<(Options, Vec<(String, Options)>), Error> {
        let mut latest = options.clone();
        let families = ffi::latest_options(&mut latest, path.as_ref())?;
        Ok((latest, families))
    }
}

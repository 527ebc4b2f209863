//! Opening a database with the options of its last open.

use std::path::Path;

use rocksdb::{Error, Options};

use super::SieveDb;
use crate::hooks;

impl SieveDb {
    /// The options that a database was last opened with, as RocksDB stored them, and those of each
    /// of its column families. They fit [`SieveDb::open_cf_with_opts`] and its variants for reading
    /// only and for a secondary. It replaces `Options::load_latest` of `rocksdb`, whose descriptors
    /// hide their options.
    ///
    /// `options` supplies what no file holds: the environment, through which the file is also read,
    /// and a block cache, which all column families get. Code is not stored either, such as merge
    /// operators, compaction filters and custom comparators: set it again on the returned options.
    ///
    /// # Errors
    /// Returns RocksDB's error if there is no options file, or none that it can read.
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
        let cfs = hooks::latest_options(&mut latest, path.as_ref())?;
        Ok((latest, cfs))
    }
}

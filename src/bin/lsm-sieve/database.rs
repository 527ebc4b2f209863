//! A database with filters that is there to be looked at, and is left as it is.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::workload::Watch as _;
use lsm_sieve::workload::store::column_families;
use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::Options;

use crate::outcome::Stop;
use crate::progress::Progress;

/// Which one.
#[derive(clap::Args)]
pub(crate) struct Database {
    /// The folder of the database.
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// The folder of its filters, where that is not `sieve` in its own.
    #[arg(long, value_name = "DIR")]
    filters: Option<PathBuf>,
}

/// Longer than it takes to read the sidecars of any database that one machine holds.
const LOADING_MAX: Duration = Duration::from_secs(600);

impl Database {
    /// Opens it with every column family that it has, to read it, and waits until its filters are
    /// loaded.
    pub(crate) fn open(&self) -> Result<SieveDb, Stop> {
        // Says what is wrong with the path before an engine looks at it.
        let families = column_families(&self.path)?;
        let filters = match &self.filters {
            Some(folder) => folder.clone(),
            None => self.path.join(SieveOptions::FOLDER),
        };
        if !filters.is_dir() {
            return Err(Stop::input(format!(
                "{} has no filters in {}; name their folder with --filters if it is another; \
                 `lsm-sieve advise front` says what filters would do for a database",
                self.path.display(),
                filters.display()
            )));
        }
        if is_in_use(&self.path) {
            return Err(Stop::input(format!(
                "another process has the database open: {}; stop it first, so that tables and filters stay \
                 as they are",
                self.path.display()
            )));
        }
        let front = SieveOptions::default().folder(filters);
        let engine = Options::default();
        let db = SieveDb::open_cf_for_read_only(&engine, &front, &self.path, families, false)?;
        let mut progress = Progress::unbounded("loading filters");
        let mut watched = Ok(());
        db.wait_until_known_while(LOADING_MAX, || {
            watched = progress.advance(0);
            watched.is_ok()
        });
        watched?;
        Ok(db)
    }
}

/// Whether a process holds the lock that RocksDB takes on a database that may be written.
#[cfg(unix)]
fn is_in_use(path: &Path) -> bool {
    use rustix::process::{Flock, FlockType, fcntl_getlk};

    let lock = File::open(path.join("LOCK"));
    let holder = lock.map(|lock| fcntl_getlk(&lock, &Flock::from(FlockType::ReadLock)));
    matches!(holder, Ok(Ok(Some(_))))
}

/// Elsewhere it is not known.
#[cfg(not(unix))]
fn is_in_use(_: &Path) -> bool {
    false
}

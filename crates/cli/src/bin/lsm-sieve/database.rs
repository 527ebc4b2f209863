//! A database with filters that is there to be looked at, and is left as it is.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_cli::workload::store::column_families;
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

/// An open database that nobody writes.
pub(crate) struct Look {
    pub(crate) db: SieveDb,
    /// Held for longer than the database; `None` where there is none.
    _lock: Option<File>,
}

impl Database {
    /// Opens it with every column family that it has, to read it, and waits until its filters are
    /// loaded.
    pub(crate) fn open(&self) -> Result<Look, Stop> {
        // Says what is wrong with the path before an engine looks at it.
        let families = column_families(&self.path)?;
        let filters = match &self.filters {
            Some(folder) => folder.clone(),
            None => self.path.join(SieveOptions::FOLDER),
        };
        if !holds_filters(&filters) {
            return Err(Stop::input(format!(
                "{} has no filters in {}; name their folder with --filters if it is another; \
                 `lsm-sieve advise front` says what filters would do for a database",
                self.path.display(),
                filters.display()
            )));
        }
        let lock = keep_writers_out(&self.path)?;
        let front = SieveOptions::default().folder(&filters);
        let engine = Options::default();
        let db = SieveDb::open_cf_for_read_only(&engine, &front, &self.path, families, false)?;
        let mut progress = Progress::unbounded("loading filters");
        let mut watched = Ok(());
        let loaded = db.wait_until_known_while(LOADING_MAX, || {
            watched = progress.advance(0);
            watched.is_ok()
        });
        watched?;
        if !loaded {
            return Err(Stop::input(format!(
                "the filters in {} could not be read in {} minutes; try again when the disk is less busy",
                filters.display(),
                LOADING_MAX.as_secs() / 60
            )));
        }
        Ok(Look { db, _lock: lock })
    }
}

/// Whether a folder holds a database's filters, or what is left of them.
fn holds_filters(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("identity") || name.ends_with(".sieve")
    })
}

/// Shares the lock that RocksDB takes to write, for as long as the file is open.
#[cfg(unix)]
fn keep_writers_out(path: &Path) -> Result<Option<File>, Stop> {
    use rustix::fs::{FlockOperation, fcntl_lock};
    use rustix::io::Errno;

    let path = path.join("LOCK");
    let lock = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        lock => {
            lock.map_err(|error| Stop::input(format!("cannot read {}: {error}", path.display())))?
        }
    };
    match fcntl_lock(&lock, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(Some(lock)),
        Err(Errno::AGAIN | Errno::ACCESS) => Err(Stop::input(format!(
            "another process has the database open: {} is locked; stop it first, so that tables and filters \
             stay as they are",
            path.display()
        ))),
        Err(error) => Err(Stop::input(format!(
            "cannot lock {}: {error}",
            path.display()
        ))),
    }
}

/// Elsewhere it is left to the user.
#[cfg(not(unix))]
fn keep_writers_out(_: &Path) -> Result<Option<File>, Stop> {
    Ok(None)
}

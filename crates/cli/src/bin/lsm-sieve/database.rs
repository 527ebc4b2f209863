//! Opens an existing database with filters read-only, for `inspect` and `verify`.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::{OpenError, SieveDb, SieveOptions};
use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_cli::workload::store::column_families;
use rocksdb::Options;

use crate::outcome::Stop;
use crate::progress::Progress;

/// The database to open, from the command line.
#[derive(clap::Args)]
pub(crate) struct Database {
    /// The folder of the database.
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// The folder of its filters, if it is not `sieve` in the folder of the database.
    #[arg(long, value_name = "DIR")]
    filters: Option<PathBuf>,
}

/// Longer than it takes to read the sidecars of any database on one machine.
const LOADING_MAX: Duration = Duration::from_secs(600);

/// An open database that no process writes to.
pub(crate) struct OpenDatabase {
    pub(crate) db: SieveDb,
    /// Dropped after the database. `None` if the database has no LOCK file, or if the system is not
    /// Unix.
    _lock: Option<File>,
}

impl Database {
    /// Opens the database read-only with all its column families, and waits until its filters are
    /// loaded.
    pub(crate) fn open(&self) -> Result<OpenDatabase, Stop> {
        // Reports a wrong path before RocksDB opens it.
        let families = column_families(&self.path)?;
        let filters = match &self.filters {
            Some(folder) => folder.clone(),
            None => self.path.join(SieveOptions::FOLDER),
        };
        if !holds_filters(&filters) {
            return Err(Stop::input(format!(
                "{} has no filters in {}; if they are in another folder, name it with --filters; \
                 `lsm-sieve advise front` estimates what filters would gain",
                self.path.display(),
                filters.display()
            )));
        }
        let lock = keep_writers_out(&self.path)?;
        let db = self.open_read_only(families, &filters)?;
        let mut progress = Progress::unbounded("loading filters");
        let mut watched = Ok(());
        let loaded = db.filters().wait_for_maintenance_while(LOADING_MAX, || {
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
        Ok(OpenDatabase { db, _lock: lock })
    }

    /// With default options, or those of the last open: RocksDB refuses another comparator than a
    /// database has.
    fn open_read_only(&self, families: Vec<String>, filters: &Path) -> Result<SieveDb, OpenError> {
        let settings = SieveOptions::default().folder(filters);
        let open = |options: &Options, families: Vec<(String, Options)>| {
            let builder = SieveDb::builder(&self.path).options(options);
            let builder = builder.filters(&settings).cfs_with_opts(families);
            builder.read_only(false).open()
        };
        let default = Options::default;
        let families = families.into_iter().map(|family| (family, default()));
        open(&default(), families.collect()).or_else(|refused| {
            let latest = SieveDb::latest_options(&default(), &self.path);
            latest.map_or(Err(refused), |(options, families)| open(&options, families))
        })
    }
}

/// Whether a folder holds filters of a database, or some of their files.
fn holds_filters(folder: &Path) -> bool {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("identity") || name.ends_with(".sieve")
    })
}

/// Takes a shared lock on the file that a writing RocksDB locks. It is held while the file is open.
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
            "another process has the database open: {} is locked; stop it first, so that SSTs and \
             filters do not change",
            path.display()
        ))),
        Err(error) => Err(Stop::input(format!(
            "cannot lock {}: {error}",
            path.display()
        ))),
    }
}

/// On other systems the user has to stop writers.
#[cfg(not(unix))]
fn keep_writers_out(_: &Path) -> Result<Option<File>, Stop> {
    Ok(None)
}

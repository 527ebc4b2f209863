//! The ways to open a database.

use std::cell::Cell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocksdb::{
    ColumnFamilyDescriptor, ColumnFamilyTtl, DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, Error,
    Options, ThreadMode,
};

use super::SieveDb;
use super::open::{Opened, not_opened};
use crate::binding::{RocksDb, read_only, secondary};
use crate::error::OpenError;
use crate::fault::fault;
use crate::hooks::{self, JustOpened, RawDb};
use crate::options::SieveOptions;

/// Opens a [`SieveDb`]: see [`SieveDb::builder`].
///
/// ```no_run
/// use lsm_sieve::{FilterSize, SieveDb, SieveOptions};
///
/// let filters = SieveOptions::default().filter_size(FilterSize::rate(0.001)?);
/// let db = SieveDb::builder("/tmp/users").filters(&filters).cfs(["names", "mails"]).open()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is opened before `open` is called"]
pub struct Builder {
    path: PathBuf,
    options: Option<Options>,
    filters: SieveOptions,
    cfs: Vec<Cf>,
    mode: Mode,
    ttl: Option<Duration>,
}

/// A column family to be opened.
#[derive(Clone)]
pub(super) struct Cf {
    pub(super) name: String,
    /// `None` means the database's.
    options: Option<Options>,
    ttl: ColumnFamilyTtl,
}

#[derive(Clone)]
enum Mode {
    Write,
    ReadOnly { error_if_log_file_exist: bool },
    Secondary { path: PathBuf },
}

impl SieveDb {
    /// The ways to open this database: with column families, with a time to live, for reading, as
    /// a secondary. A missing database is created, unless [`Builder::options`] says otherwise.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder::new(path.as_ref())
    }

    /// Opens a database with the default column family. The hooks go into a copy of `options`.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do: unsupported options, an unusable filter
    /// folder, or RocksDB's own error.
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
    ) -> Result<Self, OpenError> {
        Self::builder(path).options(options).filters(sieve).open()
    }

    /// Opens a database with these column families, each with its own options. The default column
    /// family, if it is not named, gets the database's options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_with_opts<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        cfs: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        let builder = Self::builder(path).options(options).filters(sieve);
        builder.cfs_with_opts(cfs).open()
    }
}

impl Builder {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            options: None,
            filters: SieveOptions::default(),
            cfs: Vec::new(),
            mode: Mode::Write,
            ttl: None,
        }
    }

    /// RocksDB's options of the database. The hooks go into a copy of them. Without this call, they
    /// are RocksDB's defaults with `create_if_missing`.
    pub fn options(mut self, options: &Options) -> Self {
        self.options = Some(options.clone());
        self
    }

    /// The settings of the filters.
    pub fn filters(mut self, filters: &SieveOptions) -> Self {
        self.filters = filters.clone();
        self
    }

    /// Opens these column families too, all with the database's options. The default column family
    /// is always opened.
    ///
    /// A name that occurs twice is opened once, with the first options that it was given.
    pub fn cfs<N: AsRef<str>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.cfs.extend(names.into_iter().map(|name| Cf {
            name: name.as_ref().to_owned(),
            options: None,
            ttl: ColumnFamilyTtl::SameAsDb,
        }));
        self
    }

    /// Opens these column families too, each with its own options.
    pub fn cfs_with_opts<N: AsRef<str>>(self, cfs: impl IntoIterator<Item = (N, Options)>) -> Self {
        let ttl = ColumnFamilyTtl::SameAsDb;
        self.cfs_with_ttl(cfs.into_iter().map(|(name, options)| (name, options, ttl)))
    }

    /// Opens these column families too, each with its own options and time to live. The time counts
    /// only with [`Builder::ttl`].
    pub fn cfs_with_ttl<N: AsRef<str>>(
        mut self,
        cfs: impl IntoIterator<Item = (N, Options, ColumnFamilyTtl)>,
    ) -> Self {
        self.cfs
            .extend(cfs.into_iter().map(|(name, options, ttl)| Cf {
                name: name.as_ref().to_owned(),
                options: Some(options),
                ttl,
            }));
        self
    }

    /// Entries expire this long after they were written. RocksDB drops expired entries in
    /// compactions; until then reads still find them.
    ///
    /// The time is rounded up to whole seconds, at most 68 years. Zero means never. RocksDB appends
    /// the time of the write, in seconds, to each value:
    ///
    /// - Open the database this way from its first write on, and always. RocksDB takes the last
    ///   four bytes of any value for a time. In values that were written another way or ingested
    ///   these bytes are data, and of a value shorter than four bytes it reads memory before its
    ///   start. Opened another way, even only to read, each value is four bytes longer.
    /// - A column family that is created later expires from the next open on, including the entries
    ///   written before. [`ColumnFamilyTtl::Disabled`] prevents that.
    /// - There are no transactions. Batches must not have single deletes: RocksDB skips those to
    ///   the default column family without an error.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Opens the database for reading: RocksDB refuses writes, and no file is changed.
    /// `error_if_log_file_exist` refuses a database whose log has writes.
    ///
    /// The filters are [`read_only_filters`](SieveOptions::read_only_filters): existing filters are
    /// loaded. A *maybe* of the summary filter goes to the engine, as does a key that may be in an
    /// SST which the summary filter does not cover.
    ///
    /// No process may write the database meanwhile; this is not checked. RocksDB's read-only
    /// instance lists the SSTs and reads the log one after the other. Beside a writer, it misses
    /// what a flush moved between the two, and the open fails if a compaction removed an SST. A
    /// [false negative](crate::Filters::false_negative) found in one process is not seen by the other.
    pub fn read_only(mut self, error_if_log_file_exist: bool) -> Self {
        self.mode = Mode::ReadOnly {
            error_if_log_file_exist,
        };
        self
    }

    /// Opens a database that another process writes as a secondary. RocksDB refuses writes, writes
    /// its own messages into the folder `path`, and follows the writer with each
    /// [`try_catch_up_with_primary`](rocksdb::DBCommon::try_catch_up_with_primary). From there on no
    /// key is answered absent until maintenance has gone through the new SSTs;
    /// [`Filters::wait_for_maintenance`](crate::Filters::wait_for_maintenance) waits for that.
    ///
    /// It starts with the filters that the writer has stored and continues them in memory:
    /// maintenance reads the keys of each new SST once and writes nothing. The summary filter takes
    /// new keys and drops none, because memtables cannot be flushed here. To rebuild one that has
    /// grown too large, open the secondary again.
    ///
    /// All SSTs are kept open whatever `max_open_files` says, because the writer removes those that
    /// it has compacted. Open the secondary again after the writer created a column family or
    /// rebuilt its filters with another seed. As with [`Builder::read_only`], neither process sees
    /// the other's [false negative](crate::Filters::false_negative).
    ///
    /// RocksDB's secondary has no snapshots. It sees a write that is not in the log only once that
    /// is flushed, and may miss what is flushed during a catch-up until the next one. While it has
    /// an entry both in its memtable and in an SST, it may return a value that has since been
    /// deleted, and may apply a merge operand twice.
    ///
    /// If the writer is being opened or removes files while the secondary opens, the open may fail;
    /// try again.
    pub fn secondary(mut self, path: impl AsRef<Path>) -> Self {
        self.mode = Mode::Secondary {
            path: path.as_ref().to_owned(),
        };
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do: unsupported options, an unusable filter
    /// folder, or RocksDB's own error.
    pub fn open(self) -> Result<SieveDb, OpenError> {
        self.open_as()
    }

    /// [`Builder::open`] in either of `rocksdb`'s thread modes.
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_as<T: ThreadMode + Send + 'static>(self) -> Result<SieveDb<T>, OpenError> {
        let open = |options: &Options, cfs: Vec<(String, Options)>| self.open_db(options, cfs);
        SieveDb::with_filters(self.opened(open)?)
    }

    /// Opens a database through RocksDB's C API, for programs in other languages: `open` calls it,
    /// with the options and column families that it is given, in the mode of this builder; otherwise
    /// the error is [`OpenError::Opener`]. They are the builder's with hooks; each column family is
    /// there once, and the default one always. Its error is the text of RocksDB's.
    ///
    /// The filters are behind the handle, and end with `rocksdb_close`. [`Sieve::of`](crate::Sieve::of)
    /// finds them.
    ///
    /// With [`SieveOptions::transactions`] the database keeps what transactions need, and who opens it
    /// begins them. A time to live is what `open` makes of it.
    ///
    /// # Errors
    /// As [`Builder::open`]. A database that `open` returned is closed.
    #[doc(hidden)]
    pub fn open_raw(
        self,
        open: impl FnOnce(&Options, &[(String, Options)]) -> Result<RawDb, String>,
    ) -> Result<RawDb, OpenError> {
        let is_open = Cell::new(false);
        let open = |options: &Options, cfs: Vec<(String, Options)>| {
            let opened = match self.mode {
                Mode::Write => open(options, &cfs),
                Mode::ReadOnly { .. } => open(&read_only(options), &cfs),
                Mode::Secondary { .. } => open(&secondary(options), &cfs),
            };
            is_open.set(opened.is_ok());
            opened.map_err(hooks::error_of)
        };
        let opened = self.opened(open).map_err(|error| match error {
            // The hooks were checked before.
            OpenError::HooksSilent { .. } if is_open.get() => {
                fault!(OpenerNotBlamed, return error);
                let what = "did not use the options of the column families";
                OpenError::Opener { what }
            }
            error => error,
        })?;
        opened.sieve.start()?;
        Ok(opened.db)
    }

    fn opened<E: JustOpened>(
        &self,
        open: impl FnOnce(&Options, Vec<(String, Options)>) -> Result<E, Error>,
    ) -> Result<Opened<E>, OpenError> {
        let created = || {
            let mut options = Options::default();
            options.create_if_missing(true);
            options
        };
        let options = self.options.clone().unwrap_or_else(created);
        refuse_file(&self.path)?;
        self.refuse_ttl()?;
        let filters = match self.mode {
            Mode::Write => self.filters.clone(),
            Mode::ReadOnly { .. } => self.filters.clone().read_only(),
            Mode::Secondary { .. } => self.filters.clone().secondary(),
        };
        if !matches!(self.mode, Mode::Write) && !self.path.is_dir() {
            // Opening for reading would create the folder of a missing database.
            let listed = RocksDb::list_cf(&options, &self.path);
            listed.map_err(|source| not_opened(&self.path, source))?;
        }
        let cfs = self.each_cf_once().into_iter();
        let cfs = cfs.map(|cf| (cf.name, cf.options.unwrap_or_else(|| options.clone())));
        Opened::open(open, &options, &filters, &self.path, cfs.collect())
    }

    fn open_db<T: ThreadMode + 'static>(
        &self,
        options: &Options,
        cfs: Vec<(String, Options)>,
    ) -> Result<DBWithThreadMode<T>, Error> {
        type Db<T> = DBWithThreadMode<T>;
        let path = &self.path;
        match &self.mode {
            Mode::Write => match self.ttl {
                None => Db::open_cf_with_opts(options, path, cfs),
                Some(ttl) => {
                    let cfs = cfs.into_iter().map(|(name, options)| {
                        let ttl = self.cf_ttl(&name);
                        ColumnFamilyDescriptor::new_with_ttl(name, options, ttl)
                    });
                    Db::open_cf_descriptors_with_ttl(options, path, cfs, whole_seconds(ttl))
                }
            },
            Mode::ReadOnly {
                error_if_log_file_exist,
            } => {
                let options = read_only(options);
                let refuse_log = *error_if_log_file_exist;
                Db::open_cf_with_opts_for_read_only(&options, path, cfs, refuse_log)
            }
            Mode::Secondary { path: messages } => {
                let cfs = cfs
                    .into_iter()
                    .map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
                let options = secondary(options);
                Db::open_cf_descriptors_as_secondary(&options, path, messages, cfs)
            }
        }
    }

    /// Each column family once, with its first options: RocksDB does the same with repeated names.
    fn each_cf_once(&self) -> Vec<Cf> {
        let mut named = HashSet::new();
        let mut cfs = self.cfs.clone();
        cfs.retain(|cf| named.insert(cf.name.clone()));
        fault!(CfOpenedTwice, cfs = self.cfs.clone());
        if !cfs.iter().any(|cf| cf.name == DEFAULT_COLUMN_FAMILY_NAME) {
            cfs.push(Cf {
                name: DEFAULT_COLUMN_FAMILY_NAME.to_owned(),
                options: None,
                ttl: ColumnFamilyTtl::SameAsDb,
            });
        }
        cfs
    }

    fn cf_ttl(&self, name: &str) -> ColumnFamilyTtl {
        let ttl = self.cfs.iter().find(|cf| cf.name == name).map(|cf| cf.ttl);
        match ttl.unwrap_or(ColumnFamilyTtl::SameAsDb) {
            ColumnFamilyTtl::Duration(ttl) => ColumnFamilyTtl::Duration(whole_seconds(ttl)),
            other => other,
        }
    }

    fn refuse_ttl(&self) -> Result<(), OpenError> {
        let reason = match self.mode {
            _ if self.ttl.is_none() => return Ok(()),
            // Transactions would write values without the time.
            Mode::Write if self.filters.isolation().is_some() => {
                "transactions do not work with a time to live; switch one of them off"
            }
            Mode::Write => return Ok(()),
            Mode::ReadOnly { .. } | Mode::Secondary { .. } => {
                "a time to live works only in a database that is opened for writing"
            }
        };
        Err(OpenError::settings(reason))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("path", &self.path)
            .field("filters", &self.filters)
            .finish_non_exhaustive()
    }
}

fn refuse_file(path: &Path) -> Result<(), OpenError> {
    fault!(FileOpenedAsFolder, return Ok(()));
    let path = path.to_owned();
    if path.is_file() {
        return Err(OpenError::IsAFile { path });
    }
    Ok(())
}

/// The time as RocksDB takes it, in 31 bits of seconds: more would be cut off, and a part of a
/// second dropped.
fn whole_seconds(ttl: Duration) -> Duration {
    let up = ttl
        .as_secs()
        .saturating_add((ttl.subsec_nanos() > 0).into());
    Duration::from_secs(up.min(i32::MAX as u64))
}

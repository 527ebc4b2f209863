//! Opening: a copy of the user's options gets the hooks, then the engine opens, then maintenance
//! starts. Also creates and drops column families later.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rocksdb::{
    ColumnFamilyDescriptor, ColumnFamilyTtl, DEFAULT_COLUMN_FAMILY_NAME, Error, Options,
};

use super::{SieveDb, Transactions};
use crate::disk::{Disk, RealDisk};
use crate::filter::{Scalable, Stage};
use crate::format::Identity;
use crate::hash::KeyHasher;
use crate::math::{Bits, Items};
use crate::planted::planted;
use crate::rocks::audit::Auditor;
use crate::rocks::cf_filter::CfFilter;
use crate::rocks::cf_filters::CfFilters;
use crate::rocks::filter_store::FilterStore;
use crate::rocks::listener::Listener;
use crate::rocks::maintenance::Maintenance;
use crate::rocks::options::{Isolation, SieveOptions};
use crate::rocks::scrub::ScrubLog;
use crate::rocks::trust::Trust;
use crate::rocks::wakeup::Wakeup;
use crate::rocks::{Engine, OpenError, ffi, probe, read_only, secondary};
use crate::segment::{Candidate, IdentityError, Registry, SidecarFolder};
use crate::sync::unpoisoned;

/// What the filters of one database's column families share while it opens.
pub(in crate::rocks) struct Opening {
    pub(in crate::rocks) hasher: KeyHasher,
    registry: Arc<Registry>,
    pub(in crate::rocks) filter_store: Arc<FilterStore>,
    wakeup: Arc<Wakeup>,
}

/// Column families: pairs of a name and options.
type Families = Vec<(String, Options)>;

impl SieveDb {
    /// Opens a database with the default column family and default settings; creates it if missing.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_default(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, &SieveOptions::default(), path)
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
        Self::open_cf(options, sieve, path, [DEFAULT_COLUMN_FAMILY_NAME])
    }

    /// Opens a database with these column families, all with the same options. A name that occurs
    /// twice is opened once, with its first options, here and in [`SieveDb::open_cf_with_opts`].
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, OpenError> {
        let cfs = names.into_iter().map(|name| (name, options.clone()));
        Self::open_cf_with_opts(options, sieve, path, cfs)
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
        let open = |options: &Options, path: &Path, cfs: Families| {
            Engine::open_cf_with_opts(options, path, cfs)
        };
        Self::open_by(open, options, sieve, path.as_ref(), cfs)
    }

    /// Opens a database with the default column family whose entries expire this long after they
    /// were written. RocksDB drops expired entries in compactions; until then reads still find
    /// them.
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
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_with_ttl(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        ttl: Duration,
    ) -> Result<Self, OpenError> {
        Self::open_cf_with_ttl(options, sieve, path, [DEFAULT_COLUMN_FAMILY_NAME], ttl)
    }

    /// [`SieveDb::open_with_ttl`] with these column families, all with the same options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_with_ttl<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
        ttl: Duration,
    ) -> Result<Self, OpenError> {
        let cfs = names.into_iter();
        let cfs = cfs.map(|name| (name, options.clone(), ColumnFamilyTtl::SameAsDb));
        Self::open_cf_with_opts_with_ttl(options, sieve, path, cfs, ttl)
    }

    /// [`SieveDb::open_with_ttl`] with these column families, each with its own options and time.
    /// The default column family, if it is not named, gets the database's.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_with_opts_with_ttl<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        cfs: impl IntoIterator<Item = (N, Options, ColumnFamilyTtl)>,
        ttl: Duration,
    ) -> Result<Self, OpenError> {
        if sieve.isolation().is_some() {
            // Transactions would write values without the time.
            let reason = "transactions do not work with a time to live; switch one of them off";
            return Err(unsupported(DEFAULT_COLUMN_FAMILY_NAME, reason.to_owned()));
        }
        let mut ttls = HashMap::new();
        let cfs: Vec<_> = cfs
            .into_iter()
            .map(|(name, options, ttl)| {
                ttls.entry(name.as_ref().to_owned()).or_insert(ttl);
                (name, options)
            })
            .collect();
        let open = |options: &Options, path: &Path, cfs: Families| {
            let cfs = cfs.into_iter().map(|(name, options)| {
                let ttl = match ttls.get(&name) {
                    Some(ColumnFamilyTtl::Duration(ttl)) => {
                        ColumnFamilyTtl::Duration(whole_seconds(*ttl))
                    }
                    Some(ttl) => *ttl,
                    None => ColumnFamilyTtl::SameAsDb,
                };
                ColumnFamilyDescriptor::new_with_ttl(name, options, ttl)
            });
            Engine::open_cf_descriptors_with_ttl(options, path, cfs, whole_seconds(ttl))
        };
        Self::open_by(open, options, sieve, path.as_ref(), cfs)
    }

    /// Opens a database with the default column family for reading: RocksDB refuses writes, and no
    /// file is changed. `error_if_log_file_exist` refuses a database whose log has writes.
    ///
    /// The filters are [`read_only_filters`](SieveOptions::read_only_filters): existing filters are
    /// loaded, and for an SST without one the engine is read.
    ///
    /// No process may write the database meanwhile; this is not checked. RocksDB's read-only
    /// instance lists the SSTs and reads the log one after the other. Beside a writer, it misses
    /// what a flush moved between the two, and the open fails if a compaction removed an SST. A
    /// [false negative](SieveDb::false_negative) found in one process is not seen by the other.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_for_read_only(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        error_if_log_file_exist: bool,
    ) -> Result<Self, OpenError> {
        let names = [DEFAULT_COLUMN_FAMILY_NAME];
        Self::open_cf_for_read_only(options, sieve, path, names, error_if_log_file_exist)
    }

    /// [`SieveDb::open_for_read_only`] with these column families, all with the same options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_for_read_only<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
        error_if_log_file_exist: bool,
    ) -> Result<Self, OpenError> {
        let cfs = names.into_iter().map(|name| (name, options.clone()));
        let refuse_log = error_if_log_file_exist;
        Self::open_cf_with_opts_for_read_only(options, sieve, path, cfs, refuse_log)
    }

    /// [`SieveDb::open_for_read_only`] with these column families, each with its own options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_with_opts_for_read_only<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        cfs: impl IntoIterator<Item = (N, Options)>,
        error_if_log_file_exist: bool,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        refuse_none(options, path)?;
        let open = |options: &Options, path: &Path, cfs: Families| {
            let options = read_only(options);
            let refuse_log = error_if_log_file_exist;
            Engine::open_cf_with_opts_for_read_only(&options, path, cfs, refuse_log)
        };
        let sieve = sieve.clone().read_only();
        Self::open_by(open, options, &sieve, path, cfs)
    }

    /// Opens a database that another process writes, with the default column family, as a
    /// secondary. RocksDB refuses writes, writes its own messages into the folder `secondary_path`,
    /// and follows the writer with each [`SieveDb::try_catch_up_with_primary`].
    ///
    /// It starts with the filters that the writer has stored and continues them in memory:
    /// maintenance reads the keys of each new SST once and writes nothing. The summary filter takes
    /// new keys and drops none, because memtables cannot be flushed here. To rebuild one that has
    /// grown too large, open the secondary again.
    ///
    /// All SSTs are kept open whatever `max_open_files` says, because the writer removes those that
    /// it has compacted. Open the secondary again after the writer created a column family or
    /// rebuilt its filters with another seed. As with [`SieveDb::open_for_read_only`], neither
    /// process sees the other's [false negative](SieveDb::false_negative).
    ///
    /// RocksDB's secondary has no snapshots. It sees a write that is not in the log only once that
    /// is flushed, and may miss what is flushed during a catch-up until the next one. While it has
    /// an entry both in its memtable and in an SST, it may return a value that has since been
    /// deleted, and may apply a merge operand twice.
    ///
    /// # Errors
    /// See [`SieveDb::open`]. If the writer is being opened or removes files meanwhile, try again.
    pub fn open_as_secondary(
        options: &Options,
        sieve: &SieveOptions,
        primary_path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
    ) -> Result<Self, OpenError> {
        let names = [DEFAULT_COLUMN_FAMILY_NAME];
        Self::open_cf_as_secondary(options, sieve, primary_path, secondary_path, names)
    }

    /// [`SieveDb::open_as_secondary`] with these column families, all with the same options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_as_secondary<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        primary_path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, OpenError> {
        let cfs = names.into_iter().map(|name| (name, options.clone()));
        let (primary, secondary) = (primary_path, secondary_path);
        Self::open_cf_with_opts_as_secondary(options, sieve, primary, secondary, cfs)
    }

    /// [`SieveDb::open_as_secondary`] with these column families, each with its own options.
    ///
    /// # Errors
    /// See [`SieveDb::open`].
    pub fn open_cf_with_opts_as_secondary<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        primary_path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        cfs: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        let open = |options: &Options, path: &Path, cfs: Families| {
            let cfs = cfs
                .into_iter()
                .map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
            let (options, messages) = (secondary(options), secondary_path.as_ref());
            let engine = Engine::open_cf_descriptors_as_secondary(&options, path, messages, cfs)?;
            ffi::forget_freed_families(&engine);
            Ok(engine)
        };
        let path = primary_path.as_ref();
        refuse_none(options, path)?;
        Self::open_by(open, options, &sieve.clone().secondary(), path, cfs)
    }

    fn open_by<N: AsRef<str>>(
        open: impl FnOnce(&Options, &Path, Families) -> Result<Engine, Error>,
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
        cfs: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        refuse_file(path)?;
        if let Some(rate) = sieve.rate_out_of_reach() {
            return Err(OpenError::Rate(rate));
        }
        if sieve.is_excluded(DEFAULT_COLUMN_FAMILY_NAME) {
            let reason = "it cannot be left out; while it is empty, its filters are small";
            return Err(unsupported(DEFAULT_COLUMN_FAMILY_NAME, reason.to_owned()));
        }
        if !planted!(HooksUnproved) {
            probe::hooks_fire()?;
        }
        let publishes_first = ffi::publishes_first(options) && !planted!(UnorderedUnnoticed);
        let mut cfs = each_once(cfs);
        if !cfs
            .iter()
            .any(|(name, _)| name == DEFAULT_COLUMN_FAMILY_NAME)
        {
            cfs.push((DEFAULT_COLUMN_FAMILY_NAME.to_owned(), options.clone()));
        }
        let mut database_options = options.clone();
        if let Some(isolation) = sieve.isolation() {
            let refusal = ffi::transactions_refusal(options);
            refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)?;
            if matches!(isolation, Isolation::Locks(_)) {
                refuse_locks_of_readers(sieve)?;
                ffi::allow_two_phases(&mut database_options);
            }
            for (name, options) in &mut cfs {
                prepare_for_transactions(name, options)?;
            }
        }
        let fronted = cfs.iter().filter(|(name, _)| !sieve.is_excluded(name));
        let sieve = sieve.clone().publishes_first(publishes_first);
        let sieve = &sieve.shared_by(fronted.count()).with_rates();
        let folder = sieve.folder_of(path);
        let (opening, identity) = Opening::prepare(Arc::new(RealDisk), &folder, sieve)?;
        if !planted!(DatabaseOptionsUnchecked) {
            refuse(DEFAULT_COLUMN_FAMILY_NAME, ffi::refusal(options))?;
        }
        let mut hooked = Vec::new();
        let mut new_filters = Vec::new();
        let mut taken = Bits::new(0);
        for (name, options) in cfs {
            if sieve.is_excluded(&name) {
                hooked.push((name, options));
                continue;
            }
            let cf_filter = opening.cf_filter(&name, sieve, taken);
            taken = taken + cf_filter.view().summary.size();
            hooked.push((name, hooked_options(&options, &cf_filter)?));
            new_filters.push(cf_filter);
        }
        let cf_filters = Arc::new(CfFilters::new(sieve.get_summary_rate()));
        let listeners = if planted!(ListenerPerFamily) {
            new_filters.len()
        } else {
            1
        };
        for _ in 0..listeners {
            let listener = Listener::new(Arc::clone(&opening.wakeup), Arc::clone(&cf_filters));
            ffi::wait_for_requests(&mut database_options, listener);
        }
        if planted!(FolderChangedUnlocked) {
            opening.keep(&identity)?;
        }
        let engine = open(&database_options, path, hooked);
        let engine = engine.map_err(|source| not_opened(path, source))?;
        // Unless opened for reading, RocksDB holds its lock now: no other process writes here.
        if sieve.has_read_only_filters() {
            opening.confirm(&identity)?;
        } else {
            opening.keep(&identity)?;
        }
        Self::start(
            Arc::new(engine),
            opening,
            (cf_filters, new_filters),
            sieve.clone(),
        )
    }

    fn start(
        engine: Arc<Engine>,
        opening: Opening,
        (cf_filters, new_filters): (Arc<CfFilters>, Vec<Arc<CfFilter>>),
        options: SieveOptions,
    ) -> Result<Self, OpenError> {
        let Opening {
            hasher,
            registry,
            filter_store,
            wakeup,
        } = opening;
        let names = new_filters.iter().map(|cf_filter| cf_filter.name());
        let transactions = options.isolation().map(|isolation| {
            Transactions::on(&engine, isolation, names.chain(options.excluded()))
                .map_err(|source| not_opened(engine.path(), source))
        });
        let transactions = transactions.transpose()?;
        let kept = (!options.has_read_only_filters()).then(|| Arc::clone(&filter_store));
        let trust = Arc::new(Trust::new(Arc::clone(&registry), kept));
        let mut default = None;
        for cf_filter in new_filters {
            let id = bound_cf(&cf_filter)?;
            if cf_filter.name() == DEFAULT_COLUMN_FAMILY_NAME {
                default = Some(Arc::clone(&cf_filter));
            }
            watch(&cf_filter, &engine, &trust);
            cf_filters.insert(id, cf_filter);
        }
        for name in options.excluded() {
            cf_filters.exclude_cfs(&engine, name);
            if !options.has_read_only_filters() {
                // Left by an earlier run; it is no longer kept up to date.
                filter_store.remove_summary(name);
            }
        }
        let default = default.ok_or(OpenError::HooksSilent {
            what: "the default column family",
        })?;
        let scrubs = Arc::<ScrubLog>::default();
        let maintenance = Maintenance::new(
            Arc::clone(&engine),
            Arc::clone(&cf_filters),
            Arc::clone(&registry),
            Arc::clone(&filter_store),
            options.clone(),
            Arc::clone(&wakeup),
            Arc::clone(&scrubs),
        );
        if !planted!(NoWakeAtOpen) {
            wakeup.notify();
        }
        let maintenance = thread::Builder::new()
            .name("lsm-sieve-upkeep".to_owned())
            .spawn(move || maintenance.run())
            .map_err(OpenError::Thread)?;
        let maintenance = Some(maintenance);
        Ok(Self {
            transactions,
            engine,
            default,
            cf_filters,
            registry,
            filter_store,
            trust,
            scrubs,
            wakeup,
            hasher,
            options,
            maintenance,
            cfs: Mutex::default(),
        })
    }

    /// The column families of a closed database.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn list_cf(options: &Options, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        Engine::list_cf(options, path)
    }

    /// Creates a column family with its own filters, unless its name is excluded.
    ///
    /// # Errors
    /// [`OpenError`] for unsupported options, or with RocksDB's error.
    pub fn create_cf(&self, name: impl AsRef<str>, options: &Options) -> Result<(), OpenError> {
        let name = name.as_ref();
        let _turn = self.family_turn();
        let mut options = options.clone();
        if self.options.isolation().is_some() {
            prepare_for_transactions(name, &mut options)?;
        }
        let create = |options: &Options| {
            let allowed = self.refuse_if_reader();
            let created = allowed.and_then(|()| self.engine.create_cf(name, options));
            self.extend_locks();
            created.map_err(|source| OpenError::Create {
                cf_filter: name.to_owned(),
                source,
            })
        };
        if self.options.is_excluded(name) {
            create(&options)?;
            self.cf_filters.exclude_cfs(&self.engine, name);
            return Ok(());
        }
        let opening = Opening {
            hasher: self.hasher,
            registry: Arc::clone(&self.registry),
            filter_store: Arc::clone(&self.filter_store),
            wakeup: Arc::clone(&self.wakeup),
        };
        let taken = self.cf_filters.size_of_summaries(None);
        let sieve = self.settings().shared_by(self.cf_filters.all().len() + 1);
        let cf_filter = opening.cf_filter(name, &sieve, taken);
        create(&hooked_options(&options, &cf_filter)?)?;
        watch(&cf_filter, &self.engine, &self.trust);
        // Not by name: the column family may have been dropped and created again.
        self.cf_filters.insert(bound_cf(&cf_filter)?, cf_filter);
        if !planted!(NoWakeAfterCreateCf) {
            self.wakeup.notify();
        }
        Ok(())
    }

    /// Drops a column family and its filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        let _turn = self.family_turn();
        self.refuse_if_reader()?;
        if name == DEFAULT_COLUMN_FAMILY_NAME {
            // `rocksdb` would give up its handle before RocksDB refuses. The name holds a zero
            // byte, so no column family has it.
            return self.engine.drop_cf("default, which cannot be dropped\0");
        }
        self.engine.drop_cf(name)?;
        self.cf_filters.remove(name);
        if !self.options.has_read_only_filters() {
            self.filter_store.remove_summary(name);
        }
        if !planted!(NoWakeAfterDropCf) {
            self.wakeup.notify();
        }
        Ok(())
    }

    fn family_turn(&self) -> MutexGuard<'_, ()> {
        unpoisoned(self.cfs.lock())
    }
}

impl Opening {
    /// Reads what an earlier run left in the filter folder. Writes nothing: the database may be in
    /// use.
    pub(in crate::rocks) fn prepare(
        disk: Arc<dyn Disk>,
        folder: &Path,
        sieve: &SieveOptions,
    ) -> Result<(Self, Candidate), OpenError> {
        let candidate = Self::identity(&*disk, folder, sieve)
            .map_err(|source| OpenError::Identity(Box::new(source)))?;
        let identity = candidate.identity();
        let hasher = identity.hasher();
        let folder = SidecarFolder::new(disk, folder.to_owned(), identity.store, hasher.imprint());
        let opening = Self {
            hasher,
            registry: Arc::new(Registry::new(hasher)),
            filter_store: Arc::new(FilterStore::new(folder)),
            wakeup: Arc::default(),
        };
        Ok((opening, candidate))
    }

    /// The database's identity. Read-only filters accept stored filters of any hash.
    fn identity(
        disk: &dyn Disk,
        folder: &Path,
        sieve: &SieveOptions,
    ) -> Result<Candidate, IdentityError> {
        let kept = if sieve.has_read_only_filters() {
            Identity::load(disk, folder)?
        } else {
            None
        };
        let hash = kept.map_or(sieve.get_hash(), |kept| kept.hash);
        Identity::load_or_new(disk, folder, hash)
    }

    /// Stores the identity, now that no other process can.
    pub(in crate::rocks) fn keep(&self, identity: &Candidate) -> Result<(), OpenError> {
        let folder = self.filter_store.folder();
        folder
            .prepare()
            .map_err(|source| OpenError::Folder(Box::new(source)))?;
        let kept = identity.keep(folder.disk(), folder.path());
        kept.map_err(|source| OpenError::Identity(Box::new(source)))
    }

    /// With read-only filters: checks that the database is still the one whose filters were read.
    pub(in crate::rocks) fn confirm(&self, identity: &Candidate) -> Result<(), OpenError> {
        let folder = self.filter_store.folder();
        let confirmed = identity.confirm(folder.disk(), folder.path());
        confirmed.map_err(|source| OpenError::Identity(Box::new(source)))
    }

    /// New filters, beside others whose summary filters take `taken` of the budget.
    fn cf_filter(&self, name: &str, sieve: &SieveOptions, taken: Bits) -> Arc<CfFilter> {
        let imprint = self.hasher.imprint().for_summary();
        let options = sieve.summary(Items::new(0), taken);
        let room = sieve.room_beside(taken).unwrap_or(Bits::new(u64::MAX));
        let (summary, covered, rate) = match self.filter_store.load_summary(name, room) {
            Some(stored) => {
                let first = stored.chain.stages().first();
                let keys = first.map(Stage::items).unwrap_or_default();
                let options = if first.is_some_and(Stage::is_static) {
                    sieve.static_summary(keys, taken)
                } else {
                    sieve.summary(keys, taken)
                };
                let summary = Scalable::starting_with(imprint, options, stored.chain);
                (summary, stored.covered, Some(stored.rate))
            }
            None => {
                let nothing = Scalable::new(imprint, options);
                (nothing, HashSet::new(), None)
            }
        };
        let summary = Arc::new(summary);
        let (registry, wakeup) = (Arc::clone(&self.registry), Arc::clone(&self.wakeup));
        let known = (Arc::clone(&summary), covered);
        let cf_filter = CfFilter::new(name, self.hasher, registry, wakeup, sieve, known);
        if rate == Some(summary.options().rate) {
            cf_filter.note_stored(cf_filter.to_store(&summary));
        }
        cf_filter
    }
}

/// Each column family once, with its first options: RocksDB does the same with repeated names.
fn each_once<N: AsRef<str>>(cfs: impl IntoIterator<Item = (N, Options)>) -> Families {
    let mut named = HashSet::new();
    let cfs = cfs.into_iter();
    let cfs = cfs.map(|(name, options)| (name.as_ref().to_owned(), options));
    cfs.filter(|(name, _)| named.insert(name.clone()) || planted!(FamilyFrontedTwice))
        .collect()
}

/// Reports a missing database if the folder is missing: opening for reading would create the
/// folder.
fn refuse_none(options: &Options, path: &Path) -> Result<(), OpenError> {
    refuse_file(path)?;
    if !path.is_dir() {
        Engine::list_cf(options, path).map_err(|source| not_opened(path, source))?;
    }
    Ok(())
}

fn refuse_file(path: &Path) -> Result<(), OpenError> {
    let path = path.to_owned();
    match path.is_file() && !planted!(FileTakenForFolder) {
        true => Err(OpenError::IsAFile { path }),
        false => Ok(()),
    }
}

fn not_opened(path: &Path, source: Error) -> OpenError {
    OpenError::Engine {
        path: path.to_owned(),
        source,
    }
}

/// The column family that the filters were bound to when RocksDB created its first memtable.
fn bound_cf(cf_filter: &CfFilter) -> Result<u32, OpenError> {
    let what = "the memtable capture";
    cf_filter.cf().ok_or(OpenError::HooksSilent { what })
}

/// A copy of the user's options with the hooks of `cf_filter`.
fn hooked_options(options: &Options, cf_filter: &Arc<CfFilter>) -> Result<Options, OpenError> {
    refuse(cf_filter.name(), ffi::refusal(options))?;
    let mut hooked = options.clone();
    ffi::install(&mut hooked, Arc::clone(cf_filter), &ffi::HOOKS);
    Ok(hooked)
}

/// Makes a column family keep the memtable history that commits check for conflicts.
fn prepare_for_transactions(cf_filter: &str, options: &mut Options) -> Result<(), OpenError> {
    refuse(cf_filter, ffi::transactions_refusal(options))?;
    ffi::keep_history(options);
    Ok(())
}

fn refuse_locks_of_readers(sieve: &SieveOptions) -> Result<(), OpenError> {
    let reason = "transactions with locks need a database opened for writing; leave them out";
    let refusal = sieve.is_reader().then(|| reason.to_owned());
    refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)
}

fn refuse(cf_filter: &str, refusal: Option<String>) -> Result<(), OpenError> {
    refusal.map_or(Ok(()), |reason| Err(unsupported(cf_filter, reason)))
}

/// The time as RocksDB takes it, in 31 bits of seconds: more would be cut off, and a part of a
/// second dropped.
fn whole_seconds(ttl: Duration) -> Duration {
    let up = ttl
        .as_secs()
        .saturating_add((ttl.subsec_nanos() > 0).into());
    Duration::from_secs(up.min(i32::MAX as u64))
}

fn unsupported(cf_filter: &str, reason: String) -> OpenError {
    OpenError::Unsupported {
        cf_filter: cf_filter.to_owned(),
        reason,
    }
}

/// Connects the filters to the auditor, and to the trust that all filters share.
fn watch(cf_filter: &Arc<CfFilter>, engine: &Arc<Engine>, trust: &Arc<Trust>) {
    let auditor = Auditor::new(Arc::downgrade(engine), Arc::clone(trust));
    cf_filter.audit_with(auditor);
    trust.cover(cf_filter);
}

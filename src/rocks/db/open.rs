//! Opening: the user's options with the hooks in them, then the engine, then upkeep; and families
//! that are made and dropped later.

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
use crate::rocks::bell::Bell;
use crate::rocks::column::Column;
use crate::rocks::columns::Columns;
use crate::rocks::listener::Listener;
use crate::rocks::options::{Isolation, SieveOptions};
use crate::rocks::scrub::ScrubLog;
use crate::rocks::shelf::Shelf;
use crate::rocks::trust::Trust;
use crate::rocks::upkeep::Upkeep;
use crate::rocks::{Engine, OpenError, ffi, probe, read_only, secondary};
use crate::segment::{Candidate, IdentityError, Registry, SidecarFolder};
use crate::sync::unpoisoned;

/// What the fronts of one database share while it opens.
pub(in crate::rocks) struct Opening {
    pub(in crate::rocks) hasher: KeyHasher,
    registry: Arc<Registry>,
    pub(in crate::rocks) shelf: Arc<Shelf>,
    bell: Arc<Bell>,
}

/// Column families by name, each with its options.
type Families = Vec<(String, Options)>;

impl SieveDb {
    /// Opens a database with the default column family and default settings, or makes it.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_default(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let mut options = Options::default();
        options.create_if_missing(true);
        Self::open(&options, &SieveOptions::default(), path)
    }

    /// Opens a database with the default column family. The options are the user's own; the
    /// hooks go into a copy of them.
    ///
    /// # Errors
    /// [`OpenError`] names what is wrong and what to do: unsupported options, a filter folder
    /// that cannot be used, or what RocksDB says.
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
    ) -> Result<Self, OpenError> {
        Self::open_cf(options, sieve, path, [DEFAULT_COLUMN_FAMILY_NAME])
    }

    /// Opens a database with these column families, all with the same options. One that is named twice, here or
    /// where each has options of its own, is opened once, as it is named first.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, OpenError> {
        let families = names.into_iter().map(|name| (name, options.clone()));
        Self::open_cf_with_opts(options, sieve, path, families)
    }

    /// Opens a database with these column families, each with options of its own. The default family,
    /// where it is not named, takes those of the database.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf_with_opts<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        let open = |options: &Options, path: &Path, families: Families| {
            Engine::open_cf_with_opts(options, path, families)
        };
        Self::open_by(open, options, sieve, path.as_ref(), families)
    }

    /// Opens a database with the default column family whose entries expire so long after they were written:
    /// RocksDB drops them in compactions, and until then reads find them.
    ///
    /// The time is rounded up to whole seconds, 68 years at most; none at all is for ever. RocksDB keeps the
    /// second of each write behind its value:
    ///
    /// - Open the database so from its first write on, and always. Of values that were written otherwise, or
    ///   are ingested, it takes the last four bytes for a time, whatever they are, and reads before the start
    ///   of a value that is shorter. Opened otherwise, to read only too, each value has four bytes more.
    /// - A family that is created later expires from the next open on, also what was written before;
    ///   [`ColumnFamilyTtl::Disabled`] keeps it.
    /// - There are no transactions, and no single deletes in batches: RocksDB passes over those to the default
    ///   family without an error.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
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
    /// As [`SieveDb::open`].
    pub fn open_cf_with_ttl<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
        ttl: Duration,
    ) -> Result<Self, OpenError> {
        let families = names.into_iter();
        let families = families.map(|name| (name, options.clone(), ColumnFamilyTtl::SameAsDb));
        Self::open_cf_with_opts_with_ttl(options, sieve, path, families, ttl)
    }

    /// [`SieveDb::open_with_ttl`] with these column families, each with options and a time of its own. The
    /// default family, where it is not named, takes those of the database.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf_with_opts_with_ttl<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = (N, Options, ColumnFamilyTtl)>,
        ttl: Duration,
    ) -> Result<Self, OpenError> {
        if sieve.isolation().is_some() {
            // They would write values without the time.
            let reason = "transactions do not go with a time to live; switch one of them off";
            return Err(unsupported(DEFAULT_COLUMN_FAMILY_NAME, reason.to_owned()));
        }
        let mut ttls = HashMap::new();
        let families: Vec<_> = families
            .into_iter()
            .map(|(name, options, ttl)| {
                ttls.entry(name.as_ref().to_owned()).or_insert(ttl);
                (name, options)
            })
            .collect();
        let open = |options: &Options, path: &Path, families: Families| {
            let families = families.into_iter().map(|(name, options)| {
                let ttl = match ttls.get(&name) {
                    Some(ColumnFamilyTtl::Duration(ttl)) => {
                        ColumnFamilyTtl::Duration(whole_seconds(*ttl))
                    }
                    Some(ttl) => *ttl,
                    None => ColumnFamilyTtl::SameAsDb,
                };
                ColumnFamilyDescriptor::new_with_ttl(name, options, ttl)
            });
            Engine::open_cf_descriptors_with_ttl(options, path, families, whole_seconds(ttl))
        };
        Self::open_by(open, options, sieve, path.as_ref(), families)
    }

    /// Opens a database with the default column family to read it: RocksDB refuses writes, and no file is
    /// changed. `error_if_log_file_exist` refuses a database whose log has writes.
    ///
    /// The filters are [`frozen`](SieveOptions::frozen): those that are there are read, and what has
    /// none is asked.
    ///
    /// Nobody should write the database meanwhile, which is not checked. Beside a writer RocksDB's
    /// read-only instance has the tables and the log as it met them, one after the other: what a flush moved
    /// between the two is missing, and what a compaction removed ends the open with an error. A
    /// [refutation](SieveDb::refutation) in one process is not seen by the other.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
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
    /// As [`SieveDb::open`].
    pub fn open_cf_for_read_only<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
        error_if_log_file_exist: bool,
    ) -> Result<Self, OpenError> {
        let families = names.into_iter().map(|name| (name, options.clone()));
        let refuse_log = error_if_log_file_exist;
        Self::open_cf_with_opts_for_read_only(options, sieve, path, families, refuse_log)
    }

    /// [`SieveDb::open_for_read_only`] with these column families, each with options of its own.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf_with_opts_for_read_only<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = (N, Options)>,
        error_if_log_file_exist: bool,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        refuse_none(options, path)?;
        let open = |options: &Options, path: &Path, families: Families| {
            let options = read_only(options);
            let refuse_log = error_if_log_file_exist;
            Engine::open_cf_with_opts_for_read_only(&options, path, families, refuse_log)
        };
        let sieve = sieve.clone().read_only();
        Self::open_by(open, options, &sieve, path, families)
    }

    /// Opens a database that another process writes, with the default column family, as a secondary:
    /// RocksDB refuses writes, keeps its own messages in the folder `secondary_path`, and follows the
    /// writer with each [`SieveDb::try_catch_up_with_primary`].
    ///
    /// The filters are those that the writer's front keeps, and go on from there in memory: upkeep reads the
    /// keys of each table that comes, once, and writes nothing. The summary takes new keys and loses
    /// none, since memtables cannot be flushed here; one that has grown too large is made anew by opening
    /// again.
    ///
    /// All tables are kept open, whatever `max_open_files` says: the writer removes what it compacted. Open it
    /// anew where the writer made a column family, or made its filters anew. As with
    /// [`SieveDb::open_for_read_only`], neither process sees the other's [refutation](SieveDb::refutation).
    ///
    /// RocksDB's secondary has no snapshots. It hears of a write past the log when that is flushed, may miss
    /// for one catch-up what is flushed meanwhile, and while it has an entry both in its memtable and in a
    /// table, may read a value that was since deleted, and merge an operand twice.
    ///
    /// # Errors
    /// As [`SieveDb::open`]; where the writer is being opened or removes files meanwhile, try again.
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
    /// As [`SieveDb::open`].
    pub fn open_cf_as_secondary<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        primary_path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, OpenError> {
        let families = names.into_iter().map(|name| (name, options.clone()));
        let (primary, secondary) = (primary_path, secondary_path);
        Self::open_cf_with_opts_as_secondary(options, sieve, primary, secondary, families)
    }

    /// [`SieveDb::open_as_secondary`] with these column families, each with options of its own.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf_with_opts_as_secondary<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        primary_path: impl AsRef<Path>,
        secondary_path: impl AsRef<Path>,
        families: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        let open = |options: &Options, path: &Path, families: Families| {
            let families = families
                .into_iter()
                .map(|(name, options)| ColumnFamilyDescriptor::new(name, options));
            let (options, messages) = (secondary(options), secondary_path.as_ref());
            let engine =
                Engine::open_cf_descriptors_as_secondary(&options, path, messages, families)?;
            ffi::forget_freed_families(&engine);
            Ok(engine)
        };
        let path = primary_path.as_ref();
        refuse_none(options, path)?;
        Self::open_by(open, options, &sieve.clone().secondary(), path, families)
    }

    fn open_by<N: AsRef<str>>(
        open: impl FnOnce(&Options, &Path, Families) -> Result<Engine, Error>,
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
        families: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        refuse_file(path)?;
        if let Some(rate) = sieve.rate_out_of_reach() {
            return Err(OpenError::Rate(rate));
        }
        if sieve.leaves_out(DEFAULT_COLUMN_FAMILY_NAME) {
            let reason = "it cannot be left out; while it is empty, its filters are small";
            return Err(unsupported(DEFAULT_COLUMN_FAMILY_NAME, reason.to_owned()));
        }
        if !planted!(HooksUnproved) {
            probe::hooks_fire()?;
        }
        let publishes_first = ffi::publishes_first(options) && !planted!(UnorderedUnnoticed);
        let mut families = each_once(families);
        if !families
            .iter()
            .any(|(name, _)| name == DEFAULT_COLUMN_FAMILY_NAME)
        {
            families.push((DEFAULT_COLUMN_FAMILY_NAME.to_owned(), options.clone()));
        }
        let mut database_options = options.clone();
        if let Some(isolation) = sieve.isolation() {
            let refusal = ffi::transactions_refusal(options);
            refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)?;
            if matches!(isolation, Isolation::Locks(_)) {
                refuse_locks_of_readers(sieve)?;
                ffi::allow_two_phases(&mut database_options);
            }
            for (name, options) in &mut families {
                prepare_for_transactions(name, options)?;
            }
        }
        let fronted = families.iter().filter(|(name, _)| !sieve.leaves_out(name));
        let sieve = sieve.clone().publishes_first(publishes_first);
        let sieve = &sieve.shared_by(fronted.count()).with_rates();
        let folder = sieve.folder_of(path);
        let (opening, identity) = Opening::prepare(Arc::new(RealDisk), &folder, sieve)?;
        if !planted!(DatabaseOptionsUnchecked) {
            refuse(DEFAULT_COLUMN_FAMILY_NAME, ffi::refusal(options))?;
        }
        let mut hooked = Vec::new();
        let mut fronts = Vec::new();
        let mut taken = Bits::new(0);
        for (name, options) in families {
            if sieve.leaves_out(&name) {
                hooked.push((name, options));
                continue;
            }
            let column = opening.column(&name, sieve, taken);
            taken = taken + column.view().summary.size();
            hooked.push((name, hooked_options(&options, &column)?));
            fronts.push(column);
        }
        let columns = Arc::new(Columns::new(sieve.get_summary_rate()));
        let listeners = if planted!(ListenerPerFamily) {
            fronts.len()
        } else {
            1
        };
        for _ in 0..listeners {
            let listener = Listener::new(Arc::clone(&opening.bell), Arc::clone(&columns));
            ffi::listen(&mut database_options, listener);
        }
        if planted!(FolderChangedUnlocked) {
            opening.keep(&identity)?;
        }
        let engine = open(&database_options, path, hooked);
        let engine = engine.map_err(|source| not_opened(path, source))?;
        // Only now is the database ours alone.
        if sieve.is_frozen() {
            opening.confirm(&identity)?;
        } else {
            opening.keep(&identity)?;
        }
        Self::start(Arc::new(engine), opening, (columns, fronts), sieve.clone())
    }

    fn start(
        engine: Arc<Engine>,
        opening: Opening,
        (columns, fronts): (Arc<Columns>, Vec<Arc<Column>>),
        options: SieveOptions,
    ) -> Result<Self, OpenError> {
        let Opening {
            hasher,
            registry,
            shelf,
            bell,
        } = opening;
        let names = fronts.iter().map(|column| column.name());
        let transactions = options.isolation().map(|isolation| {
            Transactions::on(&engine, isolation, names.chain(options.left_out()))
                .map_err(|source| not_opened(engine.path(), source))
        });
        let transactions = transactions.transpose()?;
        let kept = (!options.is_frozen()).then(|| Arc::clone(&shelf));
        let trust = Arc::new(Trust::new(Arc::clone(&registry), kept));
        let mut default = None;
        for column in fronts {
            let id = bound_family(&column)?;
            if column.name() == DEFAULT_COLUMN_FAMILY_NAME {
                default = Some(Arc::clone(&column));
            }
            watch(&column, &engine, &trust);
            columns.insert(id, column);
        }
        for name in options.left_out() {
            columns.leave_out(&engine, name);
            if !options.is_frozen() {
                // Of an earlier run; nobody keeps it up to date.
                shelf.remove_summary(name);
            }
        }
        let default = default.ok_or(OpenError::HooksSilent {
            what: "the default column family",
        })?;
        let scrubs = Arc::<ScrubLog>::default();
        let upkeep = Upkeep::new(
            Arc::clone(&engine),
            Arc::clone(&columns),
            Arc::clone(&registry),
            Arc::clone(&shelf),
            options.clone(),
            Arc::clone(&bell),
            Arc::clone(&scrubs),
        );
        if !planted!(NoWakeAtOpen) {
            bell.ring();
        }
        let upkeep = thread::Builder::new()
            .name("lsm-sieve-upkeep".to_owned())
            .spawn(move || upkeep.run())
            .map_err(OpenError::Thread)?;
        let upkeep = Some(upkeep);
        Ok(Self {
            transactions,
            engine,
            default,
            columns,
            registry,
            shelf,
            trust,
            scrubs,
            bell,
            hasher,
            options,
            upkeep,
            families: Mutex::default(),
        })
    }

    /// The column families of a database that is closed.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn list_cf(options: &Options, path: impl AsRef<Path>) -> Result<Vec<String>, Error> {
        Engine::list_cf(options, path)
    }

    /// Creates a column family with a front of its own, unless its name is left out.
    ///
    /// # Errors
    /// [`OpenError`] for unsupported options, or what RocksDB says.
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
                column: name.to_owned(),
                source,
            })
        };
        if self.options.leaves_out(name) {
            create(&options)?;
            self.columns.leave_out(&self.engine, name);
            return Ok(());
        }
        let opening = Opening {
            hasher: self.hasher,
            registry: Arc::clone(&self.registry),
            shelf: Arc::clone(&self.shelf),
            bell: Arc::clone(&self.bell),
        };
        let taken = self.columns.size_of_summaries(None);
        let sieve = self.settings().shared_by(self.columns.all().len() + 1);
        let column = opening.column(name, &sieve, taken);
        create(&hooked_options(&options, &column)?)?;
        watch(&column, &self.engine, &self.trust);
        // Not the family that has the name now, which may have been dropped and made again.
        self.columns.insert(bound_family(&column)?, column);
        if !planted!(NoWakeAfterCreateCf) {
            self.bell.ring();
        }
        Ok(())
    }

    /// Drops a column family and its filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        let _turn = self.family_turn();
        self.refuse_if_reader()?;
        if name == DEFAULT_COLUMN_FAMILY_NAME {
            // `rocksdb` would give its handle up before RocksDB refuses. No family has a name with a zero in it.
            return self.engine.drop_cf("default, which cannot be dropped\0");
        }
        self.engine.drop_cf(name)?;
        self.columns.remove(name);
        if !self.options.is_frozen() {
            self.shelf.remove_summary(name);
        }
        if !planted!(NoWakeAfterDropCf) {
            self.bell.ring();
        }
        Ok(())
    }

    fn family_turn(&self) -> MutexGuard<'_, ()> {
        unpoisoned(self.families.lock())
    }
}

impl Opening {
    /// Reads what an earlier run left in the folder. Writes nothing: the database may be in use.
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
            shelf: Arc::new(Shelf::new(folder)),
            bell: Arc::default(),
        };
        Ok((opening, candidate))
    }

    /// Who the database is; a frozen front takes the filters of whatever hash they are.
    fn identity(
        disk: &dyn Disk,
        folder: &Path,
        sieve: &SieveOptions,
    ) -> Result<Candidate, IdentityError> {
        let kept = if sieve.is_frozen() {
            Identity::load(disk, folder)?
        } else {
            None
        };
        let hash = kept.map_or(sieve.get_hash(), |kept| kept.hash);
        Identity::load_or_new(disk, folder, hash)
    }

    /// Writes down who the database is, now that nobody else can.
    pub(in crate::rocks) fn keep(&self, identity: &Candidate) -> Result<(), OpenError> {
        let folder = self.shelf.folder();
        folder
            .prepare()
            .map_err(|source| OpenError::Folder(Box::new(source)))?;
        let kept = identity.keep(folder.disk(), folder.path());
        kept.map_err(|source| OpenError::Identity(Box::new(source)))
    }

    /// Makes sure that the database is still the one whose filters were read; for a frozen front.
    pub(in crate::rocks) fn confirm(&self, identity: &Candidate) -> Result<(), OpenError> {
        let folder = self.shelf.folder();
        let confirmed = identity.confirm(folder.disk(), folder.path());
        confirmed.map_err(|source| OpenError::Identity(Box::new(source)))
    }

    /// A front beside others whose summaries take so much of the budget.
    fn column(&self, name: &str, sieve: &SieveOptions, taken: Bits) -> Arc<Column> {
        let imprint = self.hasher.imprint().remixed();
        let options = sieve.summary(Items::new(0), taken);
        let room = sieve.room_beside(taken).unwrap_or(Bits::new(u64::MAX));
        let (summary, covers, rate) = match self.shelf.load_summary(name, room) {
            Some(stored) => {
                let first = stored.chain.stages().first();
                let keys = first.map(Stage::items).unwrap_or_default();
                let options = if first.is_some_and(Stage::is_static) {
                    sieve.static_summary(keys, taken)
                } else {
                    sieve.summary(keys, taken)
                };
                let summary = Scalable::starting_with(imprint, options, stored.chain);
                (summary, stored.covers, Some(stored.rate))
            }
            None => {
                let nothing = Scalable::new(imprint, options);
                (nothing, HashSet::new(), None)
            }
        };
        let summary = Arc::new(summary);
        let (registry, bell) = (Arc::clone(&self.registry), Arc::clone(&self.bell));
        let known = (Arc::clone(&summary), covers);
        let column = Column::new(name, self.hasher, registry, bell, sieve, known);
        if rate == Some(summary.options().rate) {
            column.note_stored(column.to_store(&summary));
        }
        column
    }
}

/// Each family once, as it is named first, which is how RocksDB takes one that is named again.
fn each_once<N: AsRef<str>>(families: impl IntoIterator<Item = (N, Options)>) -> Families {
    let mut named = HashSet::new();
    let families = families.into_iter();
    let families = families.map(|(name, options)| (name.as_ref().to_owned(), options));
    families
        .filter(|(name, _)| named.insert(name.clone()) || planted!(FamilyFrontedTwice))
        .collect()
}

/// Says that there is no database where there is no folder: to open one to read makes the folder.
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

/// The family that the front was bound to when RocksDB made its first memtable.
fn bound_family(column: &Column) -> Result<u32, OpenError> {
    let what = "the memtable capture";
    column.family().ok_or(OpenError::HooksSilent { what })
}

/// The user's options with the hooks of `column`.
fn hooked_options(options: &Options, column: &Arc<Column>) -> Result<Options, OpenError> {
    refuse(column.name(), ffi::refusal(options))?;
    let mut hooked = options.clone();
    ffi::install(&mut hooked, Arc::clone(column), &ffi::HOOKS);
    Ok(hooked)
}

/// Has a family keep what commits look in.
fn prepare_for_transactions(column: &str, options: &mut Options) -> Result<(), OpenError> {
    refuse(column, ffi::transactions_refusal(options))?;
    ffi::keep_history(options);
    Ok(())
}

fn refuse_locks_of_readers(sieve: &SieveOptions) -> Result<(), OpenError> {
    let reason = "transactions with locks are of whoever writes the database; leave them out here";
    let refusal = sieve.is_reader().then(|| reason.to_owned());
    refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)
}

fn refuse(column: &str, refusal: Option<String>) -> Result<(), OpenError> {
    refusal.map_or(Ok(()), |reason| Err(unsupported(column, reason)))
}

/// As RocksDB takes it, in 31 bits: a longer time would come out shorter, and the part of a second as none.
fn whole_seconds(ttl: Duration) -> Duration {
    let up = ttl
        .as_secs()
        .saturating_add((ttl.subsec_nanos() > 0).into());
    Duration::from_secs(up.min(i32::MAX as u64))
}

fn unsupported(column: &str, reason: String) -> OpenError {
    OpenError::Unsupported {
        column: column.to_owned(),
        reason,
    }
}

/// Lets a front be audited, and fall with the others.
fn watch(column: &Arc<Column>, engine: &Arc<Engine>, trust: &Arc<Trust>) {
    let auditor = Auditor::new(Arc::downgrade(engine), Arc::clone(trust));
    column.audit_with(auditor);
    trust.cover(column);
}

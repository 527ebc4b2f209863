//! Opening: a copy of the user's options gets the hooks, then the engine opens, then its handle gets
//! the filters, then maintenance starts.

use std::any::Any;
use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rocksdb::{
    DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, Error, Options, ReadOptions, SingleThreaded,
    ThreadMode,
};

use super::{SieveDb, Transactions};
use crate::binding::RocksDb;
use crate::disk::{Disk as _, RealDisk};
use crate::engine::RocksEngine;
use crate::error::OpenError;
use crate::fault::fault;
use crate::hooks::listener::Listener;
use crate::hooks::sieve::{Sieve, prefixes_of, prepare_for_transactions, ranges_of, shared_by};
use crate::hooks::{self, BareCf, DEFAULT_ID, HOOKS, Handle, JustOpened, self_check};
use crate::math::Bits;
use crate::options::{Isolation, SieveOptions};
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::opening::Opening;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::segment::{Candidate, IdentityError, SidecarError};

/// Column families: pairs of a name and options.
type Cfs = Vec<(String, Options)>;

/// A database that was just opened, with filters behind its handle. Maintenance does not run yet.
pub(super) struct Opened<E> {
    pub(super) db: E,
    handle: Handle,
    default: Arc<CfFilter>,
    pub(super) sieve: Arc<Sieve>,
}

impl<T: ThreadMode + Send + 'static> SieveDb<T> {
    pub(super) fn with_filters(opened: Opened<DBWithThreadMode<T>>) -> Result<Self, OpenError> {
        let (default, sieve) = (opened.default, opened.sieve);
        let db = Arc::new(opened.db);
        let transactions = sieve.options.isolation();
        let transactions = transactions.map(|isolation| begins(&db, &opened.handle, isolation));
        let transactions = transactions.transpose()?;
        sieve.start()?;
        Ok(Self {
            transactions,
            db,
            handle: opened.handle,
            default,
            sieve,
            plain: ReadOptions::default(),
        })
    }
}

impl<E: JustOpened> Opened<E> {
    /// Opens a database with these column families, of which the default one is one. `open` opens
    /// it with the options that it is given.
    pub(super) fn open(
        open: impl FnOnce(&Options, Cfs) -> Result<E, Error>,
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
        cfs: Cfs,
    ) -> Result<Self, OpenError> {
        let _span = tracing::info_span!("open", path = %path.display()).entered();
        let mut refusal = sieve.refusal();
        fault!(SettingsRefusedLate, refusal = None);
        refusal.map_or(Ok(()), |reason| Err(OpenError::settings(reason)))?;
        self_check::hooks_fire()?;
        let mut unordered_writes = hooks::writes_unordered(options);
        fault!(UnorderedWritesUndetected, unordered_writes = false);
        let mut database_options = options.clone();
        if let Some(isolation) = sieve.isolation() {
            allow_transactions(&mut database_options, isolation, sieve, &cfs)?;
        }
        let filtered = cfs.iter().filter(|(name, _)| !sieve.is_excluded(name));
        let front = FrontOptions {
            unordered_writes,
            ..sieve.resolved()
        };
        if front.is_secondary() {
            hooks::open_ssts_first(&mut database_options);
        }
        let front = shared_by(front, filtered.count());
        let folder = sieve.folder_of(path);
        if !sieve.has_read_only_filters() {
            refuse_folder(&folder, path)?;
        }
        let prepared = Opening::prepare(Arc::new(RealDisk), &folder, &front, sieve.get_hash());
        let (opening, identity) = prepared.map_err(unusable_identity)?;
        let (hooked, new_filters) = hook(cfs, sieve, &opening, &front)?;
        let cf_filters = Arc::new(CfFilters::new(front.summary));
        let listener = || Listener::new(Arc::clone(&opening.wakeup), Arc::clone(&cf_filters));
        hooks::install_listener(&mut database_options, listener(), &HOOKS);
        fault!(
            ListenerPerCf,
            for _ in 1..new_filters.len() {
                hooks::install_listener(&mut database_options, listener(), &HOOKS);
            }
        );
        fault!(FolderChangedUnlocked, keep(&opening, &identity)?);
        let db = open(&database_options, hooked);
        let db = db.map_err(|source| not_opened(path, source))?;
        // Unless opened for reading, RocksDB holds its lock now: no other process writes here.
        if sieve.has_read_only_filters() {
            opening.confirm(&identity).map_err(unusable_identity)?;
        } else {
            keep(&opening, &identity)?;
        }
        Self::filter(db, opening, (cf_filters, new_filters), sieve.clone(), front)
    }

    fn filter(
        db: E,
        opening: Opening,
        (cf_filters, new_filters): (Arc<CfFilters>, Vec<Arc<CfFilter>>),
        options: SieveOptions,
        front: FrontOptions,
    ) -> Result<Self, OpenError> {
        let handle = db.handle()?;
        refuse_other_access(&handle, &front)?;
        if front.is_secondary() {
            hooks::forget_freed_families(&handle.engine);
        }
        let engine = RocksEngine::new(Arc::clone(&handle.engine), front.is_secondary());
        let filters = Filters::new(Arc::new(engine), opening, cf_filters, front);
        let mut default = None;
        for cf_filter in new_filters {
            if cf_filter.name() == DEFAULT_COLUMN_FAMILY_NAME {
                default = Some(Arc::clone(&cf_filter));
            }
            let id = bound_cf(&cf_filter)?;
            let mut is_of_its_name = handle.engine.cf_id(cf_filter.name()) == Some(id);
            fault!(OptionsOfAnotherCfTaken, is_of_its_name = true);
            if !is_of_its_name {
                let what = "took the options of one column family for another";
                return Err(OpenError::Opener { what });
            }
            filters.insert(id, cf_filter);
        }
        let default = default.ok_or(OpenError::HooksSilent {
            what: "the default column family",
        })?;
        for name in options.excluded() {
            if let Some(id) = handle.engine.cf_id(name) {
                filters.cf_filters.exclude(id);
            }
            if !options.has_read_only_filters() {
                // Left by an earlier run; it is no longer kept up to date.
                filters.filter_store.remove_summary(name);
            }
        }
        let engine = Arc::clone(&handle.engine);
        let sieve = Arc::new(Sieve::new(filters, Arc::clone(&default), options, engine));
        handle.filter(&db, Arc::clone(&sieve))?;
        Ok(Self {
            db,
            handle,
            default,
            sieve,
        })
    }
}

fn allow_transactions(
    options: &mut Options,
    isolation: &Isolation,
    sieve: &SieveOptions,
    cfs: &Cfs,
) -> Result<(), OpenError> {
    let refusal = hooks::transactions_refusal(options);
    OpenError::refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)?;
    if matches!(isolation, Isolation::Locks(_)) {
        refuse_locks_of_readers(sieve)?;
        hooks::allow_two_phases(options);
    }
    for (name, options) in cfs {
        prepare_for_transactions(name, options)?;
    }
    Ok(())
}

/// The column families with options that have hooks, and their filters.
fn hook(
    cfs: Cfs,
    sieve: &SieveOptions,
    opening: &Opening,
    front: &FrontOptions,
) -> Result<(Cfs, Vec<Arc<CfFilter>>), OpenError> {
    let mut hooked = Vec::new();
    let mut new_filters = Vec::new();
    let mut taken = Bits::new(0);
    for (name, options) in cfs {
        if sieve.is_excluded(&name) {
            hooked.push((name, options));
            continue;
        }
        let front = FrontOptions {
            prefixes: prefixes_of(&name, &options, sieve)?,
            ranges: ranges_of(&name, &options, sieve)?,
            ..front.clone()
        };
        let cf_filter = opening.cf_filter(&name, &front, taken);
        taken = taken + cf_filter.view().summary.size();
        let options = options.clone();
        hooks::put_hooks(&options, sieve, &cf_filter, &HOOKS)?;
        hooked.push((name, options));
        new_filters.push(cf_filter);
    }
    Ok((hooked, new_filters))
}

/// An error if the database was opened for something else, or without the database's options.
fn refuse_other_access(handle: &Handle, front: &FrontOptions) -> Result<(), OpenError> {
    fault!(AnyAccessTaken, return Ok(()));
    let look = |cf: &BareCf| (hooks::is_secondary(cf), hooks::is_listened_to(cf));
    let looked = handle.engine.with_cf(DEFAULT_ID, look);
    let what = match looked.ok_or(OpenError::Handle)? {
        (is_secondary, _) if is_secondary != front.is_secondary() => "opened it for another access",
        (_, false) => "did not use the options of the database",
        _ => return Ok(()),
    };
    Err(OpenError::Opener { what })
}

/// What begins the transactions of a database, whose handle has the filters behind it.
fn begins<T: ThreadMode + Send + 'static>(
    db: &Arc<DBWithThreadMode<T>>,
    handle: &Handle,
    isolation: &Isolation,
) -> Result<Transactions, OpenError> {
    let path = db.path();
    let any: Arc<dyn Any + Send + Sync> = Arc::<DBWithThreadMode<T>>::clone(db);
    let Ok(db) = any.downcast::<RocksDb>() else {
        let reason = "transactions need `rocksdb`'s `MultiThreaded` mode; open it that way";
        return Err(OpenError::settings(reason));
    };
    Transactions::on(&db, handle, isolation).map_err(|source| not_opened(path, source))
}

impl<T: ThreadMode> SieveDb<T> {
    /// `rocksdb` would give up its handle before RocksDB refuses.
    fn refuse_drop(&self, name: &str) -> Result<(), Error> {
        if name == DEFAULT_COLUMN_FAMILY_NAME {
            let refusal = "Invalid argument: the default column family cannot be dropped";
            return Err(hooks::error_of(refusal.to_owned()));
        }
        self.sieve.refuse_if_reader()
    }
}

impl SieveDb {
    /// [`drop_cf`](rocksdb::DBCommon::drop_cf), which keeps the handle of a column family that cannot
    /// be dropped.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        self.refuse_drop(name)?;
        self.db.drop_cf(name)
    }
}

impl SieveDb<SingleThreaded> {
    /// [`create_cf`](rocksdb::DBCommon::create_cf).
    ///
    /// # Errors
    /// Returns RocksDB's error, or says which of the options filters do not support.
    pub fn create_cf(&mut self, name: impl AsRef<str>, options: &Options) -> Result<(), Error> {
        self.db_mut().create_cf(name, options)
    }

    /// [`drop_cf`](rocksdb::DBCommon::drop_cf), which keeps the handle of a column family that cannot
    /// be dropped.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn drop_cf(&mut self, name: &str) -> Result<(), Error> {
        self.refuse_drop(name)?;
        self.db_mut().drop_cf(name)
    }

    /// Not for users: they could swap it for another, whose keys the filters do not have.
    fn db_mut(&mut self) -> &mut DBWithThreadMode<SingleThreaded> {
        Arc::get_mut(&mut self.db).expect("only transactions and readers share it")
    }
}

pub(super) fn not_opened(path: &Path, source: Error) -> OpenError {
    OpenError::Engine {
        path: path.to_owned(),
        source,
    }
}

/// The column family that the filters were bound to when RocksDB created its first memtable.
fn bound_cf(cf_filter: &CfFilter) -> Result<u32, OpenError> {
    let what = "the memtable capture";
    cf_filter
        .key_space()
        .id()
        .ok_or(OpenError::HooksSilent { what })
}

/// Stores the identity of the database.
fn keep(opening: &Opening, identity: &Candidate) -> Result<(), OpenError> {
    let folder = opening.prepare_folder();
    folder.map_err(|source| OpenError::Folder(Box::new(source)))?;
    opening.keep(identity).map_err(unusable_identity)
}

/// An error if a folder of filters cannot be used, as far as that is known before the database is
/// created: inside it, the folder comes to be with it.
fn refuse_folder(folder: &Path, database: &Path) -> Result<(), OpenError> {
    fault!(FolderRefusedLate, return Ok(()));
    let unusable = |source| {
        OpenError::Folder(Box::new(SidecarError::Disk {
            operation: "create",
            path: folder.to_owned(),
            source,
        }))
    };
    let is_missing = |found: io::Result<Metadata>| match found {
        Ok(found) if found.is_dir() => Ok(false),
        Ok(_) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    };
    let wrong_path = |source| OpenError::Path {
        path: database.to_owned(),
        source,
    };
    let is_inside = folder.starts_with(database);
    if is_inside && is_missing(database.metadata()).map_err(wrong_path)? {
        let is_created_in = folder == database || folder.parent() == Some(database);
        return match is_created_in {
            true => Ok(()),
            false => Err(unusable(io::ErrorKind::NotFound.into())),
        };
    }
    if !is_missing(folder.symlink_metadata()).map_err(unusable)? {
        return RealDisk.create_folder(folder).map_err(unusable);
    }
    let around = folder.parent().filter(|path| !path.as_os_str().is_empty());
    let around = around.unwrap_or(Path::new("."));
    match is_missing(around.metadata()).map_err(unusable)? {
        true => Err(unusable(io::ErrorKind::NotFound.into())),
        false => Ok(()),
    }
}

fn unusable_identity(source: IdentityError) -> OpenError {
    OpenError::Identity(Box::new(source))
}

fn refuse_locks_of_readers(sieve: &SieveOptions) -> Result<(), OpenError> {
    let reason = "transactions with locks need a database opened for writing; leave them out";
    match sieve.is_reader() {
        true => Err(OpenError::settings(reason)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Items;

    /// Maintenance, which would drop what exceeds the budget, does not run yet.
    #[test]
    fn families_that_are_opened_share_what_the_budget_leaves() {
        let home = tempfile::tempdir().unwrap();
        let budget = 4 << 20;
        let sieve = SieveOptions::default().memory_budget(budget);
        let sieve = sieve.expected_keys(Items::new(1_000_000));
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let names = [DEFAULT_COLUMN_FAMILY_NAME, "first", "second", "third"];
        let cfs = names.map(|name| (name.to_owned(), options.clone()));
        let path = home.path();
        let open = |options: &Options, cfs| RocksDb::open_cf_with_opts(options, path, cfs);
        let opened = Opened::open(open, &options, &sieve, path, cfs.into()).unwrap();
        let all = opened.sieve.filters.cf_filters.all();
        let sizes = all.iter().map(|cf_filter| cf_filter.view().summary.size());
        let sizes: Vec<u64> = sizes.map(Bits::to_bytes).collect();
        assert!(sizes[0] > budget / 4, "{sizes:?}");
        assert!(sizes.iter().sum::<u64>() <= budget, "{sizes:?}");
    }
}

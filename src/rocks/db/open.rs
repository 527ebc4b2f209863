//! Opening: a copy of the user's options gets the hooks, then the engine opens, then maintenance
//! starts. Also creates and drops column families later.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Error, Options};

use super::{SieveDb, Transactions};
use crate::disk::RealDisk;
use crate::fault::fault;
use crate::front::cf_filter::CfFilter;
use crate::front::cf_filters::CfFilters;
use crate::front::filters::Filters;
use crate::front::opening::Opening;
use crate::front::options::FrontOptions;
use crate::math::Bits;
use crate::rocks::binding::Engine;
use crate::rocks::engine::RocksEngine;
use crate::rocks::error::OpenError;
use crate::rocks::hooks::listener::Listener;
use crate::rocks::hooks::{self, self_check};
use crate::rocks::options::{Isolation, SieveOptions};
use crate::segment::{Candidate, IdentityError};
use crate::sync::unpoisoned;

/// Column families: pairs of a name and options.
type Cfs = Vec<(String, Options)>;

impl SieveDb {
    /// Opens a database with these column families, of which the default one is one. `open` opens
    /// the engine with the options that it is given.
    pub(super) fn open_with(
        open: impl FnOnce(&Options, Cfs) -> Result<Engine, Error>,
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
        mut cfs: Cfs,
    ) -> Result<Self, OpenError> {
        if sieve.is_excluded(DEFAULT_COLUMN_FAMILY_NAME) {
            let reason = "it cannot be left out; while it is empty, its filters are small";
            return Err(unsupported(DEFAULT_COLUMN_FAMILY_NAME, reason.to_owned()));
        }
        self_check::hooks_fire()?;
        let mut publishes_first = hooks::publishes_first(options);
        fault!(UnorderedWritesUndetected, publishes_first = false);
        let mut database_options = options.clone();
        if let Some(isolation) = sieve.isolation() {
            let refusal = hooks::transactions_refusal(options);
            refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)?;
            if matches!(isolation, Isolation::Locks(_)) {
                refuse_locks_of_readers(sieve)?;
                hooks::allow_two_phases(&mut database_options);
            }
            for (name, options) in &mut cfs {
                prepare_for_transactions(name, options)?;
            }
        }
        let filtered = cfs.iter().filter(|(name, _)| !sieve.is_excluded(name));
        let front = FrontOptions {
            publishes_first,
            ..sieve.resolved()
        };
        let front = shared_by(front, filtered.count());
        let folder = sieve.folder_of(path);
        let prepared = Opening::prepare(Arc::new(RealDisk), &folder, &front, sieve.get_hash());
        let (opening, identity) = prepared.map_err(unusable_identity)?;
        let mut refusal = hooks::refusal(options);
        fault!(DatabaseOptionsUnchecked, refusal = None);
        refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)?;
        let mut hooked = Vec::new();
        let mut new_filters = Vec::new();
        let mut taken = Bits::new(0);
        for (name, options) in cfs {
            if sieve.is_excluded(&name) {
                hooked.push((name, options));
                continue;
            }
            let cf_filter = opening.cf_filter(&name, &front, taken);
            taken = taken + cf_filter.view().summary.size();
            hooked.push((name, hooked_options(&options, &cf_filter)?));
            new_filters.push(cf_filter);
        }
        let cf_filters = Arc::new(CfFilters::new(front.summary_rate));
        let listener = || Listener::new(Arc::clone(&opening.wakeup), Arc::clone(&cf_filters));
        hooks::install_listener(&mut database_options, listener());
        fault!(
            ListenerPerCf,
            for _ in 1..new_filters.len() {
                hooks::install_listener(&mut database_options, listener());
            }
        );
        fault!(FolderChangedUnlocked, keep(&opening, &identity)?);
        let engine = open(&database_options, hooked);
        let engine = engine.map_err(|source| not_opened(path, source))?;
        // Unless opened for reading, RocksDB holds its lock now: no other process writes here.
        if sieve.has_read_only_filters() {
            opening.confirm(&identity).map_err(unusable_identity)?;
        } else {
            keep(&opening, &identity)?;
        }
        Self::start(
            Arc::new(engine),
            opening,
            (cf_filters, new_filters),
            sieve.clone(),
            front,
        )
    }

    fn start(
        engine: Arc<Engine>,
        opening: Opening,
        (cf_filters, new_filters): (Arc<CfFilters>, Vec<Arc<CfFilter>>),
        options: SieveOptions,
        front: FrontOptions,
    ) -> Result<Self, OpenError> {
        let filter_engine = RocksEngine::new(Arc::clone(&engine), front.is_secondary());
        let filters = Filters::new(Arc::new(filter_engine), opening, cf_filters, front);
        let names = new_filters.iter().map(|cf_filter| cf_filter.name());
        let transactions = options.isolation().map(|isolation| {
            Transactions::on(&engine, isolation, names.chain(options.excluded()))
                .map_err(|source| not_opened(engine.path(), source))
        });
        let transactions = transactions.transpose()?;
        let mut default = None;
        for cf_filter in new_filters {
            if cf_filter.name() == DEFAULT_COLUMN_FAMILY_NAME {
                default = Some(Arc::clone(&cf_filter));
            }
            filters.insert(bound_cf(&cf_filter)?, cf_filter);
        }
        for name in options.excluded() {
            exclude(&engine, &filters.cf_filters, name);
            if !options.has_read_only_filters() {
                // Left by an earlier run; it is no longer kept up to date.
                filters.filter_store.remove_summary(name);
            }
        }
        let default = default.ok_or(OpenError::HooksSilent {
            what: "the default column family",
        })?;
        filters.start_thread().map_err(OpenError::Thread)?;
        Ok(Self {
            transactions,
            engine,
            filters,
            default,
            options,
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
        let _turn = self.cf_turn();
        let mut options = options.clone();
        if self.options.isolation().is_some() {
            prepare_for_transactions(name, &mut options)?;
        }
        let create = |options: &Options| {
            let allowed = self.refuse_if_reader();
            let created = allowed.and_then(|()| self.engine.create_cf(name, options));
            self.extend_locks();
            created.map_err(|source| OpenError::Create {
                cf: name.to_owned(),
                source,
            })
        };
        if self.options.is_excluded(name) {
            create(&options)?;
            exclude(&self.engine, &self.filters.cf_filters, name);
            return Ok(());
        }
        let taken = self.filters.cf_filters.size_of_summaries(None);
        let cfs = self.filters.cf_filters.all().len() + 1;
        let front = shared_by(self.settings(), cfs);
        let cf_filter = self.filters.opening().cf_filter(name, &front, taken);
        create(&hooked_options(&options, &cf_filter)?)?;
        // Not by name: the column family may have been dropped and created again.
        self.filters.insert(bound_cf(&cf_filter)?, cf_filter);
        fault!(NoWakeAfterCreateCf, return Ok(()));
        self.filters.wakeup.notify();
        Ok(())
    }

    /// Drops a column family and its filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        let _turn = self.cf_turn();
        self.refuse_if_reader()?;
        if name == DEFAULT_COLUMN_FAMILY_NAME {
            // `rocksdb` would give up its handle before RocksDB refuses. The name holds a zero
            // byte, so no column family has it.
            return self.engine.drop_cf("default, which cannot be dropped\0");
        }
        self.engine.drop_cf(name)?;
        self.filters.cf_filters.remove(name);
        if !self.options.has_read_only_filters() {
            self.filters.filter_store.remove_summary(name);
        }
        fault!(NoWakeAfterDropCf, return Ok(()));
        self.filters.wakeup.notify();
        Ok(())
    }

    fn cf_turn(&self) -> MutexGuard<'_, ()> {
        unpoisoned(self.cfs.lock())
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

fn unusable_identity(source: IdentityError) -> OpenError {
    OpenError::Identity(Box::new(source))
}

/// A copy of the user's options with the hooks of `cf_filter`.
fn hooked_options(options: &Options, cf_filter: &Arc<CfFilter>) -> Result<Options, OpenError> {
    refuse(cf_filter.name(), hooks::refusal(options))?;
    let mut hooked = options.clone();
    hooks::install(&mut hooked, Arc::clone(cf_filter), &hooks::HOOKS);
    Ok(hooked)
}

/// Notes that the column family that has this name now never has filters.
fn exclude(engine: &Engine, cf_filters: &CfFilters, name: &str) {
    if let Some(cf) = engine.cf_handle(name) {
        cf_filters.exclude(hooks::cf_id(&cf));
    }
}

/// Makes a column family keep the memtable history that commits check for conflicts.
fn prepare_for_transactions(cf: &str, options: &mut Options) -> Result<(), OpenError> {
    refuse(cf, hooks::transactions_refusal(options))?;
    hooks::keep_history(options);
    Ok(())
}

fn refuse_locks_of_readers(sieve: &SieveOptions) -> Result<(), OpenError> {
    let reason = "transactions with locks need a database opened for writing; leave them out";
    let refusal = sieve.is_reader().then(|| reason.to_owned());
    refuse(DEFAULT_COLUMN_FAMILY_NAME, refusal)
}

fn refuse(cf: &str, refusal: Option<String>) -> Result<(), OpenError> {
    refusal.map_or(Ok(()), |reason| Err(unsupported(cf, reason)))
}

/// The settings of column families of this number, which share the budget.
fn shared_by(front: FrontOptions, cfs: usize) -> FrontOptions {
    let overhead = CfFilter::OVERHEAD.get().saturating_mul(cfs as u64);
    front.shared_by(cfs, Bits::new(overhead))
}

pub(super) fn unsupported(cf: &str, reason: String) -> OpenError {
    OpenError::Unsupported {
        cf: cf.to_owned(),
        reason,
    }
}

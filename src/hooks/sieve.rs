//! The Rust side of a database's handle (`FilteredDB` in `shim/database.cc`): answers its reads, and
//! brackets ingestion, catch-up and column-family changes.
//!
//! The handle owns the last reference. It calls [`Sieve::stop`] before its engine closes.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rocksdb::Error;

use crate::error::OpenError;
use crate::fault::fault;
use crate::hooks::abi::error_of;
use crate::hooks::bare_engine::{BareEngine, DEFAULT_ID, refusal_of_reader};
use crate::hooks::extractor::extractor;
use crate::hooks::options::{
    AsOptions, CfOptions, keep_history, orders_by_bytes, transactions_refusal,
};
use crate::hooks::proof;
use crate::hooks::seams;
use crate::math::Bits;
use crate::options::SieveOptions;
use crate::sync::unpoisoned;
use lsm_sieve_front::audit::Distrust as _;
use lsm_sieve_front::cf_filter::prefix_lookup;
use lsm_sieve_front::cf_filter::{CfFilter, Resolve as _, lookup};
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::prefix::Prefixes;
use lsm_sieve_front::ranges::{RangeKeys, Span};
use lsm_sieve_front::rcu::Reading;

/// What the engine found: nothing, a value, or an error that only the engine's caller learns.
pub(crate) type Found = Result<Option<()>, ()>;

/// The filters behind the handle of an open database: what they answer, and how they are inspected
/// and verified. Their state and their maintenance are those of [`Filters`], to which it
/// dereferences.
///
/// ```no_run
/// # use std::time::Duration;
/// # use lsm_sieve::SieveDb;
/// # let db = SieveDb::builder("/tmp/users").open()?;
/// if db.filters().wait_until_complete(Duration::from_secs(60)) {
///     println!("{:?}", db.filters().health());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sieve {
    pub(crate) filters: Filters,
    /// The filters of the default column family.
    pub(crate) default: Arc<CfFilter>,
    pub(crate) options: SieveOptions,
    pub(crate) engine: Arc<BareEngine>,
    /// Whether a column family got another prefix extractor since the open.
    has_extractor_changed: AtomicBool,
    /// Held while a column family is created or dropped: its filters are created and dropped with
    /// it.
    cfs: Mutex<()>,
}

impl Deref for Sieve {
    type Target = Filters;

    fn deref(&self) -> &Filters {
        &self.filters
    }
}

impl Sieve {
    pub(crate) fn new(
        filters: Filters,
        default: Arc<CfFilter>,
        options: SieveOptions,
        engine: Arc<BareEngine>,
    ) -> Self {
        Self {
            filters,
            default,
            options,
            engine,
            has_extractor_changed: AtomicBool::new(false),
            cfs: Mutex::default(),
        }
    }

    /// Whether a key is absent. If the filters do not say so, reads it from the `engine`.
    #[inline]
    pub(super) fn read(&self, cf: u32, key: &[u8], engine: impl FnOnce() -> Found) -> bool {
        if proof::is_due() {
            return true;
        }
        let found = match cf {
            DEFAULT_ID => lookup::get(&*self.default, key, engine),
            _ => lookup::get((&*self.filters.cf_filters, cf), key, engine),
        };
        matches!(found, Ok(None))
    }

    /// Whether the filters alone prove a key absent.
    pub(super) fn rules_out(&self, cf: u32, key: &[u8]) -> bool {
        lookup::rules_out((&*self.filters.cf_filters, cf), key)
    }

    /// The edition of the view of a column family that filters may answer for by prefix; and after
    /// how many seeks in a row that find something an iterator no longer checks them.
    pub(super) fn edition_for_prefixes(&self, cf: u32) -> Option<(u64, u32)> {
        let filters = (&*self.filters.cf_filters, cf);
        let edition = |cf: &CfFilter, _: &Reading| {
            let has_prefixes = !cf.prefixes().is_empty() || cf.lookups().ranges().is_some();
            has_prefixes.then(|| (cf.lookups().edition(), cf.lookups().most_seeks_found()))
        };
        filters.with(edition).flatten()
    }

    /// Whether no key of a span existed since the view of this edition was published.
    pub(super) fn is_empty_since(&self, cf: u32, span: Span<'_>, edition: u64) -> bool {
        let filters = (&*self.filters.cf_filters, cf);
        prefix_lookup::is_empty_since(filters, span, edition)
    }

    /// From here on, the prefixes of an extractor may be those of another one.
    pub(super) fn extractor_changes(&self) {
        self.has_extractor_changed.store(true, Ordering::SeqCst);
    }

    /// Whether the engine's own function gives all keys that start so one prefix, and the engine
    /// uses it.
    pub(crate) fn is_within_engine_prefix(&self, cf: &CfFilter, start: &[u8]) -> bool {
        let extractor = cf.prefixes().of_engine();
        extractor.is_some_and(|(_, extractor)| extractor.of_all(start).is_some())
            && !self.has_extractor_changed.load(Ordering::SeqCst)
    }

    /// Has the `engine` read the keys at the indexes that it is given, so that all others are
    /// absent, at one moment. False if the column family has no filters.
    pub(super) fn read_many(
        &self,
        cfs: &[u32],
        keys: &[&[u8]],
        engine: impl Fn(&[usize]) -> Vec<Found>,
    ) -> bool {
        let values = self.filters.cf_filters.multi_get(cfs, keys, engine);
        values.is_some()
    }

    /// Runs an operation that brings keys past the memtables of the column family with this id, or
    /// of any.
    pub(super) fn external_writes(&self, cf: Option<u32>, run: impl FnOnce()) {
        let Some(run) = seams::external_writes(&self.filters, cf, run) else {
            return;
        };
        let arriving = self.filters.cf_filters.begin_external_writes(cf);
        run();
        drop(arriving);
    }

    /// External writes came, or may come, without notice: nothing is absent until the next open.
    pub(super) fn disable(&self) {
        let all = self.filters.cf_filters.all();
        all.iter().for_each(|cf_filter| cf_filter.disable());
    }

    /// Creates column families with their own filters, unless a name is excluded. `put_hooks` puts
    /// the hooks of such filters into the options; `create` returns the ids of those that RocksDB
    /// created.
    ///
    /// # Errors
    /// If the options of a column family are not supported. No column family was created then.
    pub(super) fn create_cfs(
        &self,
        cfs: &[(String, CfOptions<'_>)],
        put_hooks: impl Fn(&CfOptions<'_>, &Arc<CfFilter>) -> Result<(), OpenError>,
        create: impl FnOnce() -> Vec<Option<u32>>,
    ) -> Result<(), OpenError> {
        let _turn = unpoisoned(self.cfs.lock());
        let filtered = self.filters_of_new(cfs, put_hooks)?;
        for (id, cf_filter) in create().into_iter().zip(filtered) {
            let Some(id) = id else {
                continue;
            };
            let Some(cf_filter) = cf_filter else {
                fault!(LateExclusionForgotten, continue);
                self.filters.cf_filters.exclude(id);
                continue;
            };
            if cf_filter.key_space().id() != Some(id) {
                let cf = cf_filter.name();
                tracing::error!(cf, "the memtable capture does not fire: no filters");
                continue;
            }
            self.filters.insert(id, cf_filter);
        }
        fault!(NoWakeAfterCreateCf, return Ok(()));
        self.filters.wakeup.notify();
        Ok(())
    }

    /// Filters of column families that are about to be created, with their hooks in the options;
    /// `None` if the name is excluded.
    fn filters_of_new(
        &self,
        cfs: &[(String, CfOptions<'_>)],
        put_hooks: impl Fn(&CfOptions<'_>, &Arc<CfFilter>) -> Result<(), OpenError>,
    ) -> Result<Vec<Option<Arc<CfFilter>>>, OpenError> {
        let existing = &self.filters.cf_filters;
        let number = existing.all().len() + cfs.len();
        let mut taken = existing.size_of_published(None);
        let filters_of = |(name, options): &(String, CfOptions<'_>)| {
            if self.options.isolation().is_some() {
                prepare_for_transactions(name, options)?;
            }
            if self.options.is_excluded(name) {
                return Ok(None);
            }
            let front = FrontOptions {
                prefixes: prefixes_of(name, options, &self.options)?,
                ranges: ranges_of(name, options, &self.options)?,
                ..shared_by(self.settings(), number)
            };
            let cf_filter = self.filters.opening().cf_filter(name, &front, taken);
            taken = taken + seams::size_of_summary(&cf_filter);
            put_hooks(options, &cf_filter)?;
            Ok(Some(cf_filter))
        };
        cfs.iter().map(filters_of).collect()
    }

    /// Drops column families and their filters. `drop` returns of each whether RocksDB dropped it.
    pub(super) fn drop_cfs(&self, ids: &[u32], drop: impl FnOnce() -> Vec<bool>) {
        let _turn = unpoisoned(self.cfs.lock());
        let cf_filters = ids.iter().map(|&id| self.filters.cf_filters.get(id));
        let cf_filters: Vec<Option<Arc<CfFilter>>> = cf_filters.collect();
        for (is_dropped, cf_filter) in drop().into_iter().zip(cf_filters) {
            let Some(cf_filter) = cf_filter.filter(|_| is_dropped) else {
                continue;
            };
            self.filters.cf_filters.remove(&cf_filter);
            if !self.options.has_read_only_filters() {
                self.filters.filter_store.remove_summary(cf_filter.name());
            }
        }
        fault!(NoWakeAfterDropCf, return);
        self.filters.wakeup.notify();
    }

    /// The settings with the current rates, which may have changed since the open.
    fn settings(&self) -> FrontOptions {
        FrontOptions {
            summary: self.filters.cf_filters.summary_rates(),
            segment_rate: self.default.intake().segments().rate(),
            ..self.filters.options.clone()
        }
    }

    /// Returns RocksDB's own refusal if the engine writes nothing. For operations outside the handle
    /// that read-only and secondary instances would run, run in part, or crash in.
    pub(crate) fn refuse_if_reader(&self) -> Result<(), Error> {
        if !self.options.is_reader() {
            return Ok(());
        }
        let refused = self.engine.with_cf(DEFAULT_ID, refusal_of_reader);
        refused.unwrap_or(Ok(())).map_err(error_of)
    }

    /// Starts maintenance.
    pub(crate) fn start(&self) -> Result<(), OpenError> {
        self.filters.start_thread().map_err(OpenError::Thread)
    }

    /// Ends maintenance and frees the filters: what still reads them gets *maybe*. Idempotent.
    pub(crate) fn stop(&self) {
        // Its flush must not run beside the engine's own flush at the close.
        self.filters.stop_maintenance();
        // A block cache that outlives the database may keep readers of our filters and pass them on
        // to the next filters of these SSTs, which could neither verify nor drop them.
        self.filters.retire();
    }
}

impl std::fmt::Debug for Sieve {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sieve").finish_non_exhaustive()
    }
}

/// The settings of column families of this number, which share the budget.
pub(crate) fn shared_by(front: FrontOptions, cfs: usize) -> FrontOptions {
    let overhead = CfFilter::OVERHEAD.get().saturating_mul(cfs as u64);
    front.shared_by(cfs, Bits::new(overhead))
}

/// Makes a column family keep the memtable history that commits check for conflicts.
pub(crate) fn prepare_for_transactions(
    cf: &str,
    options: &impl AsOptions,
) -> Result<(), OpenError> {
    OpenError::refuse(cf, transactions_refusal(options))?;
    keep_history(options);
    Ok(())
}

/// The functions for the prefixes of a column family: RocksDB's extractor, if these options have
/// one that can be named, and those of the settings.
pub(crate) fn prefixes_of(
    cf: &str,
    options: &impl AsOptions,
    sieve: &SieveOptions,
) -> Result<Arc<Prefixes>, OpenError> {
    let given = sieve.prefixes_of(cf);
    if !given.is_empty() && !orders_by_bytes(options) {
        return Err(OpenError::settings(format_args!(
            "column family {cf:?} has a comparator that does not keep the keys of a prefix together; \
             leave out its prefixes"
        )));
    }
    let engine = extractor(options);
    let given = given.iter().cloned();
    let prefixes = Prefixes::beside_engine(engine, given);
    let too_many = |error| OpenError::settings(format_args!("of column family {cf:?} {error}"));
    prefixes.map(Arc::new).map_err(too_many)
}

/// The ranges that the filters of a column family answer for.
pub(crate) fn ranges_of(
    cf: &str,
    options: &impl AsOptions,
    sieve: &SieveOptions,
) -> Result<Option<Arc<RangeKeys>>, OpenError> {
    let ranges = sieve.ranges_of(cf);
    if ranges.is_some() && !orders_by_bytes(options) {
        return Err(OpenError::settings(format_args!(
            "column family {cf:?} has a comparator that does not order keys by their bytes; leave out \
             its ranges"
        )));
    }
    Ok(ranges.map(Arc::new))
}

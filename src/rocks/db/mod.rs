//! A RocksDB with filters in front, with the API of the `rocksdb` crate.

mod access;
mod builder;
mod cf_reader;
mod engine;
mod iterators;
mod latest;
mod open;
mod reads;
mod transaction;
mod writes;

pub use builder::Builder;
pub(crate) use cf_reader::CfReader;
pub use engine::ColumnFamilyMetaData;
pub use iterators::Snapshot;
use transaction::Transactions;
pub use transaction::{Transaction, TransactionSettings};

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rocksdb::AsColumnFamilyRef;

use crate::fault::fault;
use crate::front::audit::{FalseNegative, Trust};
use crate::front::cf_filter::CfFilter;
use crate::front::cf_filters::CfFilters;
use crate::front::engine::Engine as FilterEngine;
use crate::front::filter_store::FilterStore;
use crate::front::maintenance::room;
use crate::front::maintenance::scrub::{ScrubLog, Scrubbed};
use crate::front::options::{FilterSize, FrontOptions};
use crate::front::wakeup::{LONG, Wakeup};
use crate::hash::KeyHasher;
use crate::math::{Bits, Items, Rate};
use crate::rocks::binding::Engine;
use crate::rocks::error::MaintenanceError;
use crate::rocks::hooks;
use crate::rocks::options::SieveOptions;
use crate::segment::Registry;
use crate::stats::Stats;

/// How long a wait lasts before it checks whether to go on.
const PATIENCE: Duration = Duration::from_millis(100);

/// A RocksDB with filters that answer most misses before the engine is entered.
///
/// A key is in the filters before its write becomes visible, whichever way it reaches a memtable. A
/// filter that is missing, damaged or not yet built answers *maybe*, and the engine is read.
///
/// Dropping the database stops maintenance and saves the summary filters. A process that is killed
/// loses only time: the next open reads the keys of the SSTs written since the last save.
///
/// # As a replacement for `rocksdb::DB`
///
/// Share it by reference or in an [`Arc`], like a `DB` in `rocksdb`'s `MultiThreaded` mode. Its
/// methods have the names and arguments of `DB`'s. The differences:
///
/// - Opening also takes [`SieveOptions`]. Its error is an [`OpenError`](super::OpenError), whose
///   variant `Engine` holds RocksDB's error. Column families are pairs of a name and options
///   ([`SieveDb::open_cf_with_opts`]), because a `ColumnFamilyDescriptor` hides its options.
///   [`SieveDb::latest_options`] returns the pairs that the database was last opened with. With
///   names alone ([`Builder::cfs`]), column families get the database's options, not the
///   defaults.
/// - Iterators are over [`Engine`]. A [`Snapshot`] is over the database, and its own reads check
///   the filters.
/// - Checkpoints, backups and memory usage have methods here ([`SieveDb::checkpoint`],
///   [`SieveDb::create_new_backup_flush`], [`SieveDb::add_to_memory_usage`]).
/// - Transactions are those of an `OptimisticTransactionDB` or a `TransactionDB`, without another
///   database type ([`SieveDb::transaction`]). They cannot be combined with timestamps or a time to
///   live.
/// - [`SieveDb::with_engine_untracked`] gives access to everything that has no method here.
pub struct SieveDb {
    /// Declared before `engine`, which it keeps open.
    transactions: Option<Transactions>,
    engine: Arc<Engine>,
    /// The same, as maintenance and audits use it.
    filter_engine: Arc<dyn FilterEngine>,
    default: Arc<CfFilter>,
    cf_filters: Arc<CfFilters>,
    registry: Arc<Registry>,
    filter_store: Arc<FilterStore>,
    trust: Arc<Trust>,
    scrubs: Arc<ScrubLog>,
    wakeup: Arc<Wakeup>,
    hasher: KeyHasher,
    options: SieveOptions,
    front: FrontOptions,
    maintenance: Option<JoinHandle<()>>,
    /// Held while a column family is created or dropped: its filters are created and dropped with
    /// it.
    cfs: Mutex<()>,
}

impl SieveDb {
    /// The counters of the filters of all column families.
    pub fn stats(&self) -> Stats {
        let stats = self
            .cf_filters
            .all()
            .into_iter()
            .map(|cf_filter| cf_filter.stats());
        stats.fold(Stats::default(), |sum, stats| sum + stats)
    }

    /// The counters of one column family's filters; `None` if it has none.
    pub fn stats_cf(&self, cf: &impl AsColumnFamilyRef) -> Option<Stats> {
        let cf_filter = self.cf_filters.get(hooks::cf_id(cf))?;
        Some(cf_filter.stats())
    }

    /// Verifies the checksums of all filters in memory. A filter that has changed since it was
    /// built is dropped and rebuilt. Waits until maintenance has finished its current run, then
    /// returns what this scrub read and found.
    ///
    /// # Errors
    /// If the rest of the maintenance run failed.
    pub fn scrub(&self) -> Result<Scrubbed, MaintenanceError> {
        let before = self.scrubbed();
        let ticket = self.wakeup.call(|requests| requests.scrub = true);
        let failure = self.wakeup.wait_for(ticket, LONG);
        match failure {
            None => Ok(self.scrubbed() - before),
            Some(reason) => Err(MaintenanceError::Failed(reason)),
        }
    }

    /// What all scrubs since the open have read and found.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubs.so_far()
    }

    /// The false negative that ended the trust in the filters, if there was one: an audit found a
    /// key that a filter had answered absent. From then on every lookup goes to the engine. Opening
    /// the database again rebuilds all filters with another seed. Read-only filters are trusted
    /// again instead, until their folder is removed.
    pub fn false_negative(&self) -> Option<FalseNegative> {
        self.trust.lost().cloned()
    }

    /// Waits at most `limit` until maintenance has gone through all SSTs once; returns whether it
    /// has. By then the existing sidecars are loaded, and the keys of missing filters are read, if
    /// they could be.
    #[must_use = "false if it took longer"]
    pub fn wait_for_maintenance(&self, limit: Duration) -> bool {
        let ticket = self.wakeup.call(|requests| requests.retry = true);
        self.wakeup.is_answered(ticket, limit)
    }

    /// [`SieveDb::wait_for_maintenance`] that calls `go_on` several times a second and stops
    /// waiting when it returns false.
    #[must_use = "false if it took longer or was stopped"]
    pub fn wait_for_maintenance_while(
        &self,
        limit: Duration,
        mut go_on: impl FnMut() -> bool,
    ) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let ticket = self.wakeup.call(|requests| requests.retry = true);
        while !self.wakeup.is_answered(ticket, PATIENCE) {
            if Instant::now() >= deadline || !go_on() {
                return false;
            }
        }
        true
    }

    /// Waits at most `limit` until the summary filters cover every SST; returns whether they do. It
    /// does not wait for SSTs that will not be covered: those without an id
    /// ([`CfHealth::without_id`](crate::CfHealth::without_id)), and all if the filters are
    /// read-only and take no keys.
    #[must_use = "false if some SSTs are not covered"]
    pub fn wait_until_complete(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let mut asked = false;
        loop {
            let passes = self.wakeup.passes();
            let cf_filters = self.cf_filters.all();
            if cf_filters
                .iter()
                .all(|cf_filter| cf_filter.is_complete_by_construction())
            {
                return true;
            }
            if self.cf_filters.any_is_disabled() {
                return false;
            }
            if cf_filters.iter().any(|cf_filter| cf_filter.is_disabled()) {
                // Its column family was dropped after the listing.
                continue;
            }
            let none_is_read = self.front.read_only_filters && !self.front.is_secondary();
            let is_final = |cf_filter: &Arc<CfFilter>| {
                cf_filter.is_complete_by_construction() || cf_filter.stays_uncovered(none_is_read)
            };
            let mut all_are_final = cf_filters.iter().all(is_final);
            fault!(WaitsForSstsWithoutId, all_are_final = false);
            if all_are_final {
                return false;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            // A failed task is retried at once, and then after its backoff.
            if !std::mem::replace(&mut asked, true) {
                self.wakeup.call(|requests| requests.retry = true);
            }
            self.wakeup.wait_past(passes, left);
        }
    }

    /// Rebuilds the summary filter of each column family at the right size, and the segment filters
    /// that have another rate. Blocks until done, however long it takes to read all keys. Reads and
    /// writes continue; memtables are flushed. If the memory budget has no room for a summary
    /// filter of that size, the old one stays.
    ///
    /// # Errors
    /// If it could not be finished, for example because a flush would wait for compactions that do
    /// not end. The filters stay as they were and remain correct; maintenance tries again later.
    pub fn consolidate(&self) -> Result<(), MaintenanceError> {
        self.refuse_consolidation()?;
        let ticket = self.wakeup.call(|requests| requests.consolidate = true);
        self.wakeup
            .wait_for(ticket, LONG)
            .map_or(Ok(()), |reason| Err(MaintenanceError::Failed(reason)))
    }

    fn refuse_consolidation(&self) -> Result<(), MaintenanceError> {
        if self.front.read_only_filters {
            Err(MaintenanceError::ReadOnly)
        } else if self.trust.lost().is_some() {
            Err(MaintenanceError::FalseNegative)
        } else if self.cf_filters.any_is_disabled() {
            Err(MaintenanceError::HookFailed)
        } else {
            Ok(())
        }
    }

    /// Changes the size of all filters, as [`SieveOptions::filter_size`] sets it; segment filters
    /// follow even if their size was set. They are rebuilt in the background from the keys of the
    /// existing SSTs; no SST is rewritten. [`SieveDb::consolidate`] waits for it.
    pub fn set_filter_size(&self, size: FilterSize) {
        let is_static = self.front.static_filters;
        self.cf_filters
            .set_summary_rate(size.summary_rate(is_static));
        let segments = size.segment_part().segment_rate(is_static);
        for cf_filter in self.cf_filters.all() {
            let rate = cf_filter.segment_rate().map(|_| segments);
            cf_filter.set_segment_rate(rate);
        }
        fault!(NoWakeAfterSetRate, return);
        self.wakeup.call(|requests| requests.consolidate = true);
    }

    /// The settings with the current rates, which may have changed since the open.
    fn settings(&self) -> FrontOptions {
        FrontOptions {
            summary_rate: self.cf_filters.summary_rate(),
            segment_rate: self.default.segment_rate(),
            ..self.front.clone()
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The size of a segment filter for this number of keys.
    pub(crate) fn segment_size(&self, keys: Items, rate: Rate) -> Bits {
        self.front.segment_size(keys, rate)
    }

    pub(crate) fn budget(&self) -> Option<Bits> {
        self.front.memory_budget
    }

    /// Memory available to a filter that now takes `own`, which is counted as available.
    pub(crate) fn room(&self, own: Bits) -> Bits {
        room(&self.front, &self.cf_filters, &self.registry, own)
    }

    pub(crate) fn cf_filters(&self) -> &CfFilters {
        &self.cf_filters
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn filter_store(&self) -> &FilterStore {
        &self.filter_store
    }

    #[cfg(test)]
    pub(crate) fn shared_cf_filters(&self) -> Arc<CfFilters> {
        Arc::clone(&self.cf_filters)
    }

    #[cfg(test)]
    pub(crate) fn shared_registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    #[cfg(test)]
    pub(crate) fn shared_wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.wakeup)
    }
}

impl Drop for SieveDb {
    fn drop(&mut self) {
        self.wakeup.call(|requests| requests.stop = true);
        fault!(
            ClosesBesideMaintenance,
            self.engine.cancel_all_background_work(false)
        );
        // Maintenance ends first: its flush must not run beside the engine's own flush at the close.
        if let Some(maintenance) = self.maintenance.take()
            && maintenance.join().is_err()
        {
            tracing::error!("maintenance ended in a panic; filters are rebuilt at the next open");
        }
        // A block cache that outlives the database may keep readers of our filters and pass them on
        // to the next filters of these SSTs, which could neither verify nor drop them.
        self.cf_filters
            .all()
            .iter()
            .for_each(|cf_filter| cf_filter.retire());
        self.registry.distrust();
    }
}

const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<SieveDb>();
};

impl std::fmt::Debug for SieveDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SieveDb")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rocksdb::{DB, Options};

    use super::*;
    use crate::rocks::tests::blocked_flush::BlockedFlush;

    /// Closing the engine lets a flush of maintenance fail; with `atomic_flush` the engine's own
    /// flush would run beside it.
    #[test]
    fn engine_does_not_close_while_maintenance_flushes() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let held = BlockedFlush::flushes_of(&mut options);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        let held = held;
        assert!(db.wait_until_complete(LONG));
        BlockedFlush::write(&db);
        db.set_filter_size(FilterSize::ONE_PERCENT);
        held.wait();
        thread::scope(|scope| {
            let closing = scope.spawn(|| drop(db));
            // Time for what must not happen meanwhile.
            thread::sleep(Duration::from_millis(200));
            held.release_flush();
            closing.join().unwrap();
        });
        let tables = DB::open_for_read_only(&options, home.path(), false);
        let tables = tables.unwrap().live_files().unwrap();
        assert_eq!(tables.len(), 1, "the flush came to its end");
    }
}

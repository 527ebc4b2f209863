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
use std::time::Duration;

use rocksdb::AsColumnFamilyRef;

use crate::fault::fault;
use crate::front::audit::FalseNegative;
use crate::front::cf_filter::CfFilter;
use crate::front::cf_filters::CfFilters;
use crate::front::filter_store::FilterStore;
use crate::front::filters::{Filters, MaintenanceError};
use crate::front::maintenance::scrub::Scrubbed;
use crate::front::options::{FilterSize, FrontOptions};
#[cfg(test)]
use crate::front::wakeup::Wakeup;
use crate::math::{Bits, Items, Rate};
use crate::rocks::binding::Engine;
use crate::rocks::hooks;
use crate::rocks::options::SieveOptions;
use crate::segment::Registry;
use crate::stats::Stats;

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
    filters: Filters,
    /// Those of the default column family.
    default: Arc<CfFilter>,
    options: SieveOptions,
    /// Held while a column family is created or dropped: its filters are created and dropped with
    /// it.
    cfs: Mutex<()>,
}

impl SieveDb {
    /// The counters of the filters of all column families.
    pub fn stats(&self) -> Stats {
        self.filters.stats()
    }

    /// The counters of one column family's filters; `None` if it has none.
    pub fn stats_cf(&self, cf: &impl AsColumnFamilyRef) -> Option<Stats> {
        let cf_filter = self.filters.cf_filters.get(hooks::cf_id(cf))?;
        Some(cf_filter.stats())
    }

    /// Verifies the checksums of all filters in memory. A filter that has changed since it was
    /// built is dropped and rebuilt. Waits until maintenance has finished its current run, then
    /// returns what this scrub read and found.
    ///
    /// # Errors
    /// If the rest of the maintenance run failed.
    pub fn scrub(&self) -> Result<Scrubbed, MaintenanceError> {
        self.filters.scrub()
    }

    /// What all scrubs since the open have read and found.
    pub fn scrubbed(&self) -> Scrubbed {
        self.filters.scrubbed()
    }

    /// The false negative that ended the trust in the filters, if there was one: an audit found a
    /// key that a filter had answered absent. From then on every lookup goes to the engine. Opening
    /// the database again rebuilds all filters with another seed. Read-only filters are trusted
    /// again instead, until their folder is removed.
    pub fn false_negative(&self) -> Option<FalseNegative> {
        self.filters.false_negative().cloned()
    }

    /// Waits at most `limit` until maintenance has gone through all SSTs once; returns whether it
    /// has. By then the existing sidecars are loaded, and the keys of missing filters are read, if
    /// they could be.
    #[must_use = "false if it took longer"]
    pub fn wait_for_maintenance(&self, limit: Duration) -> bool {
        self.filters.wait_for_maintenance(limit, || true)
    }

    /// [`SieveDb::wait_for_maintenance`] that calls `go_on` several times a second and stops
    /// waiting when it returns false.
    #[must_use = "false if it took longer or was stopped"]
    pub fn wait_for_maintenance_while(&self, limit: Duration, go_on: impl FnMut() -> bool) -> bool {
        self.filters.wait_for_maintenance(limit, go_on)
    }

    /// Waits at most `limit` until the summary filters cover every SST; returns whether they do. It
    /// does not wait for SSTs that will not be covered: those without an id
    /// ([`CfHealth::without_id`](crate::CfHealth::without_id)), and all if the filters are
    /// read-only and take no keys.
    #[must_use = "false if some SSTs are not covered"]
    pub fn wait_until_complete(&self, limit: Duration) -> bool {
        self.filters.wait_until_complete(limit)
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
        self.filters.consolidate()
    }

    /// Changes the size of all filters, as [`SieveOptions::filter_size`] sets it; segment filters
    /// follow even if their size was set. They are rebuilt in the background from the keys of the
    /// existing SSTs; no SST is rewritten. [`SieveDb::consolidate`] waits for it.
    pub fn set_filter_size(&self, size: FilterSize) {
        self.filters.set_filter_size(size);
    }

    /// The settings with the current rates, which may have changed since the open.
    fn settings(&self) -> FrontOptions {
        FrontOptions {
            summary_rate: self.filters.cf_filters.summary_rate(),
            segment_rate: self.default.segment_rate(),
            ..self.filters.options.clone()
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The size of a segment filter for this number of keys.
    pub(crate) fn segment_size(&self, keys: Items, rate: Rate) -> Bits {
        self.filters.options.segment_size(keys, rate)
    }

    pub(crate) fn budget(&self) -> Option<Bits> {
        self.filters.options.memory_budget
    }

    /// Memory available to a filter that now takes `own`, which is counted as available.
    pub(crate) fn room(&self, own: Bits) -> Bits {
        self.filters.room(own)
    }

    pub(crate) fn cf_filters(&self) -> &CfFilters {
        &self.filters.cf_filters
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.filters.registry
    }

    pub(crate) fn filter_store(&self) -> &FilterStore {
        &self.filters.filter_store
    }

    #[cfg(test)]
    pub(crate) fn shared_cf_filters(&self) -> Arc<CfFilters> {
        Arc::clone(&self.filters.cf_filters)
    }

    #[cfg(test)]
    pub(crate) fn shared_registry(&self) -> Arc<Registry> {
        Arc::clone(&self.filters.registry)
    }

    #[cfg(test)]
    pub(crate) fn shared_wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.filters.wakeup)
    }
}

impl Drop for SieveDb {
    fn drop(&mut self) {
        fault!(
            ClosesBesideMaintenance,
            self.engine.cancel_all_background_work(false)
        );
        // Maintenance ends first: its flush must not run beside the engine's own flush at the close.
        self.filters.stop_maintenance();
        // A block cache that outlives the database may keep readers of our filters and pass them on
        // to the next filters of these SSTs, which could neither verify nor drop them.
        self.filters.retire();
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
    use crate::front::wakeup::LONG;
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

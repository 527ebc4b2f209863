//! A RocksDB with filters behind its handle.

mod access;
mod builder;
mod cf_reader;
mod engine;
mod latest;
mod open;
mod prefixes;
pub(crate) mod reads;
mod transaction;

pub use builder::Builder;
pub use cf_reader::CfReader;
use transaction::Transactions;
pub use transaction::{Transaction, TransactionSettings};

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use rocksdb::{
    AsColumnFamilyRef, DBWithThreadMode, MultiThreaded, ReadOptions, SnapshotWithThreadMode,
    ThreadMode,
};

use crate::binding::Engine;
use crate::hooks;
use crate::hooks::sieve::Sieve;
use crate::math::Bits;
use lsm_sieve_front::audit::FalseNegative;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::filters::MaintenanceError;
use lsm_sieve_front::maintenance::scrub::Scrubbed;
use lsm_sieve_front::options::FilterSize;
#[cfg(test)]
use lsm_sieve_front::segment::Registry;
use lsm_sieve_front::stats::Stats;
#[cfg(test)]
use lsm_sieve_front::wakeup::Wakeup;

/// A RocksDB with filters that answer most misses before the engine is entered.
///
/// It dereferences to `rocksdb`'s own database, and has all its methods. The filters are behind the
/// C handle of that database: each of its reads asks them first, also those of its snapshots, of
/// code that knows only `rocksdb`, or of a caller of the C API. The reads that this type has itself
/// are the same, and faster: their first probe is compiled into the caller.
///
/// A key is in the filters before its write becomes visible, whichever way it reaches a memtable. A
/// filter that is missing, damaged or not yet built answers *maybe*, and the engine is read.
///
/// Dropping the database stops maintenance and saves the summary filters. A process that is killed
/// loses only time: the next open reads the keys of the SSTs written since the last save.
///
/// # In the place of `rocksdb::DB`
///
/// Change the open, and nothing else:
///
/// ```no_run
/// use lsm_sieve::SieveDb;
/// use rocksdb::{DB, SingleThreaded};
///
/// fn program(db: &DB) -> Result<Option<Vec<u8>>, rocksdb::Error> {
///     db.get(b"ada") // asks the filters first
/// }
///
/// let db: SieveDb<SingleThreaded> = SieveDb::builder("/tmp/users").open_as()?;
/// program(&db)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// `T` is `rocksdb`'s thread mode. `rocksdb::DB` is single-threaded, unless `rocksdb`'s feature
/// `multi-threaded-cf` is on; [`SieveDb::open`] opens a multi-threaded database. What differs from
/// `rocksdb`:
///
/// - Opening also takes [`SieveOptions`](super::SieveOptions). Its error is an
///   [`OpenError`](super::OpenError), whose variant `Engine` holds RocksDB's error. Column families
///   are pairs of a name and options ([`SieveDb::open_cf_with_opts`]), because a
///   `ColumnFamilyDescriptor` hides its options. [`SieveDb::latest_options`] returns the pairs that
///   the database was last opened with. With names alone ([`Builder::cfs`]), column families get
///   the database's options, not the defaults.
/// - A column family with options that filters do not support cannot be created.
/// - Transactions are those of an `OptimisticTransactionDB` or a `TransactionDB`, without another
///   database type ([`SieveDb::transaction`]). RocksDB's own transactions would read from the
///   engine past its handle. They cannot be combined with timestamps, with a time to live, or with
///   the single-threaded mode.
/// - An instance that is opened for reading refuses what would change the database.
pub struct SieveDb<T: ThreadMode = MultiThreaded> {
    /// Declared before `engine`, which it keeps open.
    transactions: Option<Transactions>,
    /// The filters are behind its handle. Closing it ends them.
    engine: Arc<DBWithThreadMode<T>>,
    /// The engine's.
    handle: hooks::Handle,
    /// Those of the default column family.
    default: Arc<CfFilter>,
    sieve: Arc<Sieve>,
    /// The options of reads that are given none: `rocksdb` would make new ones for each.
    plain: ReadOptions,
}

/// A [snapshot](rocksdb::DBCommon::snapshot) of a [`SieveDb`]. Its reads ask the filters.
pub type Snapshot<'db> = SnapshotWithThreadMode<'db, Engine>;

impl<T: ThreadMode> Deref for SieveDb<T> {
    type Target = DBWithThreadMode<T>;

    fn deref(&self) -> &Self::Target {
        &self.engine
    }
}

impl<T: ThreadMode> SieveDb<T> {
    /// The counters of the filters of all column families.
    pub fn stats(&self) -> Stats {
        self.sieve.filters.stats()
    }

    /// The counters of one column family's filters; `None` if it has none.
    pub fn stats_cf(&self, cf: &impl AsColumnFamilyRef) -> Option<Stats> {
        let cf_filter = self.sieve.filters.cf_filters.get(hooks::cf_id(cf))?;
        Some(cf_filter.stats())
    }

    /// Verifies the checksums of all filters in memory. A filter that has changed since it was
    /// built is dropped and rebuilt. Waits until maintenance has finished its current run, then
    /// returns what this scrub read and found.
    ///
    /// # Errors
    /// If the rest of the maintenance run failed. [`SieveDb::scrubbed`] has what was read and found.
    pub fn scrub(&self) -> Result<Scrubbed, MaintenanceError> {
        self.sieve.filters.scrub()
    }

    /// What all scrubs since the open have read and found.
    pub fn scrubbed(&self) -> Scrubbed {
        self.sieve.filters.scrubbed()
    }

    /// The false negative that ended the trust in the filters, if there was one: an audit found a
    /// key that a filter had answered absent. From then on every lookup goes to the engine. Opening
    /// the database again rebuilds all filters with another seed. Read-only filters are trusted
    /// again instead, until their folder is removed.
    pub fn false_negative(&self) -> Option<FalseNegative> {
        self.sieve.filters.false_negative().cloned()
    }

    /// Waits at most `limit` until maintenance has gone through all SSTs once; returns whether it
    /// has. By then the existing sidecars are loaded, and the keys of missing filters are read, if
    /// they could be.
    #[must_use = "false if it took longer"]
    pub fn wait_for_maintenance(&self, limit: Duration) -> bool {
        self.sieve.filters.wait_for_maintenance(limit, || true)
    }

    /// [`SieveDb::wait_for_maintenance`] that calls `go_on` several times a second and stops
    /// waiting when it returns false.
    #[must_use = "false if it took longer or was stopped"]
    pub fn wait_for_maintenance_while(&self, limit: Duration, go_on: impl FnMut() -> bool) -> bool {
        self.sieve.filters.wait_for_maintenance(limit, go_on)
    }

    /// Waits at most `limit` until the summary filters cover every SST; returns whether they do. It
    /// does not wait for SSTs that will not be covered: those without an id
    /// ([`CfHealth::without_id`](crate::CfHealth::without_id)), and all if the filters are
    /// read-only and take no keys.
    #[must_use = "false if some SSTs are not covered"]
    pub fn wait_until_complete(&self, limit: Duration) -> bool {
        self.sieve.filters.wait_until_complete(limit)
    }

    /// Rebuilds the summary filter of each column family at the right size, and the segment filters
    /// that have another rate. Blocks until done, however long it takes to read all keys. Reads and
    /// writes continue, and nothing is flushed. If the memory budget has no room for a summary
    /// filter of that size, the old one stays.
    ///
    /// # Errors
    /// If it could not be finished, for example because an SST cannot be read. The filters stay as
    /// they were and remain correct; maintenance tries again later.
    pub fn consolidate(&self) -> Result<(), MaintenanceError> {
        self.sieve.filters.consolidate()
    }

    /// Changes the size of all filters, as [`SieveOptions::filter_size`] sets it; segment filters
    /// follow even if their size was set. They are rebuilt in the background from the keys of the
    /// existing SSTs; no SST is rewritten. [`SieveDb::consolidate`] waits for it.
    ///
    /// [`SieveOptions::filter_size`]: super::SieveOptions::filter_size
    pub fn set_filter_size(&self, size: FilterSize) {
        self.sieve.filters.set_filter_size(size);
    }

    /// Changes the memory budget that [`SieveOptions::memory_budget`] sets; `None` removes it. What
    /// exceeds a smaller one is dropped at once. A summary filter that no longer fits is built anew
    /// with fewer bits per key, and with more when there is room again.
    ///
    /// [`SieveOptions::memory_budget`]: super::SieveOptions::memory_budget
    pub fn set_memory_budget(&self, budget: Option<Bits>) {
        self.sieve.filters.set_memory_budget(budget);
    }

    pub(crate) fn sieve(&self) -> &Sieve {
        &self.sieve
    }

    pub(crate) fn cf_filters(&self) -> &CfFilters {
        &self.sieve.filters.cf_filters
    }

    #[cfg(test)]
    pub(crate) fn shared_cf_filters(&self) -> Arc<CfFilters> {
        Arc::clone(&self.sieve.filters.cf_filters)
    }

    #[cfg(test)]
    pub(crate) fn shared_registry(&self) -> Arc<Registry> {
        Arc::clone(&self.sieve.filters.registry)
    }

    #[cfg(test)]
    pub(crate) fn shared_wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.sieve.filters.wakeup)
    }
}

#[cfg(test)]
impl SieveDb {
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl<T: ThreadMode> Drop for SieveDb<T> {
    fn drop(&mut self) {
        // Closing the handle does this too. But somebody may hold the engine longer.
        self.sieve.stop();
    }
}

const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<SieveDb>();
    may_be_shared::<SieveDb<rocksdb::SingleThreaded>>();
};

impl<T: ThreadMode> std::fmt::Debug for SieveDb<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SieveDb")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

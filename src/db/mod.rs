//! A RocksDB with filters behind its handle.

mod access;
mod answers;
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

use rocksdb::{DBWithThreadMode, MultiThreaded, ReadOptions, SnapshotWithThreadMode, ThreadMode};

use crate::binding::RocksDb;
use crate::hooks;
use crate::hooks::sieve::Sieve;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filters::CfFilters;
#[cfg(test)]
use lsm_sieve_front::segment::Registry;
#[cfg(test)]
use lsm_sieve_front::wakeup::Wakeup;

/// A RocksDB with filters that answer most misses before the engine is entered.
///
/// It dereferences to `rocksdb`'s own database, and has all its methods. The filters are behind the
/// C handle of that database: each of its reads checks them first, also those of its snapshots, of
/// code that knows only `rocksdb`, or of a caller of the C API. The five reads that this type has
/// itself give the same answers sooner: their first probe is compiled into the caller.
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
///     db.get(b"ada") // checks the filters first
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
    /// Declared before `db`, which it keeps open.
    transactions: Option<Transactions>,
    /// The filters are behind its handle: each of its reads asks them, unless
    /// [`past_filters`](hooks::past_filters) is around it. Closing it ends them.
    db: Arc<DBWithThreadMode<T>>,
    /// That of `db`.
    handle: hooks::Handle,
    /// The filters of the default column family.
    default: Arc<CfFilter>,
    sieve: Arc<Sieve>,
    /// The options of reads that are given none: `rocksdb` would make new ones for each.
    plain: ReadOptions,
}

/// A [snapshot](rocksdb::DBCommon::snapshot) of a [`SieveDb`]. Its reads check the filters.
pub type Snapshot<'db> = SnapshotWithThreadMode<'db, RocksDb>;

impl<T: ThreadMode> Deref for SieveDb<T> {
    type Target = DBWithThreadMode<T>;

    fn deref(&self) -> &Self::Target {
        &self.db
    }
}

impl<T: ThreadMode> SieveDb<T> {
    /// The filters: their state, their maintenance, and what they alone say of a key.
    pub fn filters(&self) -> &Sieve {
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

impl<T: ThreadMode> Drop for SieveDb<T> {
    fn drop(&mut self) {
        // Closing the handle does this too. But another owner may hold the database longer.
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

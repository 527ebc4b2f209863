//! Transactions: RocksDB's optimistic ones, or those with locks. Their reads check the filters
//! first.
//!
//! A transaction keeps its writes to itself until it is committed, so no filter has them. A key
//! that it wrote is read from the transaction, whatever the filters say. The keys that it wrote or
//! read for update are watched. If somebody else writes one of them meanwhile, the commit of an
//! optimistic transaction fails; locks prevent such writes. Each key is watched before the filters
//! are checked:
//!
//! ```text
//!                  optimistic                                    with locks
//! get_for_update   watch from sequence number S                  wait for the lock
//!                  check the filters; absent                     check the filters; absent
//! commit           in its turn among the writers: was the        write; release the lock
//!                  key written after S? yes: Busy
//! ```
//!
//! *Invariant.* A write up to S is in the filters before S is visible; the commit finds a later
//! one.
//! A write is in the filters before its lock is released. With unordered writes S can be visible,
//! and locks released, before the memtable has the write, so there are no transactions.

mod iterators;
mod reads;

use std::sync::Arc;

use rocksdb::{
    AsColumnFamilyRef, Error, OptimisticTransactionOptions, SnapshotWithThreadMode,
    TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

use super::SieveDb;
use crate::binding::RocksDb;
use crate::hooks;
use crate::hooks::sieve::Sieve;
use crate::options::Isolation;

/// RocksDB's own transaction.
type Inner<'db> = rocksdb::Transaction<'db, RocksDb>;

/// Begins a database's transactions.
pub(super) enum Transactions {
    Optimistic(hooks::Optimism),
    Locking(hooks::Locks),
}

impl Transactions {
    /// On a database and its handle, behind which the filters must be.
    pub(super) fn on(
        db: &Arc<RocksDb>,
        handle: &hooks::Handle,
        isolation: &Isolation,
    ) -> Result<Self, Error> {
        Ok(match isolation {
            Isolation::Optimistic => Self::Optimistic(hooks::Optimism::on(db, handle)),
            Isolation::Locks(options) => Self::Locking(hooks::Locks::on(db, handle, options)?),
        })
    }
}

/// Options of a transaction, of the kind that the database was opened for.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub enum TransactionSettings<'o> {
    /// The defaults of that kind.
    #[default]
    Default,
    /// For an optimistic transaction.
    Optimistic(&'o OptimisticTransactionOptions),
    /// For a transaction with locks.
    Locking(&'o TransactionOptions),
}

impl<'o> From<&'o OptimisticTransactionOptions> for TransactionSettings<'o> {
    fn from(options: &'o OptimisticTransactionOptions) -> Self {
        Self::Optimistic(options)
    }
}

impl<'o> From<&'o TransactionOptions> for TransactionSettings<'o> {
    fn from(options: &'o TransactionOptions) -> Self {
        Self::Locking(options)
    }
}

/// A transaction of a [`SieveDb`]. A commit writes all its writes atomically; dropping it discards
/// them.
///
/// It replaces [`rocksdb::Transaction`], and its methods have the same names and arguments. Its
/// reads check the filters for keys that the transaction did not write itself, and so do those of
/// its [snapshot](Transaction::snapshot).
///
/// A commit, or a lock, finds conflicts with single keys that were put, merged or deleted. It does
/// not find deleted ranges, nor files that were ingested or removed.
///
/// With [locks](crate::Isolation::Locks) each write and each read for update
/// waits for its key. A wait that takes too long ends with an error of the kind `TimedOut`. So does
/// a deadlock, unless deadlock detection is on (`TransactionOptions::set_deadlock_detect`); then
/// the error is of the kind `Busy`. A transaction with `set_snapshot` also gets `Busy` if the key
/// was written since the snapshot. The transaction's earlier operations stay valid.
///
/// There is no two-phase commit. RocksDB 11.8.1 forgets the name of a transaction that was prepared
/// and dropped, and at the next open it commits what was first written under that name. Nor is
/// there `rebuild_from_writebatch`, which looks up column families beside the writers; keys may
/// then end up in the wrong one.
///
/// ```no_run
/// # use lsm_sieve::{Isolation, SieveDb, SieveOptions};
/// let filters = SieveOptions::default().transactions(Isolation::Optimistic);
/// let db = SieveDb::builder("/tmp/users").filters(&filters).open()?;
/// let transaction = db.transaction()?;
/// if transaction.get_for_update(b"ada", true)?.is_none() {
///     transaction.put(b"ada", b"1815")?;
/// }
/// transaction.commit()?; // `Busy` if somebody else wrote the key meanwhile
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transaction<'db> {
    pub(super) engine: Inner<'db>,
    sieve: &'db Sieve,
}

impl SieveDb {
    /// Begins a transaction, like `transaction` of `rocksdb`'s `OptimisticTransactionDB` and
    /// `TransactionDB`.
    ///
    /// # Errors
    /// If the database was opened without
    /// [`SieveOptions::transactions`](crate::SieveOptions::transactions): there is no transaction
    /// then.
    pub fn transaction(&self) -> Result<Transaction<'_>, Error> {
        self.transaction_opt(&WriteOptions::default(), TransactionSettings::Default)
    }

    /// [`SieveDb::transaction`] with options for its commit and for the transaction itself:
    /// `OptimisticTransactionOptions`, or `TransactionOptions` with locks.
    ///
    /// # Errors
    /// Like [`SieveDb::transaction`], and if the options are of the other kind.
    pub fn transaction_opt<'o>(
        &self,
        writing: &WriteOptions,
        options: impl Into<TransactionSettings<'o>>,
    ) -> Result<Transaction<'_>, Error> {
        use TransactionSettings::{Default, Locking, Optimistic};
        let Some(transactions) = &self.transactions else {
            return refused("open the database with `SieveOptions::transactions`");
        };
        let engine = match (transactions, options.into()) {
            (Transactions::Optimistic(begins), Default) => begins.begin(writing, &<_>::default()),
            (Transactions::Optimistic(begins), Optimistic(options)) => {
                begins.begin(writing, options)
            }
            (Transactions::Optimistic(_), Locking(_)) => {
                return refused("`TransactionOptions` are for `Isolation::Locks`");
            }
            (Transactions::Locking(begins), Default) => begins.begin(writing, &<_>::default()),
            (Transactions::Locking(begins), Locking(options)) => begins.begin(writing, options),
            (Transactions::Locking(_), Optimistic(_)) => {
                return refused("`OptimisticTransactionOptions` are for `Isolation::Optimistic`");
            }
        };
        let sieve = &self.sieve;
        Ok(Transaction { engine, sieve })
    }
}

fn refused<T>(what_to_do: &str) -> Result<T, Error> {
    Err(hooks::error_of(format!(
        "Invalid argument: no transaction: {what_to_do}"
    )))
}

impl<'db> Transaction<'db> {
    /// Commits the transaction atomically.
    ///
    /// # Errors
    /// Nothing is written if the error is of one of these kinds. `Busy`: somebody else wrote a key
    /// that this optimistic transaction wrote or read for update. `TryAgain`: the memtables no
    /// longer tell whether one did. `Expired`: this transaction with locks has outlived its
    /// expiration. Otherwise returns RocksDB's error, as for any write.
    pub fn commit(self) -> Result<(), Error> {
        self.sieve.refuse_if_reader()?;
        self.engine.commit()
    }

    /// Discards what the transaction wrote and watches. Its snapshot stays.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn rollback(&self) -> Result<(), Error> {
        self.engine.rollback()
    }

    /// Sets a savepoint after what the transaction has written so far. Savepoints nest.
    pub fn set_savepoint(&self) {
        self.engine.set_savepoint();
    }

    /// Discards what was written since the last [`Transaction::set_savepoint`], and that savepoint.
    ///
    /// # Errors
    /// Of the kind `NotFound`, if there is no savepoint.
    pub fn rollback_to_savepoint(&self) -> Result<(), Error> {
        self.engine.rollback_to_savepoint()
    }

    /// The snapshot from which conflicts are counted, if the transaction was
    /// [begun](SieveDb::transaction_opt) with `set_snapshot`. Otherwise each read sees the latest
    /// state.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Self> {
        SnapshotWithThreadMode::new(self)
    }

    /// A copy of what the transaction wrote.
    pub fn get_writebatch(&self) -> WriteBatchWithTransaction<true> {
        self.engine.get_writebatch()
    }

    /// Sets the value of a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.put(key, value)
    }

    /// [`Transaction::put`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.put_cf(cf, key, value)
    }

    /// Adds a merge operand to a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.merge(key, value)
    }

    /// [`Transaction::merge`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.merge_cf(cf, key, value)
    }

    /// Removes a key from the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.delete(key)
    }

    /// [`Transaction::delete`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.delete_cf(cf, key)
    }
}

const _: fn() = || {
    fn may_be_sent<T: Send>() {}
    may_be_sent::<Transaction<'_>>();
};

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").finish_non_exhaustive()
    }
}

//! Transactions: RocksDB's optimistic ones, or those with locks, whose reads ask the filters first.
//!
//! A transaction keeps its writes to itself until it is committed, so no filter has them: a key that it
//! wrote is read from the transaction, whatever the filters say. The keys that it wrote, or read for update,
//! are watched: an optimistic transaction's commit fails if somebody else wrote one of them meanwhile, and
//! locks let nobody else write one. A key that the filters deny is watched before they are asked:
//!
//! ```text
//!                  optimistic                                    with locks
//! get_for_update   watch from sequence number S                  wait for the lock
//!                  ask the filters; absent                       ask the filters; absent
//! commit           in its turn among the writers: was the        write; let the lock go
//!                  key written after S? yes: Busy
//! ```
//!
//! *Invariant.* A write up to S is in the filters before S can be seen; a later one is found by the commit.
//! A write is in the filters before its lock is let go. With unordered writes S can be seen, and locks let go,
//! before the memtable has what was written, so there are no transactions.

mod iterators;
mod reads;

use std::sync::Arc;

use rocksdb::{
    AsColumnFamilyRef, Error, OptimisticTransactionOptions, SnapshotWithThreadMode,
    TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

use super::SieveDb;
use crate::rocks::options::Isolation;
use crate::rocks::{Engine, ffi};

/// RocksDB's own.
type Inner<'db> = rocksdb::Transaction<'db, Engine>;

/// What begins a database's transactions.
pub(super) enum Transactions {
    Optimistic(ffi::Optimism),
    Locking(ffi::Locks),
}

impl Transactions {
    /// Of an engine with these column families, as far as they are there, and no others.
    pub(super) fn on<'n>(
        engine: &Arc<Engine>,
        isolation: &Isolation,
        families: impl Iterator<Item = &'n str>,
    ) -> Result<Self, Error> {
        Ok(match isolation {
            Isolation::Optimistic => Self::Optimistic(ffi::Optimism::on(engine)),
            Isolation::Locks(options) => {
                let families = families.filter_map(|name| engine.cf_handle(name));
                Self::Locking(ffi::Locks::on(engine, options, families)?)
            }
        })
    }
}

/// Options of a transaction, of the kind that the database was opened for.
#[derive(Clone, Copy, Default)]
#[non_exhaustive]
pub enum TransactionSettings<'o> {
    /// The defaults of whichever kind that is.
    #[default]
    Default,
    /// Of an optimistic transaction.
    Optimistic(&'o OptimisticTransactionOptions),
    /// Of one with locks.
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

/// A transaction of a [`SieveDb`]: what it writes is in the database as a whole once it is committed, or
/// not at all; dropped, it leaves nothing behind.
///
/// It takes the place of [`rocksdb::Transaction`], and its methods have the same names and arguments. Reads
/// ask the filters for what the transaction did not write itself, and so do its
/// [snapshot](Transaction::snapshot)'s.
///
/// A commit, or a lock, finds what was put, merged or deleted key by key. It does not hear of ranges that
/// were deleted, nor of files that were ingested or removed.
///
/// With [locks](crate::SieveOptions::locking_transactions) each write, and each read for update, waits for its
/// key. Where it waited too long, it ends with an error of the kind `TimedOut`: so do two that wait for one
/// another, unless one was told to look for that (`TransactionOptions::set_deadlock_detect`), whose error is of the
/// kind `Busy`. So is that of a transaction with `set_snapshot`, where somebody wrote the key since. What it did
/// before stands.
///
/// There are no transactions in two phases: RocksDB 11.8.1 forgets the name of one that was prepared and
/// dropped, and commits at the next open what was written under that name first. Nor is there
/// `rebuild_from_writebatch`, which looks families up beside the writers, whose keys may then land in the wrong one.
///
/// ```no_run
/// # use lsm_sieve::{SieveDb, SieveOptions};
/// # let options = rocksdb::Options::default();
/// let db = SieveDb::open(&options, &SieveOptions::default().transactions(true), "/tmp/users")?;
/// let transaction = db.transaction();
/// if transaction.get_for_update(b"ada", true)?.is_none() {
///     transaction.put(b"ada", b"1815")?;
/// }
/// transaction.commit()?; // `Busy` where somebody else made her meanwhile
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Transaction<'db> {
    pub(super) engine: Inner<'db>,
    db: &'db SieveDb,
}

impl SieveDb {
    /// Begins a transaction, as `OptimisticTransactionDB` and `TransactionDB` of `rocksdb` do.
    ///
    /// # Panics
    /// When the database was opened without
    /// [`SieveOptions::transactions`](crate::SieveOptions::transactions) or
    /// [`SieveOptions::locking_transactions`](crate::SieveOptions::locking_transactions).
    pub fn transaction(&self) -> Transaction<'_> {
        self.transaction_opt(&WriteOptions::default(), TransactionSettings::Default)
    }

    /// [`SieveDb::transaction`] with options for its commit, and its own: `OptimisticTransactionOptions`, or
    /// `TransactionOptions` of one with locks.
    ///
    /// # Panics
    /// As [`SieveDb::transaction`], and where the options are of the other kind.
    pub fn transaction_opt<'o>(
        &self,
        writing: &WriteOptions,
        options: impl Into<TransactionSettings<'o>>,
    ) -> Transaction<'_> {
        use TransactionSettings::{Default, Locking, Optimistic};
        let transactions = self.transactions.as_ref().expect(
            "opened with `SieveOptions::transactions(true)` or `SieveOptions::locking_transactions`",
        );
        let engine = match (transactions, options.into()) {
            (Transactions::Optimistic(begins), Default) => begins.begin(writing, &<_>::default()),
            (Transactions::Optimistic(begins), Optimistic(options)) => {
                begins.begin(writing, options)
            }
            (Transactions::Optimistic(_), Locking(_)) => {
                panic!("`TransactionOptions` are for `SieveOptions::locking_transactions`")
            }
            (Transactions::Locking(begins), Default) => begins.begin(writing, &<_>::default()),
            (Transactions::Locking(begins), Locking(options)) => begins.begin(writing, options),
            (Transactions::Locking(_), Optimistic(_)) => {
                panic!("`OptimisticTransactionOptions` are for `SieveOptions::transactions(true)`")
            }
        };
        Transaction { engine, db: self }
    }

    /// To be called after the engine may have made a family.
    pub(super) fn extend_locks(&self) {
        if let Some(locks) = self.locks() {
            locks.extend();
        }
    }

    pub(super) fn locks(&self) -> Option<&ffi::Locks> {
        match &self.transactions {
            Some(Transactions::Locking(locks)) => Some(locks),
            _ => None,
        }
    }
}

impl<'db> Transaction<'db> {
    /// Writes what the transaction wrote, as a whole.
    ///
    /// # Errors
    /// Of the kind `Busy`, where somebody else wrote a key that an optimistic one wrote or read for update; of the
    /// kind `TryAgain`, where that cannot be known any more; of the kind `Expired`, where one with locks was told
    /// to last no longer: nothing is written then. Or what RocksDB says, as of any write.
    pub fn commit(self) -> Result<(), Error> {
        self.db.refuse_if_reader()?;
        self.engine.commit()
    }

    /// Forgets what the transaction wrote and watches, save for its snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn rollback(&self) -> Result<(), Error> {
        self.engine.rollback()
    }

    /// Marks what the transaction has written so far; marks may be many.
    pub fn set_savepoint(&self) {
        self.engine.set_savepoint();
    }

    /// Forgets what was written since the last [`Transaction::set_savepoint`], and that mark.
    ///
    /// # Errors
    /// Of the kind `NotFound`, without a mark.
    pub fn rollback_to_savepoint(&self) -> Result<(), Error> {
        self.engine.rollback_to_savepoint()
    }

    /// The moment from which conflicts are counted, if the transaction was
    /// [begun](SieveDb::transaction_opt) with `set_snapshot`; otherwise now, whenever it is read.
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
    /// What RocksDB says.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.put(key, value)
    }

    /// [`Transaction::put`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
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
    /// What RocksDB says.
    pub fn merge(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.merge(key, value)
    }

    /// [`Transaction::merge`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
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
    /// What RocksDB says.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.delete(key)
    }

    /// [`Transaction::delete`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
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
        f.debug_struct("Transaction")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

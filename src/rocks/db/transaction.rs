//! Transactions: RocksDB's optimistic ones, whose reads ask the filters first.
//!
//! A transaction keeps its writes to itself until it is committed, so no filter has them: a key that it
//! wrote is read from the transaction, whatever the filters say. The keys that it wrote, or read for update,
//! are watched; its commit fails if somebody else wrote one of them meanwhile. A key that the filters
//! deny is watched before they are asked:
//!
//! ```text
//! get_for_update   watch from sequence number S; ask the filters; absent
//! commit           in its turn among the writers: was the key written after S? yes: Busy
//! ```
//!
//! *Invariant.* A write up to S is in the filters before S can be seen; a later one is found by the commit.
//! With unordered writes S can be seen before the memtable has what was written up to it, so there are no
//! transactions.

mod iterators;
mod reads;

use rocksdb::{
    AsColumnFamilyRef, Error, OptimisticTransactionOptions, SnapshotWithThreadMode,
    WriteBatchWithTransaction, WriteOptions,
};

use super::SieveDb;
use crate::rocks::Engine;

/// RocksDB's own.
type Inner<'db> = rocksdb::Transaction<'db, Engine>;

/// A transaction of a [`SieveDb`]: what it writes is in the database as a whole once it is committed, or
/// not at all; dropped, it leaves nothing behind.
///
/// It takes the place of [`rocksdb::Transaction`], and its methods have the same names and arguments. Reads
/// ask the filters for what the transaction did not write itself, and so do its
/// [snapshot](Transaction::snapshot)'s.
///
/// The commit finds what was put, merged or deleted key by key since. It does not hear of ranges that were
/// deleted, nor of files that were ingested or removed.
///
/// There are no transactions in two phases, and no `rebuild_from_writebatch`: RocksDB 11.8.1 looks families
/// up for it beside the writers, whose keys may then land in the wrong one.
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
    /// Begins a transaction, as `OptimisticTransactionDB` of `rocksdb` does.
    ///
    /// # Panics
    /// When the database was opened without
    /// [`SieveOptions::transactions`](crate::SieveOptions::transactions).
    pub fn transaction(&self) -> Transaction<'_> {
        self.transaction_opt(&WriteOptions::default(), &<_>::default())
    }

    /// [`SieveDb::transaction`] with options for its commit, and its own.
    ///
    /// # Panics
    /// As [`SieveDb::transaction`].
    pub fn transaction_opt(
        &self,
        writing: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction<'_> {
        let transactions = self.transactions.as_ref();
        let transactions = transactions.expect("opened with `SieveOptions::transactions(true)`");
        Transaction {
            engine: transactions.begin(writing, options),
            db: self,
        }
    }
}

impl<'db> Transaction<'db> {
    /// Writes what the transaction wrote, as a whole.
    ///
    /// # Errors
    /// Of the kind `Busy`, where somebody else wrote a key that it wrote or read for update; of the kind
    /// `TryAgain`, where that cannot be known any more: nothing is written then. Or what RocksDB says, as of any
    /// write.
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

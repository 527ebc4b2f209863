//! Transactions: RocksDB's optimistic ones, which read past the filters only what these do not rule out.
//!
//! A transaction keeps its writes to itself until it is committed, so no filter has them: a key that it
//! wrote is read from the transaction, whatever the filters say. The keys that it wrote, or read for update,
//! are watched; its commit fails if somebody else wrote one of them meanwhile. A key that the filters
//! deny is watched before they are asked:
//!
//! ```text
//! get_for_update   watch from sequence number S; ask the filters; absent
//! commit           was the key written after S? yes: Busy
//! ```
//!
//! *Invariant.* A write up to S is in the filters before S can be seen; a later one is found by the commit.

use std::ops::Deref;

use rocksdb::{
    AsColumnFamilyRef, DBPinnableSlice, Error, OptimisticTransactionOptions, ReadOptions,
    WriteOptions,
};

use super::SieveDb;
use super::reads::{Values, read, read_many};
use crate::rocks::Engine;
use crate::rocks::ffi::{self, Transactions};

/// A transaction of a [`SieveDb`]: what it writes is in the database as a whole once it is committed, or
/// not at all; dropped, it leaves nothing behind.
///
/// It is [`rocksdb::Transaction`], with the same methods, but for its reads, which ask the filters first.
/// Writes, iterators, save points and `rollback` are that type's own, to which this one can be borrowed.
/// A [snapshot](rocksdb::Transaction::snapshot)'s own reads pass the filters by; give it to
/// [`Transaction::get_opt`].
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
    engine: rocksdb::Transaction<'db, Engine>,
    db: &'db SieveDb,
}

impl SieveDb {
    /// Begins a transaction, as `OptimisticTransactionDB` of `rocksdb` does.
    ///
    /// Conflicts are looked for in memtables, those that were flushed among them if
    /// [`SieveOptions::transactions`](crate::SieveOptions::transactions) says so. As in RocksDB, keys of
    /// transactions that are committed at the same time wait for each other, and other writes do not wait: one
    /// that comes just between the look for conflicts and the commit is overwritten by it.
    pub fn transaction(&self) -> Transaction<'_> {
        self.transaction_opt(&WriteOptions::default(), &<_>::default())
    }

    /// [`SieveDb::transaction`] with options for its commit, and its own.
    pub fn transaction_opt(
        &self,
        writing: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> Transaction<'_> {
        let transactions = self
            .transactions
            .get_or_init(|| Transactions::on(&self.engine));
        Transaction {
            engine: transactions.begin(writing, options),
            db: self,
        }
    }
}

impl Transaction<'_> {
    /// Writes what the transaction wrote, as a whole.
    ///
    /// # Errors
    /// Of the kind `Busy`, where somebody else wrote a key that it wrote or read for update; of the kind
    /// `TryAgain`, where that cannot be known any more; or what RocksDB says. Nothing is written then.
    pub fn commit(self) -> Result<(), Error> {
        self.db.refuse_if_reader()?;
        self.engine.commit()
    }

    /// The value of a key in the default column family, as the transaction would leave it.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get(key))
    }

    /// [`Transaction::get`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_opt(key, options))
    }

    /// [`Transaction::get`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf(cf, key))
    }

    /// [`Transaction::get_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf_opt(cf, key, options))
    }

    /// [`Transaction::get`] without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_pinned(key))
    }

    /// [`Transaction::get_pinned`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_pinned_opt(key, options))
    }

    /// [`Transaction::get_pinned`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_pinned_cf(cf, key))
    }

    /// [`Transaction::get_pinned_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_pinned_cf_opt(cf, key, options))
    }

    /// [`Transaction::get`] of a key that nobody else shall write until the commit, which fails otherwise,
    /// whether the key is there now or not. `exclusive` means nothing to optimistic transactions.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_for_update(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_for_update(key, exclusive, || {
            self.engine.get_for_update(key, exclusive)
        })
    }

    /// [`Transaction::get_for_update`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_for_update_opt(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_for_update(key, exclusive, || {
            self.engine.get_for_update_opt(key, exclusive, options)
        })
    }

    /// [`Transaction::get_for_update`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_for_update_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf_for_update(cf, key, exclusive, || {
            self.engine.get_for_update_cf(cf, key, exclusive)
        })
    }

    /// [`Transaction::get_for_update_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_for_update_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf_for_update(cf, key, exclusive, || {
            self.engine
                .get_for_update_cf_opt(cf, key, exclusive, options)
        })
    }

    /// [`Transaction::get_for_update`] without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_for_update(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_for_update(key, exclusive, || {
            self.engine.get_pinned_for_update(key, exclusive)
        })
    }

    /// [`Transaction::get_pinned_for_update`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_for_update_opt(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_for_update(key, exclusive, || {
            self.engine
                .get_pinned_for_update_opt(key, exclusive, options)
        })
    }

    /// [`Transaction::get_pinned_for_update`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_for_update_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf_for_update(cf, key, exclusive, || {
            self.engine.get_pinned_for_update_cf(cf, key, exclusive)
        })
    }

    /// [`Transaction::get_pinned_for_update_cf`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_for_update_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf_for_update(cf, key, exclusive, || {
            self.engine
                .get_pinned_for_update_cf_opt(cf, key, exclusive, options)
        })
    }

    /// The values of several keys of the default column family, in their order and as of one moment. If the
    /// transaction wrote one of them, the filters are not asked.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Values<Vec<u8>> {
        self.multi_get_opt(keys, &ReadOptions::default())
    }

    /// [`Transaction::multi_get`] with read options, which may carry a snapshot.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let mut written = keys.iter().map(AsRef::as_ref);
        if written.any(|key| ffi::has_written(&self.engine, None, key)) {
            return self.engine.multi_get_opt(keys, options);
        }
        let ask = |left: &[&[u8]]| self.engine.multi_get_opt(left, options);
        read_many(&self.db.default, &keys, ask)
    }

    /// [`Transaction::multi_get`] of keys each of its column family.
    pub fn multi_get_cf<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
    ) -> Values<Vec<u8>> {
        self.multi_get_cf_opt(keys, &ReadOptions::default())
    }

    /// [`Transaction::multi_get_cf`] with read options, which may carry a snapshot.
    pub fn multi_get_cf_opt<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<(&W, K)> = keys.into_iter().collect();
        let mut written = keys.iter();
        if written.any(|(cf, key)| ffi::has_written(&self.engine, Some(*cf), key.as_ref())) {
            return self.engine.multi_get_cf_opt(keys, options);
        }
        self.db.read_many_of(&keys, |left| {
            let left = left.iter().map(|&at| (keys[at].0, keys[at].1.as_ref()));
            self.engine.multi_get_cf_opt(left, options)
        })
    }

    /// Asks the filters of the default column family, unless the transaction wrote the key, then RocksDB.
    fn read<V>(
        &self,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if ffi::has_written(&self.engine, None, key) {
            return ask();
        }
        read(&self.db.default, key, ask)
    }

    fn read_cf<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if ffi::has_written(&self.engine, Some(cf), key) {
            return ask();
        }
        self.db.read_cf(cf, key, ask)
    }

    /// Watches the key before the filters are asked; where it cannot, RocksDB does it with its own answer.
    fn read_for_update<V>(
        &self,
        key: &[u8],
        exclusive: bool,
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if !ffi::watch(&self.engine, None, key, exclusive) {
            return ask();
        }
        self.read(key, ask)
    }

    fn read_cf_for_update<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        exclusive: bool,
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if !ffi::watch(&self.engine, Some(cf), key, exclusive) {
            return ask();
        }
        self.read_cf(cf, key, ask)
    }
}

impl<'db> Deref for Transaction<'db> {
    type Target = rocksdb::Transaction<'db, Engine>;

    fn deref(&self) -> &Self::Target {
        &self.engine
    }
}

impl std::fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("db", &self.db)
            .finish_non_exhaustive()
    }
}

//! A transaction's reads: its own writes first, then the filters, then the engine.

use rocksdb::{AsColumnFamilyRef, DBPinnableSlice, Error, ReadOptions};

use super::Transaction;
use crate::db::reads::{Values, read_many_of};
use crate::fault::fault;
use crate::hooks::{self, past_filters};
use crate::reach::reached;
use lsm_sieve_front::cf_filter::lookup;
use lsm_sieve_front::cf_filter::multi_lookup::multi_get;

impl Transaction<'_> {
    /// The value of a key in the default column family, including the transaction's own writes.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get(key))
    }

    /// [`Transaction::get`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// Returns RocksDB's error.
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
    /// Returns RocksDB's error.
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
    /// Returns RocksDB's error.
    pub fn get_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf_opt(cf, key, options))
    }

    /// [`Transaction::get`], pinned instead of copied.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_pinned(key))
    }

    /// [`Transaction::get_pinned`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// Returns RocksDB's error.
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
    /// Returns RocksDB's error.
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
    /// Returns RocksDB's error.
    pub fn get_pinned_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_pinned_cf_opt(cf, key, options))
    }

    /// [`Transaction::get`] of a key that nobody else may write until the commit, whether it exists
    /// or not. If somebody does, an optimistic transaction's commit fails; with locks nobody can.
    /// Locks that are not `exclusive` are shared by several transactions; optimistic transactions
    /// ignore `exclusive`.
    ///
    /// # Errors
    /// Of the kind `TimedOut` or `Busy`, if the key could not be locked. Otherwise returns
    /// RocksDB's error.
    pub fn get_for_update(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.watch(None, key.as_ref(), exclusive)?;
        self.get(key)
    }

    /// [`Transaction::get_opt`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_for_update_opt(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.watch(None, key.as_ref(), exclusive)?;
        self.get_opt(key, options)
    }

    /// [`Transaction::get_cf`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_for_update_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.watch(Some(cf), key.as_ref(), exclusive)?;
        self.get_cf(cf, key)
    }

    /// [`Transaction::get_cf_opt`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_for_update_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.watch(Some(cf), key.as_ref(), exclusive)?;
        self.get_cf_opt(cf, key, options)
    }

    /// [`Transaction::get_pinned`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned_for_update(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.watch(None, key.as_ref(), exclusive)?;
        self.get_pinned(key)
    }

    /// [`Transaction::get_pinned_opt`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned_for_update_opt(
        &self,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.watch(None, key.as_ref(), exclusive)?;
        self.get_pinned_opt(key, options)
    }

    /// [`Transaction::get_pinned_cf`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned_for_update_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.watch(Some(cf), key.as_ref(), exclusive)?;
        self.get_pinned_cf(cf, key)
    }

    /// [`Transaction::get_pinned_cf_opt`] for update, like [`Transaction::get_for_update`].
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned_for_update_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        exclusive: bool,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.watch(Some(cf), key.as_ref(), exclusive)?;
        self.get_pinned_cf_opt(cf, key, options)
    }

    /// The values of several keys of the default column family, in their order. If the transaction
    /// wrote one of them, the filters are not checked. Only with a snapshot in
    /// [`Transaction::multi_get_opt`] are they from one consistent state of the database.
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
        if written.any(|key| self.has_written(None, key)) {
            return self.engine.multi_get_opt(keys, options);
        }
        let ask = |left: &[&[u8]]| past_filters(|| self.engine.multi_get_opt(left, options));
        multi_get(&self.sieve.default, &keys, ask)
    }

    /// [`Transaction::multi_get`] with keys of several column families.
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
        if written.any(|(cf, key)| self.has_written(Some(*cf), key.as_ref())) {
            return self.engine.multi_get_cf_opt(keys, options);
        }
        read_many_of(&self.sieve.filters.cf_filters, &keys, |left| {
            let left = left.iter().map(|&at| (keys[at].0, keys[at].1.as_ref()));
            past_filters(|| self.engine.multi_get_cf_opt(left, options))
        })
    }

    /// Checks the filters of the default column family, unless the transaction wrote the key, then
    /// reads RocksDB.
    fn read<V>(
        &self,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if self.has_written(None, key) {
            return ask();
        }
        lookup::get(&*self.sieve.default, key, || past_filters(ask))
    }

    fn read_cf<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        if self.has_written(Some(cf), key) {
            return ask();
        }
        let filters = (&*self.sieve.filters.cf_filters, hooks::cf_id(cf));
        lookup::get(filters, key, || past_filters(ask))
    }

    fn has_written(&self, cf: Option<&dyn AsColumnFamilyRef>, key: &[u8]) -> bool {
        let has_written = hooks::has_written(&self.engine, cf, key);
        reached!(OwnWriteRead, has_written);
        reached!(OthersKeyRead, !has_written);
        has_written
    }

    /// Watches or locks the key, so that a write by somebody else is noticed. Call it before the
    /// filters are checked.
    fn watch(
        &self,
        cf: Option<&dyn AsColumnFamilyRef>,
        key: &[u8],
        exclusive: bool,
    ) -> Result<(), Error> {
        fault!(
            DefaultCfWatched,
            return hooks::watch(&self.engine, None, key, exclusive)
        );
        fault!(
            ExclusiveIgnored,
            return hooks::watch(&self.engine, cf, key, true)
        );
        hooks::watch(&self.engine, cf, key, exclusive)
    }
}

//! Lookups: the filters first, then the engine.

use rocksdb::{AsColumnFamilyRef, DBPinnableSlice, Error, ReadOptions, ThreadMode};

use super::SieveDb;
use crate::hooks::{self, past_filters};
use lsm_sieve_front::cf_filter::lookup;
use lsm_sieve_front::cf_filter::multi_lookup::{self, multi_get};
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::view::Answer;

/// The values of several keys, in their order.
pub(super) type Values<V> = Vec<Result<Option<V>, Error>>;

impl<T: ThreadMode> SieveDb<T> {
    /// The value of a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.get_opt(key, &self.plain)
    }

    /// [`SieveDb::get`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_opt(key, options))
    }

    /// The value of a key in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_cf_opt(cf, key, &self.plain)
    }

    /// [`SieveDb::get_cf`] with read options, which may carry a snapshot.
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

    /// The value of a key in the default column family, pinned instead of copied.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_opt(key, &self.plain)
    }

    /// [`SieveDb::get_pinned`] with read options, which may carry a snapshot.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get_pinned_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read(key, || self.engine.get_pinned_opt(key, options))
    }

    /// The value of a key in a column family, pinned instead of copied.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_pinned_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_cf_opt(cf, key, &self.plain)
    }

    /// [`SieveDb::get_pinned_cf`] with read options, which may carry a snapshot.
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
        let ask = || self.engine.get_pinned_cf_opt(cf, key, options);
        self.read_cf(cf, key, ask)
    }

    /// The values of several keys of the default column family, in their order and from one
    /// consistent state of the database. The engine is read once, for the keys that passed the
    /// filters; or again for all keys, if some were written meanwhile.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Values<Vec<u8>> {
        self.multi_get_opt(keys, &self.plain)
    }

    /// [`SieveDb::multi_get`] with read options, which may carry a snapshot.
    pub fn multi_get_opt<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<K> = keys.into_iter().collect();
        multi_get(&self.default, &keys, |left| {
            // What a batch sets up costs more than it saves for one key.
            past_filters(|| match left {
                [one] => vec![self.engine.get_opt(one, options)],
                left => self.engine.multi_get_opt(left, options),
            })
        })
    }

    /// The values of several keys, each of its own column family, in their order and from one
    /// consistent state of the database.
    pub fn multi_get_cf<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
    ) -> Values<Vec<u8>> {
        self.multi_get_cf_opt(keys, &self.plain)
    }

    /// [`SieveDb::multi_get_cf`] with read options, which may carry a snapshot.
    pub fn multi_get_cf_opt<'b, W: AsColumnFamilyRef + 'b, K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = (&'b W, K)>,
        options: &ReadOptions,
    ) -> Values<Vec<u8>> {
        let keys: Vec<(&W, K)> = keys.into_iter().collect();
        read_many_of(self.cf_filters(), &keys, |left| {
            let left = left.iter().map(|&at| (keys[at].0, keys[at].1.as_ref()));
            past_filters(|| self.engine.multi_get_cf_opt(left, options))
        })
    }

    /// The values of several keys of one column family, pinned instead of copied, in their order
    /// and from one consistent state of the database. `sorted_input` says that the keys are in the
    /// column family's order.
    pub fn batched_multi_get_cf<'k, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        sorted_input: bool,
    ) -> Values<DBPinnableSlice<'_>> {
        self.batched_multi_get_cf_opt(cf, keys, sorted_input, &self.plain)
    }

    /// [`SieveDb::batched_multi_get_cf`] with read options, which may carry a snapshot.
    pub fn batched_multi_get_cf_opt<'k, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        sorted_input: bool,
        options: &ReadOptions,
    ) -> Values<DBPinnableSlice<'_>> {
        self.read_many_cf(cf, keys, |left| {
            past_filters(|| match left {
                // As in `multi_get_opt`.
                [one] => vec![self.engine.get_pinned_cf_opt(cf, one, options)],
                left => {
                    let left = left.iter().copied();
                    self.engine
                        .batched_multi_get_cf_opt(cf, left, sorted_input, options)
                }
            })
        })
    }

    /// What the filters alone say of a key of the default column family. The engine is read only
    /// for an audit ([`SieveOptions::audit`](crate::SieveOptions::audit)), and
    /// [`Stats`](crate::Stats) count only absent keys.
    pub fn filter_answer(&self, key: impl AsRef<[u8]>) -> Answer {
        lookup::answer(&*self.default, key.as_ref())
    }

    /// [`SieveDb::filter_answer`] for a key of another column family.
    pub fn filter_answer_cf(&self, cf: &impl AsColumnFamilyRef, key: impl AsRef<[u8]>) -> Answer {
        lookup::answer(self.filters_of(cf), key.as_ref())
    }

    /// The value of a key of the default column family, read from the engine without the filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_unfiltered(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        past_filters(|| self.engine.get_opt(key, &self.plain))
    }

    /// The value of a key of a column family, read from the engine without the filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_unfiltered_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        past_filters(|| self.engine.get_cf_opt(cf, key, &self.plain))
    }

    /// The filters of a column family.
    pub(super) fn filters_of(&self, cf: &impl AsColumnFamilyRef) -> (&CfFilters, u32) {
        (self.cf_filters(), hooks::cf_id(cf))
    }

    /// The value of a key of the default column family. `engine` reads it by the handle, which must
    /// not ask the filters again.
    #[inline]
    fn read<V>(
        &self,
        key: &[u8],
        engine: impl FnOnce() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        lookup::get(&*self.default, key, || past_filters(engine))
    }

    fn read_cf<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        engine: impl FnOnce() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        lookup::get(self.filters_of(cf), key, || past_filters(engine))
    }

    fn read_many_cf<'k, V, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        ask: impl Fn(&[&[u8]]) -> Values<V>,
    ) -> Values<V> {
        let keys: Vec<&[u8]> = keys.into_iter().map(AsRef::as_ref).collect();
        match self.cf_filters().get(hooks::cf_id(cf)) {
            Some(cf_filter) => multi_get(&cf_filter, &keys, ask),
            None => ask(&keys),
        }
    }
}

/// The values of keys of several column families; `engine` reads those at the indexes that it is
/// given.
pub(crate) fn read_many_of<V, W: AsColumnFamilyRef, K: AsRef<[u8]>>(
    cf_filters: &CfFilters,
    keys: &[(&W, K)],
    engine: impl Fn(&[usize]) -> Values<V>,
) -> Values<V> {
    let with_filters = keys.iter().map(|(cf, key)| {
        let filters = cf_filters.get(hooks::cf_id(*cf));
        (filters, key.as_ref())
    });
    let with_filters: Vec<_> = with_filters.collect();
    multi_lookup::multi_get_cf(&with_filters, engine)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Hits in a row change what is probed, and not the answers.
    #[test]
    fn a_key_is_denied_after_many_that_were_let_by() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::builder(home.path()).open().unwrap();
        db.put("key", "value").unwrap();
        assert!(db.wait_for_maintenance(Duration::from_secs(60)));
        let cf_filter = db.cf_filters().all().remove(0);
        assert!(cf_filter.is_complete());
        for passed in 0..6 {
            assert!((0..passed).all(|_| db.get("key").unwrap().is_some()));
            assert!((0..3).all(|_| db.get("absent").unwrap().is_none()));
        }
        assert_eq!((db.stats().found, db.stats().absent), (15, 18));
        // Of a view that knows nothing, the same.
        cf_filter.external_writes_happened();
        assert!((0..6).all(|_| db.get("key").unwrap().is_some()));
    }
}

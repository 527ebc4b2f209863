//! Lookups: the filters first, then the engine.
//!
//! All other reads are those of `rocksdb`, whose handle checks the filters too. They cost some 30
//! ns more, half of it for `ReadOptions` that `rocksdb` allocates.

use rocksdb::{AsColumnFamilyRef, DBPinnableSlice, Error, ReadOptions, ThreadMode};

use super::SieveDb;
use crate::hooks::{self, past_filters};
use lsm_sieve_front::cf_filter::{lookup, multi_lookup};
use lsm_sieve_front::cf_filters::CfFilters;

/// The values of several keys, in their order.
pub(super) type Values<V> = Vec<Result<Option<V>, Error>>;

impl<T: ThreadMode> SieveDb<T> {
    /// The value of a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        let read = || self.db.get_opt(key, &self.plain);
        lookup::get(&*self.default, key, || past_filters(read))
    }

    /// The value of a key in the default column family, pinned instead of copied.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    #[inline]
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        let read = || self.db.get_pinned_opt(key, &self.plain);
        lookup::get(&*self.default, key, || past_filters(read))
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
        let key = key.as_ref();
        let read = || self.db.get_cf_opt(cf, key, &self.plain);
        lookup::get(self.sieve.filters_of(cf), key, || past_filters(read))
    }

    /// The value of a key in a column family, pinned instead of copied. The read options may carry a
    /// snapshot.
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
        let read = || self.db.get_pinned_cf_opt(cf, key, options);
        lookup::get(self.sieve.filters_of(cf), key, || past_filters(read))
    }

    /// The values of several keys of a column family, pinned instead of copied, in their order and
    /// as of one moment. `sorted_input` says that the keys are in the column family's order.
    ///
    /// # Errors
    /// Returns RocksDB's error, for each key that could not be read.
    pub fn batched_multi_get_cf<'k, K: AsRef<[u8]> + ?Sized + 'k>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = &'k K>,
        sorted_input: bool,
    ) -> Values<DBPinnableSlice<'_>> {
        let keys: Vec<&[u8]> = keys.into_iter().map(AsRef::as_ref).collect();
        let read = |left: &[&[u8]]| {
            let (left, options) = (left.iter().copied(), &self.plain);
            past_filters(|| {
                self.db
                    .batched_multi_get_cf_opt(cf, left, sorted_input, options)
            })
        };
        match self.cf_filters().get(hooks::cf_id(cf)) {
            Some(filters) => multi_lookup::multi_get(&filters, &keys, read),
            None => read(&keys),
        }
    }

    /// The value of a key of the default column family, read from the engine without the filters.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_unfiltered(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        past_filters(|| self.db.get_opt(key, &self.plain))
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
        past_filters(|| self.db.get_cf_opt(cf, key, &self.plain))
    }
}

/// The values of keys of several column families; `engine` reads those at the indexes that it is
/// given.
pub(crate) fn read_many_of<V, W: AsColumnFamilyRef, K: AsRef<[u8]>>(
    cf_filters: &CfFilters,
    keys: &[(&W, K)],
    engine: impl Fn(&[usize]) -> Values<V>,
) -> Values<V> {
    let cfs: Vec<u32> = keys.iter().map(|(cf, _)| hooks::cf_id(*cf)).collect();
    let names: Vec<&[u8]> = keys.iter().map(|(_, key)| key.as_ref()).collect();
    let filtered = cf_filters.multi_get(&cfs, &names, &engine);
    filtered.unwrap_or_else(|| engine(&(0..keys.len()).collect::<Vec<_>>()))
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
        assert!(db.filters().wait_for_maintenance(Duration::from_secs(60)));
        let cf_filter = db.cf_filters().all().remove(0);
        assert!(cf_filter.is_complete());
        for passed in 0..6 {
            assert!((0..passed).all(|_| db.get("key").unwrap().is_some()));
            assert!((0..3).all(|_| db.get("absent").unwrap().is_none()));
        }
        assert_eq!(
            (db.filters().stats().found, db.filters().stats().absent),
            (15, 18)
        );
        // The same with a view of unknown coverage.
        cf_filter.external_writes_happened();
        assert!((0..6).all(|_| db.get("key").unwrap().is_some()));
    }
}

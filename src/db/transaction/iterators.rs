//! Iterators of a transaction: RocksDB's own, over the database and the transaction's writes. They
//! do not check filters, because an iterator visits keys that exist.

use rocksdb::{
    AsColumnFamilyRef, DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, IteratorMode,
    ReadOptions,
};

use super::{Inner, Transaction};

impl<'db> Transaction<'db> {
    /// An iterator over the default column family.
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.iterator(mode)
    }

    /// [`Transaction::iterator`] with read options.
    pub fn iterator_opt(
        &self,
        mode: IteratorMode<'_>,
        options: ReadOptions,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.iterator_opt(mode, options)
    }

    /// An iterator over a column family.
    pub fn iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.iterator_cf(cf, mode)
    }

    /// [`Transaction::iterator_cf`] with read options.
    pub fn iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.iterator_cf_opt(cf, options, mode)
    }

    /// A total-order iterator over the default column family, whatever the prefix extractor.
    pub fn full_iterator(
        &self,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.full_iterator(mode)
    }

    /// [`Transaction::full_iterator`] over a column family.
    pub fn full_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.full_iterator_cf(cf, mode)
    }

    /// An iterator over the keys of the default column family with this prefix, as the prefix
    /// extractor defines it.
    pub fn prefix_iterator(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.prefix_iterator(prefix)
    }

    /// [`Transaction::prefix_iterator`] over a column family.
    pub fn prefix_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        prefix: impl AsRef<[u8]>,
    ) -> DBIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.prefix_iterator_cf(cf, prefix)
    }

    /// A raw iterator over the default column family.
    pub fn raw_iterator(&self) -> DBRawIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.raw_iterator()
    }

    /// [`Transaction::raw_iterator`] with read options.
    pub fn raw_iterator_opt(
        &self,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.raw_iterator_opt(options)
    }

    /// [`Transaction::raw_iterator`] over a column family.
    pub fn raw_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> DBRawIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.raw_iterator_cf(cf)
    }

    /// [`Transaction::raw_iterator_cf`] with read options.
    pub fn raw_iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, Inner<'db>> {
        self.engine.raw_iterator_cf_opt(cf, options)
    }
}

//! Iterators, which are the engine's own and check no filters, because they visit keys that exist;
//! and snapshots.

use rocksdb::{
    AsColumnFamilyRef, DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, IteratorMode,
    ReadOptions, SnapshotWithThreadMode,
};

use super::SieveDb;
use crate::rocks::binding::Engine;

/// A [snapshot](SieveDb::snapshot) of a [`SieveDb`].
pub type Snapshot<'db> = SnapshotWithThreadMode<'db, SieveDb>;

impl SieveDb {
    /// An iterator over the default column family.
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator(mode)
    }

    /// [`SieveDb::iterator`] with read options.
    pub fn iterator_opt(
        &self,
        mode: IteratorMode<'_>,
        options: ReadOptions,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator_opt(mode, options)
    }

    /// An iterator over a column family.
    pub fn iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator_cf(cf, mode)
    }

    /// [`SieveDb::iterator_cf`] with read options.
    pub fn iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator_cf_opt(cf, options, mode)
    }

    /// A total-order iterator over the default column family, whatever the prefix extractor.
    pub fn full_iterator(&self, mode: IteratorMode<'_>) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.full_iterator(mode)
    }

    /// [`SieveDb::full_iterator`] over a column family.
    pub fn full_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.full_iterator_cf(cf, mode)
    }

    /// An iterator over the default column family from the first key with this prefix on. With a
    /// prefix extractor it ends after the last such key; without one, at the end of the column
    /// family.
    pub fn prefix_iterator(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.prefix_iterator(prefix)
    }

    /// [`SieveDb::prefix_iterator`] over a column family.
    pub fn prefix_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        prefix: impl AsRef<[u8]>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.prefix_iterator_cf(cf, prefix)
    }

    /// A raw iterator over the default column family.
    pub fn raw_iterator(&self) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator()
    }

    /// [`SieveDb::raw_iterator`] with read options.
    pub fn raw_iterator_opt(
        &self,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator_opt(options)
    }

    /// A raw iterator over a column family.
    pub fn raw_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator_cf(cf)
    }

    /// [`SieveDb::raw_iterator_cf`] with read options.
    pub fn raw_iterator_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator_cf_opt(cf, options)
    }

    /// A snapshot: the database as it is now. Its lookups check the filters, and so do the
    /// database's with options that carry it ([`ReadOptions::set_snapshot`]).
    pub fn snapshot(&self) -> Snapshot<'_> {
        Snapshot::new(self)
    }
}

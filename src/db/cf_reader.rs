//! A column family that is looked up once and read often.
//!
//! Callers of [`SieveDb`](crate::SieveDb) look up a handle by name, behind a lock, and each call
//! finds the filters by the handle. A caller that keeps reading one column family holds this
//! instead. Not for users: the differential store of `lab` does.

use std::sync::Arc;

use rocksdb::{
    AsColumnFamilyRef, DBPinnableSlice, DBRawIteratorWithThreadMode, Error, ReadOptions,
};

use crate::binding::RocksDb;
use crate::hash::KeyHasher;
use crate::hooks::{self, CfHandle};
use crate::math::{Bits, Items};
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filter::lookup::{self, Verdict};

/// A column family, its database, which it keeps open, and its filters, if it has any.
pub struct CfReader {
    handle: CfHandle,
    cf_filter: Option<Arc<CfFilter>>,
}

impl CfReader {
    /// The column family with this name, without filters; `None` if there is no such column family.
    pub fn new(db: &Arc<RocksDb>, name: &str) -> Option<Self> {
        let handle = CfHandle::new(db, name)?;
        Some(Self {
            handle,
            cf_filter: None,
        })
    }

    /// The column family with its filters.
    pub fn behind(self, cf_filter: Arc<CfFilter>) -> Self {
        Self {
            cf_filter: Some(cf_filter),
            ..self
        }
    }

    /// The column family without its filters.
    pub fn without_filters(self) -> Self {
        Self {
            cf_filter: None,
            ..self
        }
    }

    /// The handle.
    pub fn handle(&self) -> &impl AsColumnFamilyRef {
        &self.handle
    }

    /// Begins to flush the memtables; waits for nothing.
    pub fn begin_flush(&self) -> Result<(), String> {
        hooks::begin_flush(&self.handle)
    }

    /// False only if the filters deny the key; never audited.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        match &self.cf_filter {
            Some(cf_filter) => matches!(lookup::check_all(&**cf_filter, key), Some(Verdict::Maybe)),
            None => true,
        }
    }

    /// False only if the filters deny the key; a sample is audited. Must not be called within a
    /// read of a published value.
    #[inline]
    pub fn may_contain_audited(&self, key: &[u8]) -> bool {
        match &self.cf_filter {
            Some(cf_filter) => !lookup::answer(&**cf_filter, key).is_absent(),
            None => true,
        }
    }

    /// Whether an audit finds no key that the filters deny.
    pub fn audit_negative(&self, key: &[u8]) -> bool {
        let cf_filter = self.cf_filter.as_ref();
        cf_filter.is_none_or(|cf_filter| cf_filter.audit_negative(key))
    }

    /// The indexes of the keys that pass the filters, ascending; a sample of the others is audited.
    pub fn candidate_indexes(&self, keys: &[&[u8]]) -> Vec<usize> {
        match &self.cf_filter {
            Some(cf_filter) => cf_filter.candidate_indexes(keys),
            None => (0..keys.len()).collect(),
        }
    }

    /// Whether the summary filter covers every SST.
    pub fn is_complete(&self) -> bool {
        self.cf_filter
            .as_ref()
            .is_some_and(|cf_filter| cf_filter.is_complete())
    }

    /// The hasher of the filters.
    pub fn hasher(&self) -> Option<KeyHasher> {
        self.cf_filter.as_ref().map(|cf_filter| cf_filter.hasher())
    }

    /// The keys of the summary filter, its size and its predicted false-positive rate. Without
    /// filters, it has no keys and every key passes.
    pub fn summary(&self) -> (Items, Bits, f64) {
        match &self.cf_filter {
            Some(cf_filter) => {
                let summary = cf_filter.view().summary;
                (summary.items(), summary.size(), summary.predicted_rate())
            }
            None => (Items::new(0), Bits::new(0), 1.0),
        }
    }

    /// The engine's value.
    pub fn fetch(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let db = self.handle.db();
        hooks::past_filters(|| db.get_pinned_cf_opt(&self.handle, key, options))
    }

    /// The engine's value of a key that passed the filters. Records whether it was a false
    /// positive.
    pub fn read(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let value = self.fetch(key, options)?;
        if let Some(cf_filter) = &self.cf_filter {
            cf_filter
                .lookups()
                .record(Verdict::Maybe, Some(value.is_some()));
        }
        Ok(value)
    }

    /// [`CfReader::read`] for several keys, in their order.
    pub fn read_many(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<DBPinnableSlice<'_>>, Error>> {
        const SORTED: bool = false;
        let db = self.handle.db();
        let keys = keys.iter().copied();
        let values = hooks::past_filters(|| {
            db.batched_multi_get_cf_opt(&self.handle, keys, SORTED, options)
        });
        if let Some(cf_filter) = &self.cf_filter {
            for value in values.iter().flatten() {
                cf_filter
                    .lookups()
                    .record(Verdict::Maybe, Some(value.is_some()));
            }
        }
        values
    }

    /// An iterator over the whole column family; it uses no filter of this crate.
    pub fn iterate(&self, mut options: ReadOptions) -> DBRawIteratorWithThreadMode<'_, RocksDb> {
        // With a prefix extractor of the user's, a search would end at the first prefix that
        // RocksDB's filters do not contain.
        options.set_total_order_seek(true);
        self.handle.db().raw_iterator_cf_opt(&self.handle, options)
    }

    /// An integer property of the column family; 0 if the engine has none.
    pub fn property(&self, name: &rocksdb::properties::PropName) -> Result<u64, Error> {
        let db = self.handle.db();
        Ok(db.property_int_value_cf(&self.handle, name)?.unwrap_or(0))
    }
}

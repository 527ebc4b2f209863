//! A column family that is looked up once and asked often.
//!
//! Callers of [`SieveDb`](super::SieveDb) look a handle up by name, behind a lock, and it finds the
//! front by the handle at every call. Whoever reads one family all day keeps this instead.

use std::sync::Arc;

use rocksdb::{
    AsColumnFamilyRef, DBPinnableSlice, DBRawIteratorWithThreadMode, Error, ReadOptions,
};

use super::Engine;
use super::audit::Asked;
use super::column::Column;
use super::ffi::{self, Handle};
use crate::hash::KeyHasher;
use crate::math::{Bits, Items};

/// A column family, its engine, which it keeps open, and its front, if it has one.
pub(crate) struct Family {
    handle: Handle,
    front: Option<Arc<Column>>,
}

impl Family {
    /// The family with this name, without a front; `None` when there is no such family.
    pub(crate) fn new(engine: &Arc<Engine>, name: &str) -> Option<Self> {
        let handle = Handle::new(engine, name)?;
        Some(Self {
            handle,
            front: None,
        })
    }

    /// The family behind its front.
    pub(crate) fn behind(self, front: Arc<Column>) -> Self {
        Self {
            front: Some(front),
            ..self
        }
    }

    /// The family, its front passed over.
    pub(crate) fn without_front(self) -> Self {
        Self {
            front: None,
            ..self
        }
    }

    pub(crate) fn handle(&self) -> &impl AsColumnFamilyRef {
        &self.handle
    }

    /// Has the memtables written to a table; waits for no compaction.
    pub(crate) fn flush_at_once(&self) -> Result<(), String> {
        ffi::flush(&self.handle)
    }

    /// False only when the front rules the key out; never audited.
    #[inline]
    pub(crate) fn may_contain(&self, key: &[u8]) -> bool {
        match &self.front {
            Some(front) => matches!(front.ask(key), Asked::Maybe),
            None => true,
        }
    }

    /// False only when the front rules the key out; one in so many is audited. Not for use within a
    /// read of a published value.
    #[inline]
    pub(crate) fn lets_by(&self, key: &[u8]) -> bool {
        match &self.front {
            Some(front) => !front.look_up(key).is_absent(),
            None => true,
        }
    }

    /// Whether an audit finds no key where the front rules it out.
    pub(crate) fn denial_stands(&self, key: &[u8]) -> bool {
        let front = self.front.as_ref();
        front.is_none_or(|front| front.denial_stands(key))
    }

    /// The indexes of the keys that the front does not rule out, ascending; some are audited.
    pub(crate) fn indexes_let_by(&self, keys: &[&[u8]]) -> Vec<usize> {
        match &self.front {
            Some(front) => front.ask_many(keys),
            None => (0..keys.len()).collect(),
        }
    }

    /// Whether the front speaks for every table.
    pub(crate) fn is_complete(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.is_complete())
    }

    /// The hasher of the front.
    pub(crate) fn hasher(&self) -> Option<KeyHasher> {
        self.front.as_ref().map(|front| front.hasher())
    }

    /// What the front's summary holds and takes, and the rate that it predicts; without a front,
    /// nothing is held and everything let by.
    pub(crate) fn summary(&self) -> (Items, Bits, f64) {
        match &self.front {
            Some(front) => {
                let summary = front.view().summary;
                (summary.items(), summary.size(), summary.predicted_rate())
            }
            None => (Items::new(0), Bits::new(0), 1.0),
        }
    }

    /// The engine's value.
    pub(crate) fn fetch(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let engine = self.handle.engine();
        engine.get_pinned_cf_opt(&self.handle, key, options)
    }

    /// The engine's value of a key that the front let by; the front learns whether that was right.
    pub(crate) fn read(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let value = self.fetch(key, options)?;
        if let Some(front) = &self.front {
            front.engine_answered(Asked::Maybe, value.is_some());
        }
        Ok(value)
    }

    /// [`Family::read`] for several keys, in their order.
    pub(crate) fn read_many(
        &self,
        keys: &[&[u8]],
        options: &ReadOptions,
    ) -> Vec<Result<Option<DBPinnableSlice<'_>>, Error>> {
        const SORTED: bool = false;
        let engine = self.handle.engine();
        let values =
            engine.batched_multi_get_cf_opt(&self.handle, keys.iter().copied(), SORTED, options);
        if let Some(front) = &self.front {
            for value in values.iter().flatten() {
                front.engine_answered(Asked::Maybe, value.is_some());
            }
        }
        values
    }

    /// An iterator over the whole family; the front is not asked.
    pub(crate) fn iterate(
        &self,
        mut options: ReadOptions,
    ) -> DBRawIteratorWithThreadMode<'_, Engine> {
        // A prefix extractor of the user's would end a search at the first prefix that it rules out.
        options.set_total_order_seek(true);
        self.handle
            .engine()
            .raw_iterator_cf_opt(&self.handle, options)
    }

    /// One of the engine's numbers about the family; 0 when it has none.
    pub(crate) fn property(&self, name: &rocksdb::properties::PropName) -> Result<u64, Error> {
        let engine = self.handle.engine();
        Ok(engine
            .property_int_value_cf(&self.handle, name)?
            .unwrap_or(0))
    }
}

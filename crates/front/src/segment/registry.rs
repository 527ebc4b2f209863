//! The segments of a database, by id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Segment, SegmentId};
use crate::hash::KeyHasher;
use crate::math::Bits;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, unpoisoned};

/// All segments that are being read or built, or whose filters are kept.
#[derive(Debug)]
pub struct Registry {
    hasher: KeyHasher,
    segments: Mutex<HashMap<SegmentId, Arc<Segment>>>,
    trusted: Arc<AtomicBool>,
}

impl Registry {
    /// An empty registry. All its segments use the same hasher.
    pub fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher,
            segments: Mutex::default(),
            trusted: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The segment with this id. If it was unknown, it is added without a filter.
    pub fn open(&self, id: SegmentId) -> Arc<Segment> {
        let mut segments = self.lock();
        let segment = segments
            .entry(id)
            .or_insert_with(|| Arc::new(Segment::unknown(self.hasher, &self.trusted)));
        Arc::clone(segment)
    }

    /// The segment with this id, if it is known.
    pub fn get(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.lock().get(&id).cloned()
    }

    /// The ids of all known segments.
    pub fn ids(&self) -> HashSet<SegmentId> {
        self.lock().keys().copied().collect()
    }

    /// Number of known segments.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Removes the segments that are not in use and for which `keep` is false.
    pub(crate) fn retain(&self, keep: impl Fn(SegmentId) -> bool) {
        // RocksDB's reader of an SST may hold the segment. A second object with the same id would
        // not get its later filters.
        self.lock()
            .retain(|&id, segment| keep(id) || Arc::strong_count(segment) > 1);
    }

    /// Drops all filters, and all that are built later. Every key may then be in every segment.
    pub(crate) fn distrust(&self) {
        self.trusted.store(false, Ordering::SeqCst);
        let segments = self.all();
        segments.iter().for_each(|segment| segment.drop_filter());
    }

    /// Bits of all resident filters.
    pub fn size(&self) -> Bits {
        let filters = self
            .lock()
            .values()
            .filter_map(|segment| segment.filter())
            .collect::<Vec<_>>();
        filters.iter().map(|filter| filter.chain.size()).sum()
    }

    fn all(&self) -> Vec<Arc<Segment>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SegmentId, Arc<Segment>>> {
        unpoisoned(self.segments.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Source;
    use crate::hash::{HashId, Seed};
    use crate::math::Rate;
    use crate::segment::{SealedFilter, SegmentBuilder};

    /// Another object with its id would get its later filters, and the reader would not.
    #[test]
    fn segment_that_a_reader_holds_stays() {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
        let registry = Registry::new(hasher);
        let [held, unheld] = [1, 2].map(|number| SegmentId::from_bytes([number; 16]));
        let reader = registry.open(held);
        drop(registry.open(unheld));
        registry.retain(|_| false);
        assert_eq!(registry.ids(), HashSet::from([held]));
        assert!(Arc::ptr_eq(&reader, &registry.open(held)));
        drop(reader);
        registry.retain(|_| false);
        assert_eq!(registry.count(), 0);
    }

    /// A segment that was being written when an audit found a false negative is finished after it.
    #[test]
    fn filter_set_after_distrust_is_dropped() {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
        let registry = Registry::new(hasher);
        let filter_of = |id| -> SealedFilter {
            let mut builder = SegmentBuilder::new(id, hasher, Rate::ONE_PERCENT);
            builder.add(b"key");
            builder.seal(1, Source::TableCapture).unwrap()
        };
        let [known, new] = [1, 2].map(|number| SegmentId::from_bytes([number; 16]));
        registry.open(known).set_filter(filter_of(known), false);
        assert!(registry.open(known).filter().is_some());
        registry.distrust();
        for id in [known, new] {
            let segment = registry.open(id);
            segment.set_filter(filter_of(id), false);
            assert!(segment.filter().is_none(), "{id}");
            assert!(segment.may_contain(b"another key", None));
        }
    }
}

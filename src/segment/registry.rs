//! The segments that a database's filters speak for, by identity.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Segment, SegmentId};
use crate::hash::KeyHasher;
use crate::math::Bits;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard, unpoisoned};

/// All segments that somebody reads, builds or keeps.
#[derive(Debug)]
pub struct Registry {
    hasher: KeyHasher,
    segments: Mutex<HashMap<SegmentId, Arc<Segment>>>,
    trusted: Arc<AtomicBool>,
}

impl Registry {
    /// An empty registry; all its segments share one hasher.
    pub fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher,
            segments: Mutex::default(),
            trusted: Arc::new(AtomicBool::new(true)),
        }
    }

    /// The segment with this id; one without filter when it was not known.
    pub fn open(&self, id: SegmentId) -> Arc<Segment> {
        let mut segments = self.lock();
        let segment = segments
            .entry(id)
            .or_insert_with(|| Arc::new(Segment::unknown(id, self.hasher, &self.trusted)));
        Arc::clone(segment)
    }

    /// The segment with this id, if it is known.
    pub fn get(&self, id: SegmentId) -> Option<Arc<Segment>> {
        self.lock().get(&id).cloned()
    }

    /// All known segments.
    pub fn ids(&self) -> HashSet<SegmentId> {
        self.lock().keys().copied().collect()
    }

    /// How many segments are known.
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// Forgets the segments that nobody else holds and that `keep` does not want.
    pub fn retain(&self, keep: impl Fn(SegmentId) -> bool) {
        // A reader of RocksDB may hold a segment: a second object of the same id would miss its
        // later filters.
        self.lock()
            .retain(|&id, segment| keep(id) || Arc::strong_count(segment) > 1);
    }

    /// Drops all filters, and whatever filters are made from here on: every key may be anywhere.
    pub fn distrust(&self) {
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

    /// A table that was being written when an audit refuted a filter is finished after it.
    #[test]
    fn a_filter_that_comes_after_the_trust_is_lost_is_dropped() {
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
            assert!(segment.may_contain(b"another key"));
        }
    }
}

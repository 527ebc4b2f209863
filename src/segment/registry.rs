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
        let segments: Vec<_> = self.lock().values().cloned().collect();
        segments.iter().for_each(|segment| segment.drop_filter());
    }

    /// Bits of all resident filters.
    pub fn size(&self) -> Bits {
        let filters = self
            .lock()
            .values()
            .filter_map(|segment| segment.filter())
            .collect::<Vec<_>>();
        Bits::new(filters.iter().map(|filter| filter.chain.size().get()).sum())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SegmentId, Arc<Segment>>> {
        unpoisoned(self.segments.lock())
    }
}

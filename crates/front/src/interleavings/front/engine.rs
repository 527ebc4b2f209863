//! A model engine of one memtable and a list of segments.

use std::collections::HashSet;
use std::sync::Arc;

use super::cf_filter;
use crate::cf_filter::CfFilter;
use crate::segment::SegmentId;
use crate::sync::Mutex;
use crate::view::Coverage;

pub(super) type Key = &'static [u8];

/// A new segment has a new number.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub(super) number: u8,
    pub(super) keys: Vec<Key>,
}

impl Segment {
    pub(super) fn id(&self) -> SegmentId {
        SegmentId::from_bytes([self.number; 16])
    }
}

#[derive(Default)]
struct Files {
    memtable: Vec<Key>,
    segments: Vec<Segment>,
    /// The keys whose writes are published.
    visible: Vec<Key>,
    next: u8,
}

/// The engine and the filters of its one column family.
pub(super) struct Engine {
    pub(super) cf_filter: Arc<CfFilter>,
    files: Mutex<Files>,
}

impl Engine {
    /// An empty engine whose filters are complete.
    pub(super) fn new() -> Arc<Self> {
        let engine = Self {
            cf_filter: cf_filter(),
            files: Mutex::default(),
        };
        let summary = Arc::clone(&engine.cf_filter.view().summary);
        let (nothing, none) = (engine.cf_filter.list(|| ()), HashSet::new());
        assert!(
            engine
                .cf_filter
                .publish(&nothing, summary, Coverage::Complete, none)
        );
        Arc::new(engine)
    }

    fn files<T>(&self, work: impl FnOnce(&mut Files) -> T) -> T {
        work(&mut self.files.lock().unwrap())
    }

    /// The order of memtable capture: the memtable has the key before the filters have it, and it
    /// becomes visible after.
    pub(super) fn put(&self, key: Key) {
        let intake = self.cf_filter.intake();
        let insertion = intake.begin_insertion(key);
        self.files(|files| files.memtable.push(key));
        intake.end_insertion(insertion, key);
        self.files(|files| files.visible.push(key));
    }

    pub(super) fn flush(&self) {
        self.files(|files| {
            let keys = std::mem::take(&mut files.memtable);
            if !keys.is_empty() {
                files.push(keys);
            }
        });
    }

    /// Ingests a segment.
    pub(super) fn ingest(&self, key: Key) {
        self.files(|files| {
            files.push(vec![key]);
            files.visible.push(key);
        });
    }

    pub(super) fn memtable(&self) -> Vec<Key> {
        self.files(|files| files.memtable.clone())
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        self.files(|files| files.segments.clone())
    }

    fn contains(&self, key: Key) -> bool {
        self.files(|files| files.visible.contains(&key))
    }

    /// Reads the engine, then checks the filters.
    pub(super) fn read_and_check(&self, key: Key) {
        if self.contains(key) {
            assert!(
                !self.cf_filter.answer(key).is_absent(),
                "a key was lost: {key:?}"
            );
        }
    }
}

impl Files {
    fn push(&mut self, keys: Vec<Key>) {
        self.next += 1;
        let number = self.next;
        self.segments.push(Segment { number, keys });
    }
}

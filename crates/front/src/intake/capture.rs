//! Segment capture: the filter of a segment while the engine writes it, in flush, compaction and
//! recovery.

use std::sync::Arc;

use super::KeyLog;
use crate::fault::fault;
use crate::format::Source;
use crate::hash::KeyHasher;
use crate::math::Rate;
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};
use crate::reach::reached;
use crate::segment::{Registry, Segment, SegmentBuilder, SegmentId};
use crate::sync::{Mutex, unpoisoned};
use crate::wakeup::Wakeup;

/// What the keys of a segment come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentOrigin {
    /// From memtables, by a flush or in recovery.
    Memtables,
    /// From other segments of the column family.
    Segments,
    Unknown,
}

/// Which segments of a column family get filters, and of which rate.
#[derive(Debug)]
pub struct SegmentCapture {
    hasher: KeyHasher,
    prefixes: Arc<Prefixes>,
    registry: Arc<Registry>,
    wakeup: Arc<Wakeup>,
    key_log: Arc<KeyLog>,
    /// `None` if there are no segment filters.
    rate: Mutex<Option<Rate>>,
    /// Whether the segments of the last level get filters too.
    filters_last_level: bool,
}

impl SegmentCapture {
    pub(super) fn new(
        hasher: KeyHasher,
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        options: &FrontOptions,
        key_log: Arc<KeyLog>,
    ) -> Self {
        Self {
            hasher,
            prefixes: Arc::clone(&options.prefixes),
            registry,
            wakeup,
            key_log,
            rate: Mutex::new(options.segment_rate),
            // Scans within a prefix check the filters of every level.
            filters_last_level: options.filters_last_level || !options.prefixes.is_empty(),
        }
    }

    /// A filter for a segment that the engine starts to write; `None` if no segment filters are
    /// configured. A segment of the last level may get an id alone.
    ///
    /// Invariant 4: if the log of keys may lack some of this segment, it ends here, before the
    /// segment is installed.
    pub fn begin(
        &self,
        origin: SegmentOrigin,
        is_in_last_level: bool,
    ) -> Option<SegmentFilterBuild> {
        let begun = self.rate().zip(SegmentId::random().ok());
        if may_bring_unlogged_keys(origin, begun.is_some()) {
            reached!(LogEndedByUnknownSegment, self.key_log.is_whole());
            self.key_log.end();
        }
        let (rate, id) = begun?;
        let key_log = (origin == SegmentOrigin::Memtables).then(|| Arc::clone(&self.key_log));
        let (registry, wakeup) = (Arc::clone(&self.registry), Arc::clone(&self.wakeup));
        if !self.wants_filter(is_in_last_level) && key_log.is_none() {
            reached!(SegmentWithoutFilter);
            return Some(SegmentFilterBuild::of_none(registry, wakeup, id));
        }
        reached!(FilterOfCompaction, origin == SegmentOrigin::Segments);
        let builder = SegmentBuilder::new(id, self.hasher, rate).with_prefixes(&self.prefixes);
        Some(SegmentFilterBuild::new(registry, wakeup, builder, key_log))
    }

    /// Whether a segment of the last level of a leveled tree, or another, gets a filter. Nearly all
    /// keys are in the last level: there a filter denies nothing to hits, and to misses only what
    /// has passed the summary filter.
    pub fn wants_filter(&self, is_in_last_level: bool) -> bool {
        self.filters_last_level || !is_in_last_level
    }

    /// The segment that a filter block names.
    pub fn open(&self, id: SegmentId) -> Arc<Segment> {
        self.registry.open(id)
    }

    /// The false-positive rate of new segment filters; `None` if there are none.
    pub fn rate(&self) -> Option<Rate> {
        *unpoisoned(self.rate.lock())
    }

    pub(crate) fn set_rate(&self, rate: Option<Rate>) {
        *unpoisoned(self.rate.lock()) = rate;
    }
}

/// Whether a segment may bring keys that are not logged. A flush logs those that it captures, and a
/// compaction brings none; of any other origin nothing is known (H48).
fn may_bring_unlogged_keys(origin: SegmentOrigin, is_captured: bool) -> bool {
    fault!(UnknownSstKeepsKeyLog, return false);
    fault!(
        CompactionEndsKeyLog,
        return origin != SegmentOrigin::Memtables || !is_captured
    );
    match origin {
        SegmentOrigin::Memtables => !is_captured,
        SegmentOrigin::Segments => false,
        SegmentOrigin::Unknown => true,
    }
}

/// The filter of one segment that is being written.
#[derive(Debug)]
pub struct SegmentFilterBuild {
    registry: Arc<Registry>,
    wakeup: Arc<Wakeup>,
    id: SegmentId,
    prefixes: Arc<Prefixes>,
    /// `None` if the segment gets no filter, or if it is finished.
    builder: Option<SegmentBuilder>,
    gets_filter: bool,
    /// Gets the keys, if they may be in no other segment.
    key_log: Option<Arc<KeyLog>>,
}

impl SegmentFilterBuild {
    pub fn new(
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        builder: SegmentBuilder,
        key_log: Option<Arc<KeyLog>>,
    ) -> Self {
        Self {
            registry,
            wakeup,
            id: builder.id(),
            prefixes: Arc::clone(builder.prefixes()),
            builder: Some(builder),
            gets_filter: true,
            key_log,
        }
    }

    /// The build of a segment that gets an id and no filter.
    fn of_none(registry: Arc<Registry>, wakeup: Arc<Wakeup>, id: SegmentId) -> Self {
        Self {
            registry,
            wakeup,
            id,
            prefixes: Arc::default(),
            builder: None,
            gets_filter: false,
            key_log: None,
        }
    }

    /// The engine's own function for prefixes, whose prefixes the filter has.
    pub fn extractor(&self) -> Option<&Prefix> {
        let (_, extractor) = self.prefixes.of_engine()?;
        Some(extractor)
    }

    /// The id that the segment will carry.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Adds the key of one entry, tombstones included: a filter that decides whether a segment is
    /// read must know its tombstones (H26).
    pub fn add(&mut self, key: &[u8]) {
        if let Some(builder) = &mut self.builder {
            builder.add(key);
        }
    }

    /// Seals the filter, if there is one, before the segment can become visible. Returns whether the
    /// segment may carry the id. One whose filter could not be built carries it too; its filter is
    /// rebuilt later.
    ///
    /// Invariant 4: the keys of a flush are logged here, before its segment is installed. Invariant
    /// 7: they are as many as the segment has entries.
    pub fn finish(&mut self, entries: u64) -> bool {
        let Some(builder) = self.builder.take() else {
            return !self.gets_filter;
        };
        if let Some(key_log) = &self.key_log {
            match builder.kept_hashes(entries) {
                Some(hashes) => key_log.append(hashes.iter().map(|hash| hash.for_summary())),
                None => key_log.end(),
            }
        }
        match builder.seal(entries, Source::TableCapture) {
            Some(filter) => {
                self.registry.open(self.id).set_filter(filter, false);
                self.wakeup.notify();
            }
            None => tracing::warn!(
                segment = %self.id,
                entries,
                "an SST has no filter: a key was missed or memory ran out; the filter will be rebuilt"
            ),
        }
        true
    }
}

//! The filter of one segment: while it is written, and for lookups.

use std::sync::Arc;

use crate::hash::KeyHash;
use crate::lsm::engine::Link;
use lsm_sieve_front::intake::SegmentFilterBuild;
use lsm_sieve_front::segment::{Segment, SegmentId};

/// The filter of a segment that is being written. If it is dropped before it is sealed, the segment
/// is taken for abandoned.
pub struct SegmentBuild {
    id: SegmentId,
    /// `None` if there are no segment filters.
    build: Option<SegmentFilterBuild>,
    entries: u64,
    segment: Arc<Segment>,
    link: Arc<Link>,
    is_sealed: bool,
}

impl SegmentBuild {
    pub(super) fn new(
        id: SegmentId,
        build: Option<SegmentFilterBuild>,
        segment: Arc<Segment>,
        link: Arc<Link>,
    ) -> Self {
        Self {
            id,
            build,
            entries: 0,
            segment,
            link,
            is_sealed: false,
        }
    }

    /// The id to store in the segment: 16 random bytes.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Adds the key of one entry, tombstones included. Entries with the same key must be
    /// consecutive.
    pub fn add(&mut self, key: &[u8]) {
        self.entries += 1;
        if let Some(build) = &mut self.build {
            build.add(key);
        }
    }

    /// Ends the filter, before the segment can be read.
    pub fn seal(mut self) -> SegmentFilter {
        if let Some(mut build) = self.build.take() {
            build.finish(self.entries);
        }
        self.is_sealed = true;
        SegmentFilter(Arc::clone(&self.segment))
    }
}

impl Drop for SegmentBuild {
    fn drop(&mut self) {
        if !self.is_sealed {
            self.link.end(self.id);
        }
    }
}

impl std::fmt::Debug for SegmentBuild {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentBuild")
            .field("id", &self.id)
            .field("entries", &self.entries)
            .finish_non_exhaustive()
    }
}

/// The filter of a segment, to be kept with it. A segment whose filter is missing, not yet loaded
/// or dropped may hold any key.
#[derive(Clone, Debug)]
pub struct SegmentFilter(Arc<Segment>);

impl SegmentFilter {
    pub(super) fn new(segment: Arc<Segment>) -> Self {
        Self(segment)
    }

    /// False only if the segment has no entry of the key with this hash
    /// ([`LsmFilters::hash`](super::LsmFilters::hash)), not even a tombstone.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.0.answer(hash).unwrap_or(true)
    }
}

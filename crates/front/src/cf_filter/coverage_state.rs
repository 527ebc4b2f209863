//! What maintenance knows of the segments of a column family: when its filters may rule keys out.
//!
//! ```text
//!            publish: all but some              publish: complete
//! unknown ───────────────────────► incomplete ───────────────────► complete by construction
//!    ▲                                 │                              │ until external writes: each
//!    └──────  external writes begin ◄──┴──────────────────────────────┘ flushed key is in the summary
//!
//! any of them ── a hook fails, an audit finds a false negative, the family is dropped ──► disabled
//! ```
//!
//! *Invariant 5: epochs.* External writes bring keys that the summary filter does not have. The epoch
//! grows before they begin, when the view becomes one of unknown coverage, and again when they have
//! ended. A [`Listing`] notes the epoch, and whether external writes ran in it, before the segments
//! are listed. It is published only if none ran and the epoch is still the same: then each external
//! write had either ended before, so that the listing shows its segments, or has not begun.
//!
//! The mutex makes this one step: to publish a view takes [`Locked`], which holds the lock.

use std::collections::HashSet;
use std::ptr;
use std::sync::{Arc, Weak};

use crate::cf_filter::listing::{CoverageEpoch, Listing};
use crate::fault::fault;
use crate::filter::Scalable;
use crate::math::{Bits, Items};
use crate::reach::reached;
use crate::segment::SegmentId;
use crate::sync::{Mutex, MutexGuard, unpoisoned};

/// What is known of the segments of a column family.
#[derive(Debug)]
pub struct CoverageState(Mutex<Locked>);

/// The same, locked.
#[derive(Debug, Default)]
pub(super) struct Locked {
    /// Segments whose keys are all in the summary filter.
    covered: HashSet<SegmentId>,
    /// Grows when a segment is added to `covered`.
    covered_edition: u64,
    /// Whether every segment that flush and compaction write is covered by construction: coverage
    /// was complete once, and no external writes came since.
    complete_by_construction: bool,
    /// Grows when external writes begin and when they end.
    external_epoch: u64,
    /// External writes under way.
    external_in_flight: usize,
    /// See [`CoverageState::rest_at`].
    resting_at: Option<WritePosition>,
    saved: Option<Saved>,
    /// Grows when what is saved loses its trust.
    forgotten: u64,
    /// A hook failed: no key may be answered absent any more.
    disabled: bool,
}

impl CoverageState {
    /// The state for a summary filter that has the keys of these segments.
    pub(super) fn covering(covered: HashSet<SegmentId>) -> Self {
        Self(Mutex::new(Locked {
            covered,
            ..Locked::default()
        }))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Locked> {
        unpoisoned(self.0.lock())
    }

    /// Memory of the lists.
    pub(super) fn size(&self) -> Bits {
        let an_entry = size_of::<SegmentId>() + size_of::<u8>();
        Bits::from_bytes((self.lock().covered.capacity() * an_entry) as u64)
    }

    /// Whether no key is answered absent until the next open.
    pub(crate) fn is_disabled(&self) -> bool {
        self.lock().disabled
    }

    pub fn is_complete_by_construction(&self) -> bool {
        self.lock().complete_by_construction
    }

    pub(super) fn epoch(&self) -> CoverageEpoch {
        let locked = self.lock();
        CoverageEpoch {
            number: locked.external_epoch,
            quiet: locked.external_in_flight == 0,
        }
    }

    /// Whether no external write runs, nor has begun or ended since the listing began.
    pub(crate) fn is_current<S>(&self, listing: &Listing<S>) -> bool {
        self.lock().accepts(listing)
    }

    /// The current position, if the engine's latest write has this sequence number.
    pub(crate) fn write_position(&self, sequence: u64, budget: Option<Bits>) -> WritePosition {
        WritePosition {
            sequence,
            budget,
            external: self.lock().external_epoch,
        }
    }

    /// Until a write, an external write or another budget comes after this position, another
    /// consolidation would gain nothing.
    pub(crate) fn rest_at(&self, now: WritePosition) {
        self.lock().resting_at = Some(now);
    }

    /// Another consolidation may gain something.
    pub(crate) fn end_rest(&self) {
        self.lock().resting_at = None;
    }

    /// Whether another consolidation would gain nothing, now that writes have come to `now`.
    pub(crate) fn is_resting(&self, now: WritePosition) -> bool {
        self.lock().resting_at == Some(now)
    }

    /// The state of this summary filter to be saved. Take it before the filter and
    /// [`CoverageState::covered`] are copied, so that later inserts count as not saved.
    pub(crate) fn to_save(&self, summary: &Arc<Scalable>) -> Saved {
        let locked = self.lock();
        Saved {
            summary: Arc::downgrade(summary),
            items: summary.items(),
            covered_edition: locked.covered_edition,
            forgotten: locked.forgotten,
        }
    }

    /// Notes that this state is saved.
    pub(crate) fn note_saved(&self, saved: Saved) {
        let mut locked = self.lock();
        if saved.forgotten == locked.forgotten {
            locked.saved = Some(saved);
        }
    }

    /// Notes that no state is saved. One that is being saved must not be published any more:
    /// `CoverageState::may_be_saved`.
    pub fn forget_saved(&self) {
        let mut locked = self.lock();
        locked.forgotten += 1;
        locked.saved = None;
    }

    /// Whether what is saved kept its trust since this state was taken.
    pub(crate) fn may_be_saved(&self, state: &Saved) -> bool {
        state.forgotten == self.lock().forgotten
    }

    /// Whether this summary filter is saved with all its keys and its coverage.
    pub(super) fn is_saved(&self, summary: &Arc<Scalable>) -> bool {
        let locked = self.lock();
        locked.saved.as_ref().is_some_and(|saved| {
            saved.covered_edition == locked.covered_edition && saved.lacks(summary) == Some(0)
        })
    }

    /// Whether this summary filter is saved with most of its keys.
    pub(super) fn is_nearly_saved(&self, summary: &Arc<Scalable>) -> bool {
        let locked = self.lock();
        let lacks = locked.saved.as_ref().and_then(|saved| saved.lacks(summary));
        lacks.is_some_and(|keys| keys <= summary.items().get() / LITTLE)
    }

    /// The segments whose keys are all in the summary filter.
    pub fn covered(&self) -> HashSet<SegmentId> {
        self.lock().covered.clone()
    }

    /// The segments among these whose keys are all in the summary filter.
    pub(crate) fn covered_among(
        &self,
        segments: impl Iterator<Item = SegmentId>,
    ) -> HashSet<SegmentId> {
        let locked = self.lock();
        segments.filter(|id| locked.covered.contains(id)).collect()
    }
}

impl Locked {
    pub(super) fn is_disabled(&self) -> bool {
        self.disabled
    }

    pub(super) fn disable(&mut self) {
        self.disabled = true;
        self.complete_by_construction = false;
    }

    /// Nothing is covered any more, and the memory of the list is freed.
    pub(super) fn cover_none(&mut self) {
        self.covered = HashSet::new();
    }

    /// External writes begin, of which [`Locked::next_epoch`] tells the listings.
    pub(super) fn enter_external_writes(&mut self) {
        self.external_in_flight += 1;
        reached!(ExternalWritesOverlap, self.external_in_flight > 1);
    }

    /// Earlier listings are no longer published.
    pub(super) fn next_epoch(&mut self) {
        self.external_epoch += 1;
        self.complete_by_construction = false;
    }

    pub(super) fn leave_external_writes(&mut self) {
        self.external_epoch += 1;
        self.external_in_flight -= 1;
    }

    /// The summary filter has all keys of this segment.
    pub(super) fn cover(&mut self, id: SegmentId) {
        self.covered_edition += u64::from(self.covered.insert(id));
    }

    /// Replaces the covered segments by those of a listing. Returns false, and changes nothing, if
    /// the filters are disabled or external writes ran during or after the listing.
    pub(super) fn learn<S>(
        &mut self,
        listing: &Listing<S>,
        covered: HashSet<SegmentId>,
        is_complete: bool,
    ) -> bool {
        if !self.accepts(listing) {
            reached!(ListingPast, !self.disabled);
            return false;
        }
        self.covered_edition += u64::from(!covered.is_subset(&self.covered));
        self.replace_covered(covered);
        self.complete_by_construction = is_complete;
        true
    }

    fn replace_covered(&mut self, covered: HashSet<SegmentId>) {
        fault!(DeadIdsKept, return self.covered.extend(covered));
        self.covered = covered;
    }

    /// Whether coverage that was computed from a listing may be published.
    fn accepts<S>(&self, listing: &Listing<S>) -> bool {
        self.is_open() && self.is_now(listing.epoch)
    }

    fn is_open(&self) -> bool {
        fault!(PublishedAfterDisable, return true);
        !self.disabled
    }

    fn is_now(&self, epoch: CoverageEpoch) -> bool {
        fault!(OldEpochPublished, return true);
        self.external_epoch == epoch.number && epoch.quiet
    }
}

/// A summary filter is nearly saved if at most one in this many of its keys is not saved.
const LITTLE: u64 = 8;

/// How much of a summary filter is saved.
#[derive(Debug)]
pub(crate) struct Saved {
    summary: Weak<Scalable>,
    items: Items,
    covered_edition: u64,
    forgotten: u64,
}

impl Saved {
    /// How many keys of this summary filter are not saved; `None` if another one is.
    fn lacks(&self, summary: &Arc<Scalable>) -> Option<u64> {
        let same = ptr::eq(self.summary.as_ptr(), Arc::as_ptr(summary));
        same.then(|| summary.items().get() - self.items.get())
    }
}

/// How far writes and external writes have come, and the memory budget. Both kinds of writes count,
/// because ingested files that overlap nothing take no sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritePosition {
    sequence: u64,
    external: u64,
    budget: Option<Bits>,
}

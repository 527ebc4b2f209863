//! When the filters of a column family may rule keys out. External writes withdraw their coverage.

use std::collections::HashSet;
use std::ptr;
use std::sync::{Arc, Weak};

use super::{CfFilter, Listing};
use crate::audit::Distrust;
use crate::fault::fault;
use crate::filter::{Chain, Scalable};
use crate::math::{Bits, Items};
use crate::segment::SegmentId;
use crate::sync::unpoisoned;
use crate::view::{Coverage, View};

/// What maintenance knows of the SSTs of a column family.
#[derive(Debug, Default)]
pub(super) struct CoverageState {
    /// SSTs whose keys are all in the summary filter.
    covered: HashSet<SegmentId>,
    /// Grows when an SST is added to `covered`.
    covered_edition: u64,
    /// Whether every SST that flush and compaction write is covered by construction: coverage was
    /// complete once, and no external writes came since.
    complete_by_construction: bool,
    /// Grows when external writes begin and when they end.
    external_epoch: u64,
    /// External writes under way.
    external_in_flight: usize,
    /// See [`CfFilter::note_consolidated`].
    consolidated: Option<WritePosition>,
    stored: Option<Stored>,
    /// Grows when what is stored loses its trust.
    forgotten: u64,
    /// A hook failed: no key may be ruled out any more.
    pub(super) disabled: bool,
}

impl Distrust for CfFilter {
    /// A key may have been missed: no key can be ruled out until the next open.
    fn disable(&self) {
        {
            let mut coverage_state = unpoisoned(self.coverage_state.lock());
            coverage_state.disabled = true;
            coverage_state.complete_by_construction = false;
            // No summary filter is rebuilt any more, and each flush would append to it.
            self.key_log.end();
            self.withdraw_view();
        }
        tracing::error!(
            cf_filter = self.name(),
            "filters are disabled: all lookups of this column family go to the engine until the \
             database is opened again"
        );
    }
}

impl CfFilter {
    /// Whether no key is ruled out until the next open.
    pub(crate) fn is_disabled(&self) -> bool {
        unpoisoned(self.coverage_state.lock()).disabled
    }

    /// External writes came without notice: coverage no longer holds.
    pub fn external_writes_happened(&self) {
        self.external_writes_begin();
        self.external_writes_end();
    }

    /// Must be held while external writes run. From here on no key is ruled out until maintenance
    /// has listed the SSTs again.
    pub fn begin_external_writes(self: &Arc<Self>) -> ExternalWrites {
        self.external_writes_begin();
        ExternalWrites {
            cf_filter: Arc::clone(self),
        }
    }

    fn external_writes_begin(&self) {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        coverage_state.external_in_flight += 1;
        fault!(ExternalWritesUnannounced, return);
        coverage_state.external_epoch += 1;
        coverage_state.complete_by_construction = false;
        self.key_log.end();
        self.withdraw_view();
    }

    fn external_writes_end(&self) {
        {
            let mut coverage_state = unpoisoned(self.coverage_state.lock());
            coverage_state.external_epoch += 1;
            coverage_state.external_in_flight -= 1;
        }
        fault!(NoWakeAfterExternalWrite, return);
        self.wake();
    }

    /// Replaces the summary filter by one that answers *maybe*, and frees it. Returns false if it is
    /// such a one already.
    pub(crate) fn drop_summary(&self) -> bool {
        let nothing = self.saturated_summary();
        let old = self.view().summary;
        if old.size() <= nothing.size() {
            return false;
        }
        fault!(DroppedSummaryNotFed, {
            self.feed(vec![Arc::clone(&nothing)]);
            std::thread::sleep(std::time::Duration::from_millis(50));
        });
        // Lookups first: keys that are written from here on are not in the old one.
        {
            let _knowledge = unpoisoned(self.coverage_state.lock());
            let view = self.view();
            self.publish_view(View {
                summary: Arc::clone(&nothing),
                summary_prefixes: self.prefixes.all(),
                ..view
            });
        }
        self.feed(vec![nothing]);
        true
    }

    fn saturated_summary(&self) -> Arc<Scalable> {
        let imprint = self.hasher.imprint().for_summary();
        let options = *self.view().summary.options();
        let nothing = Chain::saturated(imprint);
        Arc::new(Scalable::starting_with(imprint, options, nothing))
    }

    /// The column family was dropped: frees the memory of its filters. Remaining lookups get
    /// *maybe*.
    pub fn retire(&self) {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        coverage_state.disabled = true;
        coverage_state.complete_by_construction = false;
        coverage_state.covered = HashSet::new();
        self.key_log.end();
        let summary = self.saturated_summary();
        let prefixes = self.prefixes.all();
        self.publish_view(View::unknown(Arc::clone(&summary), prefixes));
        self.intake.feed(vec![summary]);
    }

    fn withdraw_view(&self) {
        let now = self.view();
        self.publish_view(View::unknown(now.summary, now.summary_prefixes));
    }

    /// Publishes this view as the next edition. Needs the lock of `coverage_state`.
    pub(super) fn publish_view(&self, view: View) {
        let edition = self.view.with(|now| next_edition(now, &view));
        self.view.publish(View { edition, ..view });
    }

    pub(super) fn epoch(&self) -> CoverageEpoch {
        let coverage_state = unpoisoned(self.coverage_state.lock());
        CoverageEpoch {
            number: coverage_state.external_epoch,
            quiet: coverage_state.external_in_flight == 0,
        }
    }

    /// Whether no external write runs, nor has begun or ended since the listing began.
    pub(crate) fn is_current<S>(&self, listing: &Listing<S>) -> bool {
        !unpoisoned(self.coverage_state.lock()).is_past(listing.epoch)
    }

    /// The current position, if the engine's latest write has this sequence number.
    pub(crate) fn write_position(&self, sequence: u64, budget: Option<Bits>) -> WritePosition {
        WritePosition {
            sequence,
            budget,
            external: unpoisoned(self.coverage_state.lock()).external_epoch,
        }
    }

    pub fn is_complete_by_construction(&self) -> bool {
        unpoisoned(self.coverage_state.lock()).complete_by_construction
    }

    /// Notes that another consolidation would gain nothing for all writes until this position;
    /// `None` if it may.
    pub(crate) fn note_consolidated(&self, until: Option<WritePosition>) {
        unpoisoned(self.coverage_state.lock()).consolidated = until;
    }

    /// Whether another consolidation would gain nothing: no write came after the noted position.
    pub(crate) fn is_consolidated(&self, now: WritePosition) -> bool {
        unpoisoned(self.coverage_state.lock()).consolidated == Some(now)
    }

    /// The state of this summary filter to be stored. Take it before the filter and
    /// [`CfFilter::covered`] are copied, so that later inserts count as not stored.
    pub(crate) fn to_store(&self, summary: &Arc<Scalable>) -> Stored {
        let coverage_state = unpoisoned(self.coverage_state.lock());
        Stored {
            summary: Arc::downgrade(summary),
            items: summary.items(),
            covered_edition: coverage_state.covered_edition,
            forgotten: coverage_state.forgotten,
        }
    }

    /// Notes that this state is stored.
    pub(crate) fn note_stored(&self, stored: Stored) {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        if stored.forgotten == coverage_state.forgotten {
            coverage_state.stored = Some(stored);
        }
    }

    /// Notes that no state is stored. One that is being stored must not be published any more:
    /// `CfFilter::may_be_stored`.
    pub fn forget_stored(&self) {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        coverage_state.forgotten += 1;
        coverage_state.stored = None;
    }

    /// Whether what is stored kept its trust since this state was taken.
    pub(crate) fn may_be_stored(&self, state: &Stored) -> bool {
        state.forgotten == unpoisoned(self.coverage_state.lock()).forgotten
    }

    /// Whether the summary filter that lookups use is stored with all its keys and its coverage.
    pub(crate) fn is_stored(&self) -> bool {
        let summary = self.view().summary;
        let coverage_state = unpoisoned(self.coverage_state.lock());
        coverage_state.stored.as_ref().is_some_and(|stored| {
            stored.covered_edition == coverage_state.covered_edition
                && stored.lacks(&summary) == Some(0)
        })
    }

    /// Whether the next open would have to read little again: the summary filter was stored with
    /// most of its keys.
    pub(crate) fn is_nearly_stored(&self) -> bool {
        let summary = self.view().summary;
        let coverage_state = unpoisoned(self.coverage_state.lock());
        let stored = coverage_state.stored.as_ref();
        let lacks = stored.and_then(|stored| stored.lacks(&summary));
        lacks.is_some_and(|keys| keys <= summary.items().get() / LITTLE)
    }

    /// Notes that this summary filter has all keys of an SST, if lookups still use it. Nothing is
    /// published, but the SST need not be read again, even if external writes come meanwhile.
    pub(crate) fn mark_covered(&self, summary: &Arc<Scalable>, table: Option<SegmentId>) {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        if let Some(id) = table
            && Arc::ptr_eq(&self.view().summary, summary)
        {
            coverage_state.covered_edition += u64::from(coverage_state.covered.insert(id));
        }
    }

    /// The SSTs whose keys are all in the summary filter.
    pub fn covered(&self) -> HashSet<SegmentId> {
        unpoisoned(self.coverage_state.lock()).covered.clone()
    }

    /// Those of these SSTs whose keys are all in the summary filter.
    pub(crate) fn covered_among(
        &self,
        tables: impl Iterator<Item = SegmentId>,
    ) -> HashSet<SegmentId> {
        let coverage_state = unpoisoned(self.coverage_state.lock());
        tables
            .filter(|id| coverage_state.covered.contains(id))
            .collect()
    }

    /// Publishes `summary` to lookups and `covered` as the SSTs that it covers, unless external
    /// writes came since the listing began. Returns whether it did.
    pub fn publish<S>(
        &self,
        listing: &Listing<S>,
        summary: Arc<Scalable>,
        coverage: Coverage,
        mut covered: HashSet<SegmentId>,
    ) -> bool {
        let mut coverage_state = unpoisoned(self.coverage_state.lock());
        if coverage_state.is_past(listing.epoch) {
            return false;
        }
        let now = self.view();
        let are_known = covered.is_subset(&coverage_state.covered);
        coverage_state.covered_edition += u64::from(!are_known);
        fault!(DeadIdsKept, covered.extend(&coverage_state.covered));
        coverage_state.covered = covered;
        coverage_state.complete_by_construction = coverage.is_complete();
        let is_known = Arc::ptr_eq(&summary, &now.summary);
        let mut same = is_known && now.coverage.is_complete();
        fault!(ViewPublishedAgain, same = false);
        // Another one was built with all prefixes.
        let mut summary_prefixes = self.prefixes.all();
        if is_known {
            summary_prefixes = now.summary_prefixes;
        }
        fault!(
            LoadedSummaryHasAllPrefixes,
            summary_prefixes = self.prefixes.all()
        );
        // A new edition would make batches read all their keys from the engine, and audits judge
        // nothing.
        if !(same && coverage_state.complete_by_construction) {
            self.publish_view(View {
                summary,
                summary_prefixes,
                coverage,
                ..now
            });
        }
        true
    }
}

/// The edition of a view that is published after another.
fn next_edition(before: &View, view: &View) -> u64 {
    let mut step = 1;
    let same_summary = Arc::ptr_eq(&before.summary, &view.summary);
    let both_complete = before.coverage.is_complete() && view.coverage.is_complete();
    fault!(SummaryUnnoticed, step = u64::from(same_summary));
    fault!(
        CoverageUnnoticed,
        step = u64::from(!same_summary || both_complete)
    );
    before.edition + step
}

/// A summary filter is nearly stored if at most one in this many of its keys is not stored.
const LITTLE: u64 = 8;

/// How much of a summary filter is stored.
#[derive(Debug)]
pub(crate) struct Stored {
    summary: Weak<Scalable>,
    items: Items,
    covered_edition: u64,
    forgotten: u64,
}

impl Stored {
    /// How many keys of this summary filter are not stored; `None` if another one is.
    fn lacks(&self, summary: &Arc<Scalable>) -> Option<u64> {
        let same = ptr::eq(self.summary.as_ptr(), Arc::as_ptr(summary));
        same.then(|| summary.items().get() - self.items.get())
    }
}

impl CoverageState {
    /// The state for a summary filter that has the keys of these SSTs.
    pub(super) fn covering(covered: HashSet<SegmentId>) -> Self {
        Self {
            covered,
            ..Self::default()
        }
    }

    /// Memory of the lists.
    pub(super) fn size(&self) -> Bits {
        let an_entry = size_of::<SegmentId>() + size_of::<u8>();
        Bits::from_bytes((self.covered.capacity() * an_entry) as u64)
    }

    /// Whether what was learnt at `epoch` may no longer be published.
    fn is_past(&self, epoch: CoverageEpoch) -> bool {
        let mut past = self.external_epoch != epoch.number || !epoch.quiet;
        fault!(OldEpochPublished, past = false);
        let mut disabled = self.disabled;
        fault!(PublishedAfterDisable, disabled = false);
        disabled || past
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

/// A point in the history of external writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoverageEpoch {
    number: u64,
    quiet: bool,
}

/// External writes that are under way; they end when this is dropped.
#[derive(Debug)]
pub struct ExternalWrites {
    cf_filter: Arc<CfFilter>,
}

impl Drop for ExternalWrites {
    fn drop(&mut self) {
        self.cf_filter.external_writes_end();
    }
}

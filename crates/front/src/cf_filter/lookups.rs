//! What lookups of one column family read: its view, and what a thread knows of its last lookups. It
//! changes by publishing alone.

use std::sync::Arc;

use crate::audit::Sampler;
use crate::cf_filter::coverage_state::Locked;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::KeyHasher;
use crate::math::Bits;
use crate::options::FrontOptions;
use crate::predictor::Outcome;
use crate::prefix::{PrefixSet, Prefixes};
use crate::ranges::{RangeKeys, Ranges, Span};
use crate::rcu::{Published, Reading};
use crate::segment::SealedFilter;
use crate::sorted_runs::SortedRuns;
use crate::stats::{Counters, Event, Stats};
use crate::threads::OwnSlot;
use crate::view::{Coverage, Summary, View};

/// Segment filters in sorted runs; `None` if there are none, or too many segments overlap.
pub(super) type Prefetched = Option<SortedRuns<Arc<SealedFilter>>>;

/// What lookups read.
#[derive(Debug)]
pub struct Lookups {
    hasher: KeyHasher,
    view: Published<View>,
    /// The segment filters whose lines a lookup fetches before the engine probes them. What it lacks
    /// costs time only.
    prefetched: Published<Prefetched>,
    prefixes: Arc<Prefixes>,
    ranges: Option<Arc<RangeKeys>>,
    adaptive_hits: bool,
    counters: Counters,
    sample: Sampler,
}

impl Lookups {
    /// Lookups in a summary filter with these prefixes, whose coverage is unknown.
    pub(super) fn new(
        hasher: KeyHasher,
        options: &FrontOptions,
        summary: Summary,
        prefixes: PrefixSet,
    ) -> Self {
        Self {
            hasher,
            view: Published::new(View {
                coverage: coverage_at_open(),
                ranges: summary.ranges,
                ..View::unknown(summary.filter, prefixes)
            }),
            prefetched: Published::new(None),
            prefixes: Arc::clone(&options.prefixes),
            ranges: options.ranges.clone(),
            adaptive_hits: options.adaptive_hits,
            counters: Counters::default(),
            sample: Sampler::configured(options.audit),
        }
    }

    #[inline(always)]
    pub(super) fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The view that is published now, for as long as the reading goes on.
    #[inline(always)]
    pub(super) fn view<'r>(&'r self, reading: &'r Reading) -> &'r View {
        self.view.get(reading)
    }

    /// Calls `read` with the view that is published now.
    #[inline]
    pub(super) fn with_view<R>(&self, read: impl FnOnce(&View) -> R) -> R {
        self.view.with(read)
    }

    #[inline(always)]
    pub(super) fn prefetched<'r>(&'r self, reading: &'r Reading) -> &'r Prefetched {
        self.prefetched.get(reading)
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Which negatives are audited.
    #[inline(always)]
    pub(super) fn sample(&self) -> Sampler {
        self.sample
    }

    /// Whether lookups may skip filters while a thread's keys are found.
    #[inline]
    pub(super) fn adaptive_hits(&self) -> bool {
        self.adaptive_hits
    }

    /// The functions that give the prefixes of the keys.
    #[inline]
    pub(super) fn prefixes(&self) -> &Arc<Prefixes> {
        &self.prefixes
    }

    /// Which ranges are answered.
    #[inline]
    pub fn ranges(&self) -> Option<&RangeKeys> {
        self.ranges.as_deref()
    }

    /// Whether a view denies the range of this key alone.
    pub fn denies_range_of(&self, view: &View, key: &[u8]) -> bool {
        let probe = self
            .ranges()
            .and_then(|ranges| ranges.probe(Span::Closed(key, key)));
        probe.is_some_and(|probe| view.check_range(self.hasher, probe).is_some())
    }

    /// Whether the summary filter covers every segment.
    pub(super) fn is_complete(&self) -> bool {
        self.view.with(|view| view.coverage.is_complete())
    }

    /// The number of the view that is published now.
    pub fn edition(&self) -> u64 {
        self.view.with(|view| view.edition)
    }

    /// Whether the segments are known and some will stay uncovered: none is read, or the uncovered
    /// ones have no id.
    pub(crate) fn stays_uncovered(&self, none_is_read: bool) -> bool {
        self.view.with(|view| {
            let uncovered = view.uncovered().unwrap_or_default();
            uncovered > 0 && (none_is_read || uncovered == view.without_id())
        })
    }

    // -------------------------------------------------------------- publishing

    /// Publishes this view as the next edition.
    pub(super) fn publish(&self, _: &mut Locked, view: View) {
        let edition = self.view.with(|now| next_edition(now, &view));
        self.view.publish(View { edition, ..view });
    }

    /// Publishes a view of unknown coverage: from then on, no key is answered absent.
    pub(super) fn publish_unknown(&self, locked: &mut Locked) {
        let view = View {
            coverage: Coverage::Unknown,
            ..self.view.with(View::clone)
        };
        self.publish(locked, view);
    }

    /// Publishes a summary filter and the segments that it covers, unless lookups use both already.
    pub(super) fn publish_known(&self, locked: &mut Locked, summary: Summary, coverage: Coverage) {
        let now = self.view.with(View::clone);
        let Summary { filter, ranges } = summary;
        if is_same(&now, &filter, &coverage) {
            return;
        }
        let view = View {
            summary_prefixes: self.prefixes_in(&filter, &now),
            ranges: ranges_beside(&filter, ranges, &now),
            summary: filter,
            coverage,
            ..now
        };
        self.publish(locked, view);
    }

    /// Invariant 10: the prefixes that this summary filter has. Unless it is the one that was loaded,
    /// it was built with all.
    fn prefixes_in(&self, summary: &Arc<Scalable>, now: &View) -> PrefixSet {
        fault!(LoadedSummaryHasAllPrefixes, return self.prefixes.all());
        match Arc::ptr_eq(summary, &now.summary) {
            true => now.summary_prefixes,
            false => self.prefixes.all(),
        }
    }

    /// Whether ranges are asked for, and a new range filter would answer for more of them.
    pub(crate) fn lacks_ranges(&self) -> bool {
        let are_outgrown = |view: &View| view.ranges.are_outgrown(&view.summary);
        self.ranges.is_some() && self.view.with(are_outgrown)
    }

    /// Whether the summary filter lacks prefixes of keys that it has.
    pub(crate) fn lacks_prefixes(&self) -> bool {
        let all = self.prefixes.all();
        self.view.with(|view| !view.summary_prefixes.has_all(all))
    }

    // -------------------------------------------------------------- prefetches

    /// Lookups prefetch the lines of these filters.
    pub(crate) fn prefetch_from_now_on(&self, filters: Prefetched) {
        self.prefetched.publish(filters);
    }

    /// Whether exactly these filters are prefetched, in any order.
    pub(crate) fn prefetches(&self, filters: &[Arc<SealedFilter>]) -> bool {
        let pointers = |filters: &[Arc<SealedFilter>]| {
            let mut pointers: Vec<_> = filters.iter().map(Arc::as_ptr).collect();
            pointers.sort_unstable();
            pointers
        };
        self.prefetched.with(|runs| {
            let runs = runs.as_ref();
            runs.is_some_and(|runs| pointers(runs.filters()) == pointers(filters))
        })
    }

    /// The prefixes that all segment filters have; none before maintenance has listed them.
    pub(crate) fn prefixes_of_segments(&self) -> PrefixSet {
        self.prefetched.with(|runs| {
            let Some(runs) = runs else {
                return PrefixSet::default();
            };
            let each = runs.filters().iter();
            let each = each.map(|filter| self.prefixes.among(&filter.prefixes));
            each.fold(self.prefixes.all(), PrefixSet::and)
        })
    }

    /// Memory of the list of prefetched filters.
    pub(super) fn size_of_list(&self) -> Bits {
        let listed = self
            .prefetched
            .with(|runs| runs.as_ref().map(SortedRuns::size_beside_filters));
        listed.unwrap_or_default()
    }

    // -------------------------------------------------------------- counters

    /// Counts one event; returns its ordinal in this thread's slot.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counters.add(event, 1)
    }

    pub(super) fn record_outcome(&self, outcome: Outcome) {
        if let Some(slot) = OwnSlot::taken() {
            self.counters.predictor(slot).record(outcome);
        }
    }

    pub(super) fn stats(&self) -> Stats {
        self.counters.stats()
    }
}

/// Invariant 11: what is known of ranges beside this summary filter. It has the blocks of the keys that
/// came since it was made, so another one needs another range filter.
fn ranges_beside(summary: &Arc<Scalable>, new: Ranges, now: &View) -> Ranges {
    fault!(RangesOfAnotherSummary, return now.ranges.clone());
    match Arc::ptr_eq(summary, &now.summary) {
        true => now.ranges.clone(),
        false => new,
    }
}

fn coverage_at_open() -> Coverage {
    fault!(CompleteFromTheStart, return Coverage::Complete);
    Coverage::Unknown
}

/// Whether lookups use this summary filter, and coverage was complete and stays so. A new edition
/// would make batches read all their keys from the engine, and audits judge nothing.
fn is_same(now: &View, summary: &Arc<Scalable>, coverage: &Coverage) -> bool {
    fault!(ViewPublishedAgain, return false);
    Arc::ptr_eq(summary, &now.summary) && now.coverage.is_complete() && coverage.is_complete()
}

/// The edition of a view that is published after another.
fn next_edition(before: &View, view: &View) -> u64 {
    let same_summary = || Arc::ptr_eq(&before.summary, &view.summary);
    let both_complete = || before.coverage.is_complete() && view.coverage.is_complete();
    fault!(
        SummaryUnnoticed,
        return before.edition + u64::from(same_summary())
    );
    fault!(
        CoverageUnnoticed,
        return before.edition + u64::from(!same_summary() || both_complete())
    );
    before.edition + 1
}

//! The filters of one column family: what lookups read (`lookups`), what writes feed
//! ([`crate::intake`]), and when the filters may rule a key out (`coverage_state`).
//!
//! Here is what ties the three: each change of coverage publishes a view, under the lock of the
//! coverage.
//!
//! # Map
//!
//! In order of dependency: `listing`, `coverage_state`, `lookups`, `auditor`, `lookup`,
//! `multi_lookup`, `prefix_lookup`.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

pub(crate) mod auditor;
mod coverage_state;
mod listing;
pub mod lookup;
mod lookups;
pub mod multi_lookup;
pub mod prefix_lookup;

pub use self::coverage_state::{CoverageState, WritePosition};
pub use self::listing::Listing;
pub use self::lookup::Resolve;
pub use self::lookups::Lookups;

use self::auditor::Auditor;
use crate::audit::{Distrust, Throttle};
use crate::engine::KeySpace;
use crate::fault::fault;
use crate::filter::{Chain, Scalable};
use crate::hash::KeyHasher;
use crate::instance_ids::InstanceIds;
use crate::intake::{Intake, KeyLog};
use crate::math::Bits;
use crate::options::FrontOptions;
use crate::prefix::{PrefixSet, Prefixes};
use crate::ranges::Ranges;
use crate::reach::reached;
use crate::segment::{Registry, SegmentId};
use crate::stats::{Counters, Stats};
use crate::view::{Coverage, Summary, View};
use crate::wakeup::Wakeup;

/// The filters of one column family.
#[derive(Debug)]
pub struct CfFilter {
    me: Weak<Self>,
    key_space: KeySpace,
    lookups: Lookups,
    intake: Intake,
    coverage: CoverageState,
    instance_ids: InstanceIds,
    wakeup: Arc<Wakeup>,
    /// Throttles the audits of negatives.
    throttle: Throttle,
    /// Set once the engine is open.
    auditor: OnceLock<Auditor>,
}

/// The summary filter that a column family begins with: a stored one, or an empty one.
#[derive(Debug)]
pub struct FirstSummary {
    pub filter: Arc<Scalable>,
    /// The segments whose keys it has.
    pub covered: HashSet<SegmentId>,
    /// Which prefixes of its keys it has.
    pub prefixes: PrefixSet,
    /// Whether it has the blocks of all its keys.
    pub has_blocks: bool,
}

/// Bytes that the shim and RocksDB keep for the hooks of one column family: the factories of its
/// memtables and segments.
const HOOKS: usize = 7 << 10;

/// Memory for the lists of a few segments.
const LISTS: Bits = Bits::from_bytes(1 << 10);

impl FirstSummary {
    /// One that covers no segment.
    pub fn covering_none(filter: Scalable) -> Self {
        Self {
            filter: Arc::new(filter),
            covered: HashSet::new(),
            prefixes: PrefixSet::default(),
            has_blocks: false,
        }
    }
}

impl CfFilter {
    /// Filters that know nothing of the segments yet.
    pub fn new(
        name: &str,
        hasher: KeyHasher,
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        options: &FrontOptions,
        summary: FirstSummary,
    ) -> Arc<Self> {
        let FirstSummary {
            filter,
            covered,
            prefixes,
            has_blocks,
        } = summary;
        let nothing = options.ranges.as_ref().filter(|_| has_blocks);
        let first = Summary {
            filter: Arc::clone(&filter),
            ranges: nothing.map_or(Ranges::Unknown, |ranges| ranges.nothing(hasher)),
        };
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            key_space: KeySpace::new(name),
            lookups: Lookups::new(hasher, options, first, prefixes),
            intake: Intake::new(hasher, registry, Arc::clone(&wakeup), options, filter),
            coverage: CoverageState::covering(covered),
            instance_ids: InstanceIds::default(),
            wakeup,
            throttle: Throttle::configured(options.audit),
            auditor: OnceLock::new(),
        })
    }

    pub fn name(&self) -> &str {
        self.key_space.name()
    }

    /// The column family that these filters belong to.
    pub fn key_space(&self) -> &KeySpace {
        &self.key_space
    }

    /// What lookups read.
    pub fn lookups(&self) -> &Lookups {
        &self.lookups
    }

    /// What writes feed.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// What is known of the segments.
    pub fn coverage(&self) -> &CoverageState {
        &self.coverage
    }

    /// The ids of segments that carry none.
    pub fn instance_ids(&self) -> &InstanceIds {
        &self.instance_ids
    }

    pub fn hasher(&self) -> KeyHasher {
        self.lookups.hasher()
    }

    /// The functions that give the prefixes of its keys.
    pub fn prefixes(&self) -> &Arc<Prefixes> {
        self.lookups.prefixes()
    }

    pub fn view(&self) -> View {
        self.lookups.with_view(View::clone)
    }

    /// Whether the summary filter covers every segment.
    pub fn is_complete(&self) -> bool {
        self.lookups.is_complete()
    }

    pub fn stats(&self) -> Stats {
        self.lookups.stats()
    }

    /// The hashes of all keys in segments, while the column family grows.
    pub fn key_log(&self) -> &KeyLog {
        self.intake.key_log()
    }

    pub fn wake(&self) {
        self.wakeup.notify();
    }

    // -------------------------------------------------------------- memory

    /// Memory of the summary filters: the one that lookups read, and the one that is being built; with
    /// the range filter.
    pub fn size_of_summaries(&self) -> Bits {
        let mut filters = self.intake.summaries();
        let View {
            summary, ranges, ..
        } = self.view();
        filters.push(summary);
        filters.sort_unstable_by_key(Arc::as_ptr);
        filters.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let sizes = filters.iter().map(|filter| filter.size());
        sizes.chain([ranges.size()]).sum()
    }

    /// Memory of the filters that lookups read: the summary filter and the range filter.
    pub(crate) fn size_of_published(&self) -> Bits {
        self.lookups
            .with_view(|view| view.summary.size() + view.ranges.size())
    }

    /// Memory beside the filters if only a few segments are known.
    pub const OVERHEAD: Bits = {
        let parts = size_of::<Self>() + size_of::<View>() + Scalable::SIZE_BESIDE_STAGES;
        let all = parts + Counters::SIZE_OF_A_FEW + HOOKS;
        Bits::new(Bits::from_bytes(all as u64).get() + LISTS.get())
    };

    /// Memory beside the filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        fault!(FilterOverheadUnreported, return Bits::new(0));
        let lists = self.lookups.size_of_list() + self.coverage.size();
        Self::OVERHEAD + Bits::new(lists.get().saturating_sub(LISTS.get()))
    }

    // -------------------------------------------------------------- publishing

    /// Publishes `summary` to lookups and `covered` as the segments that it covers, unless external
    /// writes came since the listing began (invariant 5). Returns whether it did.
    pub fn publish<S>(
        &self,
        listing: &Listing<S>,
        summary: impl Into<Summary>,
        coverage: Coverage,
        covered: HashSet<SegmentId>,
    ) -> bool {
        let mut locked = self.coverage.lock();
        if !locked.learn(listing, covered, coverage.is_complete()) {
            return false;
        }
        let summary = summary.into();
        self.lookups.publish_known(&mut locked, summary, coverage);
        true
    }

    /// Notes that this summary filter has all keys of a segment, if lookups still use it. Nothing is
    /// published, but the segment need not be read again, even if external writes come meanwhile.
    pub(crate) fn mark_covered(&self, summary: &Arc<Scalable>, segment: Option<SegmentId>) {
        let mut locked = self.coverage.lock();
        if let Some(id) = segment
            && Arc::ptr_eq(&self.view().summary, summary)
        {
            locked.cover(id);
        }
    }

    /// Whether the summary filter that lookups use is saved with all its keys and its coverage.
    pub(crate) fn is_saved(&self) -> bool {
        self.coverage.is_saved(&self.view().summary)
    }

    /// Whether the next open would have to read little again: the summary filter was saved with
    /// most of its keys.
    pub(crate) fn is_nearly_saved(&self) -> bool {
        self.coverage.is_nearly_saved(&self.view().summary)
    }

    /// Makes writes feed these summary filters, and waits for the insertions that feed other ones.
    /// Returns false if it is unknown whether those have ended, or if the filters are disabled.
    pub(crate) fn feed(&self, summaries: Vec<Arc<Scalable>>) -> bool {
        {
            let locked = self.coverage.lock();
            if locked.is_disabled() || !self.intake.feed(summaries) {
                return false;
            }
        }
        // Without the lock: an insertion may have to read the database.
        self.intake.wait_for_insertions();
        true
    }

    // -------------------------------------------------------------- external writes

    /// External writes came without notice: coverage no longer holds.
    pub fn external_writes_happened(&self) {
        self.announce_external_writes();
        self.end_external_writes();
    }

    /// Begins external writes. The result must be held while they run. No key is answered absent
    /// until maintenance has listed the segments again.
    pub fn begin_external_writes(self: &Arc<Self>) -> ExternalWrites {
        self.announce_external_writes();
        ExternalWrites {
            cf_filter: Arc::clone(self),
        }
    }

    /// Invariants 4 and 5, H22: when this returns, the log of keys has ended, and no view of known
    /// coverage is published.
    fn announce_external_writes(&self) {
        let mut locked = self.coverage.lock();
        reached!(
            ExternalWritesInConsolidation,
            self.intake.summaries().len() > 1
        );
        locked.enter_external_writes();
        fault!(ExternalWritesUnannounced, return);
        locked.next_epoch();
        self.key_log().end();
        self.lookups.publish_unknown(&mut locked);
    }

    fn end_external_writes(&self) {
        self.coverage.lock().leave_external_writes();
        fault!(NoWakeAfterExternalWrite, return);
        self.wake();
    }

    // -------------------------------------------------------------- giving up

    /// Replaces the summary filter by one that answers *maybe*, and frees it. Returns false if it is
    /// such a one already.
    pub(crate) fn drop_summary(&self) -> bool {
        let nothing = self.saturated_summary();
        if self.view().summary.size() <= nothing.size() {
            return false;
        }
        fault!(DroppedSummaryNotFed, {
            self.feed(vec![Arc::clone(&nothing)]);
            std::thread::sleep(std::time::Duration::from_millis(50));
        });
        // Lookups first: keys that are written from here on are not in the old one (H2).
        {
            let mut locked = self.coverage.lock();
            let view = View {
                summary: Arc::clone(&nothing),
                summary_prefixes: self.prefixes().all(),
                ranges: Ranges::Omitted,
                ..self.view()
            };
            self.lookups.publish(&mut locked, view);
        }
        self.feed(vec![nothing]);
        reached!(SummaryDropped);
        true
    }

    /// Frees the range filter, so that each range is *maybe*. Returns false if there is none.
    pub(crate) fn drop_ranges(&self) -> bool {
        let mut locked = self.coverage.lock();
        let now = self.view();
        if now.ranges.size() == Bits::new(0) {
            return false;
        }
        reached!(RangesDropped);
        let view = View {
            ranges: Ranges::Omitted,
            ..now
        };
        self.lookups.publish(&mut locked, view);
        true
    }

    /// The column family was dropped, or a key may have been missed: every lookup gets *maybe* until
    /// the next open, and the memory of the filters is freed.
    pub fn retire(&self) {
        let mut locked = self.coverage.lock();
        reached!(RetiredInConsolidation, self.intake.summaries().len() > 1);
        locked.disable();
        locked.cover_none();
        self.key_log().end();
        let summary = self.saturated_summary();
        let view = View::unknown(Arc::clone(&summary), self.prefixes().all());
        self.lookups.publish(&mut locked, view);
        self.intake.feed(vec![summary]);
    }

    fn saturated_summary(&self) -> Arc<Scalable> {
        let imprint = self.hasher().imprint().for_summary();
        let options = *self.view().summary.options();
        let nothing = Chain::saturated(imprint);
        Arc::new(Scalable::starting_with(imprint, options, nothing))
    }

    // -------------------------------------------------------------- audits

    /// This, to be kept beyond a reading.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Gives the audits what they need, once the engine is open.
    pub(crate) fn audit_with(&self, auditor: Auditor) {
        self.auditor.get_or_init(|| auditor);
    }

    /// [`CfFilter::audit_negative`]. True if audits are throttled.
    #[cold]
    pub(crate) fn audit_unless_throttled(&self, key: &[u8]) -> bool {
        self.throttle
            .run(|| self.audit_negative(key))
            .unwrap_or(true)
    }

    /// Whether the engine, too, has no such key. Must not be called while this thread is in a read
    /// of the filters.
    #[cold]
    pub fn audit_negative(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_none_or(|auditor| auditor.audit_negative(self, key))
    }
}

impl Distrust for CfFilter {
    /// A key may have been missed: no key is answered absent until the next open (H70).
    fn disable(&self) {
        self.retire();
        tracing::error!(
            cf_filter = self.name(),
            "filters are disabled: all lookups of this column family go to the engine until the \
             database is opened again"
        );
    }
}

/// External writes that are under way; they end when this is dropped.
#[derive(Debug)]
pub struct ExternalWrites {
    cf_filter: Arc<CfFilter>,
}

impl Drop for ExternalWrites {
    fn drop(&mut self) {
        self.cf_filter.end_external_writes();
    }
}

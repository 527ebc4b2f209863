//! The filters of one column family: what lookups check, what writes feed, and when the filters
//! may rule a key out (`coverage_state`).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

pub(crate) mod auditor;
mod coverage_state;
mod listing;
pub mod lookup;
pub mod multi_lookup;
pub mod prefix_lookup;

pub use self::coverage_state::{ExternalWrites, WritePosition};
pub use self::listing::Listing;
pub use self::lookup::Resolve;

use self::auditor::Auditor;
use self::coverage_state::CoverageState;
use crate::audit::{Sampler, Throttle};
use crate::engine::KeySpace;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::KeyHasher;
use crate::instance_ids::InstanceIds;
use crate::intake::Intake;
use crate::key_log::KeyLog;
use crate::math::{Bits, Rate};
use crate::options::FrontOptions;
use crate::prefix::{PrefixSet, Prefixes};
use crate::rcu::Published;
use crate::segment::{Registry, SealedFilter, Segment, SegmentBuilder, SegmentId};
use crate::segment_filter_build::{SegmentFilterBuild, TableOrigin};
use crate::sorted_runs::SortedRuns;
use crate::stats::Counters;
use crate::sync::{Mutex, unpoisoned};
use crate::view::{Coverage, View};
use crate::wakeup::Wakeup;

/// The filters of SSTs in sorted runs; `None` if there are none, or too many SSTs overlap.
type Prefetched = Option<SortedRuns<Arc<SealedFilter>>>;

/// The filters of one column family.
#[derive(Debug)]
pub struct CfFilter {
    me: Weak<Self>,
    key_space: KeySpace,
    hasher: KeyHasher,
    registry: Arc<Registry>,
    wakeup: Arc<Wakeup>,
    view: Published<View>,
    /// The filters of SSTs, whose lines a lookup fetches before the engine probes them. What it
    /// lacks costs time only.
    prefetched: Published<Prefetched>,
    intake: Intake,
    coverage_state: Mutex<CoverageState>,
    instance_ids: InstanceIds,
    key_log: Arc<KeyLog>,
    prefixes: Arc<Prefixes>,
    segment_rate: Mutex<Option<Rate>>,
    /// Whether the SSTs of the last level get segment filters too.
    filters_last_level: bool,
    adaptive_hits: bool,
    pub counters: Counters,
    sample: Sampler,
    /// Throttles the audits of negatives.
    throttle: Throttle,
    /// Set once the engine is open.
    auditor: OnceLock<Auditor>,
}

/// Bytes that the shim and RocksDB keep for the hooks of one column family: the factories of its
/// memtables and SSTs.
const HOOKS: usize = 7 << 10;

/// Room for the lists of a few SSTs.
const LISTS: Bits = Bits::from_bytes(1 << 10);

impl CfFilter {
    /// Filters that know nothing of the SSTs yet. `summary`, `covered`, and which prefixes of their
    /// keys it has, come from a snapshot, or are empty.
    pub fn new(
        name: &str,
        hasher: KeyHasher,
        registry: Arc<Registry>,
        wakeup: Arc<Wakeup>,
        options: &FrontOptions,
        (summary, covered, prefixes): (Arc<Scalable>, HashSet<SegmentId>, PrefixSet),
    ) -> Arc<Self> {
        let mut view = View::unknown(Arc::clone(&summary), prefixes);
        fault!(CompleteFromTheStart, view.coverage = Coverage::Complete);
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            key_space: KeySpace::new(name),
            hasher,
            registry,
            wakeup,
            view: Published::new(view),
            prefetched: Published::new(None),
            intake: Intake::new(hasher, &options.prefixes, summary, options.publishes_first),
            coverage_state: Mutex::new(CoverageState::covering(covered)),
            instance_ids: InstanceIds::default(),
            key_log: Arc::default(),
            prefixes: Arc::clone(&options.prefixes),
            segment_rate: Mutex::new(options.segment_rate),
            // Scans within a prefix ask the filters of every level.
            filters_last_level: options.filters_last_level || !options.prefixes.is_empty(),
            adaptive_hits: options.adaptive_hits,
            counters: Counters::default(),
            sample: Sampler::configured(options.audit),
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

    pub fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The ids of SSTs that carry none.
    pub fn instance_ids(&self) -> &InstanceIds {
        &self.instance_ids
    }

    /// The hashes of all keys in SSTs, while the column family grows.
    pub fn key_log(&self) -> &KeyLog {
        &self.key_log
    }

    /// The functions that give the prefixes of its keys.
    pub fn prefixes(&self) -> &Arc<Prefixes> {
        &self.prefixes
    }

    /// Whether the summary filter lacks prefixes of keys that it has.
    pub(crate) fn lacks_prefixes(&self) -> bool {
        let all = self.prefixes.all();
        self.view.with(|view| !view.summary_prefixes.has_all(all))
    }

    /// Whether the summary filter covers every SST.
    pub fn is_complete(&self) -> bool {
        self.view.with(|view| view.coverage.is_complete())
    }

    /// Whether the SSTs are known and some will stay uncovered: no SST is read, or the uncovered
    /// ones have no id.
    pub(crate) fn stays_uncovered(&self, none_is_read: bool) -> bool {
        self.view.with(|view| {
            let uncovered = view.uncovered().unwrap_or_default();
            uncovered > 0 && (none_is_read || uncovered == view.without_id())
        })
    }

    pub fn view(&self) -> View {
        self.view.with(View::clone)
    }

    /// Memory of the filters that writes feed: the one that lookups use, and the one that will be
    /// used once it is complete.
    pub fn size(&self) -> Bits {
        let mut filters = self.intake.summaries();
        filters.push(self.view().summary);
        filters.sort_unstable_by_key(Arc::as_ptr);
        filters.dedup_by(|one, other| Arc::ptr_eq(one, other));
        filters.iter().map(|filter| filter.size()).sum()
    }

    /// Memory beside the filters if only a few SSTs are known.
    pub const OVERHEAD: Bits = {
        let parts = size_of::<Self>() + size_of::<View>() + Scalable::SIZE_BESIDE_STAGES;
        let all = parts + Counters::SIZE_OF_A_FEW + HOOKS;
        Bits::new(Bits::from_bytes(all as u64).get() + LISTS.get())
    };

    /// Memory beside the filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        fault!(FilterOverheadUnreported, return Bits::new(0));
        let listed = self
            .prefetched
            .with(|runs| runs.as_ref().map(SortedRuns::size_beside_filters));
        let known = unpoisoned(self.coverage_state.lock()).size();
        let lists = listed.unwrap_or_default() + known;
        Self::OVERHEAD + Bits::new(lists.get().saturating_sub(LISTS.get()))
    }

    pub fn wake(&self) {
        self.wakeup.notify();
    }

    // -------------------------------------------------------------- what writes feed

    /// What writes feed.
    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Writes feed these summary filters from here on, and the insertions that feed others are over.
    /// False if that cannot be told, or if the filters are disabled, so that no lookup uses them.
    pub fn feed(&self, summaries: Vec<Arc<Scalable>>) -> bool {
        {
            let coverage_state = unpoisoned(self.coverage_state.lock());
            if coverage_state.disabled || !self.intake.feed(summaries) {
                return false;
            }
        }
        // Unlocked: who inserts a key may have to read the database for it.
        self.intake.wait_for_insertions();
        true
    }

    // -------------------------------------------------------------- prefetches

    /// Lookups prefetch the lines of these filters.
    pub(crate) fn prefetch_from_now_on(&self, tables: Prefetched) {
        self.prefetched.publish(tables);
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

    /// The prefixes that all filters of SSTs have; none before maintenance has listed them.
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

    // -------------------------------------------------------------- audits

    /// This, to be kept beyond a reading.
    pub(crate) fn shared(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Gives the audits what they need, once the engine is open.
    pub(crate) fn audit_with(&self, auditor: Auditor) {
        self.auditor.get_or_init(|| auditor);
    }

    /// [`CfFilter::audit_negative`], unless audits are throttled.
    #[cold]
    pub(crate) fn audit_if_due(&self, key: &[u8]) -> bool {
        self.throttle
            .run(|| self.audit_negative(key))
            .unwrap_or(true)
    }

    /// Whether the engine, too, has no such key. Not within a reading.
    #[cold]
    pub fn audit_negative(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_none_or(|auditor| auditor.audit_negative(self, key))
    }

    // -------------------------------------------------------------- table capture and policy

    /// A filter for an SST that RocksDB starts to write; `None` if no segment filters are
    /// configured. An SST of the last level may get an id alone.
    pub fn begin_table(
        &self,
        origin: TableOrigin,
        is_in_last_level: bool,
    ) -> Option<SegmentFilterBuild> {
        let begun = self.segment_rate().zip(SegmentId::random().ok());
        let mut may_lack_keys = match origin {
            TableOrigin::Memtables => begun.is_none(),
            TableOrigin::Tables => false,
            TableOrigin::Unknown => true,
        };
        fault!(UnknownSstKeepsKeyLog, may_lack_keys = false);
        fault!(
            CompactionEndsKeyLog,
            may_lack_keys |= origin == TableOrigin::Tables
        );
        if may_lack_keys {
            self.key_log.end();
        }
        let (rate, id) = begun?;
        let key_log = (origin == TableOrigin::Memtables).then(|| Arc::clone(&self.key_log));
        let (registry, wakeup) = (Arc::clone(&self.registry), Arc::clone(&self.wakeup));
        if !self.wants_segment_filter(is_in_last_level) && key_log.is_none() {
            return Some(SegmentFilterBuild::of_none(registry, wakeup, id));
        }
        let builder = SegmentBuilder::new(id, self.hasher, rate).with_prefixes(&self.prefixes);
        Some(SegmentFilterBuild::new(registry, wakeup, builder, key_log))
    }

    /// Whether an SST of the last level of a leveled tree, or another, gets a filter. Nearly all keys
    /// are in the last level: there a filter denies nothing to hits, and to misses only what has
    /// passed the summary filter.
    pub fn wants_segment_filter(&self, is_in_last_level: bool) -> bool {
        self.filters_last_level || !is_in_last_level
    }

    /// The segment that a filter block names.
    pub fn open_segment(&self, id: SegmentId) -> Arc<Segment> {
        self.registry.open(id)
    }

    pub fn segment_rate(&self) -> Option<Rate> {
        *unpoisoned(self.segment_rate.lock())
    }

    pub(crate) fn set_segment_rate(&self, rate: Option<Rate>) {
        *unpoisoned(self.segment_rate.lock()) = rate;
    }
}

//! The filters of one column family: what lookups check, what writes feed, and when the filters
//! may rule a key out ([`coverage_state`]).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

pub(crate) mod auditor;
mod coverage_state;
pub(crate) mod lookup;
pub(crate) mod multi_lookup;
pub(crate) mod prefix_lookup;

pub(crate) use self::coverage_state::{CoverageEpoch, ExternalWrites, WritePosition};
pub(crate) use self::lookup::Resolve;

use self::auditor::Auditor;
use self::coverage_state::CoverageState;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::front::audit::{Sampler, Throttle};
use crate::front::engine::KeySpace;
use crate::front::instance_ids::InstanceIds;
use crate::front::intake::Intake;
use crate::front::key_log::KeyLog;
use crate::front::options::FrontOptions;
use crate::front::segment_filter_build::{SegmentFilterBuild, TableOrigin};
use crate::front::sorted_runs::SortedRuns;
use crate::front::view::{Coverage, View};
use crate::front::wakeup::Wakeup;
use crate::hash::KeyHasher;
use crate::math::{Bits, Rate};
use crate::prefix::{PrefixSet, Prefixes};
use crate::rcu::Published;
use crate::segment::{Registry, SealedFilter, Segment, SegmentBuilder, SegmentId};
use crate::stats::Counters;
use crate::sync::{Mutex, unpoisoned};

/// The filters of SSTs in sorted runs; `None` if there are none, or too many SSTs overlap.
type Prefetched = Option<SortedRuns<Arc<SealedFilter>>>;

/// The filters of one column family.
#[derive(Debug)]
pub(crate) struct CfFilter {
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
    counters: Counters,
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
    pub(crate) fn new(
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
            counters: Counters::new(),
            sample: Sampler::configured(options.audit),
            throttle: Throttle::configured(options.audit),
            auditor: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.key_space.name()
    }

    /// The column family that these filters belong to.
    pub(crate) fn key_space(&self) -> &KeySpace {
        &self.key_space
    }

    pub(crate) fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The ids of SSTs that carry none.
    pub(crate) fn instance_ids(&self) -> &InstanceIds {
        &self.instance_ids
    }

    /// The hashes of all keys in SSTs, while the column family grows.
    pub(crate) fn key_log(&self) -> &KeyLog {
        &self.key_log
    }

    /// The functions that give the prefixes of its keys.
    pub(crate) fn prefixes(&self) -> &Arc<Prefixes> {
        &self.prefixes
    }

    /// Whether the summary filter lacks prefixes of keys that it has.
    pub(crate) fn lacks_prefixes(&self) -> bool {
        let all = self.prefixes.all();
        self.view.with(|view| !view.summary_prefixes.has_all(all))
    }

    /// Whether the summary filter covers every SST.
    pub(crate) fn is_complete(&self) -> bool {
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

    pub(crate) fn view(&self) -> View {
        self.view.with(View::clone)
    }

    /// Memory of the filters that writes feed: the one that lookups use, and the one that will be
    /// used once it is complete.
    pub(crate) fn size(&self) -> Bits {
        let mut filters = self.intake.summaries();
        filters.push(self.view().summary);
        filters.sort_unstable_by_key(Arc::as_ptr);
        filters.dedup_by(|one, other| Arc::ptr_eq(one, other));
        filters.iter().map(|filter| filter.size()).sum()
    }

    /// Memory beside the filters if only a few SSTs are known.
    pub(crate) const OVERHEAD: Bits = {
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

    pub(crate) fn wake(&self) {
        self.wakeup.notify();
    }

    // -------------------------------------------------------------- what writes feed

    /// What writes feed.
    pub(crate) fn intake(&self) -> &Intake {
        &self.intake
    }

    /// Writes feed these summary filters from here on, and the insertions that feed others are over.
    /// False if that cannot be told, or if the filters are disabled, so that no lookup uses them.
    pub(crate) fn feed(&self, summaries: Vec<Arc<Scalable>>) -> bool {
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
    pub(crate) fn audit_negative(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_none_or(|auditor| auditor.audit_negative(self, key))
    }

    // -------------------------------------------------------------- table capture and policy

    /// A filter for an SST that RocksDB starts to write; `None` if no segment filters are
    /// configured. An SST of the last level may get an id alone.
    pub(crate) fn begin_table(
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
    pub(crate) fn wants_segment_filter(&self, is_in_last_level: bool) -> bool {
        self.filters_last_level || !is_in_last_level
    }

    /// The segment that a filter block names.
    pub(crate) fn open_segment(&self, id: SegmentId) -> Arc<Segment> {
        self.registry.open(id)
    }

    pub(crate) fn segment_rate(&self) -> Option<Rate> {
        *unpoisoned(self.segment_rate.lock())
    }

    pub(crate) fn set_segment_rate(&self, rate: Option<Rate>) {
        *unpoisoned(self.segment_rate.lock()) = rate;
    }
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests {
    use std::thread;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

    use super::lookup::{Fast, FastProbe, Verdict, check_all, get};
    use super::*;
    use crate::filter::{Chain, Scalar, Stage, WithSimd as _};
    use crate::front::audit::Distrust as _;
    use crate::front::cf_filters::CfFilters;
    use crate::front::sorted_runs::WithRange;
    use crate::hash::{HashId, Seed};
    use crate::math::Items;
    use crate::rocks::{Engine, hooks};
    use crate::threads::OwnSlot;

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([5; 16]))
    }

    fn summary() -> Arc<Scalable> {
        let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
        Arc::new(Scalable::new(hasher().imprint().for_summary(), options))
    }

    /// An empty database in memory and its filters, which are complete. No maintenance changes the
    /// view.
    fn engine_and_front() -> (Engine, Arc<CfFilter>) {
        let cf_filter = CfFilter::new(
            DEFAULT_COLUMN_FAMILY_NAME,
            hasher(),
            Arc::new(Registry::new(hasher())),
            Arc::default(),
            &FrontOptions::default(),
            (summary(), HashSet::new(), PrefixSet::default()),
        );
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_env(&Env::mem_env().unwrap());
        hooks::install(&options, Arc::clone(&cf_filter), &hooks::HOOKS);
        let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let engine = Engine::open_cf_with_opts(&options, "/front", cfs).unwrap();
        assert!(knows_all_in(&cf_filter, cf_filter.view().summary));
        (engine, cf_filter)
    }

    /// Publishes this summary filter as covering all SSTs; returns whether it was published.
    fn knows_all_in(cf_filter: &CfFilter, summary: Arc<Scalable>) -> bool {
        let (epoch, nothing) = (cf_filter.epoch(), HashSet::new());
        cf_filter.publish(epoch, summary, Coverage::Complete, nothing)
    }

    fn is_absent(verdict: Option<Verdict>) -> bool {
        let verdict = verdict.unwrap();
        matches!(verdict, Verdict::Absent(_) | Verdict::AbsentSampled(_))
    }

    /// What the fast probe says without the vectors that most processors have.
    fn is_absent_fast(filters: impl Resolve, key: &[u8]) -> bool {
        let fast = FastProbe(filters).with_simd(Scalar, key);
        matches!(fast, Fast::Absent | Fast::AbsentSampled(_))
    }

    /// Most processors that run tests dispatch to SIMD.
    #[test]
    fn fast_probe_agrees_with_all_filters_and_the_database() {
        let (engine, cf_filter) = engine_and_front();
        let cf_filters = CfFilters::new(FrontOptions::default().summary);
        cf_filters.insert(0, Arc::clone(&cf_filter));
        // With one stage, and then with several.
        for written in [100, 300_000_u32] {
            for key in 0..written {
                engine.put(key.to_be_bytes(), "value").unwrap();
            }
            let before = cf_filter.stats();
            let (mut absent, mut absent_fast) = (0, 0);
            for key in (0..100).chain(1 << 31..(1 << 31) + 1_000_u32) {
                let key = &key.to_be_bytes();
                let here = is_absent(check_all(&*cf_filter, key));
                assert_eq!(is_absent(check_all((&cf_filters, 0), key)), here);
                assert!(!here || engine.get(key).unwrap().is_none());
                absent += u64::from(here);
                let fast = is_absent_fast(&*cf_filter, key);
                assert_eq!(is_absent_fast((&cf_filters, 0), key), fast);
                assert!(here || !fast);
                absent_fast += u64::from(fast);
            }
            assert!((900..=1_000).contains(&absent), "{absent}");
            let is_one_line = cf_filter.view().summary.stages() == 1 && OwnSlot::known().is_some();
            assert_eq!(absent_fast, if is_one_line { absent } else { 0 });
            let counted = cf_filter.stats().absent - before.absent;
            assert_eq!(counted, 2 * absent + 2 * absent_fast);
        }
        assert!(cf_filter.view().summary.stages() > 1);
        assert!(check_all((&cf_filters, 1), b"key").is_none());
    }

    /// The fast probe denies nearly all absent keys, alone and by the column family's id, and no
    /// other key.
    #[test]
    fn static_summary_agrees_with_the_database() {
        let (engine, cf_filter) = engine_and_front();
        let cf_filters = CfFilters::new(FrontOptions::default().summary);
        cf_filters.insert(0, Arc::clone(&cf_filter));
        let keys = |numbers: std::ops::Range<u32>| numbers.map(u32::to_be_bytes);
        let hashes = keys(0..2_000).map(|key| hasher().hash(&key).for_summary());
        let stage = Stage::ribbon(hashes.collect(), Rate::ONE_PERCENT).unwrap();
        keys(0..2_000).for_each(|key| engine.put(key, "value").unwrap());
        let imprint = hasher().imprint().for_summary();
        let chain = Chain::new(imprint, vec![stage]);
        let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
        let summary = Scalable::starting_with(imprint, options, chain);
        assert!(knows_all_in(&cf_filter, Arc::new(summary)));
        let (mut absent, mut absent_fast) = (0, 0);
        for key in keys(0..2_000).chain(keys(1 << 31..(1 << 31) + 2_000)) {
            let key = &key[..];
            let here = is_absent(check_all(&*cf_filter, key));
            let found = get(&*cf_filter, key, || engine.get(key)).unwrap();
            assert_eq!(found, engine.get(key).unwrap());
            assert!(!here || found.is_none());
            let fast = is_absent_fast(&*cf_filter, key);
            assert_eq!(is_absent_fast((&cf_filters, 0), key), fast);
            assert!(here || !fast);
            absent += u32::from(here);
            absent_fast += u32::from(fast);
        }
        assert!((1_960..=2_000).contains(&absent), "{absent}");
        // Of seven columns, one absent key in 128 passes, and a few are bumped.
        let least = if OwnSlot::known().is_some() { 1_800 } else { 0 };
        assert!((least..=absent).contains(&absent_fast), "{absent_fast}");
    }

    /// A wait for all column families would otherwise take a dropped one for a failed hook.
    #[test]
    fn a_front_that_is_taken_out_is_none_that_has_given_up() {
        let (_engine, cf_filter) = engine_and_front();
        let cf_filters = CfFilters::new(FrontOptions::default().summary);
        cf_filters.insert(0, Arc::clone(&cf_filter));
        assert!(!cf_filters.any_is_disabled());
        cf_filters.withdraw_view(&cf_filter);
        assert!(cf_filter.is_disabled() && !cf_filters.any_is_disabled());
        cf_filters.insert(0, cf_filter);
        assert!(cf_filters.any_is_disabled());
    }

    #[test]
    fn a_summary_is_stored_until_keys_or_tables_come() {
        let (engine, cf_filter) = engine_and_front();
        let put = |numbers: std::ops::Range<u32>| {
            numbers.for_each(|key| engine.put(key.to_be_bytes(), "value").unwrap());
        };
        let are = || (cf_filter.is_stored(), cf_filter.is_nearly_stored());
        let store = || cf_filter.note_stored(cf_filter.to_store(&cf_filter.view().summary));
        put(0..10_000);
        assert_eq!(are(), (false, false));
        store();
        assert_eq!(are(), (true, true));
        put(10_000..11_000);
        assert_eq!(are(), (false, true));
        put(11_000..12_000);
        assert_eq!(are(), (false, false));
        store();
        let covered = |ids: &[u8]| {
            let ids = ids.iter().map(|&id| SegmentId::from_bytes([id; 16]));
            let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
            assert!(cf_filter.publish(epoch, summary, Coverage::Complete, ids.collect()));
        };
        covered(&[1, 2]);
        assert_eq!(are(), (false, true));
        store();
        covered(&[2]);
        assert_eq!(are(), (true, true));
        assert!(knows_all_in(&cf_filter, summary()));
        assert_eq!(are(), (false, false));
    }

    /// The filters say nothing of an SST that was not read, so nothing false.
    #[test]
    fn a_miss_beside_a_table_that_is_not_covered_is_no_false_positive() {
        let (_engine, cf_filter) = engine_and_front();
        let uncovered = WithRange {
            filter: None,
            range: None,
        };
        let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
        let coverage = Coverage::all_but(vec![uncovered]);
        assert!(cf_filter.publish(epoch, summary, coverage, HashSet::new()));
        let verdict = check_all(&*cf_filter, b"absent").unwrap();
        assert!(matches!(verdict, Verdict::Maybe));
        cf_filter.record(verdict, Some(false));
        let stats = cf_filter.stats();
        assert_eq!((stats.uncovered, stats.false_positives), (1, 0));
    }

    /// A maintenance run may be under way when a hook fails.
    #[test]
    fn what_was_learnt_before_a_front_gave_up_is_not_published() {
        let (_engine, cf_filter) = engine_and_front();
        let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
        assert!(cf_filter.answer(b"absent").is_absent());
        cf_filter.disable();
        let published = cf_filter.publish(epoch, summary, Coverage::Complete, HashSet::new());
        assert!(!published && !cf_filter.answer(b"absent").is_absent());
    }

    /// The key was written and deleted between the two checks.
    #[test]
    fn what_another_view_denies_was_not_denied_all_along() {
        let (engine, cf_filter) = engine_and_front();
        let edition = cf_filter.edition();
        let still_denied = || cf_filter.still_absent(&["key"], edition);
        assert!(still_denied());
        engine.put("key", "value").unwrap();
        assert!(!still_denied());
        engine.delete("key").unwrap();
        let anew = summary();
        assert!(cf_filter.feed(vec![Arc::clone(&anew)]));
        assert!(knows_all_in(&cf_filter, anew));
        assert!(cf_filter.answer(b"key").is_absent());
        assert!(!still_denied());
    }

    #[test]
    fn keys_written_while_a_summary_is_dropped_are_found() {
        let (engine, cf_filter) = engine_and_front();
        thread::scope(|scope| {
            let drops = scope.spawn(|| assert!(cf_filter.drop_summary()));
            for key in 0_u32.. {
                let last = drops.is_finished();
                engine.put(key.to_be_bytes(), "value").unwrap();
                assert!(
                    !cf_filter.answer(&key.to_be_bytes()).is_absent(),
                    "key {key}"
                );
                engine.flush().unwrap();
                if last {
                    break;
                }
            }
        });
    }
}

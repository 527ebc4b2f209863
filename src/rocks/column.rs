//! The front of one column family: what its readers ask ([`asking`]), what its writers feed, and how
//! far it may be believed ([`knowledge`]).

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

mod asking;
mod knowledge;

pub(crate) use self::asking::{BeginsStatic, UnderReading};
pub(crate) use self::knowledge::{Epoch, ForeignKeys, Moment};

use self::knowledge::Knowledge;
use super::audit::{Auditor, Sample};
use super::bell::Bell;
use super::coverage::{Coverage, View};
use super::instance_ids::InstanceIds;
use super::inventory::Inventory;
use super::memtables::{Memtables, WriteTarget};
use super::options::SieveOptions;
use super::pace::Pace;
use super::table::TableBuild;
use crate::filter::Scalable;
use crate::hash::KeyHasher;
use crate::math::{Bits, Rate};
use crate::planted::planted;
use crate::rcu::Published;
use crate::segment::{Registry, SealedFilter, Segment, SegmentBuilder, SegmentId};
use crate::stats::Counters;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, unpoisoned};

/// One column family's front.
#[derive(Debug)]
pub(crate) struct Column {
    me: Weak<Self>,
    name: String,
    /// RocksDB's id of the family, once it has a memtable.
    family: AtomicU32,
    hasher: KeyHasher,
    registry: Arc<Registry>,
    bell: Arc<Bell>,
    view: Published<View>,
    memtables: Memtables,
    knowledge: Mutex<Knowledge>,
    instance_ids: InstanceIds,
    segment_rate: Mutex<Option<Rate>>,
    static_filters: bool,
    /// Whether the summary that readers ask begins static; a hint.
    begins_static: AtomicBool,
    spares_hits: bool,
    counters: Counters,
    sample: Sample,
    /// Of audits that look for what the filters deny.
    pace: Pace,
    /// Once the engine is open.
    auditor: OnceLock<Auditor>,
}

/// What the shim and RocksDB keep for the hooks of one family: the factories of its memtables and tables.
const HOOKS: usize = 6 << 10;

/// Room for the lists of a few tables.
const LISTS: Bits = Bits::from_bytes(1 << 10);

/// No id of a family: RocksDB counts them from 0.
const NO_FAMILY: u32 = u32::MAX;

impl Column {
    /// A front that knows nothing of the tables yet. `summary` and `covers` come from a snapshot,
    /// or are empty.
    pub(crate) fn new(
        name: &str,
        hasher: KeyHasher,
        registry: Arc<Registry>,
        bell: Arc<Bell>,
        options: &SieveOptions,
        (summary, covers): (Arc<Scalable>, HashSet<SegmentId>),
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: Weak::clone(me),
            name: name.to_owned(),
            family: AtomicU32::new(NO_FAMILY),
            hasher,
            registry,
            bell,
            view: Published::new(View {
                summary: Arc::clone(&summary),
                coverage: if planted!(KnownFromTheStart) {
                    Coverage::Complete
                } else {
                    Coverage::Unknown
                },
                inventory: None,
                edition: 0,
            }),
            begins_static: AtomicBool::new(summary.begins_static()),
            memtables: Memtables::new(hasher, options, summary, me),
            knowledge: Mutex::new(Knowledge::of_tables(covers)),
            instance_ids: InstanceIds::default(),
            segment_rate: Mutex::new(options.get_segment_rate()),
            static_filters: options.has_static_filters(),
            spares_hits: options.spares_hits(),
            counters: Counters::new(),
            sample: options.audit_sample(),
            pace: options.audit_pace(),
            auditor: OnceLock::new(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// RocksDB's id of the family that the front is bound to: another one of the same name is not its
    /// own. None means that the hooks do not fire.
    pub(crate) fn family(&self) -> Option<u32> {
        Some(self.family.load(Ordering::Acquire)).filter(|&id| id != NO_FAMILY)
    }

    pub(crate) fn is_front_of(&self, id: u32) -> bool {
        self.family() == Some(id) || planted!(FrontBoundByName)
    }

    pub(crate) fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The ids of tables that carry none.
    pub(crate) fn instance_ids(&self) -> &InstanceIds {
        &self.instance_ids
    }

    /// Whether the summary speaks for every table.
    pub(crate) fn is_complete(&self) -> bool {
        self.view.with(|view| view.coverage.is_complete())
    }

    /// Whether the tables are known, and the summary will not speak for more of them: where none is read, or
    /// the others have no id.
    pub(crate) fn stays_uncovered(&self, none_is_read: bool) -> bool {
        self.view.with(|view| {
            let uncovered = view.uncovered().unwrap_or_default();
            uncovered > 0 && (none_is_read || uncovered == view.without_id())
        })
    }

    pub(crate) fn view(&self) -> View {
        self.view.with(View::clone)
    }

    /// All filters that memtables feed, or fed since the tables were listed.
    pub(crate) fn growing_filters(&self) -> Vec<Arc<Scalable>> {
        let View {
            summary, inventory, ..
        } = self.view();
        let recent = inventory.iter().flat_map(Inventory::recent);
        recent.map(Arc::clone).chain([summary]).collect()
    }

    /// Memory that the filters take which readers ask, and those of the latest memtables.
    pub(crate) fn size(&self) -> Bits {
        let mut filters = self.growing_filters();
        filters.extend(self.memtables.recent());
        filters.sort_unstable_by_key(Arc::as_ptr);
        filters.dedup_by(|one, other| Arc::ptr_eq(one, other));
        filters.iter().map(|filter| filter.size()).sum()
    }

    /// What a front takes beside filters that knows a few tables.
    pub(crate) const FRONT: Bits = {
        // The summary and the filter of the latest memtables.
        let filters = 2 * Scalable::SIZE_BESIDE_STAGES;
        let parts = size_of::<Self>() + size_of::<View>() + size_of::<WriteTarget>();
        let all = parts + Counters::SIZE_OF_A_FEW + filters + HOOKS;
        Bits::new(Bits::from_bytes(all as u64).get() + LISTS.get())
    };

    /// Memory that the front takes beside filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        if planted!(FrontsUntold) {
            return Bits::new(0);
        }
        let view = self.view();
        let listed = view.inventory.as_ref().map(Inventory::size_beside_filters);
        let known = unpoisoned(self.knowledge.lock()).size();
        let lists = listed.unwrap_or_default() + known;
        Self::FRONT + Bits::new(lists.get().saturating_sub(LISTS.get()))
    }

    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    // -------------------------------------------------------------- memtable capture

    /// RocksDB made a memtable for the family with this id. The newest tells: while a database
    /// opens, families are made that had the name before and were dropped.
    pub(crate) fn memtable_created(&self, family: u32) {
        self.family.store(family, Ordering::Release);
    }

    /// The memtables of the family, and what they feed.
    pub(crate) fn memtables(&self) -> &Memtables {
        &self.memtables
    }

    /// Names the summaries that memtables feed whose first key arrives from now on; of a front that gave
    /// up, nobody asks them.
    pub(crate) fn retarget(&self, summaries: Vec<Arc<Scalable>>) {
        let next = self.memtables.next(summaries);
        let knowledge = unpoisoned(self.knowledge.lock());
        if knowledge.given_up {
            return;
        }
        let view = self.view();
        if let Some(inventory) = &view.inventory
            && !planted!(NewGenerationLeftOut)
        {
            // Before a memtable is bound to it.
            let inventory = Some(inventory.and_recent(next.recent()));
            self.show(View { inventory, ..view });
        }
        self.memtables.turn_to(next);
    }

    /// The recent filters of all memtables that have keys in no table or will be bound before the next
    /// [`Column::retarget`]; a fresh one for the latter.
    pub(crate) fn collect_recent(&self) -> Vec<Arc<Scalable>> {
        let current = self.memtables.current();
        if current.recent().items().get() > 0 {
            self.retarget(current.summaries().to_vec());
        }
        drop(current);
        self.memtables.recent()
    }

    // -------------------------------------------------------------- table capture and policy

    /// A filter for a table that RocksDB starts to write; `None` when none is wanted.
    pub(crate) fn begin_table(&self) -> Option<TableBuild> {
        let rate = self.segment_rate()?;
        let id = SegmentId::random().ok()?;
        let builder = SegmentBuilder::new(id, self.hasher, rate).made_static(self.static_filters);
        Some(TableBuild::new(self.me.upgrade()?, builder))
    }

    pub(crate) fn table_captured(&self, id: SegmentId, filter: SealedFilter) {
        self.registry.open(id).set_filter(filter, false);
        self.wake();
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
mod tests {
    use std::thread;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

    use super::*;
    use crate::filter::{AtLine, AtWindow, ByWords, Chain, Look as _, Stage};
    use crate::hash::{HashId, Seed};
    use crate::math::Items;
    use crate::rcu::Reading;
    use crate::rocks::audit::Asked;
    use crate::rocks::columns::{Columns, OfFamily};
    use crate::rocks::runs::Spanning;
    use crate::rocks::{Engine, ffi};
    use crate::threads::OwnSlot;

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([5; 16]))
    }

    fn summary() -> Arc<Scalable> {
        let options = SieveOptions::default().summary(Items::new(0), Bits::new(0));
        Arc::new(Scalable::new(hasher().imprint().remixed(), options))
    }

    /// An empty database in memory and its front, which knows it; no upkeep changes its view.
    fn engine_and_front() -> (Engine, Arc<Column>) {
        let column = Column::new(
            DEFAULT_COLUMN_FAMILY_NAME,
            hasher(),
            Arc::new(Registry::new(hasher())),
            Arc::default(),
            &SieveOptions::default(),
            (summary(), HashSet::new()),
        );
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_env(&Env::mem_env().unwrap());
        ffi::install(&mut options, Arc::clone(&column), &ffi::HOOKS);
        let families = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let engine = Engine::open_cf_with_opts(&options, "/front", families).unwrap();
        assert!(knows_all_in(&column, column.view().summary));
        (engine, column)
    }

    /// Lets readers ask this summary, which speaks for all tables; whether they do.
    fn knows_all_in(column: &Column, summary: Arc<Scalable>) -> bool {
        let (epoch, nothing) = (column.epoch(), HashSet::new());
        column.publish(epoch, summary, Coverage::Complete, nothing)
    }

    fn is_denied(asked: Asked) -> bool {
        matches!(asked, Asked::Absent(_) | Asked::Doubted(_))
    }

    /// Most processors that run tests look by vectors.
    #[test]
    fn a_ask_by_words_says_what_is_in_the_database() {
        let (engine, column) = engine_and_front();
        let columns = Columns::new(Rate::new(0.01).unwrap());
        columns.insert(0, Arc::clone(&column));
        let reading = || {
            let slot = OwnSlot::known()?;
            Some((slot, Reading::begin_at_once(slot)?))
        };
        // The first stage, and then several.
        for written in [100, 300_000_u32] {
            for key in 0..written {
                engine.put(key.to_be_bytes(), "value").unwrap();
            }
            let before = column.stats();
            let (mut denied, mut denied_at_once) = (0, 0);
            for key in (0..100).chain(1 << 31..(1 << 31) + 1_000_u32) {
                let key = &key.to_be_bytes();
                let asked = [
                    (&*column).through(ByWords, key),
                    OfFamily(&columns, 0).through(ByWords, key).unwrap(),
                ];
                let here = is_denied(column.ask(key));
                assert_eq!(asked.map(is_denied), [here; 2]);
                assert!(!here || engine.get(key).unwrap().is_none());
                denied += u64::from(here);
                let at_once = reading().and_then(|(slot, reading)| {
                    column.ask_under::<AtLine>(slot, &reading, ByWords, key)
                });
                denied_at_once += u64::from(at_once.is_some());
            }
            assert!((900..=1_000).contains(&denied), "{denied}");
            let are_one_line = column.view().summary.stages() == 1 && reading().is_some();
            assert_eq!(denied_at_once, if are_one_line { denied } else { 0 });
            let counted = column.stats().absent - before.absent;
            assert_eq!(counted, 3 * denied + denied_at_once);
        }
        assert!(column.view().summary.stages() > 1);
        assert!(OfFamily(&columns, 1).through(ByWords, b"key").is_none());
    }

    /// Nearly all keys that are not there are denied at a glance, alone and by the family's id, and no other.
    #[test]
    fn a_static_summary_says_at_a_glance_what_is_not_in_the_database() {
        let (engine, column) = engine_and_front();
        let columns = Columns::new(Rate::new(0.01).unwrap());
        columns.insert(0, Arc::clone(&column));
        let keys = |numbers: std::ops::Range<u32>| numbers.map(u32::to_be_bytes);
        let hashes = keys(0..2_000).map(|key| hasher().hash(&key).remixed());
        let stage = Stage::ribbon(hashes.collect(), Rate::ONE_PERCENT).unwrap();
        keys(0..2_000).for_each(|key| engine.put(key, "value").unwrap());
        let imprint = hasher().imprint().remixed();
        let chain = Chain::new(imprint, vec![stage]);
        let options = SieveOptions::default().summary(Items::new(0), Bits::new(0));
        let summary = Scalable::starting_with(imprint, options, chain);
        assert!(knows_all_in(&column, Arc::new(summary)));
        assert!(column.begins_static());
        let (mut denied, mut at_a_glance) = (0, 0);
        for key in keys(0..2_000).chain(keys(1 << 31..(1 << 31) + 2_000)) {
            let key = &key[..];
            let says = is_denied(column.ask_fully(key));
            let asked = [
                column.ask(key),
                columns.ask(0, key).unwrap(),
                BeginsStatic(&column).through(ByWords, key),
                UnderReading(BeginsStatic(&column), &Reading::begin()).through(ByWords, key),
            ];
            assert_eq!(asked.map(is_denied), [says; 4]);
            assert!(!says || engine.get(key).unwrap().is_none());
            denied += u32::from(says);
            let (slot, reading) = (OwnSlot::get(), Reading::begin());
            let glance = |slot| column.ask_under::<AtWindow>(slot, &reading, ByWords, key);
            let glance = slot.and_then(glance);
            assert!(says || glance.is_none());
            at_a_glance += u32::from(slot.is_none_or(|_| glance.is_some()));
        }
        assert!((1_960..=2_000).contains(&denied), "{denied}");
        // The first plane of seven columns tells all but one in 128, and a few are bumped.
        assert!((1_800..=denied).contains(&at_a_glance), "{at_a_glance}");
        assert!(knows_all_in(&column, self::summary()));
        assert!(!column.begins_static());
    }

    /// Whoever waits for all families would take the end of one for a failed hook.
    #[test]
    fn a_front_that_is_taken_out_is_none_that_has_given_up() {
        let (_engine, column) = engine_and_front();
        let columns = Columns::new(Rate::ONE_PERCENT);
        columns.insert(0, Arc::clone(&column));
        assert!(!columns.one_has_given_up());
        columns.forget(&column);
        assert!(column.has_given_up() && !columns.one_has_given_up());
        columns.insert(0, column);
        assert!(columns.one_has_given_up());
    }

    #[test]
    fn a_summary_is_stored_until_keys_or_tables_come() {
        let (engine, column) = engine_and_front();
        let put = |numbers: std::ops::Range<u32>| {
            numbers.for_each(|key| engine.put(key.to_be_bytes(), "value").unwrap());
        };
        let are = || (column.is_stored(), column.is_nearly_stored());
        let store = || column.note_stored(column.to_store(&column.view().summary));
        put(0..10_000);
        assert_eq!(are(), (false, false));
        store();
        assert_eq!(are(), (true, true));
        put(10_000..11_000);
        assert_eq!(are(), (false, true));
        put(11_000..12_000);
        assert_eq!(are(), (false, false));
        store();
        let covers = |ids: &[u8]| {
            let ids = ids.iter().map(|&id| SegmentId::from_bytes([id; 16]));
            let (epoch, summary) = (column.epoch(), column.view().summary);
            assert!(column.publish(epoch, summary, Coverage::Complete, ids.collect()));
        };
        covers(&[1, 2]);
        assert_eq!(are(), (false, true));
        store();
        covers(&[2]);
        assert_eq!(are(), (true, true));
        assert!(knows_all_in(&column, summary()));
        assert_eq!(are(), (false, false));
    }

    /// Of a table that nobody has read the filters say nothing, hence nothing false.
    #[test]
    fn a_miss_beside_a_table_that_is_not_covered_is_no_false_positive() {
        let (_engine, column) = engine_and_front();
        let uncovered = Spanning {
            filter: None,
            range: None,
        };
        let (epoch, summary) = (column.epoch(), column.view().summary);
        let coverage = Coverage::all_but(vec![uncovered]);
        assert!(column.publish(epoch, summary, coverage, HashSet::new()));
        let asked = column.ask(b"absent");
        assert!(matches!(asked, Asked::Maybe));
        column.engine_answered(asked, false);
        let stats = column.stats();
        assert_eq!((stats.uncovered, stats.false_positives), (1, 0));
    }

    /// Upkeep may be in the middle of a pass when a hook fails.
    #[test]
    fn what_was_learnt_before_a_front_gave_up_is_not_published() {
        let (_engine, column) = engine_and_front();
        let (epoch, summary) = (column.epoch(), column.view().summary);
        assert!(column.look_up(b"absent").is_absent());
        column.give_up();
        let published = column.publish(epoch, summary, Coverage::Complete, HashSet::new());
        assert!(!published && !column.look_up(b"absent").is_absent());
    }

    /// The key came and went between the two denials.
    #[test]
    fn what_another_view_denies_was_not_denied_all_along() {
        let (engine, column) = engine_and_front();
        let edition = column.edition();
        let still_denied = || column.still_denies(&["key"], edition);
        assert!(still_denied());
        engine.put("key", "value").unwrap();
        assert!(!still_denied());
        engine.delete("key").unwrap();
        // As a consolidation does it.
        let anew = summary();
        column.retarget(vec![Arc::clone(&anew)]);
        engine.flush().unwrap();
        assert!(knows_all_in(&column, anew));
        assert!(column.look_up(b"key").is_absent());
        assert!(!still_denied());
    }

    /// Each flush brings a memtable that takes its filters anew.
    #[test]
    fn keys_written_while_a_summary_is_dropped_are_found() {
        let (engine, column) = engine_and_front();
        thread::scope(|scope| {
            let drops = scope.spawn(|| assert!(column.drop_summary()));
            for key in 0_u32.. {
                let last = drops.is_finished();
                engine.put(key.to_be_bytes(), "value").unwrap();
                assert!(!column.look_up(&key.to_be_bytes()).is_absent(), "key {key}");
                engine.flush().unwrap();
                if last {
                    break;
                }
            }
        });
    }
}

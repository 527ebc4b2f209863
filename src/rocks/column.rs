//! The front of one column family: what its readers ask and what its writers feed.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock, Weak};

use super::audit::{Asked, Auditor, Sample};
use super::bell::Bell;
use super::coverage::{Answer, CHUNK, Coverage, Proof, View};
use super::inventory::Inventory;
use super::memtables::Memtables;
use super::options::SieveOptions;
use super::table::TableBuild;
use crate::filter::{Chain, Scalable};
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Rate;
use crate::planted::planted;
use crate::rcu::{Published, Reading};
use crate::segment::{Registry, SealedFilter, Segment, SegmentBuilder, SegmentId};
use crate::stats::{Counters, Event, Stats};
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, unpoisoned};
use crate::threads::OwnSlot;

/// What upkeep knows of a column's tables.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// Tables whose keys are all in the summary.
    pub(crate) covers: HashSet<SegmentId>,
    /// Whether every table that flush and compaction make is covered by construction: coverage
    /// was complete once and nothing came from outside since.
    pub(crate) settled: bool,
    /// Grows with each arrival of keys from outside.
    foreign_epoch: u64,
    /// Arrivals under way.
    foreign_in_flight: usize,
    /// A hook failed: nothing may be ruled out any more.
    given_up: bool,
}

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
    segment_rate: Mutex<Option<Rate>>,
    consolidated: AtomicU64,
    counters: Counters,
    sample: Sample,
    /// Once the engine is open.
    auditor: OnceLock<Auditor>,
}

/// No id of a family: RocksDB counts them from 0.
const NO_FAMILY: u32 = u32::MAX;

/// No sequence number of RocksDB.
const NEVER: u64 = u64::MAX;

impl Column {
    /// A front that knows nothing of the tables yet. `summary` and `covers` come from a snapshot,
    /// or are empty.
    pub(crate) fn new(
        name: &str,
        hasher: KeyHasher,
        registry: Arc<Registry>,
        bell: Arc<Bell>,
        options: &SieveOptions,
        (summary, covers): (Scalable, HashSet<SegmentId>),
    ) -> Arc<Self> {
        let summary = Arc::new(summary);
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
                    Coverage::complete()
                } else {
                    Coverage::Unknown
                },
                inventory: None,
                edition: 0,
            }),
            memtables: Memtables::new(hasher, options, summary, me),
            knowledge: Mutex::new(Knowledge {
                covers,
                ..Knowledge::default()
            }),
            segment_rate: Mutex::new(options.get_segment_rate()),
            consolidated: AtomicU64::new(NEVER),
            counters: Counters::new(),
            sample: Sample::one_in(options.get_audit()),
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

    // -------------------------------------------------------------- readers

    /// The filters' answer, counted when it is *absent*. What is doubted waits for
    /// [`Column::audit`].
    #[inline]
    pub(crate) fn ask(&self, key: &[u8]) -> Asked {
        match self.ask_at_once(key) {
            Some(asked) => asked,
            None => self.ask_all(key),
        }
    }

    /// [`Column::ask_under`] by itself, apart: without a call it needs next to no frame.
    #[inline(never)]
    fn ask_at_once(&self, key: &[u8]) -> Option<Asked> {
        let slot = OwnSlot::known()?;
        let reading = Reading::begin_at_once(slot)?;
        self.ask_under(slot, &reading, key)
    }

    /// A miss as most are, without a call but that of the vectors. It waits for one line of memory, and the fewer its
    /// instructions, the more look-ups the processor has waiting together. `None` says nothing:
    /// [`Column::ask_all`] does.
    #[inline(always)]
    pub(crate) fn ask_under(&self, slot: OwnSlot, reading: &Reading, key: &[u8]) -> Option<Asked> {
        let hash = self.hasher.at_once(key)?;
        let proof = self.view.get(reading).absent_at_once(hash)?;
        let count = self.counters.add_to(slot, Event::Absent, 1);
        Some(self.denied(hash, count, proof))
    }

    /// [`Column::ask`], whatever it takes; may be called under a reading.
    #[inline(never)]
    pub(crate) fn ask_all(&self, key: &[u8]) -> Asked {
        let hash = self.hasher.hash(key);
        match self.view.with(|view| view.answer(hash, key)) {
            Answer::Absent(proof) => self.denied(hash, self.count(Event::Absent), proof),
            Answer::Maybe => Asked::Maybe,
        }
    }

    #[inline]
    fn denied(&self, hash: KeyHash, count: u64, proof: Proof) -> Asked {
        if self.sample.draws(hash, count) {
            Asked::Doubted(proof)
        } else {
            Asked::Absent(proof)
        }
    }

    /// The filters' answer, audited. Not for use within a read of a published value.
    #[inline]
    pub(crate) fn look_up(&self, key: &[u8]) -> Answer {
        match self.ask(key) {
            Asked::Absent(proof) => Answer::Absent(proof),
            Asked::Doubted(proof) => self.audit(key, proof),
            Asked::Maybe => Answer::Maybe,
        }
    }

    /// The answer once the engine has been asked as well. Not for use within a read of a published
    /// value: it takes long, and may end in another view.
    #[cold]
    pub(crate) fn audit(&self, key: &[u8], proof: Proof) -> Answer {
        if self.denial_stands(key) {
            Answer::Absent(proof)
        } else {
            Answer::Maybe
        }
    }

    /// The indexes of the keys that may be there, ascending; the others are counted as *absent*.
    /// Not for use within a read of a published value.
    pub(crate) fn ask_many(&self, keys: &[impl AsRef<[u8]>]) -> Vec<usize> {
        let mut left = Vec::new();
        let mut doubted = Vec::new();
        self.view.with(|view| {
            for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
                let mut maybe = [true; CHUNK];
                let first = chunk * CHUNK;
                let asked = left.len();
                if view.answer_many(self.hasher, keys, &mut maybe[..keys.len()]) {
                    left.extend((0..keys.len()).filter(|&at| maybe[at]).map(|at| first + at));
                }
                let times = keys.len() - (left.len() - asked);
                let count = self.counters.add(Event::Absent, times as u64);
                let somewhere = self.hasher.hash(keys[0].as_ref());
                let drawn = self.sample.among(somewhere, count, times);
                let absent = (0..keys.len()).filter(|&at| !maybe[at]);
                let drawn = absent.skip(drawn.start).take(drawn.len());
                doubted.extend(drawn.map(|at| first + at));
            }
        });
        if !doubted.is_empty() {
            doubted.retain(|&at| !self.denial_stands(keys[at].as_ref()));
            left.extend(doubted);
            left.sort_unstable();
        }
        left
    }

    /// Which view is published now.
    pub(crate) fn edition(&self) -> u64 {
        self.view.with(|view| view.edition)
    }

    /// Whether the view of this edition is still published and denies every key but those at
    /// `let_by`, which are ascending. If so, it denied them at every moment since.
    pub(crate) fn still_denies_all_but(
        &self,
        let_by: &[usize],
        keys: &[impl AsRef<[u8]>],
        edition: u64,
    ) -> bool {
        let denied = |at: usize| let_by.binary_search(&at).is_err();
        self.view.with(|view| {
            let mut chunks = keys.chunks(CHUNK).enumerate();
            (view.edition == edition || planted!(EditionUnchecked))
                && chunks.all(|(chunk, keys)| {
                    let mut maybe = [true; CHUNK];
                    let first = chunk * CHUNK;
                    let any = view.answer_many(self.hasher, keys, &mut maybe[..keys.len()]);
                    !any || !(0..keys.len()).any(|at| maybe[at] && denied(first + at))
                })
        })
    }

    /// Counts what the engine found where the filters said *maybe*. Returns whether that it found
    /// nothing is doubted, and waits for [`Column::tables_hide`].
    pub(crate) fn engine_answered(&self, found: bool) -> bool {
        let event = match (found, self.is_known()) {
            (true, _) => Event::Found,
            (false, true) => Event::FalsePositive,
            (false, false) => Event::Uncovered,
        };
        let count = self.counters.add(event, 1);
        !found && self.sample.draws(KeyHash::new(0), count)
    }

    /// Whether an audit finds no key where the filters deny one. Not for use within a read of a
    /// published value.
    #[cold]
    pub(crate) fn denial_stands(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_none_or(|auditor| auditor.denial_stands(self, key))
    }

    /// Whether the engine has a key that it did not find, so that it must be asked again. Not for
    /// use within a read of a published value.
    #[cold]
    pub(crate) fn tables_hide(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_some_and(|auditor| auditor.tables_hide(self, key))
    }

    /// Counts what the engine found where the filters said *maybe*, and audits it now and then:
    /// whether the engine must be asked again. Not for use within a read of a published value.
    pub(crate) fn must_ask_again(&self, key: &[u8], found: bool) -> bool {
        self.engine_answered(found) && self.tables_hide(key)
    }

    /// All filters that memtables feed, or fed since the tables were listed.
    pub(crate) fn growing_filters(&self) -> Vec<Arc<Scalable>> {
        let View {
            summary, inventory, ..
        } = self.view();
        let recent = inventory.iter().flat_map(Inventory::recent);
        recent.map(Arc::clone).chain([summary]).collect()
    }

    /// Takes the second look away if this filter has a part in it.
    pub(crate) fn drop_second_look_at(&self, filter: &Arc<SealedFilter>) {
        let epoch = self.epoch();
        let inventory = self.view().inventory;
        let asks = inventory.is_some_and(|inventory| inventory.asks(filter));
        if asks && !planted!(DamagedFilterAsked) {
            self.publish_inventory(epoch, None);
        }
    }

    pub(crate) fn sample(&self) -> Sample {
        self.sample
    }

    /// Counts one event; returns how many were counted before by this thread.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counters.add(event, 1)
    }

    /// Gives the front what its audits need.
    pub(crate) fn audit_with(&self, auditor: Auditor) {
        self.auditor.get_or_init(|| auditor);
    }

    /// Whether the filters speak for every table.
    pub(crate) fn is_known(&self) -> bool {
        self.view.with(View::is_known)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.stats()
    }

    pub(crate) fn view(&self) -> View {
        self.view.with(View::clone)
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

    /// Names the summaries that memtables feed whose first key arrives from now on.
    pub(crate) fn retarget(&self, summaries: Vec<Arc<Scalable>>) {
        let next = self.memtables.next(summaries);
        let _knowledge = unpoisoned(self.knowledge.lock());
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

    /// The recent filters of all memtables that are alive or will be bound before the next
    /// [`Column::retarget`]; a fresh one for the latter.
    pub(crate) fn collect_recent(&self) -> Vec<Arc<Scalable>> {
        let current = self.memtables.current();
        if current.recent().items().get() > 0 {
            self.retarget(current.summaries().to_vec());
        }
        drop(current);
        self.memtables.recent()
    }

    /// Something that must not happen did: no key can be ruled out until the next open.
    pub(crate) fn give_up(&self) {
        {
            let mut knowledge = unpoisoned(self.knowledge.lock());
            knowledge.given_up = true;
            knowledge.settled = false;
            self.forget();
        }
        tracing::error!(column = %self.name, "nothing is ruled out; look-ups go to the engine until reopen");
    }

    /// Whether nothing will be ruled out until the next open.
    pub(crate) fn has_given_up(&self) -> bool {
        unpoisoned(self.knowledge.lock()).given_up
    }

    // -------------------------------------------------------------- table capture and policy

    /// A filter for a table that RocksDB starts to write; `None` when none is wanted.
    pub(crate) fn begin_table(&self) -> Option<TableBuild> {
        let rate = self.segment_rate()?;
        let id = SegmentId::random().ok()?;
        let builder = SegmentBuilder::new(id, self.hasher, rate);
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

    // -------------------------------------------------------------- coverage

    pub(crate) fn wake(&self) {
        self.bell.ring();
    }

    /// Keys came from outside without notice: what is known no longer holds.
    pub(crate) fn foreign_keys_arrived(&self) {
        self.foreign_keys_begin();
        self.foreign_keys_end();
    }

    /// Must be held while keys arrive that no memtable takes. Nothing is ruled out from here on
    /// until upkeep has seen the tables again.
    pub(crate) fn expect_foreign_keys(self: &Arc<Self>) -> ForeignKeys {
        self.foreign_keys_begin();
        ForeignKeys {
            column: Arc::clone(self),
        }
    }

    fn foreign_keys_begin(&self) {
        if planted!(ForeignUnannounced) {
            unpoisoned(self.knowledge.lock()).foreign_in_flight += 1;
            return;
        }
        let mut knowledge = unpoisoned(self.knowledge.lock());
        knowledge.foreign_epoch += 1;
        knowledge.foreign_in_flight += 1;
        knowledge.settled = false;
        self.forget();
    }

    fn foreign_keys_end(&self) {
        {
            let mut knowledge = unpoisoned(self.knowledge.lock());
            knowledge.foreign_epoch += 1;
            knowledge.foreign_in_flight -= 1;
        }
        self.wake();
    }

    /// Puts a summary that answers *maybe* in the place of the one that there is, whose memory is
    /// free once its memtables are flushed. False when it is such a one already.
    pub(crate) fn drop_summary(&self) -> bool {
        let nothing = self.saturated_summary();
        if self.view().summary.size() <= nothing.size() {
            return false;
        }
        if planted!(DroppedSummaryStarved) {
            self.retarget(vec![Arc::clone(&nothing)]);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        // Readers first: what a memtable feeds from here on is not in the old one.
        {
            let _knowledge = unpoisoned(self.knowledge.lock());
            let view = self.view();
            self.show(View {
                summary: Arc::clone(&nothing),
                ..view
            });
        }
        self.retarget(vec![nothing]);
        true
    }

    fn saturated_summary(&self) -> Arc<Scalable> {
        let imprint = self.hasher.imprint().remixed();
        let options = *self.view().summary.options();
        let nothing = Chain::saturated(imprint);
        Arc::new(Scalable::starting_with(imprint, options, nothing))
    }

    /// The family is gone: gives the memory of its filters back. Whoever still asks is told *maybe*.
    pub(crate) fn retire(&self) {
        let mut knowledge = unpoisoned(self.knowledge.lock());
        knowledge.given_up = true;
        knowledge.settled = false;
        knowledge.covers = HashSet::new();
        let summary = self.saturated_summary();
        self.show(View::unknown(Arc::clone(&summary)));
        self.memtables.turn_to(self.memtables.next(vec![summary]));
    }

    fn forget(&self) {
        let View {
            summary, inventory, ..
        } = self.view();
        self.show(View {
            inventory: inventory.filter(|_| planted!(InventoryOutlivesForeign)),
            ..View::unknown(summary)
        });
    }

    /// Makes this what readers consult, as the next edition; under the lock of `knowledge`.
    fn show(&self, view: View) {
        let edition = self.view.with(|current| current.edition) + 1;
        self.view.publish(View { edition, ..view });
    }

    /// The epoch to hand to [`Column::publish`] later; taken *before* the tables are listed.
    pub(crate) fn epoch(&self) -> Epoch {
        let knowledge = unpoisoned(self.knowledge.lock());
        Epoch {
            number: knowledge.foreign_epoch,
            quiet: knowledge.foreign_in_flight == 0,
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        unpoisoned(self.knowledge.lock()).settled
    }

    /// Notes that the summary was made anew with all writes up to this sequence number; `None`
    /// that it must be.
    pub(crate) fn note_consolidated(&self, sequence: Option<u64>) {
        self.consolidated
            .store(sequence.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether another summary would hold the same: no write came since this one was made.
    pub(crate) fn is_consolidated(&self, sequence: u64) -> bool {
        self.consolidated.load(Ordering::Relaxed) == sequence
    }

    /// The tables whose keys are all in the summary.
    pub(crate) fn covers(&self) -> HashSet<SegmentId> {
        unpoisoned(self.knowledge.lock()).covers.clone()
    }

    /// Those of these tables whose keys are all in the summary.
    pub(crate) fn covers_among(
        &self,
        tables: impl Iterator<Item = SegmentId>,
    ) -> HashSet<SegmentId> {
        let knowledge = unpoisoned(self.knowledge.lock());
        tables.filter(|id| knowledge.covers.contains(id)).collect()
    }

    /// Makes `summary` what readers consult and `covers` what it speaks for, unless keys arrived
    /// from outside since `epoch`. Returns whether it did.
    pub(crate) fn publish(
        &self,
        epoch: Epoch,
        summary: Arc<Scalable>,
        coverage: Coverage,
        covers: HashSet<SegmentId>,
    ) -> bool {
        let mut knowledge = unpoisoned(self.knowledge.lock());
        if knowledge.is_past(epoch) {
            return false;
        }
        let view = View {
            summary,
            coverage,
            ..self.view()
        };
        knowledge.covers = covers;
        knowledge.settled = view.uncovered() == Some(0);
        self.show(view);
        true
    }

    /// Gives readers a second look, or none, unless keys arrived from outside since `epoch`.
    pub(crate) fn publish_inventory(&self, epoch: Epoch, inventory: Option<Inventory>) {
        let knowledge = unpoisoned(self.knowledge.lock());
        let view = self.view();
        if view.is_known() && !knowledge.is_past(epoch) {
            self.show(View { inventory, ..view });
        }
    }
}

impl Knowledge {
    /// Whether what was learnt at `epoch` may not be published any more.
    fn is_past(&self, epoch: Epoch) -> bool {
        let past = self.foreign_epoch != epoch.number || !epoch.quiet;
        let given_up = self.given_up && !planted!(PublishedAfterGivingUp);
        given_up || (past && !planted!(OldEpochPublished))
    }
}

/// A moment in the history of arrivals from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Epoch {
    number: u64,
    quiet: bool,
}

/// Keys are arriving from outside.
#[derive(Debug)]
pub(crate) struct ForeignKeys {
    column: Arc<Column>,
}

impl Drop for ForeignKeys {
    fn drop(&mut self) {
        self.column.foreign_keys_end();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

    use super::*;
    use crate::hash::{HashId, Seed};
    use crate::math::{Bits, Items};
    use crate::rocks::{Engine, ffi};

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([5; 16]))
    }

    fn summary() -> Scalable {
        let options = SieveOptions::default().summary(Items::new(0), Bits::new(0));
        Scalable::new(hasher().imprint().remixed(), options)
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
        column.publish(epoch, summary, Coverage::complete(), nothing)
    }

    /// Upkeep may be in the middle of a pass when a hook fails.
    #[test]
    fn what_was_learnt_before_a_front_gave_up_is_not_published() {
        let (_engine, column) = engine_and_front();
        let (epoch, summary) = (column.epoch(), column.view().summary);
        assert!(column.look_up(b"absent").is_absent());
        column.give_up();
        let published = column.publish(epoch, summary, Coverage::complete(), HashSet::new());
        assert!(!published && !column.look_up(b"absent").is_absent());
    }

    /// The key came and went between the two denials.
    #[test]
    fn what_another_view_denies_was_not_denied_all_along() {
        let (engine, column) = engine_and_front();
        let edition = column.edition();
        let still_denied = || column.still_denies_all_but(&[], &["key"], edition);
        assert!(still_denied());
        engine.put("key", "value").unwrap();
        assert!(!still_denied());
        engine.delete("key").unwrap();
        // As a consolidation does it.
        let anew = Arc::new(summary());
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

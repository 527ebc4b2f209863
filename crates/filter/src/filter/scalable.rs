//! A filter that grows without knowing how far (Almeida et al. 2007, §3).
//!
//! When the newest stage has taken the keys that it was sized for, a larger and stricter one opens.
//! Every older stage stays as it is.
//!
//! ```text
//! stage    0      1         2                3          ...
//! keys     first  first s   first s²         first s³
//! rate     P0     P0 r      P0 r²            P0 r³           P0 = P (1 − r): adds up to P
//! ```
//!
//! Other tightenings divide P differently ([`Tightening`]). The polynomial one costs fewer bits at
//! the start and again after some sixty stages. The bounded one divides P among a fixed number of
//! stages and keeps no part of P back.
//!
//! A miss probes all stages, so growth costs time as well as space. If a grown filter is to be kept
//! and its keys are at hand, rebuild it at its right size.
//!
//! A filter that is built from keys at hand can begin with a static stage ([`Stage::ribbon`]),
//! which takes fewer bits but no further keys. Such a first stage may be put in after other keys
//! were inserted ([`Scalable::with_pending_first`]).
//!
//! *Invariants.* A key goes to the newest stage only. [`Scalable::insert`] does not store a key for
//! which some stage already answers *maybe*. Stages are only ever appended. A key that could not be
//! stored saturates the filter for good.

use super::chain::Chain;
use super::layout::{Layout, StoreLayout};
use super::simd::Simd;
use super::stage::Stage;
use super::{BATCH, Kind, test_many};
use crate::fault::fault;
use crate::hash::{Imprint, KeyHash};
use crate::math::growth::{self, Tightening};
use crate::math::{Bits, Items, Rate};
use crate::reach::reached;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, OnceLock, unpoisoned};
use std::fmt;

/// How a [`Scalable`] begins and grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalableOptions {
    /// The layout of its stages.
    pub kind: Kind,
    /// The false-positive rate of all stages together, however many there will be.
    pub rate: Rate,
    /// The number of keys that the first stage takes.
    pub first: Items,
    /// The number of keys that the second stage takes, if it is not `growth` times more than the
    /// first. It is smaller if the first stage is built for all keys at hand and few are to come. 0
    /// counts as 1.
    pub second: Option<Items>,
    /// How many times more keys a stage takes than the one before it; 0 counts as 1.
    pub growth: u32,
    /// How much stricter a stage is than the one before it; r is clamped to 0.1..=0.95. If the
    /// tightening bounds the number of stages, the filter is saturated when it needs another one.
    pub tightening: Tightening,
    /// The most bits that all stages together may take.
    pub budget: Option<Bits>,
}

impl Default for ScalableOptions {
    /// Blocked, because a miss then costs one cache line per stage. One percent, because halving it
    /// again costs one bit per key and saves one engine lookup in two hundred. The first stage
    /// takes 1,000 keys, because that is less than 2 KiB. Growth 2, because 4 leaves up to three
    /// quarters of a filter empty. r = 0.85, because over a growth of 10 to 16,000 it stays within
    /// 6 % of the fewest bits. The paper's 0.5 takes two and a half times as many at the end of
    /// that range (52 bits per key against 21), because blocked stages need many bits for strict
    /// rates.
    fn default() -> Self {
        Self {
            kind: Kind::Blocked,
            rate: Rate::ONE_PERCENT,
            first: Items::new(1_000),
            second: None,
            growth: 2,
            tightening: Tightening::Geometric(0.85),
            budget: None,
        }
    }
}

impl ScalableOptions {
    /// The rate of stage `index`.
    fn stage_rate(&self, index: usize) -> Rate {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        self.tightening.confined().rate(self.rate, index)
    }

    fn has_stage(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|index| self.tightening.has_stage(index))
    }

    /// The capacity of the stage that follows stages of these capacities, oldest first. In a filter
    /// that was read back these need not grow; the next stage grows from the largest.
    fn following(&self, mut before: impl Iterator<Item = Items>) -> Items {
        let Some(first) = before.next() else {
            return self.first;
        };
        let grown = |from: Items| from.get().saturating_mul(u64::from(self.growth.max(1)));
        match (before.max(), self.second) {
            (None, Some(second)) => second.max(Items::new(1)),
            (Some(later), Some(_)) => Items::new(grown(later)),
            (later, None) => {
                Items::new(grown(first.max(later.unwrap_or_default()))).max(self.first)
            }
        }
    }

    /// Opens stage `index` for `capacity` keys, after stages that take `size` together. `None` if
    /// the tightening, the rate, the budget or the memory does not allow it.
    fn open<L: Layout>(&self, index: usize, capacity: Items, size: Bits) -> Option<Open<L>> {
        if !self.has_stage(index) {
            return None;
        }
        let layout = L::for_rate(self.kind, capacity, self.stage_rate(index)).ok()?;
        let size = size.get().saturating_add(layout.shape().bits.get());
        if self.budget.is_some_and(|budget| size > budget.get()) {
            return None;
        }
        Some(Open {
            stage: Stage::empty(layout).ok()?,
            capacity,
            last_checksum: Mutex::default(),
        })
    }
}

/// The most stages that a filter can open: enough to count to 2^64 by doubling.
const MAX_STAGES: usize = 64;

/// A Bloom filter that any number of threads fill, and that grows as they do.
pub struct Scalable<L> {
    imprint: Imprint,
    options: ScalableOptions,
    /// The number of stages that a lookup probes: those that are open, or [`SATURATED`].
    asked: AtomicUsize,
    /// Apart from the later stages, because in most filters it is all that a lookup reads. Empty if
    /// the filter was created saturated, or while the first stage is pending.
    first: OnceLock<Open<L>>,
    /// The size of the first stage while it is pending.
    pending_size: Bits,
    /// The stages after the first one, open ones at the front; none is ever replaced. Boxed,
    /// because most filters never have one.
    later: Box<[OnceLock<Box<Open<L>>>]>,
    /// The number of open stages: at least 1, unless the filter was created saturated.
    len: AtomicUsize,
    /// Held while a stage is allocated, so that one thread allocates it and the others wait.
    opening: Mutex<()>,
}

/// No stage is probed: every answer is *maybe*.
const SATURATED: usize = 0;

/// A stage, and the number of keys it takes before the next one opens.
struct Open<L> {
    stage: Stage<L>,
    capacity: Items,
    last_checksum: Mutex<Option<Checksum>>,
}

/// The checksum of a stage, with every bit of the keys that it counted then.
#[derive(Clone, Copy)]
struct Checksum {
    items: Items,
    crc: u32,
}

impl<L: Layout> Scalable<L> {
    /// Bytes that a filter takes besides its stages.
    #[doc(hidden)]
    pub const SIZE_BESIDE_STAGES: usize =
        size_of::<Self>() + (MAX_STAGES - 1) * size_of::<OnceLock<Box<Open<L>>>>();

    /// An empty filter with its first stage allocated.
    ///
    /// If even that does not fit into the budget or into memory, the filter is created saturated.
    pub fn new(imprint: Imprint, options: ScalableOptions) -> Self {
        Self::starting_with(imprint, options, Chain::new(imprint, Vec::new()))
    }

    /// Continues a sealed filter: its last stage takes keys until it is full.
    ///
    /// If the chain has another imprint, it does not cover this filter's keys; if it is saturated,
    /// it covers none. Both make a saturated filter.
    pub fn starting_with(imprint: Imprint, options: ScalableOptions, chain: Chain<L>) -> Self {
        let unusable = chain.imprint() != imprint || chain.is_saturated();
        let mut stages = continued(&options, chain.into_stages());
        if stages.is_empty() && !unusable {
            stages.extend(options.open(0, options.first, Bits::new(0)));
        }
        let len = stages.len();
        let asked = if unusable { SATURATED } else { len };
        Self::of(imprint, options, stages, (asked, len))
    }

    /// A filter whose first stage, of `pending_size` and for [`ScalableOptions::first`] keys, comes
    /// later. Every answer is *maybe* until then. Keys that are inserted go to the second stage and
    /// those after it.
    ///
    /// If `pending_size` exceeds the budget, the filter is created saturated.
    pub fn with_pending_first(
        imprint: Imprint,
        options: ScalableOptions,
        pending_size: Bits,
    ) -> Self {
        let fits = options.budget.is_none_or(|budget| pending_size <= budget);
        let len = usize::from(fits);
        Self {
            pending_size,
            ..Self::of(imprint, options, Vec::new(), (len, len))
        }
    }

    /// A filter of these stages. A lookup probes the first `asked` stages; `len` stages count as
    /// open.
    fn of(
        imprint: Imprint,
        options: ScalableOptions,
        stages: Vec<Open<L>>,
        (asked, len): (usize, usize),
    ) -> Self {
        let mut stages = stages.into_iter();
        let first = stages.next().map_or_else(OnceLock::new, OnceLock::from);
        let stages = stages.map(|open| OnceLock::from(Box::new(open)));
        let unopened = (1..MAX_STAGES).map(|_| OnceLock::new());
        Self {
            imprint,
            options,
            asked: AtomicUsize::new(asked),
            first,
            pending_size: Bits::new(0),
            later: stages.chain(unopened).collect(),
            len: AtomicUsize::new(len),
            opening: Mutex::new(()),
        }
    }

    /// Puts in the pending first stage, which must hold all keys that were not inserted. Does
    /// nothing if no first stage is pending.
    pub fn complete(&self, first: Stage<L>) {
        let capacity = first.items();
        self.first.get_or_init(|| Open {
            stage: first,
            capacity,
            last_checksum: Mutex::default(),
        });
    }

    /// Adds a key; true if it is new, false if the filter already answered *maybe* for it.
    pub fn insert(&self, hash: KeyHash) -> bool {
        if self.is_saturated() {
            return false;
        }
        let len = self.len.load(Ordering::Acquire);
        let mut older = self.opened(len);
        let newest = older.next_back();
        if older.any(|open| open.stage.may_contain(hash)) {
            return false;
        }
        match newest {
            Some(newest) if newest.has_room() => newest.stage.insert(hash),
            Some(newest) if newest.stage.may_contain(hash) => false,
            _ => self
                .open_after(len)
                .is_some_and(|next| next.stage.insert(hash)),
        }
    }

    /// Adds many keys and overlaps their cache misses.
    pub fn insert_many(&self, hashes: &[KeyHash]) {
        for batch in hashes.chunks(BATCH) {
            self.all().for_each(|open| open.stage.prefetch_each(batch));
            batch.iter().for_each(|&hash| _ = self.insert(hash));
        }
    }

    /// Adds a key without probing the older stages: one cache line, however many stages there are.
    /// A key that an older stage holds is stored and counted again. A static first stage is probed
    /// all the same, because it holds most keys and takes none.
    #[inline]
    pub fn append(&self, hash: KeyHash) {
        if self.is_saturated() {
            return;
        }
        if self
            .static_first()
            .is_some_and(|stage| stage.may_contain(hash))
        {
            return;
        }
        match self.newest() {
            Some(newest) if newest.has_room() => _ = newest.stage.insert(hash),
            _ => _ = self.insert(hash),
        }
    }

    /// Prefetches the lines that [`Scalable::append`] will read and write.
    #[inline]
    pub fn prefetch_append(&self, hash: KeyHash) {
        if let Some(first) = self.static_first() {
            first.prefetch(hash);
        }
        if let Some(newest) = self.newest() {
            newest.stage.prefetch(hash);
        }
    }

    #[inline]
    fn static_first(&self) -> Option<&Stage<L>> {
        let first = &self.first.get()?.stage;
        Some(first).filter(|stage| stage.is_static())
    }

    #[inline]
    fn newest(&self) -> Option<&Open<L>> {
        match self.stages() {
            0 => None,
            1 => self.first.get(),
            len => self.later[len - 2].get().map(Box::as_ref),
        }
    }

    /// The stage that follows the first `len`, opened now unless another thread was faster.
    ///
    /// If there is no room for it, returns `None` and saturates the filter.
    #[cold]
    fn open_after(&self, len: usize) -> Option<&Open<L>> {
        let _alone = unpoisoned(self.opening.lock());
        let slot = self.later.get(len.wrapping_sub(1));
        if self.is_saturated() {
            return None;
        }
        if self.stages() == len {
            if let (Some(slot), Some(next)) = (slot, self.next_stage(len)) {
                slot.get_or_init(|| Box::new(next));
                reached!(StageOpened);
                fault!(
                    StageFilledUnprobed,
                    self.len.store(len + 1, Ordering::Release)
                );
                // Before `len`, by which other threads find the stage and fill it.
                self.asked.store(len + 1, Ordering::Release);
                self.len.store(len + 1, Ordering::Release);
            } else {
                fault!(KeysDroppedOverBudget, return None);
                reached!(SummarySaturated);
                self.asked.store(SATURATED, Ordering::Release);
            }
        }
        // After a race the newest stage may be a later one. It may even be full, which costs a
        // little of the rate and nothing else.
        self.newest().filter(|_| self.stages() > len)
    }

    /// `None` if the tightening, the rate, the budget or the memory allows no further stage.
    fn next_stage(&self, index: usize) -> Option<Open<L>> {
        let is_first_pending = self.first.get().is_none();
        let first = is_first_pending.then_some(self.options.first);
        let open = self.opened(index).map(|open| open.capacity);
        let capacity = self.options.following(first.into_iter().chain(open));
        let to_come = if is_first_pending {
            self.pending_size
        } else {
            Bits::new(0)
        };
        self.options.open(index, capacity, self.size() + to_come)
    }

    /// The first `len` stages, oldest first.
    #[inline]
    fn opened(&self, len: usize) -> impl DoubleEndedIterator<Item = &Open<L>> + Clone {
        let first = (len > 0).then(|| self.first.get()).flatten();
        let later = &self.later[..len.saturating_sub(1)];
        first
            .into_iter()
            .chain(later.iter().filter_map(|slot| Some(&**slot.get()?)))
    }

    /// All stages, oldest first.
    #[inline]
    fn all(&self) -> impl DoubleEndedIterator<Item = &Open<L>> + Clone {
        self.opened(self.stages())
    }

    /// False only for a key that was never inserted; never false once saturated.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match self.only_stage() {
            Some(only) => only.may_contain(hash),
            None => self.any_may_contain(hash),
        }
    }

    /// The stage that a lookup probes, if it is only one.
    #[inline(always)]
    fn only_stage(&self) -> Option<&Stage<L>> {
        match self.asked.load(Ordering::Acquire) {
            1 => self.first.get().map(|open| &open.stage),
            _ => None,
        }
    }

    #[inline(never)]
    fn any_may_contain(&self, hash: KeyHash) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        if asked == SATURATED || self.is_first_pending() {
            return true;
        }
        // The newest stage is the largest and answers most hits.
        let mut newest_first = self.opened(asked).rev();
        newest_first.any(|open| open.stage.may_contain(hash))
    }

    /// Whether one of the present stages may have the key, even while the first stage is pending.
    #[doc(hidden)]
    #[inline]
    pub fn may_have_in_a_stage(&self, hash: KeyHash) -> bool {
        self.all().any(|open| open.stage.may_contain(hash))
    }

    /// Prefetches the lines that [`Scalable::may_contain`] will read.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        match self.stages() {
            1 => self
                .first
                .get()
                .into_iter()
                .for_each(|open| open.stage.prefetch(hash)),
            stages => self.prefetch_all(stages, hash),
        }
    }

    #[inline(never)]
    fn prefetch_all(&self, stages: usize, hash: KeyHash) {
        self.opened(stages)
            .for_each(|open| open.stage.prefetch(hash));
    }

    /// Answers many keys at once and overlaps their cache misses.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn contains_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        let is_first_pending = self.is_first_pending();
        test_many(self.all().map(|open| &open.stage), hashes, answers);
        if is_first_pending || self.is_saturated() {
            answers.fill(true);
        }
    }

    /// [`Scalable::contains_many`] for keys that were each prefetched with [`Scalable::prefetch`],
    /// no more of them than the L1 cache has lines for. If keys are hashed one after another, the
    /// lines of the first arrive while the next are hashed.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn contains_prefetched(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        assert_eq!(hashes.len(), answers.len(), "one answer a hash");
        answers.fill(self.is_saturated() || self.is_first_pending());
        self.all()
            .for_each(|open| open.stage.test_each(hashes, answers));
    }

    /// The number of keys inserted. A key that was already answered *maybe* when it was inserted is
    /// not counted.
    pub fn items(&self) -> Items {
        self.all().map(|open| open.stage.items()).sum()
    }

    /// An estimate from the fill ratio of the number of keys, including those that changed no bit.
    /// A key in two stages counts twice. Reads the whole filter.
    pub fn estimated_items(&self) -> Items {
        self.all().map(|open| open.stage.estimated_items()).sum()
    }

    /// The bits of all stages.
    pub fn size(&self) -> Bits {
        self.all().map(|open| open.stage.size()).sum()
    }

    /// The number of open stages.
    #[inline]
    pub fn stages(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The false-positive rate of all stages together, 1 − ∏ (1 − p); 1 once saturated.
    pub fn predicted_rate(&self) -> f64 {
        if self.is_saturated() || self.is_first_pending() {
            return 1.0;
        }
        growth::compound(self.all().map(|open| open.stage.predicted_rate()))
    }

    /// Whether keys were lost for lack of space, so that every answer is *maybe*.
    #[inline]
    pub fn is_saturated(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == SATURATED
    }

    /// Whether the first stage is static and takes no keys.
    #[inline]
    pub fn begins_static(&self) -> bool {
        self.static_first().is_some()
    }

    /// Whether the first stage is pending, so that every answer is *maybe*. Check this before the
    /// stages are probed, not after: the first stage may arrive in between.
    #[inline]
    pub fn is_first_pending(&self) -> bool {
        fault!(PendingStageIsEmpty, return false);
        self.first.get().is_none() && self.stages() > 0
    }

    /// Gives up the filter: every answer is *maybe* from now on.
    pub fn saturate(&self) {
        let _alone = unpoisoned(self.opening.lock());
        self.asked.store(SATURATED, Ordering::Release);
    }

    /// Whether no stage has changed since the last call except by taking keys. Reads all stages.
    ///
    /// The first check of a stage, and the first after it took a key, only records what it holds.
    pub fn is_intact(&self) -> bool {
        // Not `all`: every stage must be checked.
        self.all().filter(|open| !open.is_intact()).count() == 0
    }

    /// Clears one bit that is set, as a memory fault would.
    #[cfg(any(test, feature = "laws"))]
    #[doc(hidden)]
    pub fn clear_one_bit(&self) {
        let filled = self.all().find(|open| open.stage.items().get() > 0);
        filled.expect("some key is in").stage.clear_one_bit();
    }

    /// How the filter began and grows.
    pub fn options(&self) -> &ScalableOptions {
        &self.options
    }

    /// The hash and seed that fill the filter.
    pub fn imprint(&self) -> Imprint {
        self.imprint
    }

    /// A sealed copy, with every key inserted before the call.
    ///
    /// [`Chain::saturated`] if the filter is saturated, if its first stage is pending, or if there
    /// is no memory for a copy.
    pub fn to_chain(&self) -> Chain<L> {
        let copied = |stages: Vec<&Stage<L>>| {
            let copies = stages.into_iter().map(Stage::try_clone);
            copies.collect::<Result<_, _>>().ok()
        };
        match self.all_stages().and_then(copied) {
            Some(stages) => Chain::new(self.imprint, stages),
            None => Chain::saturated(self.imprint),
        }
    }

    /// The stages with every key inserted before the call, for reading. `None` if the filter is
    /// saturated or its first stage is pending.
    #[doc(hidden)]
    pub fn all_stages(&self) -> Option<Vec<&Stage<L>>> {
        // Checked first: a stage that arrives in between is not among those collected.
        let is_first_pending = self.is_first_pending();
        let stages = self.all().map(|open| &open.stage).collect();
        (!is_first_pending && !self.is_saturated()).then_some(stages)
    }

    /// The filter, sealed; [`Chain::saturated`] if it is saturated or its first stage is pending.
    pub fn into_chain(self) -> Chain<L> {
        if self.is_first_pending() || self.is_saturated() {
            return Chain::saturated(self.imprint);
        }
        let first = self.first.into_inner();
        let later = self.later.into_iter().filter_map(OnceLock::into_inner);
        let stages = first.into_iter().chain(later.map(|open| *open));
        Chain::new(self.imprint, stages.map(|open| open.stage).collect())
    }
}

impl<L: Layout> Open<L> {
    #[inline]
    fn has_room(&self) -> bool {
        self.stage.items() < self.capacity
    }

    /// See [`Scalable::is_intact`].
    fn is_intact(&self) -> bool {
        let mut last = unpoisoned(self.last_checksum.lock());
        let fresh = self.checksum();
        match (std::mem::replace(&mut *last, fresh), fresh) {
            (Some(last), Some(fresh)) if last.items == fresh.items => {
                last.crc == fresh.crc || self.takes_a_key(fresh.items)
            }
            _ => true,
        }
    }

    /// The checksum of the words; `None` if keys were inserted while it was computed.
    fn checksum(&self) -> Option<Checksum> {
        let items = self.stage.items();
        let crc = self.stage.checksum(0);
        (self.stage.items() == items).then_some(Checksum { items, crc })
    }

    /// Whether a change is explained by an insertion that had set its bits but had not been counted
    /// yet. If such a thread is delayed for longer, that costs a filter, never an answer.
    fn takes_a_key(&self, items: Items) -> bool {
        const TRIES: u32 = 1_000;
        (0..TRIES).any(|_| {
            std::thread::yield_now();
            self.stage.items() != items
        })
    }
}

impl Scalable<StoreLayout> {
    /// [`Scalable::may_contain`] of a filter that is one blocked stage, compiled into its caller. If
    /// the one stage is static, only `Some(false)`, for nearly all absent keys. Otherwise `None`.
    #[inline(always)]
    #[doc(hidden)]
    pub fn may_contain_fast(&self, simd: impl Simd, hash: KeyHash) -> Option<bool> {
        self.only_stage()?.may_contain_fast(simd, hash)
    }
}

/// Loaded stages, all full except the last.
fn continued<L: Layout>(options: &ScalableOptions, stages: Vec<Stage<L>>) -> Vec<Open<L>> {
    let last = stages.len().saturating_sub(1);
    let open = |(index, stage): (usize, Stage<L>)| {
        let full = stage.items();
        let rate = options.stage_rate(index);
        let room = if index == last {
            stage.capacity(rate)
        } else {
            full
        };
        Open {
            stage,
            capacity: full.max(room),
            last_checksum: Mutex::default(),
        }
    };
    stages.into_iter().enumerate().map(open).collect()
}

impl<L: Layout> fmt::Debug for Scalable<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scalable")
            .field("options", &self.options)
            .field("stages", &self.stages())
            .field("items", &self.items())
            .field("saturated", &self.is_saturated())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Chain, Scalable, Stage};

    fn small(budget: Option<Bits>) -> ScalableOptions {
        ScalableOptions {
            first: Items::new(100),
            budget,
            ..ScalableOptions::default()
        }
    }

    fn grown(options: ScalableOptions, keys: usize) -> Scalable {
        let filter = Scalable::new(imprint(1), options);
        hashes(1)
            .take(keys)
            .for_each(|hash| _ = filter.insert(hash));
        filter
    }

    /// Otherwise each update of a key would be stored once more, until another filter was built
    /// from the same keys.
    #[test]
    fn keys_of_a_static_first_stage_are_not_appended_again() {
        let options = ScalableOptions {
            second: Some(Items::new(50)),
            ..small(None)
        };
        let filter = Scalable::with_pending_first(imprint(1), options, Bits::new(1_000));
        let old: Vec<_> = hashes(1).take(1_000).collect();
        filter.complete(Stage::ribbon(old.clone(), Rate::ONE_PERCENT).unwrap());
        hashes(2).take(20).for_each(|hash| filter.append(hash));
        let before = (filter.stages(), filter.items());
        assert_eq!(before.0, 2);
        old.iter().for_each(|&hash| filter.append(hash));
        assert_eq!((filter.stages(), filter.items()), before);
        assert!(hashes(2).take(20).all(|hash| filter.may_contain(hash)));
    }

    #[test]
    fn later_stages_grow_from_the_configured_second_stage() {
        let options = ScalableOptions {
            second: Some(Items::new(25)),
            ..small(None)
        };
        let sizes = |filter: &Scalable| -> Vec<u64> {
            filter.all().map(|open| open.capacity.get()).collect()
        };
        let filter = grown(options, 400);
        assert_eq!(sizes(&filter), [100, 25, 50, 100, 200]);
        assert!(filter.predicted_rate() <= 0.01);
        assert_eq!(sizes(&grown(small(None), 400)), [100, 200, 400]);

        // A continued filter grows from its own stages.
        let one = grown(options, 100).to_chain();
        let continued = Scalable::starting_with(imprint(1), options, one);
        let kept = sizes(&continued)[0];
        hashes(2).take(400).for_each(|hash| continued.append(hash));
        assert_eq!(sizes(&continued)[..4], [kept, 25, 50, 100]);
    }

    /// Of seed 1, all keys but the last come at once as the first stage; those of seed 2 are
    /// appended while it is pending.
    fn completed(budget: Option<Bits>) -> (Scalable, Vec<KeyHash>) {
        let options = ScalableOptions {
            first: Items::new(1_000),
            second: Some(Items::new(50)),
            ..small(budget)
        };
        let first = Stage::ribbon(hashes(1).take(999).collect(), Rate::ONE_PERCENT).unwrap();
        let filter = Scalable::with_pending_first(imprint(1), options, first.size());
        for hash in hashes(2).take(100) {
            filter.append(hash);
            assert!(filter.may_contain(hash));
        }
        // Nothing is known of the keys that are still to come.
        assert!(hashes(1).take(1_000).all(|hash| filter.may_contain(hash)));
        let mut answers = [false; 10];
        let asked: Vec<_> = hashes(1).take(10).collect();
        filter.contains_many(&asked, &mut answers);
        assert_eq!((answers, filter.predicted_rate()), ([true; 10], 1.0));
        assert!(filter.to_chain().is_saturated());

        filter.complete(first);
        let keys: Vec<_> = hashes(1).take(999).chain(hashes(2).take(100)).collect();
        (filter, keys)
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn filter_with_pending_first_stage_contains_all_keys() {
        let (filter, mut keys) = completed(None);
        assert!(keys.iter().all(|&hash| filter.may_contain(hash)));
        assert!(
            hashes(3)
                .take(10_000)
                .filter(|&hash| filter.may_contain(hash))
                .count()
                < 120
        );
        assert!(filter.predicted_rate() <= 0.011);
        let capacities = filter.all().map(|open| open.capacity.get());
        assert_eq!(capacities.collect::<Vec<_>>(), [999, 50, 100]);

        // The static stage takes none of those that come later.
        keys.extend(hashes(4).take(500));
        filter.insert_many(&keys[1_099..]);
        let chain = filter.to_chain();
        let again = Scalable::starting_with(imprint(1), *filter.options(), chain);
        keys.extend(hashes(5).take(500));
        again.insert_many(&keys[1_599..]);
        assert!(keys.iter().all(|&hash| again.may_contain(hash)));
        assert!(!again.all().next().unwrap().stage.is_full());

        let alone = Scalable::with_pending_first(imprint(1), small(None), Bits::new(0));
        alone.complete(Stage::ribbon(keys.clone(), Rate::ONE_PERCENT).unwrap());
        let sealed = Scalable::starting_with(imprint(1), small(None), alone.to_chain());
        sealed.append(keys[0]);
        hashes(6).take(9).for_each(|hash| sealed.append(hash));
        assert!(
            keys.iter()
                .copied()
                .chain(hashes(6).take(9))
                .all(|hash| sealed.may_contain(hash))
        );
        assert!(!sealed.all().next().unwrap().stage.is_full());
    }

    #[test]
    fn stages_answer_while_the_first_is_pending() {
        let filter = Scalable::with_pending_first(imprint(1), small(None), Bits::new(0));
        assert!(
            !hashes(1)
                .take(9)
                .any(|hash| filter.may_have_in_a_stage(hash))
        );
        hashes(1).take(500).for_each(|hash| filter.append(hash));
        assert!(filter.stages() > 2, "{filter:?}");
        assert!(
            hashes(1)
                .take(500)
                .all(|hash| filter.may_have_in_a_stage(hash))
        );
        let others = hashes(2).take(1_000);
        assert!(
            others
                .filter(|&hash| filter.may_have_in_a_stage(hash))
                .count()
                < 30
        );
    }

    /// A reader that did not see the first stage when it probed the stages must not see it
    /// afterwards either.
    #[test]
    fn no_key_is_absent_while_first_stage_completes() {
        const ROUNDS: usize = if cfg!(miri) { 5 } else { 2_000 };
        let hash = KeyHash::new(1 << 40);
        for _ in 0..ROUNDS {
            let filter = Scalable::with_pending_first(imprint(1), small(None), Bits::new(0));
            filter.append(KeyHash::new(7 << 50));
            let first = Stage::ribbon(vec![hash], Rate::ONE_PERCENT).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut answers = [false];
                    while filter.first.get().is_none() {
                        assert!(filter.may_contain(hash));
                        filter.contains_many(&[hash], &mut answers);
                        assert!(answers[0] && filter.to_chain().may_contain(hash));
                        filter.contains_prefetched(&[hash], &mut answers);
                        assert!(answers[0]);
                    }
                });
                std::thread::yield_now();
                filter.complete(first);
            });
        }
    }

    /// The pending stage counts against the budget.
    #[test]
    fn pending_first_stage_counts_against_the_budget() {
        let (unbounded, _) = completed(None);
        let enough = unbounded.size();
        assert!(!completed(Some(enough)).0.is_saturated());
        let (filter, keys) = completed(Some(Bits::new(enough.get() - 1)));
        assert!(filter.is_saturated());
        assert!(keys.iter().all(|&hash| filter.may_contain(hash)));

        let nothing =
            Scalable::with_pending_first(imprint(1), small(Some(Bits::new(9))), Bits::new(10));
        assert!(nothing.is_saturated() && nothing.may_contain(keys[0]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn batch_answers_equal_single_lookups() {
        let grown = Scalable::new(imprint(1), small(None));
        hashes(1)
            .take(1_000)
            .for_each(|hash| _ = grown.insert(hash));
        assert!(grown.stages() > 1 && !grown.is_saturated());
        let lost = Scalable::new(imprint(1), small(None));
        lost.saturate();
        let asked: Vec<_> = hashes(1).take(900).chain(hashes(2).take(101)).collect();
        for filter in [grown, lost, Scalable::new(imprint(1), small(None))] {
            let single: Vec<_> = asked.iter().map(|&hash| filter.may_contain(hash)).collect();
            let mut answers = vec![false; asked.len()];
            filter.contains_many(&asked, &mut answers);
            assert_eq!(answers, single);
            let mut answers: Vec<_> = single.iter().map(|maybe| !maybe).collect();
            asked.iter().for_each(|&hash| filter.prefetch(hash));
            filter.contains_prefetched(&asked, &mut answers);
            assert_eq!(answers, single, "whatever was in the answers before");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn stages_open_at_the_key_counts_of_the_paper() {
        assert_eq!(grown(small(None), 100).stages(), 1);
        assert_eq!(grown(small(None), 110).stages(), 2);
        // 100 (1 + 2 + ... + 512) = 102,300.
        assert_eq!(grown(small(None), 100_000).stages(), 10);
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn repeated_key_is_counted_once() {
        let filter = grown(small(None), 10_000);
        let counted = filter.items();
        assert!(hashes(1).take(10_000).all(|hash| !filter.insert(hash)));
        assert_eq!(filter.items(), counted);
        assert!(counted.get() > 9_900);
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn estimate_includes_keys_that_changed_no_bit() {
        let stage = ScalableOptions {
            first: Items::new(50_000),
            tightening: Tightening::Geometric(0.4),
            rate: Rate::new(0.5).unwrap(),
            ..ScalableOptions::default()
        };
        let filter = Scalable::new(imprint(1), stage);
        hashes(1).take(50_000).for_each(|hash| filter.append(hash));
        assert!(filter.items().get() < 48_000);
        let error = filter.estimated_items().get().abs_diff(50_000);
        assert!(error < 1_000, "the estimate is wrong by {error}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn filter_beyond_its_budget_answers_maybe() {
        for bits in [0, 2_000, 100_000] {
            let filter = grown(small(Some(Bits::new(bits))), 100_000);
            assert!(filter.is_saturated());
            assert!(filter.size().get() <= bits);
            assert_eq!(filter.predicted_rate(), 1.0);
            assert!(hashes(2).take(1_000).all(|hash| filter.may_contain(hash)));
            let sealed = filter.to_chain();
            assert!(hashes(2).take(1_000).all(|hash| sealed.may_contain(hash)));
        }
    }

    /// 100 + 200 + 400 keys, each of the stages with a third of the rate.
    #[test]
    fn filter_beyond_its_stage_limit_answers_maybe() {
        let options = ScalableOptions {
            tightening: Tightening::Bounded { r: 0.95, stages: 3 },
            ..small(None)
        };
        let within = grown(options, 690);
        assert_eq!((within.stages(), within.is_saturated()), (3, false));
        assert!(within.predicted_rate() <= 0.01);
        let endless = grown(small(None), 690);
        assert!(within.size() < endless.size());
        let beyond = grown(options, 800);
        assert_eq!((beyond.stages(), beyond.is_saturated()), (3, true));
        assert!(hashes(2).take(1_000).all(|hash| beyond.may_contain(hash)));
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn a_continued_filter_fills_its_last_stage_first() {
        let first = grown(small(None), 1_000);
        let stages = first.stages();
        let filter = Scalable::starting_with(imprint(1), small(None), first.to_chain());
        hashes(1)
            .skip(1_000)
            .take(400)
            .for_each(|hash| _ = filter.insert(hash));
        assert_eq!(filter.stages(), stages);
        hashes(1)
            .skip(1_400)
            .take(9_000)
            .for_each(|hash| _ = filter.insert(hash));
        assert!(filter.stages() > stages);
        assert!(hashes(1).take(10_400).all(|hash| filter.may_contain(hash)));
        assert!(filter.predicted_rate() <= 0.01);
    }

    /// The later a stage, the stricter it is.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn a_continued_filter_takes_as_many_keys_as_the_one_before() {
        let options = ScalableOptions {
            tightening: Tightening::Geometric(0.3),
            ..small(None)
        };
        let first = grown(options, 5_000);
        assert!(first.stages() > 4);
        let continued = Scalable::starting_with(imprint(1), options, first.to_chain());
        let last = |filter: &Scalable| filter.all().next_back().unwrap().capacity.get() as f64;
        let part = last(&continued) / last(&first);
        assert!((1.0..1.1).contains(&part), "{part}");
    }

    #[test]
    fn filter_from_foreign_or_saturated_chain_is_saturated() {
        let foreign = Chain::new(imprint(2), Vec::new());
        for chain in [foreign, Chain::saturated(imprint(1))] {
            let filter = Scalable::starting_with(imprint(1), small(None), chain);
            assert!(filter.is_saturated());
            assert!(hashes(3).take(100).all(|hash| filter.may_contain(hash)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn lost_bit_is_detected_in_open_and_full_stages() {
        for keys in [90, 10_000] {
            let filter = grown(small(None), keys);
            assert!(filter.is_intact() && filter.is_intact());
            filter.insert(KeyHash::new(99));
            assert!(filter.is_intact() && filter.is_intact());
            filter.clear_one_bit();
            assert!(!filter.is_intact(), "{keys} keys");
            assert!(filter.is_intact(), "told once");
            filter.saturate();
            assert!(hashes(2).take(1_000).all(|hash| filter.may_contain(hash)));
            assert!(filter.to_chain().is_saturated());
        }
    }

    #[test]
    fn filter_is_intact_during_insertions() {
        const KEYS: usize = if cfg!(miri) { 300 } else { 100_000 };
        let filter = Scalable::new(imprint(1), small(None));
        std::thread::scope(|scope| {
            let writers = [1, 2].map(|seed| {
                let filter = &filter;
                scope.spawn(move || {
                    let keys = hashes(seed).take(KEYS);
                    keys.for_each(|hash| filter.append(hash));
                })
            });
            while !writers
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                assert!(filter.is_intact());
            }
        });
        assert!(filter.is_intact() && filter.is_intact());
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn filter_with_invalid_options_contains_all_keys() {
        for (growth, tightening) in [(0, f64::NAN), (u32::MAX, 0.0), (1, f64::INFINITY)] {
            let options = ScalableOptions {
                growth,
                tightening: Tightening::Geometric(tightening),
                ..small(Some(Bits::new(1 << 24)))
            };
            let filter = grown(options, 2_000);
            assert!(hashes(1).take(2_000).all(|hash| filter.may_contain(hash)));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn sealed_copy_answers_like_its_filter() {
        let filter = grown(small(None), 5_000);
        let chain = filter.to_chain();
        assert_eq!(chain.items(), filter.items());
        assert_eq!(chain.size(), filter.size());
        assert_eq!(chain.predicted_rate(), filter.predicted_rate());
        for hash in hashes(5).take(10_000) {
            assert_eq!(chain.may_contain(hash), filter.may_contain(hash));
        }
    }
}

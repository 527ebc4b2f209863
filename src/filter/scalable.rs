//! A filter that grows without knowing how far (Almeida et al. 2007, §3).
//!
//! When the newest stage has taken the keys it was made for, a larger and stricter one opens;
//! every older stage stays as it is.
//!
//! ```text
//! stage    0      1         2                3          ...
//! keys     first  first s   first s²         first s³
//! rate     P0     P0 r      P0 r²            P0 r³           P0 = P (1 − r): adds up to P
//! ```
//!
//! An absent key visits all stages, so growth costs time as well as space: a filter that was grown
//! and will be kept should be rebuilt at its right size when the keys are at hand.
//!
//! *Invariants.* A key goes to the newest stage only; [`Scalable::insert`] spares it where some
//! stage answers *maybe* for it already.
//! Stages are only ever appended. A key that could not be stored saturates the filter, for ever.

use super::layout::Layout;
use super::{BATCH, Chain, Kind, Stage, test_many};
use crate::hash::{Imprint, KeyHash};
use crate::math::growth::{self, Tightening};
use crate::math::{Bits, Items, Rate};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Mutex, OnceLock, PoisonError};
use std::fmt;

/// How a [`Scalable`] begins and grows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScalableOptions {
    /// The layout of its stages.
    pub kind: Kind,
    /// The rate that all stages together keep, however many there will be.
    pub rate: Rate,
    /// Keys that the first stage takes.
    pub first: Items,
    /// How many times more keys a stage takes than the one before it; 0 counts as 1.
    pub growth: u32,
    /// How much stricter a stage is than the one before it, r; taken between 0.1 and 0.95.
    pub tightening: f64,
    /// The most bits that all stages together may take.
    pub budget: Option<Bits>,
}

/// What r is confined to: below, a second stage is out of reach; above, the first one is.
pub(super) const TIGHTENING: std::ops::RangeInclusive<f64> = 0.1..=0.95;

impl Default for ScalableOptions {
    /// Blocked, because a miss then costs one cache line a stage. One percent, because a further
    /// halving costs every key one bit and saves one engine look-up in two hundred. From 1,000
    /// keys, because that is less than 2 KiB. Growth 2, because 4 leaves up to three quarters of a
    /// filter empty. r = 0.85, because over a growth of 10 to 16,000 it stays within 6 % of the
    /// fewest bits; the paper's 0.5 takes two and a half times as many at the end of that (52 bits
    /// a key against 21), since blocked stages pay dearly for strict rates.
    fn default() -> Self {
        Self {
            kind: Kind::Blocked,
            rate: Rate::ONE_PERCENT,
            first: Items::new(1_000),
            growth: 2,
            tightening: 0.85,
            budget: None,
        }
    }
}

impl ScalableOptions {
    /// The rate of stage `index`.
    fn stage_rate(&self, index: usize) -> Rate {
        let (least, most) = (*TIGHTENING.start(), *TIGHTENING.end());
        // `max` before `min`: they turn a NaN into a number, as `clamp` does not.
        let tightening = self.tightening.max(least).min(most);
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        Tightening::Geometric(tightening).rate(self.rate, index)
    }

    /// The keys of a stage that follows one of `before` keys.
    fn following(&self, before: Items) -> Items {
        let grown = before.get().saturating_mul(u64::from(self.growth.max(1)));
        Items::new(grown.max(self.first.get()))
    }
}

/// Stages that a filter can open: enough to count to 2^64 by doubling.
const MAX_STAGES: usize = 64;

/// A Bloom filter that any number of threads fill, and that grows as they do.
pub struct Scalable {
    imprint: Imprint,
    options: ScalableOptions,
    /// The first `len` are open; none is ever replaced.
    stages: Box<[OnceLock<Open>]>,
    len: AtomicUsize,
    /// Held while a stage is allocated, so that one thread does and the others wait.
    opening: Mutex<()>,
    saturated: AtomicBool,
}

/// A stage, and the keys it takes before the next one opens.
struct Open {
    stage: Stage,
    capacity: Items,
}

impl Scalable {
    /// An empty filter with its first stage allocated.
    ///
    /// When not even that fits into the budget or into memory, the filter is born saturated.
    pub fn new(imprint: Imprint, options: ScalableOptions) -> Self {
        Self::starting_with(imprint, options, Chain::new(imprint, Vec::new()))
    }

    /// Continues a sealed filter: its last stage takes keys until it is full.
    ///
    /// A chain of another imprint cannot speak for this filter's keys, and one that is saturated
    /// speaks for none: both make a saturated filter.
    pub fn starting_with(imprint: Imprint, options: ScalableOptions, chain: Chain) -> Self {
        let unusable = chain.imprint() != imprint || chain.is_saturated();
        let opened = continued(&options, chain.into_stages());
        let len = opened.len();
        let unopened = (0..MAX_STAGES).map(|_| OnceLock::new());
        let filter = Self {
            imprint,
            options,
            stages: opened
                .into_iter()
                .map(OnceLock::from)
                .chain(unopened)
                .collect(),
            len: AtomicUsize::new(len),
            opening: Mutex::new(()),
            saturated: AtomicBool::new(unusable),
        };
        if len == 0 && !unusable {
            filter.open_after(0);
        }
        filter
    }

    /// Adds a key; true when it is new, false when the filter already answered *maybe* for it.
    pub fn insert(&self, hash: KeyHash) -> bool {
        if self.is_saturated() {
            return false;
        }
        let len = self.len.load(Ordering::Acquire);
        let Some((newest, older)) = self.stages[..len].split_last() else {
            return false;
        };
        if opened(older).any(|open| open.stage.may_contain(hash)) {
            return false;
        }
        match newest.get() {
            Some(newest) if newest.has_room() => newest.stage.insert(hash),
            Some(newest) if newest.stage.may_contain(hash) => false,
            _ => self
                .open_after(len)
                .is_some_and(|next| next.stage.insert(hash)),
        }
    }

    /// Adds many keys, their cache misses overlapping.
    pub fn insert_many(&self, hashes: &[KeyHash]) {
        for batch in hashes.chunks(BATCH) {
            self.opened()
                .for_each(|open| open.stage.prefetch_each(batch));
            batch.iter().for_each(|&hash| _ = self.insert(hash));
        }
    }

    /// Adds a key without asking the older stages: one cache line, whatever their number. A key
    /// that an older stage holds is stored and counted once more.
    #[inline]
    pub fn append(&self, hash: KeyHash) {
        if self.is_saturated() {
            return;
        }
        match self.newest() {
            Some(newest) if newest.has_room() => _ = newest.stage.insert(hash),
            _ => _ = self.insert(hash),
        }
    }

    /// Asks the processor for the line that [`Scalable::append`] will write.
    #[inline]
    pub fn prefetch_append(&self, hash: KeyHash) {
        if let Some(newest) = self.newest() {
            newest.stage.prefetch(hash);
        }
    }

    #[inline]
    fn newest(&self) -> Option<&Open> {
        let newest = self.len.load(Ordering::Acquire).checked_sub(1)?;
        self.stages[newest].get()
    }

    /// The stage that follows the first `len`, opened now unless another thread was faster.
    ///
    /// `None`, and a saturated filter, when there is no room for it.
    #[cold]
    fn open_after(&self, len: usize) -> Option<&Open> {
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.len.load(Ordering::Acquire) == len {
            if let (Some(slot), Some(next)) = (self.stages.get(len), self.next_stage(len)) {
                slot.get_or_init(|| next);
                self.len.store(len + 1, Ordering::Release);
            } else {
                self.saturated.store(true, Ordering::Release);
            }
        }
        // After a race the newest may be a later one; it may even be full, which costs a little
        // of the rate, and nothing else.
        let newest = self
            .len
            .load(Ordering::Acquire)
            .checked_sub(1)
            .filter(|&i| i >= len)?;
        self.stages[newest].get()
    }

    /// `None` when the rate, the budget or the memory does not allow another stage.
    fn next_stage(&self, index: usize) -> Option<Open> {
        let largest = self.opened().map(|open| open.capacity).max();
        let capacity = self.options.following(largest.unwrap_or_default());
        let rate = self.options.stage_rate(index);
        let layout = Layout::for_rate(self.options.kind, capacity, rate).ok()?;
        let size = self.size().get().saturating_add(layout.shape().bits.get());
        if self
            .options
            .budget
            .is_some_and(|budget| size > budget.get())
        {
            return None;
        }
        Some(Open {
            stage: Stage::empty(layout).ok()?,
            capacity,
        })
    }

    /// The open stages, oldest first.
    #[inline]
    fn opened(&self) -> impl DoubleEndedIterator<Item = &Open> + Clone {
        opened(&self.stages[..self.len.load(Ordering::Acquire)])
    }

    /// False only for a key that was never inserted; never false once saturated.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        match &self.stages[..self.len.load(Ordering::Acquire)] {
            _ if self.is_saturated() => true,
            [only] => only.get().is_some_and(|open| open.stage.may_contain(hash)),
            stages => any_may_contain(stages, hash),
        }
    }

    /// Asks the processor for the lines that [`Scalable::may_contain`] will look at.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.opened().for_each(|open| open.stage.prefetch(hash));
    }

    /// Answers many keys at once, their cache misses overlapping.
    ///
    /// # Panics
    /// When the slices differ in length.
    pub fn contains_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        test_many(self.opened().map(|open| &open.stage), hashes, answers);
        if self.is_saturated() {
            answers.fill(true);
        }
    }

    /// Keys inserted, without those that looked as if they were in already.
    pub fn items(&self) -> Items {
        let items = self.opened().map(|open| open.stage.items().get());
        Items::new(items.fold(0, u64::saturating_add))
    }

    /// The bits of all stages.
    pub fn size(&self) -> Bits {
        Bits::new(self.opened().map(|open| open.stage.size().get()).sum())
    }

    /// How many stages are open.
    pub fn stages(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// The rate of all stages together, 1 − ∏ (1 − p); 1 once saturated.
    pub fn predicted_rate(&self) -> f64 {
        if self.is_saturated() {
            return 1.0;
        }
        growth::compound(self.opened().map(|open| open.stage.predicted_rate()))
    }

    /// Whether keys were lost for want of room, so that every answer is *maybe*.
    #[inline]
    pub fn is_saturated(&self) -> bool {
        self.saturated.load(Ordering::Relaxed)
    }

    /// How the filter began and grows.
    pub fn options(&self) -> &ScalableOptions {
        &self.options
    }

    /// Which hash and seed fill the filter.
    pub fn imprint(&self) -> Imprint {
        self.imprint
    }

    /// A sealed copy, with every key inserted before the call.
    ///
    /// Of a saturated filter, or when there is no memory for a copy, [`Chain::saturated`].
    pub fn to_chain(&self) -> Chain {
        let stages = self.opened().map(|open| open.stage.try_clone());
        match stages.collect::<Result<Vec<_>, _>>() {
            // Looked at last: what was lost before the call is known by now.
            Ok(stages) if !self.is_saturated() => Chain::new(self.imprint, stages),
            _ => Chain::saturated(self.imprint),
        }
    }
}

impl Open {
    #[inline]
    fn has_room(&self) -> bool {
        self.stage.items() < self.capacity
    }
}

#[inline]
fn opened(stages: &[OnceLock<Open>]) -> impl DoubleEndedIterator<Item = &Open> + Clone {
    stages.iter().filter_map(OnceLock::get)
}

/// Apart, so that a filter of one stage is asked without a loop.
#[inline(never)]
fn any_may_contain(stages: &[OnceLock<Open>], hash: KeyHash) -> bool {
    // The newest stage is the largest, and answers most hits.
    opened(stages)
        .rev()
        .any(|open| open.stage.may_contain(hash))
}

/// Loaded stages, all full but the last.
fn continued(options: &ScalableOptions, stages: Vec<Stage>) -> Vec<Open> {
    let last = stages.len().saturating_sub(1);
    let open = |(index, stage): (usize, Stage)| {
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
        }
    };
    stages.into_iter().enumerate().map(open).collect()
}

impl fmt::Debug for Scalable {
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

    #[test]
    fn stages_open_as_the_paper_says() {
        assert_eq!(grown(small(None), 100).stages(), 1);
        assert_eq!(grown(small(None), 110).stages(), 2);
        // 100 (1 + 2 + ... + 512) = 102,300.
        assert_eq!(grown(small(None), 100_000).stages(), 10);
    }

    #[test]
    fn a_key_is_counted_once() {
        let filter = grown(small(None), 10_000);
        let counted = filter.items();
        assert!(hashes(1).take(10_000).all(|hash| !filter.insert(hash)));
        assert_eq!(filter.items(), counted);
        assert!(counted.get() > 9_900);
    }

    #[test]
    fn past_its_budget_a_filter_answers_maybe() {
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

    #[test]
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

    #[test]
    fn a_chain_that_cannot_be_trusted_saturates() {
        let foreign = Chain::new(imprint(2), Vec::new());
        for chain in [foreign, Chain::saturated(imprint(1))] {
            let filter = Scalable::starting_with(imprint(1), small(None), chain);
            assert!(filter.is_saturated());
            assert!(hashes(3).take(100).all(|hash| filter.may_contain(hash)));
        }
    }

    #[test]
    fn senseless_options_are_survived() {
        for (growth, tightening) in [(0, f64::NAN), (u32::MAX, 0.0), (1, f64::INFINITY)] {
            let options = ScalableOptions {
                growth,
                tightening,
                ..small(Some(Bits::new(1 << 24)))
            };
            let filter = grown(options, 2_000);
            assert!(hashes(1).take(2_000).all(|hash| filter.may_contain(hash)));
        }
    }

    #[test]
    fn a_sealed_copy_holds_the_same_bits() {
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

//! A filter of fixed size: a checked geometry, its words, and how many keys they took.

use super::blocked::Blocked;
use super::layout::Layout;
use super::ribbon::{self, Ribbon, Slots};
use super::{BATCH, Kind, Shape, ShapeError};
use crate::bits::{Count, Words};
use crate::hash::KeyHash;
use crate::math::ribbon::slot_parts;
use crate::math::{Bits, Items, Rate, fill};
use std::collections::TryReserveError;
use std::fmt;

/// A Bloom filter of fixed size, filled by any number of threads.
pub struct Stage {
    layout: Layout,
    words: Words,
    items: Count,
}

/// Why there is no stage.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// No geometry reaches the rate.
    #[error("no {kind:?} filter keeps {items} keys below a rate of {rate}; ask for a looser one")]
    OutOfReach {
        /// The layout asked for.
        kind: Kind,
        /// The keys to be held.
        items: Items,
        /// The rate asked for.
        rate: Rate,
    },
    /// The geometry is none.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Shape and words do not belong together.
    #[error("a filter of {bits} bits has {expected} words, not {got}; rebuild it")]
    WordCount {
        /// The bits named by the shape.
        bits: Bits,
        /// The words that hold them.
        expected: u64,
        /// The words offered.
        got: usize,
    },
    /// A part of the keys has many more than the first had.
    #[error("{items} keys came, more than the first part told of; make the filter anew")]
    Crowded {
        /// The keys that came until then.
        items: Items,
    },
    /// The allocator refused.
    #[error("no memory for a filter of {bits} bits; set a budget or ask for a looser rate")]
    Memory {
        /// The bits asked for.
        bits: Bits,
        /// What the allocator said.
        source: TryReserveError,
    },
}

impl Stage {
    /// An empty stage that keeps up to `items` keys at or below `rate`.
    ///
    /// # Errors
    /// When no geometry of this kind does, or memory does not suffice.
    pub fn with_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError> {
        Self::empty(Layout::for_rate(kind, items, rate)?)
    }

    /// A stage of just these keys, at `rate` or below: a bumped ribbon filter, the smallest there is that is
    /// fast to look up. It takes no more: one that is inserted makes it answer *maybe* to all.
    ///
    /// Needs 32 bytes a key beside the hashes, for up to four million keys at a time.
    ///
    /// # Errors
    /// When the rate is below 2^-32, or memory does not suffice.
    pub fn ribbon(mut hashes: Vec<KeyHash>, rate: Rate) -> Result<Self, StageError> {
        hashes.sort_unstable();
        hashes.dedup();
        let slots = slot_parts(rate).and_then(Slots::new);
        let solved = slots.map_or(Ok(None), |slots| ribbon::solved(&hashes, slots));
        let items = Items::new(hashes.len() as u64);
        let solved = solved.map_err(|source| StageError::Memory {
            bits: Self::ribbon_size(items, rate).unwrap_or_default(),
            source,
        })?;
        let kind = Kind::Ribbon;
        let (geometry, words) = solved.ok_or(StageError::OutOfReach { kind, items, rate })?;
        Ok(Self::of_words(Layout::Ribbon(geometry), items, words))
    }

    /// What [`Stage::ribbon`] takes for so many keys, hardly ever a little more; `None` where there is no
    /// such stage.
    pub fn ribbon_size(items: Items, rate: Rate) -> Option<Bits> {
        let slots = Slots::new(slot_parts(rate)?)?;
        Some(Ribbon::for_keys(items, slots)?.shape().bits)
    }

    /// An empty stage of this shape.
    ///
    /// # Errors
    /// When there is no such shape, or memory does not suffice.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        Self::empty(shape.try_into()?)
    }

    pub(super) fn empty(layout: Layout) -> Result<Self, StageError> {
        Self::with_words(layout, Items::new(0), [])
    }

    /// A stage read back: its shape, its count and its words, whatever they are.
    ///
    /// # Errors
    /// When the shape is none or does not have so many words, or memory does not suffice.
    pub fn from_words(
        shape: Shape,
        items: Items,
        words: impl IntoIterator<Item = u64, IntoIter: ExactSizeIterator>,
    ) -> Result<Self, StageError> {
        let layout = Layout::try_from(shape)?;
        let words = words.into_iter();
        let expected = layout.words();
        let check = |got: usize| match u64::try_from(got) == Ok(expected) {
            true => Ok(()),
            false => Err(StageError::WordCount {
                bits: shape.bits,
                expected,
                got,
            }),
        };
        check(words.len())?;
        let mut taken = 0;
        let stage = Self::with_words(layout, items, words.inspect(|_| taken += 1))?;
        // Zeros in the place of words that did not come would deny keys.
        check(taken)?;
        Ok(stage)
    }

    /// A stage with these words, zero where they run out.
    pub(super) fn with_words(
        layout: Layout,
        items: Items,
        words: impl IntoIterator<Item = u64>,
    ) -> Result<Self, StageError> {
        let len = usize::try_from(layout.words()).unwrap_or(usize::MAX);
        let words = Words::from_values(len, words).map_err(|source| StageError::Memory {
            bits: layout.shape().bits,
            source,
        })?;
        Ok(Self::of_words(layout, items, words))
    }

    /// A stage of the words that its layout has.
    pub(super) fn of_words(layout: Layout, items: Items, words: Words) -> Self {
        Self {
            layout,
            words,
            items: Count::new(items.get()),
        }
    }

    /// One line of ones: answers *maybe* to every key. Stands for keys that were lost.
    pub(super) fn full() -> Self {
        Self {
            layout: Layout::Blocked(Blocked::ONE_LINE),
            words: Words::full_line(),
            items: Count::default(),
        }
    }

    /// An independent copy, with every key inserted before the call.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn try_clone(&self) -> Result<Self, StageError> {
        Self::with_words(self.layout, self.items(), self.words())
    }

    /// Forgets every key.
    #[doc(hidden)]
    pub fn clear(&mut self) {
        self.words.clear();
        self.items = Count::default();
    }

    /// Adds a key; true when a bit changed.
    #[inline]
    pub fn insert(&self, hash: KeyHash) -> bool {
        let changed = self.layout.insert(&self.words, hash);
        if changed {
            self.items.increment();
        }
        changed
    }

    /// Adds many keys to a stage that nobody else uses yet: their cache misses overlap, and no write
    /// is a locked one.
    pub fn insert_many(&mut self, hashes: &[KeyHash]) {
        for batch in hashes.chunks(BATCH) {
            self.prefetch_each(batch);
            let changed = self.layout.insert_each(&mut self.words, batch);
            self.items.add(changed);
        }
    }

    /// False only for a key that was never inserted.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.layout.may_contain(&self.words, hash)
    }

    /// The geometry and the words, for a glance.
    #[inline(always)]
    pub(super) fn parts(&self) -> (&Layout, &Words) {
        (&self.layout, &self.words)
    }

    /// Asks the processor for the lines that [`Stage::may_contain`] will look at.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.layout.prefetch(&self.words, hash);
    }

    /// [`Stage::prefetch`] for each of them.
    pub(super) fn prefetch_each(&self, hashes: &[KeyHash]) {
        self.layout.prefetch_each(&self.words, hashes);
    }

    /// Turns the answers of those that may be in the stage true, and leaves the others.
    pub(super) fn test_each(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        self.layout.test_each(&self.words, hashes, answers);
    }

    /// Whether the stage was made of all its keys at once, and takes no others.
    #[doc(hidden)]
    #[inline]
    pub fn is_static(&self) -> bool {
        self.shape().kind.is_static()
    }

    /// The geometry.
    pub fn shape(&self) -> Shape {
        self.layout.shape()
    }

    /// The words, as many as hold [`Shape::bits`], each as it is when its turn comes.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> {
        self.words.iter()
    }

    /// Keys inserted, without those that changed no bit; after a merge, an upper bound.
    #[inline]
    pub fn items(&self) -> Items {
        Items::new(self.items.get())
    }

    /// The bits of the stage.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The share of set bits; reads the whole stage.
    pub fn fill(&self) -> f64 {
        self.words.ones() as f64 / self.size().get() as f64
    }

    /// How many distinct keys the fill speaks for; reads the whole stage. Of a static one, the keys
    /// that it was made of.
    pub fn estimated_items(&self) -> Items {
        match self.layout.clear_chance() {
            Some(clear_chance) => fill::items(clear_chance, self.fill()),
            None => self.items(),
        }
    }

    /// The chance that a key never inserted is answered *maybe*, computed from [`Stage::items`];
    /// 1 for a stage without a clear bit.
    ///
    /// At rates above some percent this is a little low, since keys that changed no bit were not
    /// counted; [`Stage::observed_rate`] is right at any rate.
    pub fn predicted_rate(&self) -> f64 {
        if self.is_full() {
            1.0
        } else {
            self.layout.rate(self.items())
        }
    }

    /// The same chance, from the bits as they stand; reads the whole stage.
    pub fn observed_rate(&self) -> f64 {
        self.layout.observed_rate(&self.words)
    }

    /// The most keys that keep the stage at or below `rate`; those that are in, where it takes no more.
    pub fn capacity(&self, rate: Rate) -> Items {
        self.layout.capacity(rate).unwrap_or_else(|| self.items())
    }

    /// Whether every answer is *maybe*: no bit is clear, as a rule. Cheap where one is.
    pub fn is_full(&self) -> bool {
        self.layout.is_full(&self.words)
    }

    /// The CRC-32 of what one of `before` was computed from, and then of all words; reads the
    /// whole stage.
    pub(super) fn checksum(&self, before: u32) -> u32 {
        self.words.checksum(before)
    }

    /// Clears one bit that is set, as a fault of memory would.
    #[cfg(any(test, feature = "laws"))]
    #[doc(hidden)]
    pub fn lose_a_bit(&self) {
        self.words.lose_a_bit();
    }

    #[cfg(test)]
    pub(super) fn stored(&self) -> &Words {
        &self.words
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// Takes over all bits of a stage of the same shape, and its count.
    pub(super) fn absorb(&self, other: &Self) {
        self.words.or_with(&other.words);
        self.items.add(other.items.get());
    }

    /// The words of each line.
    pub(super) fn lines(&self) -> impl ExactSizeIterator<Item = [u64; 8]> {
        self.words.lines().iter().map(|line| line.load())
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stage = f.debug_struct("Stage");
        stage
            .field("shape", &self.shape())
            .field("items", &self.items())
            .finish_non_exhaustive()
    }
}

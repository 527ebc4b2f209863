//! A filter of fixed size: a validated geometry, its words, and the number of keys inserted.

use super::layout::{Layout, StoreLayout};
use super::ribbon::{self, Ribbon, Slots};
use super::simd::Simd;
use super::{BATCH, Kind, Shape, ShapeError};
use crate::bits::{Count, Words};
use crate::hash::KeyHash;
use crate::math::ribbon::slot_parts;
use crate::math::{Bits, Items, Rate, fill};
use std::collections::TryReserveError;
use std::fmt;

/// A Bloom filter of fixed size that any number of threads fill.
pub struct Stage<L> {
    layout: L,
    words: Words,
    items: Count,
}

/// Why a stage could not be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// No geometry reaches the rate.
    #[error("no {kind:?} filter keeps {items} keys below a rate of {rate}; ask for a looser one")]
    OutOfReach {
        /// The requested layout.
        kind: Kind,
        /// The keys to be held.
        items: Items,
        /// The requested rate.
        rate: Rate,
    },
    /// The geometry is invalid.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Shape and words do not belong together.
    #[error("a filter of {bits} bits has {expected} words, not {got}; rebuild it")]
    WordCount {
        /// The bits that the shape names.
        bits: Bits,
        /// The number of words that hold them.
        expected: u64,
        /// The number of words given.
        got: usize,
    },
    /// A part has many more keys than the first part had.
    #[error("{items} keys came, more than the first part told of; make the filter anew")]
    Crowded {
        /// The number of keys added so far.
        items: Items,
    },
    /// The allocator refused.
    #[error("no memory for a filter of {bits} bits; set a budget or ask for a looser rate")]
    Memory {
        /// The requested bits.
        bits: Bits,
        /// The allocator's error.
        source: TryReserveError,
    },
}

impl<L: Layout> Stage<L> {
    /// An empty stage that keeps up to `items` keys at or below `rate`.
    ///
    /// # Errors
    /// If no geometry of this kind reaches the rate, or if there is not enough memory.
    pub fn with_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError> {
        Self::empty(L::for_rate(kind, items, rate)?)
    }

    /// An empty stage of this shape.
    ///
    /// # Errors
    /// If the shape is invalid, or if there is not enough memory.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        Self::empty(shape.try_into()?)
    }

    pub(super) fn empty(layout: L) -> Result<Self, StageError> {
        Self::with_words(layout, Items::new(0), [])
    }

    /// A stage read back from its shape, its count and its words. Any words are accepted.
    ///
    /// # Errors
    /// If the shape is invalid or has another number of words, or if there is not enough memory.
    pub fn from_words(
        shape: Shape,
        items: Items,
        words: impl IntoIterator<Item = u64, IntoIter: ExactSizeIterator>,
    ) -> Result<Self, StageError> {
        let layout = L::try_from(shape)?;
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
        // Zeros in place of missing words would deny keys.
        check(taken)?;
        Ok(stage)
    }

    /// A stage with these words; zeros follow if there are too few.
    pub(super) fn with_words(
        layout: L,
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

    /// A stage of these words, which must be as many as its layout has.
    pub(super) fn of_words(layout: L, items: Items, words: Words) -> Self {
        Self {
            layout,
            words,
            items: Count::new(items.get()),
        }
    }

    /// One line of ones: answers *maybe* to every key. Stands for keys that were lost.
    pub(super) fn full() -> Self {
        Self {
            layout: L::one_line(),
            words: Words::full_line(),
            items: Count::default(),
        }
    }

    /// An independent copy, with every key inserted before the call.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn try_clone(&self) -> Result<Self, StageError> {
        Self::with_words(self.layout, self.items(), self.words())
    }

    /// Removes all keys.
    #[doc(hidden)]
    pub fn clear(&mut self) {
        self.words.clear();
        self.items = Count::default();
    }

    /// Adds a key; true if a bit changed.
    #[inline]
    pub fn insert(&self, hash: KeyHash) -> bool {
        let changed = self.layout.insert(&self.words, hash);
        if changed {
            self.items.increment();
        }
        changed
    }

    /// Adds many keys to a stage that no other thread uses yet. Their cache misses overlap, and no
    /// write needs a locked instruction.
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

    /// Prefetches the lines that [`Stage::may_contain`] will read.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.layout.prefetch(&self.words, hash);
    }

    /// [`Stage::prefetch`] for each key.
    pub(super) fn prefetch_each(&self, hashes: &[KeyHash]) {
        self.layout.prefetch_each(&self.words, hashes);
    }

    /// Sets the answers of keys that may be in the stage to true and leaves the others.
    pub(super) fn test_each(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        self.layout.test_each(&self.words, hashes, answers);
    }

    /// Whether the stage was built from all its keys at once and takes no others.
    #[doc(hidden)]
    #[inline]
    pub fn is_static(&self) -> bool {
        self.shape().kind.is_static()
    }

    /// The geometry.
    pub fn shape(&self) -> Shape {
        self.layout.shape()
    }

    /// The words, as many as hold [`Shape::bits`], each read when the iterator reaches it.
    pub fn words(&self) -> impl ExactSizeIterator<Item = u64> {
        self.words.iter()
    }

    /// The number of keys inserted, without those that changed no bit; after a merge, an upper
    /// bound.
    #[inline]
    pub fn items(&self) -> Items {
        Items::new(self.items.get())
    }

    /// The bits of the stage.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The share of set bits. Reads the whole stage.
    pub fn fill(&self) -> f64 {
        self.words.ones() as f64 / self.size().get() as f64
    }

    /// An estimate of the number of distinct keys from the fill ratio. Reads the whole stage. For a
    /// static stage, the number of keys it was built from.
    pub fn estimated_items(&self) -> Items {
        match self.layout.clear_chance() {
            Some(clear_chance) => fill::items(clear_chance, self.fill()),
            None => self.items(),
        }
    }

    /// The probability that a key that was never inserted is answered *maybe*, computed from
    /// [`Stage::items`]; 1 for a stage without a clear bit.
    ///
    /// At rates above a few percent it is slightly too low, because keys that changed no bit were
    /// not counted. [`Stage::observed_rate`] is right at any rate.
    pub fn predicted_rate(&self) -> f64 {
        if self.is_full() {
            1.0
        } else {
            self.layout.rate(self.items())
        }
    }

    /// The same probability, from the bits as they are now. Reads the whole stage.
    pub fn observed_rate(&self) -> f64 {
        self.layout.observed_rate(&self.words)
    }

    /// The most keys that keep the stage at or below `rate`. If it takes no more keys, the number
    /// it has.
    pub fn capacity(&self, rate: Rate) -> Items {
        self.layout.capacity(rate).unwrap_or_else(|| self.items())
    }

    /// Whether every answer is *maybe*, which as a rule means that no bit is clear. Cheap if one
    /// is.
    pub fn is_full(&self) -> bool {
        self.layout.is_full(&self.words)
    }

    /// Extends `before`, the CRC-32 of other data, by all words. Reads the whole stage.
    pub(super) fn checksum(&self, before: u32) -> u32 {
        self.words.checksum(before)
    }

    /// Clears one bit that is set, as a memory fault would.
    #[cfg(any(test, feature = "laws"))]
    #[doc(hidden)]
    pub fn clear_one_bit(&self) {
        self.words.clear_one_bit();
    }

    #[cfg(test)]
    pub(super) fn stored(&self) -> &Words {
        &self.words
    }

    pub(super) fn layout(&self) -> L {
        self.layout
    }

    /// Takes over all bits of a stage of the same shape, and adds its count.
    pub(super) fn absorb(&self, other: &Self) {
        self.words.or_with(&other.words);
        self.items.add(other.items.get());
    }
}

impl Stage<StoreLayout> {
    /// A stage of exactly these keys at or below `rate`: a bumped ribbon filter, the smallest
    /// layout that is fast to probe. It takes no further keys: inserting one makes it answer
    /// *maybe* to everything.
    ///
    /// Needs 32 bytes per key besides the hashes, for up to four million keys at a time.
    ///
    /// # Errors
    /// If the rate is below 2^-32, or if there is not enough memory.
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
        Ok(Self::of_words(StoreLayout::Ribbon(geometry), items, words))
    }

    /// The size of [`Stage::ribbon`] for `items` keys; the stage is hardly ever a little larger.
    /// `None` if no such stage exists.
    pub fn ribbon_size(items: Items, rate: Rate) -> Option<Bits> {
        let slots = Slots::new(slot_parts(rate)?)?;
        Some(Ribbon::for_keys(items, slots)?.shape().bits)
    }

    /// [`Stage::may_contain`] of a blocked stage, compiled into its caller. Of a static stage only
    /// `Some(false)`, for nearly all absent keys; `None` of any other.
    #[inline(always)]
    pub(super) fn may_contain_fast(&self, simd: impl Simd, hash: KeyHash) -> Option<bool> {
        match &self.layout {
            StoreLayout::Blocked(blocked) => {
                Some(blocked.may_contain_with(&self.words, simd, hash))
            }
            StoreLayout::Ribbon(ribbon) => ribbon.denies(&self.words, simd, hash).then_some(false),
        }
    }
}

impl<L: Layout> fmt::Debug for Stage<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut stage = f.debug_struct("Stage");
        stage
            .field("shape", &self.shape())
            .field("items", &self.items())
            .finish_non_exhaustive()
    }
}

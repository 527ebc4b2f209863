//! The closed set of layouts: a validated geometry, without the bits.

use super::blocked::Blocked;
use super::classic::Classic;
use super::partitioned::Partitioned;
use super::ribbon::Ribbon;
use super::standard::Standard;
use super::{Kind, Shape, ShapeError, StageError};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Items, Rate};

/// A validated [`Shape`]: every position computed from it is in bounds, and nothing divides by
/// zero.
#[derive(Clone, Copy, Debug)]
pub(super) enum Layout {
    Standard(Standard),
    Partitioned(Partitioned),
    Blocked(Blocked),
    Classic(Classic),
    Ribbon(Ribbon),
}

macro_rules! each_layout {
    ($layout:expr, $geometry:ident => $answer:expr) => {
        match $layout {
            Layout::Standard($geometry) => $answer,
            Layout::Partitioned($geometry) => $answer,
            Layout::Blocked($geometry) => $answer,
            Layout::Classic($geometry) => $answer,
            Layout::Ribbon($geometry) => $answer,
        }
    };
}

impl Layout {
    /// The smallest geometry of this kind that keeps `items` keys below `rate`.
    pub(super) fn for_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError> {
        let layout = match kind {
            Kind::Standard => Standard::for_rate(items, rate).map(Self::Standard),
            Kind::Partitioned => Partitioned::for_rate(items, rate).map(Self::Partitioned),
            Kind::Blocked => Blocked::for_rate(items, rate).map(Self::Blocked),
            Kind::Classic => Classic::for_rate(items, rate).map(Self::Classic),
            kind => return Err(other(kind, "filter that takes keys one by one").into()),
        };
        layout.ok_or(StageError::OutOfReach { kind, items, rate })
    }

    pub(super) fn shape(self) -> Shape {
        each_layout!(self, geometry => geometry.shape())
    }

    /// The number of words that hold the bits.
    pub(super) fn words(self) -> u64 {
        self.shape().bits.get() / 64
    }

    #[inline]
    pub(super) fn insert(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.insert(words, hash))
    }

    /// [`Layout::insert`] of each key; returns how many of them changed a bit.
    pub(super) fn insert_each(&self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        if let Self::Blocked(geometry) = self {
            return geometry.insert_each(words, hashes);
        }
        let changed = hashes.iter().filter(|&&hash| self.insert(words, hash));
        changed.count() as u64
    }

    #[inline]
    pub(super) fn may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        match self {
            Self::Blocked(geometry) => geometry.may_contain(words, hash),
            Self::Ribbon(geometry) => geometry.may_contain(words, hash),
            scattered => scattered.any_may_contain(words, hash),
        }
    }

    /// A function of its own, so that the loops of the other layouts take no registers from the
    /// blocked one.
    #[inline(never)]
    fn any_may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.may_contain(words, hash))
    }

    #[inline]
    pub(super) fn prefetch(&self, words: &Words, hash: KeyHash) {
        match self {
            Self::Blocked(geometry) => geometry.prefetch(words, hash),
            Self::Ribbon(geometry) => geometry.prefetch(words, hash),
            scattered => scattered.prefetch_each(words, &[hash]),
        }
    }

    /// [`Layout::prefetch`] for each key.
    #[inline(never)]
    pub(super) fn prefetch_each(&self, words: &Words, hashes: &[KeyHash]) {
        each_layout!(self, geometry => {
            hashes.iter().for_each(|&hash| geometry.prefetch(words, hash));
        });
    }

    /// Sets the answers of keys that may be in the words to true and leaves the others.
    pub(super) fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        match self {
            Self::Blocked(geometry) => return geometry.test_each(words, hashes, answers),
            Self::Ribbon(geometry) => return geometry.test_each(words, hashes, answers),
            _ => {}
        }
        for (&hash, answer) in hashes.iter().zip(answers) {
            *answer = *answer || self.may_contain(words, hash);
        }
    }

    /// The false-positive rate with this many keys.
    pub(super) fn rate(self, items: Items) -> f64 {
        each_layout!(self, geometry => geometry.rate(items))
    }

    /// The probability that one key leaves a given bit clear; `None` if keys share no bits.
    pub(super) fn clear_chance(self) -> Option<f64> {
        Some(match self {
            Self::Standard(geometry) => geometry.clear_chance(),
            Self::Partitioned(geometry) => geometry.clear_chance(),
            Self::Blocked(geometry) => geometry.clear_chance(),
            Self::Classic(geometry) => geometry.clear_chance(),
            Self::Ribbon(_) => return None,
        })
    }

    /// Whether every answer is *maybe*.
    pub(super) fn is_full(self, words: &Words) -> bool {
        match self {
            Self::Ribbon(geometry) => geometry.is_full(words),
            // Stops at the first clear bit.
            _ => words.iter().all(|word| word == u64::MAX),
        }
    }

    /// The false-positive rate of these very bits, for a random key.
    pub(super) fn observed_rate(self, words: &Words) -> f64 {
        each_layout!(self, geometry => geometry.observed_rate(words))
    }

    /// The most keys that stay at or below `rate`, by bisection; `None` if the layout takes no more
    /// keys.
    pub(super) fn capacity(self, rate: Rate) -> Option<Items> {
        if let Self::Ribbon(_) = self {
            return None;
        }
        let (mut fits, mut over) = (0, self.shape().bits.get());
        while over - fits > 1 {
            let middle = fits + (over - fits) / 2;
            if self.rate(Items::new(middle)) <= rate.get() {
                fits = middle;
            } else {
                over = middle;
            }
        }
        Some(Items::new(fits))
    }
}

impl TryFrom<Shape> for Layout {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        Ok(match shape.kind {
            Kind::Standard => Self::Standard(shape.try_into()?),
            Kind::Partitioned => Self::Partitioned(shape.try_into()?),
            Kind::Blocked => Self::Blocked(shape.try_into()?),
            Kind::Classic => Self::Classic(shape.try_into()?),
            Kind::Ribbon => Self::Ribbon(shape.try_into()?),
            kind => return Err(other(kind, "filter of bits")),
        })
    }
}

fn other(kind: Kind, wanted: &'static str) -> ShapeError {
    ShapeError::Kind { kind, wanted }
}

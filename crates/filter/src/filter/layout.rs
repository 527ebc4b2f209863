//! Where the bits of a key are: a validated geometry, without the bits.

use super::blocked::Blocked;
use super::ribbon::Ribbon;
use super::{Kind, Shape, ShapeError, StageError};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Items, Rate};
use std::fmt;

/// A validated [`Shape`]: every position computed from it is in bounds, and nothing divides by
/// zero.
pub trait Layout: Copy + fmt::Debug + TryFrom<Shape, Error = ShapeError> {
    /// The smallest geometry of this kind that keeps `items` keys below `rate`.
    ///
    /// # Errors
    /// If no geometry of this kind reaches the rate, or its filters take no keys one by one.
    fn for_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError>;

    /// One line of 512 bits, which may be full.
    fn one_line() -> Self;

    /// What a file records of it.
    fn shape(self) -> Shape;

    /// Sets the bits of a key; true if one changed.
    fn insert(&self, words: &Words, hash: KeyHash) -> bool;

    /// False only for a key that was never inserted.
    fn may_contain(&self, words: &Words, hash: KeyHash) -> bool;

    /// Prefetches the lines that [`Layout::may_contain`] will read.
    fn prefetch(&self, words: &Words, hash: KeyHash);

    /// The false-positive rate with this many keys.
    fn rate(self, items: Items) -> f64;

    /// The probability that one key leaves a given bit clear; `None` if keys share no bits, and no
    /// further key is taken.
    fn clear_chance(self) -> Option<f64>;

    /// The false-positive rate of these very bits, for a random key.
    fn observed_rate(self, words: &Words) -> f64;

    /// The number of words that hold the bits.
    fn words(self) -> u64 {
        self.shape().bits.get() / 64
    }

    /// [`Layout::insert`] of each key; returns how many of them changed a bit.
    fn insert_each(&self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        let changed = hashes.iter().filter(|&&hash| self.insert(words, hash));
        changed.count() as u64
    }

    /// [`Layout::prefetch`] for each key.
    fn prefetch_each(&self, words: &Words, hashes: &[KeyHash]) {
        hashes.iter().for_each(|&hash| self.prefetch(words, hash));
    }

    /// Sets the answers of keys that may be in the words to true and leaves the others.
    fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        for (&hash, answer) in hashes.iter().zip(answers) {
            *answer = *answer || self.may_contain(words, hash);
        }
    }

    /// Whether every answer is *maybe*. Stops at the first clear bit.
    fn is_full(self, words: &Words) -> bool {
        words.iter().all(|word| word == u64::MAX)
    }

    /// The most keys that stay at or below `rate`, by bisection; `None` if it takes no more keys.
    fn capacity(self, rate: Rate) -> Option<Items> {
        self.clear_chance()?;
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

/// The layouts that a store's filters have.
#[derive(Clone, Copy, Debug)]
pub enum StoreLayout {
    /// [`Kind::Blocked`].
    Blocked(Blocked),
    /// [`Kind::Ribbon`].
    Ribbon(Ribbon),
}

macro_rules! each_layout {
    ($layout:expr, $geometry:ident => $answer:expr) => {
        match $layout {
            StoreLayout::Blocked($geometry) => $answer,
            StoreLayout::Ribbon($geometry) => $answer,
        }
    };
}

impl Layout for StoreLayout {
    fn for_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError> {
        if kind != Kind::Blocked {
            return Err(other(kind, "filter that takes keys one by one").into());
        }
        let layout = Blocked::for_rate(items, rate).map(Self::Blocked);
        layout.ok_or(StageError::OutOfReach { kind, items, rate })
    }

    fn one_line() -> Self {
        Self::Blocked(Blocked::ONE_LINE)
    }

    fn shape(self) -> Shape {
        each_layout!(self, geometry => geometry.shape())
    }

    #[inline]
    fn insert(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.insert(words, hash))
    }

    fn insert_each(&self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        if let Self::Blocked(geometry) = self {
            return geometry.insert_each(words, hashes);
        }
        let changed = hashes.iter().filter(|&&hash| self.insert(words, hash));
        changed.count() as u64
    }

    #[inline]
    fn may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.may_contain(words, hash))
    }

    #[inline]
    fn prefetch(&self, words: &Words, hash: KeyHash) {
        each_layout!(self, geometry => geometry.prefetch(words, hash));
    }

    fn prefetch_each(&self, words: &Words, hashes: &[KeyHash]) {
        each_layout!(self, geometry => {
            hashes.iter().for_each(|&hash| geometry.prefetch(words, hash));
        });
    }

    fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        each_layout!(self, geometry => geometry.test_each(words, hashes, answers));
    }

    fn rate(self, items: Items) -> f64 {
        each_layout!(self, geometry => geometry.rate(items))
    }

    fn clear_chance(self) -> Option<f64> {
        match self {
            Self::Blocked(geometry) => Some(geometry.clear_chance()),
            Self::Ribbon(_) => None,
        }
    }

    fn is_full(self, words: &Words) -> bool {
        match self {
            Self::Blocked(_) => words.iter().all(|word| word == u64::MAX),
            Self::Ribbon(geometry) => geometry.is_full(words),
        }
    }

    fn observed_rate(self, words: &Words) -> f64 {
        each_layout!(self, geometry => geometry.observed_rate(words))
    }
}

impl TryFrom<Shape> for StoreLayout {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        match shape.kind {
            Kind::Blocked => shape.try_into().map(Self::Blocked),
            Kind::Ribbon => shape.try_into().map(Self::Ribbon),
            kind => Err(other(kind, "filter of a store")),
        }
    }
}

fn other(kind: Kind, wanted: &'static str) -> ShapeError {
    ShapeError::Kind { kind, wanted }
}

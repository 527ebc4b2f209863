//! The layouts of the literature, beside those of [`lsm_sieve_filter::filter::layout`].
//!
//! ```text
//! Standard      k probes anywhere in M bits
//! Partitioned   k slices of m bits, one probe in each
//! Classic       k different bits of M
//! ```

mod classic;
mod partitioned;
mod standard;

use super::{Kind, Shape, ShapeError, StageError, probe};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Items, Rate};
use classic::Classic;
use lsm_sieve_filter::filter::layout::{Layout, StoreLayout};
use partitioned::Partitioned;
use standard::Standard;

/// A layout of the literature, or one of a store's filters.
#[derive(Clone, Copy, Debug)]
pub enum AnyLayout {
    /// [`Kind::Standard`].
    Standard(Standard),
    /// [`Kind::Partitioned`].
    Partitioned(Partitioned),
    /// [`Kind::Classic`].
    Classic(Classic),
    /// [`Kind::Blocked`] and [`Kind::Ribbon`].
    Store(StoreLayout),
}

/// A layout of the literature, by the bits of a key.
trait Positions: Copy {
    fn positions(self, hash: KeyHash) -> impl Iterator<Item = u64>;

    #[inline]
    fn insert(self, words: &Words, hash: KeyHash) -> bool {
        self.positions(hash)
            .fold(false, |changed, bit| changed | words.set(bit))
    }

    #[inline]
    fn may_contain(self, words: &Words, hash: KeyHash) -> bool {
        self.positions(hash).all(|bit| words.contains(bit))
    }

    #[inline]
    fn prefetch(self, words: &Words, hash: KeyHash) {
        self.positions(hash).for_each(|bit| words.prefetch_bit(bit));
    }
}

macro_rules! each_layout {
    ($layout:expr, $geometry:ident => $answer:expr) => {
        match $layout {
            AnyLayout::Standard($geometry) => $answer,
            AnyLayout::Partitioned($geometry) => $answer,
            AnyLayout::Classic($geometry) => $answer,
            AnyLayout::Store($geometry) => $answer,
        }
    };
}

impl Layout for AnyLayout {
    fn for_rate(kind: Kind, items: Items, rate: Rate) -> Result<Self, StageError> {
        let layout = match kind {
            Kind::Standard => Standard::for_rate(items, rate).map(Self::Standard),
            Kind::Partitioned => Partitioned::for_rate(items, rate).map(Self::Partitioned),
            Kind::Classic => Classic::for_rate(items, rate).map(Self::Classic),
            kind => return StoreLayout::for_rate(kind, items, rate).map(Self::Store),
        };
        layout.ok_or(StageError::OutOfReach { kind, items, rate })
    }

    fn one_line() -> Self {
        Self::Store(StoreLayout::one_line())
    }

    fn shape(self) -> Shape {
        each_layout!(self, geometry => geometry.shape())
    }

    #[inline]
    fn insert(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.insert(words, hash))
    }

    #[inline]
    fn may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        match self {
            Self::Store(layout) => layout.may_contain(words, hash),
            literature => literature.any_may_contain(words, hash),
        }
    }

    #[inline]
    fn prefetch(&self, words: &Words, hash: KeyHash) {
        each_layout!(self, geometry => geometry.prefetch(words, hash));
    }

    fn rate(self, items: Items) -> f64 {
        each_layout!(self, geometry => geometry.rate(items))
    }

    fn clear_chance(self) -> Option<f64> {
        Some(match self {
            Self::Standard(geometry) => geometry.clear_chance(),
            Self::Partitioned(geometry) => geometry.clear_chance(),
            Self::Classic(geometry) => geometry.clear_chance(),
            Self::Store(layout) => return layout.clear_chance(),
        })
    }

    fn observed_rate(self, words: &Words) -> f64 {
        each_layout!(self, geometry => geometry.observed_rate(words))
    }

    fn insert_each(&self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        if let Self::Store(layout) = self {
            return layout.insert_each(words, hashes);
        }
        let changed = hashes.iter().filter(|&&hash| self.insert(words, hash));
        changed.count() as u64
    }

    fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        if let Self::Store(layout) = self {
            return layout.test_each(words, hashes, answers);
        }
        for (&hash, answer) in hashes.iter().zip(answers) {
            *answer = *answer || self.may_contain(words, hash);
        }
    }

    fn is_full(self, words: &Words) -> bool {
        match self {
            Self::Store(layout) => layout.is_full(words),
            _ => words.iter().all(|word| word == u64::MAX),
        }
    }
}

impl AnyLayout {
    /// A function of its own, so that its loops take no registers from the blocked layout.
    #[inline(never)]
    fn any_may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        each_layout!(self, geometry => geometry.may_contain(words, hash))
    }
}

impl TryFrom<Shape> for AnyLayout {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        Ok(match shape.kind {
            Kind::Standard => Self::Standard(shape.try_into()?),
            Kind::Partitioned => Self::Partitioned(shape.try_into()?),
            Kind::Classic => Self::Classic(shape.try_into()?),
            _ => Self::Store(shape.try_into()?),
        })
    }
}

//! Estimates how often a key was inserted, never too low (Cohen & Matias, *Spectral Bloom Filters*,
//! SIGMOD 2003).
//!
//! ```text
//! counters of a key:   | 5 | 3 | 9 | 3 |      the estimate is the minimum, 3
//!
//! minimum selection    insert raises all four           can remove
//! minimal increase     insert raises the two 3s only    errs less, cannot remove
//! ```
//!
//! For every key f ≤ m: the estimate m is at least f, the number of its insertions minus its valid
//! removals. With minimum selection, m ≠ f with the probability that each of its counters is shared
//! with another key ([`wrong_estimate`]). With minimal increase, this is never more frequent.
//!
//! A removal after minimal increase would lower counters that the key never raised, and lose
//! insertions of other keys. So it has no such method. [`super::RecurringMinimum`] errs less and
//! can remove, but its estimate is not an upper bound. The limits of [`super::Counting`] hold here
//! too: remove only inserted keys; a counter at its maximum is saturated, and the estimate is then
//! *unknown*.
//!
//! [`wrong_estimate`]: crate::math::counting::wrong_estimate

use super::counters::{CounterWidth, Counters};
use super::merge::same_shape;
use super::{Kind, Mismatch, NotInserted, Shape, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};
use std::marker::PhantomData;

/// How an insertion raises the counters of a key: [`RaiseAll`] or [`RaiseLeast`].
pub trait Rule: sealed::Rule {}

/// Minimum selection: raises all counters. Insertions can be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseAll;

/// Minimal increase: raises only the counters that have the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RaiseLeast;

impl Rule for RaiseAll {}
impl Rule for RaiseLeast {}

mod sealed {
    use super::Kind;

    /// The kind names the rule, in the file and for [`super::Spectral::insert`].
    pub trait Rule {
        const KIND: Kind;
    }

    impl Rule for super::RaiseAll {
        const KIND: Kind = Kind::Spectral;
    }

    impl Rule for super::RaiseLeast {
        const KIND: Kind = Kind::MinimalIncrease;
    }
}

/// The filter that estimates by minimum selection, and can remove keys.
pub type Spectral = Multiset<RaiseAll>;

/// The filter that estimates more exactly by minimal increase, and cannot remove keys.
pub type MinimalIncrease = Multiset<RaiseLeast>;

/// A Bloom filter that estimates how often each key was inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Multiset<R: Rule> {
    counters: Counters,
    distinct: u64,
    rule: PhantomData<R>,
}

impl<R: Rule> Multiset<R> {
    /// An empty filter that stays at or below the false-positive rate `rate` with up to `items`
    /// distinct keys. `width` determines how far it counts.
    ///
    /// # Errors
    /// If no geometry reaches the rate, or memory cannot be allocated.
    pub fn with_rate(items: Items, rate: Rate, width: CounterWidth) -> Result<Self, StageError> {
        Ok(Self::of(
            Counters::for_rate(R::KIND, items, rate, width)?,
            0,
        ))
    }

    /// An empty filter of this shape.
    ///
    /// # Errors
    /// If the shape is not one of this rule, or memory cannot be allocated.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        Ok(Self::of(Counters::new(R::KIND, shape)?, 0))
    }

    /// Restores a filter from its shape, its count of distinct keys and its words. Words of any
    /// value are accepted.
    ///
    /// # Errors
    /// If the shape is not one of this rule, or needs another number of words.
    pub fn from_words(shape: Shape, items: Items, words: Vec<u64>) -> Result<Self, StageError> {
        let counters = Counters::from_words(R::KIND, shape, words)?;
        Ok(Self::of(counters, items.get()))
    }

    fn of(counters: Counters, distinct: u64) -> Self {
        Self {
            counters,
            distinct,
            rule: PhantomData,
        }
    }

    /// Inserts a key once more; returns true if it was absent.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let absent = !self.may_contain(hash);
        self.distinct = self.distinct.saturating_add(absent.into());
        match R::KIND {
            Kind::MinimalIncrease => self.counters.raise_least(hash),
            _ => self.counters.raise(hash, 1),
        }
        absent
    }

    /// An upper bound on how often the key was inserted; 0 is certain. `None` if its counters are
    /// saturated: then it may have been inserted any number of times.
    pub fn count(&self, hash: KeyHash) -> Option<u64> {
        let least = self.counters.least(hash);
        (!self.counters.is_stuck(least)).then_some(least)
    }

    /// False only for a key that was never inserted, or validly removed as often as inserted.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.counters.least(hash) > 0
    }

    /// The current distinct keys as a partitioned stage.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn to_stage(&self) -> Result<Stage, StageError> {
        self.counters.to_stage(self.items())
    }

    /// Distinct keys inserted, without false positives at their insertion.
    pub fn items(&self) -> Items {
        Items::new(self.distinct)
    }

    /// Number of saturated counters.
    pub fn saturated(&self) -> u64 {
        self.counters.stuck()
    }

    /// The bits of all counters.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The false-positive rate, computed from [`Multiset::items`].
    pub fn predicted_rate(&self) -> f64 {
        self.counters.rate(self.items())
    }

    /// The probability that the estimate of a key is too high, for [`Spectral`]; an upper bound of
    /// it for [`MinimalIncrease`].
    pub fn wrong_estimate(&self) -> f64 {
        self.counters.wrong_estimate(self.items())
    }

    /// The shape of the filter.
    pub fn shape(&self) -> Shape {
        self.counters.shape()
    }

    /// The words, which hold [`Shape::bits`] bits.
    pub fn words(&self) -> &[u64] {
        self.counters.words()
    }

    /// The width of one counter.
    pub fn width(&self) -> CounterWidth {
        self.counters.width()
    }

    /// Whether exactly one of the key's counters has the minimum.
    pub(super) fn has_single_minimum(&self, hash: KeyHash) -> bool {
        self.counters.least_times(hash) == 1
    }
}

impl Spectral {
    /// Removes one insertion of a key. The key must have been inserted.
    ///
    /// # Errors
    /// If the key is known never to have been inserted; then nothing has changed.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), NotInserted> {
        if !self.may_contain(hash) {
            return Err(NotInserted);
        }
        self.counters.lower(hash);
        let gone = !self.may_contain(hash);
        self.distinct = self.distinct.saturating_sub(gone.into());
        Ok(())
    }

    /// Adds all insertions of `other`, as if they had been made here.
    ///
    /// # Errors
    /// If the shapes differ; then nothing has changed.
    pub fn add(&mut self, other: &Self) -> Result<(), Mismatch> {
        same_shape(self.shape(), other.shape())?;
        self.counters.add(&other.counters);
        self.distinct = self.distinct.saturating_add(other.distinct);
        Ok(())
    }

    /// Adds a key several times at once.
    pub(super) fn insert_times(&mut self, hash: KeyHash, times: u64) {
        let absent = !self.may_contain(hash);
        self.distinct = self.distinct.saturating_add(absent.into());
        self.counters.raise(hash, times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    fn filter<R: Rule>(items: u64) -> Multiset<R> {
        let rate = Rate::new(0.1).unwrap();
        Multiset::with_rate(Items::new(items), rate, CounterWidth::Sixteen).unwrap()
    }

    /// Key i of 1,000 is inserted 1 to 100 times; few keys often, most rarely.
    fn times(i: usize) -> u64 {
        (1_000 / (10 * i + 10)).max(1) as u64
    }

    fn filled<R: Rule>(seed: u64) -> Multiset<R> {
        let mut filter = filter(1_000);
        for (i, hash) in hashes(seed).take(1_000).enumerate() {
            (0..times(i)).for_each(|_| _ = filter.insert(hash));
        }
        filter
    }

    fn wrong<R: Rule>(seed: u64) -> usize {
        let filter = filled::<R>(seed);
        let estimates = hashes(seed)
            .take(1_000)
            .map(|hash| filter.count(hash).unwrap());
        let pairs = estimates.enumerate().map(|(i, m)| (times(i), m));
        pairs
            .inspect(|(f, m)| assert!(f <= m, "{m} estimated, {f} inserted"))
            .filter(|(f, m)| f != m)
            .count()
    }

    /// Claim 1 of the paper, over 200,000 keys in 200 filters. Keys of one filter err together, so
    /// the bound is three times the binomial's.
    #[test]
    fn minimum_selection_error_rate_follows_claim_1() {
        let all: usize = (1..=200).map(wrong::<RaiseAll>).sum();
        let n = 200_000.0;
        let p = filter::<RaiseAll>(1_000)
            .counters
            .wrong_estimate(Items::new(1_000));
        let slack = 3.0 * 3.29 * (n * p * (1.0 - p)).sqrt();
        assert!((all as f64 - n * p).abs() < slack, "{all} of {n} at {p}");
    }

    #[test]
    fn minimal_increase_errs_less() {
        let (all, least): (usize, usize) = (1..=20)
            .map(|seed| (wrong::<RaiseAll>(seed), wrong::<RaiseLeast>(seed)))
            .fold((0, 0), |(a, b), (x, y)| (a + x, b + y));
        assert!(2 * least < all, "{least} against {all}");
    }

    #[test]
    fn removal_undoes_insertions() {
        let mut filter = filled::<RaiseAll>(1);
        for hash in hashes(2).take(500) {
            filter.insert_times(hash, 3);
        }
        for hash in hashes(2)
            .take(500)
            .chain(hashes(2).take(500))
            .chain(hashes(2).take(500))
        {
            filter.remove(hash).unwrap();
        }
        assert_eq!(filter.words(), filled::<RaiseAll>(1).words());
        let mut empty = self::filter::<RaiseAll>(1_000);
        assert_eq!(empty.remove(KeyHash::new(0)), Err(NotInserted));
    }

    #[test]
    fn addition_equals_inserting_keys_of_both() {
        let mut both = filled::<RaiseAll>(1);
        let other = filled::<RaiseAll>(2);
        both.add(&other).unwrap();
        let mut one = filled::<RaiseAll>(1);
        for (i, hash) in hashes(2).take(1_000).enumerate() {
            one.insert_times(hash, times(i));
        }
        assert_eq!(both.words(), one.words());
        assert!(both.add(&filter(9)).is_err());
    }

    #[test]
    fn count_beyond_the_counter_width_is_none() {
        let rate = Rate::ONE_PERCENT;
        let mut filter =
            MinimalIncrease::with_rate(Items::new(10), rate, CounterWidth::Eight).unwrap();
        let key = KeyHash::new(7 << 50);
        (0..254).for_each(|_| _ = filter.insert(key));
        assert_eq!((filter.count(key), filter.saturated()), (Some(254), 0));
        filter.insert(key);
        assert_eq!(filter.count(key), None);
        assert!(filter.may_contain(key) && filter.saturated() > 0);
    }

    /// If the counters were read under the other rule, they would allow removals that lose keys.
    #[test]
    fn minimal_increase_words_are_not_read_as_spectral() {
        let filter = filled::<RaiseLeast>(1);
        let words = filter.words().to_vec();
        assert!(Spectral::from_words(filter.shape(), filter.items(), words).is_err());
    }
}

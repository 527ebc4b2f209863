//! A Bloom filter with counters instead of bits, from which keys can be removed (Fan et al.,
//! *Summary Cache*, 2000).
//!
//! ```text
//! insert   every counter of the key + 1          remove   every counter of the key − 1
//! maybe    while all of them are above 0
//! ```
//!
//! It takes four times the bits of a partitioned filter. Its limits:
//!
//! - *Remove only inserted keys*, and only as often as they were inserted. Removing a false
//!   positive, which was never inserted, lowers the counters of other keys, and **these may then be
//!   answered absent**. The filter refuses to remove an absent key, but cannot detect a false
//!   positive.
//! - A 4-bit counter is saturated at 15 (`counters.rs`), so its keys stay *maybe*. Distinct keys
//!   reach this once in 10^15 counters ([`overflow_bound`]); one key inserted 15 times reaches it
//!   at once. [`Counting::saturated`] counts these.
//! - One writer: a removal must see all of a key's counters at once.
//!
//! [`overflow_bound`]: crate::math::counting::overflow_bound

use super::counters::{CounterWidth, Counters};
use super::merge::same_shape;
use super::{Kind, Mismatch, Shape, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};

/// A Bloom filter of 4-bit counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counting {
    counters: Counters,
    items: u64,
}

/// The key cannot be removed because it was never inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key that was never inserted cannot be removed; nothing has changed")]
pub struct NotInserted;

impl Counting {
    /// An empty filter that stays at or below `rate` with up to `items` keys.
    ///
    /// # Errors
    /// If no geometry reaches the rate, or memory cannot be allocated.
    pub fn with_rate(items: Items, rate: Rate) -> Result<Self, StageError> {
        let counters = Counters::for_rate(Kind::Counting, items, rate, CounterWidth::Four)?;
        Ok(Self { counters, items: 0 })
    }

    /// An empty filter of this shape.
    ///
    /// # Errors
    /// If the shape is not that of a counting filter, or memory cannot be allocated.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        let counters = Counters::new(Kind::Counting, shape)?;
        Ok(Self { counters, items: 0 })
    }

    /// Restores a filter from its shape, its count and its words. Words of any value are accepted.
    ///
    /// # Errors
    /// If the shape is not that of a counting filter, or needs another number of words.
    pub fn from_words(shape: Shape, items: Items, words: Vec<u64>) -> Result<Self, StageError> {
        Ok(Self {
            counters: Counters::from_words(Kind::Counting, shape, words)?,
            items: items.get(),
        })
    }

    /// Inserts a key once more; returns true if it was absent.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let absent = !self.may_contain(hash);
        self.counters.raise(hash, 1);
        self.items = self.items.saturating_add(1);
        absent
    }

    /// Takes back one insertion of a key.
    ///
    /// The key must have been inserted; see the limits at the top of this file.
    ///
    /// # Errors
    /// If the key is known never to have been inserted; then nothing has changed.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), NotInserted> {
        if !self.may_contain(hash) {
            return Err(NotInserted);
        }
        self.counters.lower(hash);
        self.items = self.items.saturating_sub(1);
        Ok(())
    }

    /// False only for a key that was never inserted, or validly removed as often as inserted.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.counters.least(hash) > 0
    }

    /// Adds all insertions of `other`, as if they had been made here.
    ///
    /// # Errors
    /// If the shapes differ; then nothing has changed.
    pub fn add(&mut self, other: &Self) -> Result<(), Mismatch> {
        same_shape(self.shape(), other.shape())?;
        self.counters.add(&other.counters);
        self.items = self.items.saturating_add(other.items);
        Ok(())
    }

    /// The current keys as a partitioned stage, in a quarter of the bits. It can be stored, sent or
    /// ORed if nothing is removed afterwards.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn to_stage(&self) -> Result<Stage, StageError> {
        self.counters.to_stage(self.items())
    }

    /// Insertions minus removals. A key counts as often as it was inserted.
    pub fn items(&self) -> Items {
        Items::new(self.items)
    }

    /// The number of distinct keys, estimated from the counters.
    pub fn estimated_items(&self) -> Items {
        self.counters.estimated_items()
    }

    /// Number of saturated counters. Their keys can no longer be removed.
    pub fn saturated(&self) -> u64 {
        self.counters.stuck()
    }

    /// The bits of all counters.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The false-positive rate from the current counters. Keys that were inserted more than once,
    /// or removed, do not distort it.
    pub fn predicted_rate(&self) -> f64 {
        self.counters.observed_rate()
    }

    /// The shape of the filter.
    pub fn shape(&self) -> Shape {
        self.counters.shape()
    }

    /// The words, which hold [`Shape::bits`] bits.
    pub fn words(&self) -> &[u64] {
        self.counters.words()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;
    use crate::math::Probes;

    fn filter(items: u64) -> Counting {
        Counting::with_rate(Items::new(items), Rate::ONE_PERCENT).unwrap()
    }

    fn filled(keys: impl Iterator<Item = KeyHash>) -> Counting {
        let mut filter = filter(1_000);
        keys.for_each(|hash| _ = filter.insert(hash));
        filter
    }

    #[test]
    fn removal_keeps_all_other_keys() {
        let mut all = filled(hashes(1).take(1_000));
        for hash in hashes(1).take(600) {
            all.remove(hash).unwrap();
        }
        assert_eq!(all, filled(hashes(1).skip(600).take(400)));
        assert!(
            hashes(1)
                .skip(600)
                .take(400)
                .all(|hash| all.may_contain(hash))
        );
    }

    #[test]
    fn key_inserted_twice_is_contained_until_removed_twice() {
        let mut filter = filter(10);
        let key = KeyHash::new(7 << 50);
        assert!(filter.insert(key) && !filter.insert(key));
        filter.remove(key).unwrap();
        assert!(filter.may_contain(key));
        filter.remove(key).unwrap();
        assert!(!filter.may_contain(key));
        assert_eq!(filter.remove(key), Err(NotInserted));
        assert_eq!(filter.items().get(), 0);
    }

    #[test]
    fn repeated_and_removed_keys_do_not_change_the_rate() {
        let once = filled(hashes(1).take(500));
        let mut again = filled(hashes(1).take(500).chain(hashes(1).take(1_000)));
        for hash in hashes(1).take(1_000).skip(500) {
            again.remove(hash).unwrap();
        }
        assert_eq!(again.items().get(), 1_000);
        assert_eq!(again.predicted_rate(), once.predicted_rate());
        assert_eq!(again.estimated_items(), once.estimated_items());
        let error = once.estimated_items().get().abs_diff(500);
        assert!(error <= 10, "off by {error}");
    }

    /// The true value of a saturated counter is not known, so it is never lowered.
    #[test]
    fn saturated_counter_is_never_lowered() {
        let mut filter = filter(10);
        let key = KeyHash::new(7 << 50);
        (0..20).for_each(|_| _ = filter.insert(key));
        assert_eq!(filter.saturated(), u64::from(filter.shape().probes.get()));
        (0..20).for_each(|_| filter.remove(key).unwrap());
        assert!(filter.may_contain(key));
        let again = Counting::from_words(filter.shape(), filter.items(), filter.words().to_vec());
        assert_eq!(again.unwrap().saturated(), filter.saturated());
    }

    /// Shows why only inserted keys may be removed: removing a false positive lowers the counters
    /// of other keys.
    #[test]
    fn removal_of_an_absent_key_can_lose_an_inserted_key() {
        let mut filter = filled(hashes(1).take(1_000));
        let strangers = hashes(2).filter(|hash| filter.may_contain(*hash));
        let strangers: Vec<_> = strangers.take(50).collect();
        for stranger in strangers {
            // A later one may be absent now, and is refused.
            _ = filter.remove(stranger);
        }
        let lost = hashes(1)
            .take(1_000)
            .filter(|hash| !filter.may_contain(*hash));
        assert!(lost.count() > 0);
    }

    #[test]
    fn counters_set_the_bits_of_a_partitioned_stage() {
        let filter = filled(hashes(1).take(1_000));
        let ours = filter.to_stage().unwrap();
        let stage = Stage::new(ours.shape()).unwrap();
        hashes(1)
            .take(1_000)
            .for_each(|hash| _ = stage.insert(hash));
        assert!(ours.words().eq(stage.words()));
        assert_eq!(filter.size().get(), 4 * stage.size().get());
    }

    #[test]
    fn addition_equals_inserting_keys_of_both() {
        let mut left = filled(hashes(1).take(600));
        left.add(&filled(hashes(1).skip(300).take(600))).unwrap();
        let both = hashes(1).take(600).chain(hashes(1).skip(300).take(600));
        assert_eq!(left, filled(both));
        let other = filter(2_000);
        assert!(matches!(left.add(&other), Err(Mismatch::Bits { .. })));
    }

    #[test]
    fn a_stage_is_not_read_as_counters() {
        let stage = Stage::with_rate(Kind::Partitioned, Items::new(9), Rate::ONE_PERCENT).unwrap();
        let words = stage.words().collect();
        let refusal = Counting::from_words(stage.shape(), stage.items(), words).unwrap_err();
        assert!(
            refusal.to_string().contains("no counting filter"),
            "{refusal}"
        );
        let shape = Shape {
            probes: Probes::new(0),
            ..filter(9).shape()
        };
        assert!(Counting::new(shape).is_err());
    }
}

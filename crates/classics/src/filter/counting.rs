//! A filter that can forget: counters in place of bits (Fan et al., *Summary Cache*, 2000).
//!
//! ```text
//! insert   every counter of the key + 1          remove   every counter of the key − 1
//! maybe    while all of them are above 0
//! ```
//!
//! Four times the bits of a partitioned filter buy removal. Its limits:
//!
//! - *Remove only what was inserted*, as often as it was. A key that was never inserted and looks
//!   as if it were takes its counts from other keys, and **these may then be answered absent**. The
//!   filter refuses what it can tell; it cannot tell a false positive.
//! - A counter of 4 bits is stuck at 15 (`counters.rs`), so the keys on it stay *maybe*. Distinct
//!   keys come there once in 10^15 counters ([`overflow_bound`]); one key inserted 15 times
//!   does at once. [`Counting::saturated`] tells.
//! - One writer: removal must see all of a key's counters at once.
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

/// A key that is to be removed and was never inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key that was never inserted cannot be removed; nothing has changed")]
pub struct NotInserted;

impl Counting {
    /// An empty filter that keeps up to `items` keys at or below `rate`.
    ///
    /// # Errors
    /// When no geometry does, or memory does not suffice.
    pub fn with_rate(items: Items, rate: Rate) -> Result<Self, StageError> {
        let counters = Counters::for_rate(Kind::Counting, items, rate, CounterWidth::Four)?;
        Ok(Self { counters, items: 0 })
    }

    /// An empty filter of this shape.
    ///
    /// # Errors
    /// When the shape is no counting filter's, or memory does not suffice.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        let counters = Counters::new(Kind::Counting, shape)?;
        Ok(Self { counters, items: 0 })
    }

    /// A filter read back: its shape, its count and its words, whatever they are.
    ///
    /// # Errors
    /// When the shape is no counting filter's or does not have so many words.
    pub fn from_words(shape: Shape, items: Items, words: Vec<u64>) -> Result<Self, StageError> {
        Ok(Self {
            counters: Counters::from_words(Kind::Counting, shape, words)?,
            items: items.get(),
        })
    }

    /// Adds a key once more; true when it was absent.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let absent = !self.may_contain(hash);
        self.counters.raise(hash, 1);
        self.items = self.items.saturating_add(1);
        absent
    }

    /// Takes back one insertion of a key.
    ///
    /// The key must have been inserted: see the limits at the top of this file.
    ///
    /// # Errors
    /// When the key is known never to have been inserted; nothing has changed then.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), NotInserted> {
        if !self.may_contain(hash) {
            return Err(NotInserted);
        }
        self.counters.lower(hash);
        self.items = self.items.saturating_sub(1);
        Ok(())
    }

    /// False only for a key that was never inserted, or validly removed as often as it was.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.counters.least(hash) > 0
    }

    /// Takes in all insertions of `other`, as if they had been made here.
    ///
    /// # Errors
    /// When the shapes differ; nothing has changed then.
    pub fn add(&mut self, other: &Self) -> Result<(), Mismatch> {
        same_shape(self.shape(), other.shape())?;
        self.counters.add(&other.counters);
        self.items = self.items.saturating_add(other.items);
        Ok(())
    }

    /// The keys as they stand in a partitioned stage, in a quarter of the bits: to be stored, sent
    /// or ORed where nothing is removed.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn to_stage(&self) -> Result<Stage, StageError> {
        self.counters.to_stage(self.items())
    }

    /// Insertions less removals: a key counts as often as it was inserted.
    pub fn items(&self) -> Items {
        Items::new(self.items)
    }

    /// How many distinct keys the counters speak for.
    pub fn estimated_items(&self) -> Items {
        self.counters.estimated_items()
    }

    /// Counters that are stuck: keys on them can no longer be removed.
    pub fn saturated(&self) -> u64 {
        self.counters.stuck()
    }

    /// The bits of all counters.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The chance that a stranger is answered *maybe*, from the counters as they stand: keys that
    /// were inserted more than once, or removed, do not blur it.
    pub fn predicted_rate(&self) -> f64 {
        self.counters.observed_rate()
    }

    /// The geometry.
    pub fn shape(&self) -> Shape {
        self.counters.shape()
    }

    /// The words, as many as hold [`Shape::bits`].
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
    fn removing_leaves_what_was_never_removed() {
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
    fn a_key_is_in_as_often_as_it_was_inserted() {
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
    fn repeated_and_removed_keys_leave_the_rate_as_it_was() {
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

    /// What a full counter stood for is not known any more, so nothing takes it down.
    #[test]
    fn a_saturated_counter_forgets_nothing() {
        let mut filter = filter(10);
        let key = KeyHash::new(7 << 50);
        (0..20).for_each(|_| _ = filter.insert(key));
        assert_eq!(filter.saturated(), u64::from(filter.shape().probes.get()));
        (0..20).for_each(|_| filter.remove(key).unwrap());
        assert!(filter.may_contain(key));
        let again = Counting::from_words(filter.shape(), filter.items(), filter.words().to_vec());
        assert_eq!(again.unwrap().saturated(), filter.saturated());
    }

    /// Why only inserted keys may be removed: a stranger that looks like a member takes from
    /// others.
    #[test]
    fn removing_a_stranger_can_lose_a_member() {
        let mut filter = filled(hashes(1).take(1_000));
        let strangers = hashes(2).filter(|hash| filter.may_contain(*hash));
        let strangers: Vec<_> = strangers.take(50).collect();
        for stranger in strangers {
            // A later one may be absent by now, and is refused.
            _ = filter.remove(stranger);
        }
        let lost = hashes(1)
            .take(1_000)
            .filter(|hash| !filter.may_contain(*hash));
        assert!(lost.count() > 0);
    }

    #[test]
    fn its_bits_are_those_of_a_partitioned_stage() {
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
    fn addition_is_inserting_both() {
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

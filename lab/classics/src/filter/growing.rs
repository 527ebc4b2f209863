//! A scalable filter whose stages are filters of counters. Almeida et al. 2007 (§1) mention that
//! counting and spectral filters can grow in this way, without details.
//!
//! ```text
//! stage    0      1         2                3          ...
//! keys     first  first s   first s²         first s³
//! rate     P0     P0 r      P0 r²            P0 r³               P0 = P (1 − r): adds up to P
//! ```
//!
//! To remove a key, its stage must be known. So an insertion goes to *the oldest stage that already
//! answers maybe*, or to the newest if none does. Each key is then in a stage that answers *maybe*:
//!
//! - A count is the sum over all stages that answer *maybe*. It is never too low.
//! - A removal is made if a single stage answers *maybe*, since the key is in that stage. If
//!   several do, some may be false positives, and a removal from one of these would lose another key. So the
//!   removal is refused, and the key stays *maybe*. Usually this is no more frequent than the rate.

use super::{
    CounterWidth, Counting, Filter, Insert, Multiset, NotInserted, Rule, Spectral, StageError,
};
use crate::hash::KeyHash;
use crate::math::growth::{self, Tightening};
use crate::math::{Bits, Items, Rate};

/// The first stage and the growth of a [`Growing`] filter, as in [`super::ScalableOptions`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// The false-positive rate of all stages together.
    pub rate: Rate,
    /// Keys that the first stage takes.
    pub first: Items,
    /// Each stage takes this many times the keys of the one before it; 0 counts as 1.
    pub factor: u32,
    /// How the rates of the stages are tightened; r is limited to 0.1 to 0.95. If it bounds the
    /// number of stages, the last one takes all further keys.
    pub tightening: Tightening,
}

impl Default for Growth {
    /// r = 0.85 as in [`super::ScalableOptions`], and factor 2.
    fn default() -> Self {
        Self {
            rate: Rate::ONE_PERCENT,
            first: Items::new(1_000),
            factor: 2,
            tightening: Tightening::Geometric(0.85),
        }
    }
}

impl Growth {
    /// Keys and rate of stage `index`.
    fn stage(&self, index: usize) -> (Items, Rate) {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let times = u64::from(self.factor.max(1)).saturating_pow(index);
        let items = self.first.get().max(1).saturating_mul(times);
        let rate = self.tightening.confined().rate(self.rate, index);
        (Items::new(items), rate)
    }

    fn has_stage(&self, index: usize) -> bool {
        u32::try_from(index).is_ok_and(|index| self.tightening.has_stage(index))
    }
}

/// A filter of counters that can be a stage of a [`Growing`] one.
pub trait Countable: Filter + Insert + Sized {
    /// An empty filter with the same kind of counters, for `items` keys at `rate`.
    ///
    /// # Errors
    /// If no geometry reaches the rate, or memory cannot be allocated.
    fn following(&self, items: Items, rate: Rate) -> Result<Self, StageError>;

    /// The estimated number of distinct keys, which decides whether the stage is full.
    fn distinct(&self) -> Items;
}

/// Stages of counters; a new one opens when the newest is full.
#[derive(Clone, Debug, PartialEq)]
pub struct Growing<S> {
    growth: Growth,
    /// Never empty.
    stages: Vec<S>,
}

/// Why a key was not removed from a [`Growing`] filter. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RemoveError {
    /// The key was never inserted.
    #[error(transparent)]
    NotInserted(#[from] NotInserted),
    /// Several stages answer *maybe*, and some of them may be wrong.
    #[error("{stages} stages claim the key, so it stays in; rebuild the filter to remove it")]
    Ambiguous {
        /// The number of these stages.
        stages: usize,
    },
}

impl Growing<Counting> {
    /// An empty filter with its first stage.
    ///
    /// # Errors
    /// If no geometry reaches the rate of the first stage, or memory cannot be allocated.
    pub fn counting(growth: Growth) -> Result<Self, StageError> {
        let (items, rate) = growth.stage(0);
        Ok(Self::starting_with(
            growth,
            Counting::with_rate(items, rate)?,
        ))
    }

    /// Removes one insertion of a key. The key must have been inserted.
    ///
    /// # Errors
    /// If the key was never inserted, or its stage is not known.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), RemoveError> {
        Ok(self.only_claimant(hash)?.remove(hash)?)
    }
}

impl<R: Rule> Growing<Multiset<R>> {
    /// An empty filter with its first stage, with counters of `width`.
    ///
    /// # Errors
    /// If no geometry reaches the rate of the first stage, or memory cannot be allocated.
    pub fn spectral(growth: Growth, width: CounterWidth) -> Result<Self, StageError> {
        let (items, rate) = growth.stage(0);
        let first = Multiset::with_rate(items, rate, width)?;
        Ok(Self::starting_with(growth, first))
    }

    /// An upper bound on how often the key was inserted; `None` if its counters are saturated.
    pub fn count(&self, hash: KeyHash) -> Option<u64> {
        let counts = self.stages.iter().map(|stage| stage.count(hash));
        counts.sum()
    }
}

impl Growing<Spectral> {
    /// Removes one insertion of a key. The key must have been inserted.
    ///
    /// # Errors
    /// If the key was never inserted, or its stage is not known.
    pub fn remove(&mut self, hash: KeyHash) -> Result<(), RemoveError> {
        Ok(self.only_claimant(hash)?.remove(hash)?)
    }
}

impl<S: Countable> Growing<S> {
    fn starting_with(growth: Growth, first: S) -> Self {
        let stages = vec![first];
        Self { growth, stages }
    }

    /// Restores a filter from its stages, oldest first. `None` without a stage.
    pub fn from_stages(growth: Growth, stages: Vec<S>) -> Option<Self> {
        (!stages.is_empty()).then_some(Self { growth, stages })
    }

    /// Inserts a key once more; returns true if it was absent.
    ///
    /// If no further stage can be allocated, the newest takes more keys than it was made for. Then
    /// the rate rises, as [`Growing::predicted_rate`] shows, and no key is lost.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let claimant = self.stages.iter().position(|stage| stage.may_contain(hash));
        let place = claimant.unwrap_or_else(|| self.with_headroom());
        self.stages[place].insert(hash);
        claimant.is_none()
    }

    /// The newest stage; opens another one first if it is full.
    fn with_headroom(&mut self) -> usize {
        let newest = self.stages.len() - 1;
        let (capacity, _) = self.growth.stage(newest);
        let full = self.stages[newest].distinct() >= capacity;
        if full && self.growth.has_stage(newest + 1) {
            let (items, rate) = self.growth.stage(newest + 1);
            self.stages
                .extend(self.stages[newest].following(items, rate).ok());
        }
        self.stages.len() - 1
    }

    /// False only for a key that was never inserted, or validly removed as often as inserted.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.stages.iter().any(|stage| stage.may_contain(hash))
    }

    fn only_claimant(&mut self, hash: KeyHash) -> Result<&mut S, RemoveError> {
        let mut claimants = self
            .stages
            .iter_mut()
            .filter(|stage| stage.may_contain(hash));
        let first = claimants.next().ok_or(NotInserted)?;
        match claimants.count() {
            0 => Ok(first),
            others => Err(RemoveError::Ambiguous { stages: others + 1 }),
        }
    }

    /// The stages, oldest first.
    pub fn stages(&self) -> &[S] {
        &self.stages
    }

    /// The keys of all stages, as each stage counts them.
    pub fn items(&self) -> Items {
        self.stages.iter().map(|stage| stage.items()).sum()
    }

    /// The bits of all stages.
    pub fn size(&self) -> Bits {
        self.stages.iter().map(|stage| stage.size()).sum()
    }

    /// The rate of all stages together, 1 − ∏ (1 − p).
    pub fn predicted_rate(&self) -> f64 {
        growth::compound(self.stages.iter().map(S::predicted_rate))
    }
}

impl Countable for Counting {
    fn following(&self, items: Items, rate: Rate) -> Result<Self, StageError> {
        Self::with_rate(items, rate)
    }

    /// Estimated from the fill. In the count of insertions, a key that is inserted often would take
    /// the room of others, and so would a key for which an older stage is a false positive.
    fn distinct(&self) -> Items {
        self.estimated_items()
    }
}

impl<R: Rule> Countable for Multiset<R> {
    fn following(&self, items: Items, rate: Rate) -> Result<Self, StageError> {
        Self::with_rate(items, rate, self.width())
    }

    fn distinct(&self) -> Items {
        self.items()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;
    use crate::filter::{RaiseAll, RaiseLeast};

    fn growth() -> Growth {
        let first = Items::new(100);
        Growth {
            first,
            ..Growth::default()
        }
    }

    #[test]
    fn counting_grows_and_keeps_the_compound_rate() {
        let mut filter = Growing::counting(growth()).unwrap();
        hashes(1)
            .take(20_000)
            .for_each(|hash| _ = filter.insert(hash));
        assert_eq!(filter.stages().len(), 8);
        assert!(filter.predicted_rate() <= 0.01);
        assert!(hashes(1).take(20_000).all(|hash| filter.may_contain(hash)));
        let hits = hashes(2)
            .take(100_000)
            .filter(|&hash| filter.may_contain(hash));
        assert!(hits.count() < 1_100);
    }

    /// Each key is inserted five times, in turn: no stage opens for present keys, and the rate does
    /// not change.
    #[test]
    fn repeated_keys_open_no_stage() {
        let (mut once, mut often) = (
            Growing::counting(growth()).unwrap(),
            Growing::counting(growth()).unwrap(),
        );
        for hash in hashes(1).take(5_000) {
            once.insert(hash);
            (0..5).for_each(|_| _ = often.insert(hash));
        }
        assert_eq!(often.items().get(), 5 * once.items().get());
        assert_eq!(often.stages().len(), once.stages().len());
        assert_eq!(often.predicted_rate(), once.predicted_rate());
    }

    /// A removal from a stage that never had the key must not happen.
    #[test]
    fn removal_over_many_stages_loses_no_other_key() {
        let mut filter = Growing::counting(growth()).unwrap();
        hashes(1)
            .take(20_000)
            .for_each(|hash| _ = filter.insert(hash));
        let removed = hashes(1).step_by(2).take(10_000);
        let refused = removed.filter(|&hash| filter.remove(hash).is_err()).count();
        assert!(refused < 200, "{refused} of 10,000");
        let mut kept = hashes(1).skip(1).step_by(2).take(10_000);
        assert!(kept.all(|hash| filter.may_contain(hash)));
        let gone = hashes(1)
            .step_by(2)
            .take(10_000)
            .filter(|&hash| !filter.may_contain(hash));
        assert!(gone.count() > 9_700);
    }

    #[test]
    fn repeated_key_is_removed_as_often_as_inserted() {
        let mut filter = Growing::counting(growth()).unwrap();
        let key = KeyHash::new(7 << 50);
        filter.insert(key);
        hashes(1)
            .take(1_000)
            .for_each(|hash| _ = filter.insert(hash));
        filter.insert(key);
        assert_eq!((filter.remove(key), filter.remove(key)), (Ok(()), Ok(())));
        assert_eq!(
            filter.remove(key),
            Err(RemoveError::NotInserted(NotInserted))
        );
    }

    fn counts_are_never_too_low<R: Rule>() {
        let mut filter = Growing::<Multiset<R>>::spectral(growth(), CounterWidth::Sixteen).unwrap();
        let times = |i: usize| (10_000 / (i + 1)).clamp(1, 50) as u64;
        for round in 0..50 {
            let present = hashes(1).take(10_000).enumerate();
            for (_, hash) in present.filter(|(i, _)| times(*i) > round) {
                filter.insert(hash);
            }
        }
        let counts = hashes(1)
            .take(10_000)
            .map(|hash| filter.count(hash).unwrap());
        let wrong = counts
            .enumerate()
            .inspect(|&(i, m)| assert!(m >= times(i)))
            .filter(|&(i, m)| m > times(i));
        assert!(wrong.count() < 200);
        assert!(filter.stages().len() > 5);
    }

    #[test]
    fn spectral_counts_over_many_stages_are_never_too_low() {
        counts_are_never_too_low::<RaiseAll>();
        counts_are_never_too_low::<RaiseLeast>();
    }

    #[test]
    fn newest_stage_takes_all_keys_at_the_stage_limit() {
        let two = Growth {
            tightening: Tightening::Bounded { r: 0.5, stages: 2 },
            ..growth()
        };
        let mut filter = Growing::counting(two).unwrap();
        hashes(1)
            .take(50_000)
            .for_each(|hash| _ = filter.insert(hash));
        assert_eq!(filter.stages().len(), 2);
        assert!(filter.predicted_rate() > 0.5);
        assert!(hashes(1).take(50_000).all(|hash| filter.may_contain(hash)));
    }
}

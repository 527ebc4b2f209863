//! A set with removals, made of two filters. A key is probably in the set if the first filter says
//! *maybe* and the second filter, which holds the removed keys, says *absent*.
//!
//! **This is not a filter in the sense of [`super::Filter`]: it can deny a key of the set.** A
//! false positive of the second filter hides a key that was not removed, at the false-positive rate
//! of the second filter. So no answer of this type may replace a lookup; it has no `may_contain`
//! and does not implement the trait.
//!
//! ```text
//! answer         first    second      for a key of the set      for a key never added
//! ProbablyIn     maybe    absent      1 − p2                    p1 (1 − p2)
//! ProbablyOut    maybe    maybe       p2: wrongly denied        p1 p2
//! NeverIn        absent   -           never                     1 − p1
//! ```
//!
//! A removed key cannot be added again, since it cannot be removed from the second filter. If keys
//! come and go, use a [`super::Counting`] filter.
//!
//! ```compile_fail
//! fn stands_in_for_a_look_up(_: impl lsm_sieve_classics::filter::Filter) {}
//! fn misuse(composite: lsm_sieve_classics::filter::Composite) {
//!     stands_in_for_a_look_up(composite);
//! }
//! ```

use super::{Kind, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};

/// A set made of a filter of added keys and a filter of removed keys.
#[derive(Debug)]
pub struct Composite {
    added: Stage,
    removed: Stage,
}

/// The answer of a [`Composite`] for a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// The key was never added. This is the only certain answer.
    NeverIn,
    /// The key was probably removed.
    ProbablyOut,
    /// The key was probably added and not removed.
    ProbablyIn,
}

/// The key cannot be added, because the filter of removed keys says *maybe*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a removed key, or one that looks like it, cannot be added; rebuild the set without it")]
pub struct RemovedForEver;

impl Composite {
    /// An empty set for up to `items` keys, of which up to `removals` are removed. Keys that were
    /// never added are accepted at a rate of at most `rate`. Keys of the set are denied at a rate
    /// of at most `denied`.
    ///
    /// # Errors
    /// If no geometry of this kind reaches the rates, or memory cannot be allocated.
    pub fn with_rates(
        kind: Kind,
        (items, rate): (Items, Rate),
        (removals, denied): (Items, Rate),
    ) -> Result<Self, StageError> {
        Ok(Self {
            added: Stage::with_rate(kind, items, rate)?,
            removed: Stage::with_rate(kind, removals, denied)?,
        })
    }

    /// Restores a set from the filters of [`Composite::added`] and [`Composite::removed`].
    pub fn from_parts(added: Stage, removed: Stage) -> Self {
        Self { added, removed }
    }

    /// Adds a key.
    ///
    /// # Errors
    /// If the filter of removed keys would hide it; then nothing has changed.
    pub fn insert(&self, hash: KeyHash) -> Result<(), RemovedForEver> {
        if self.removed.may_contain(hash) {
            return Err(RemovedForEver);
        }
        self.added.insert(hash);
        Ok(())
    }

    /// Removes a key permanently, whether it was added or not.
    pub fn remove(&self, hash: KeyHash) {
        self.removed.insert(hash);
    }

    /// The answer for a key.
    pub fn membership(&self, hash: KeyHash) -> Membership {
        if !self.added.may_contain(hash) {
            Membership::NeverIn
        } else if self.removed.may_contain(hash) {
            Membership::ProbablyOut
        } else {
            Membership::ProbablyIn
        }
    }

    /// The probability that a key of the set is answered [`Membership::ProbablyOut`].
    pub fn denial_rate(&self) -> f64 {
        self.removed.predicted_rate()
    }

    /// The probability that a key that was never added is answered [`Membership::ProbablyIn`].
    pub fn predicted_rate(&self) -> f64 {
        self.added.predicted_rate() * (1.0 - self.denial_rate())
    }

    /// The filter of the added keys.
    pub fn added(&self) -> &Stage {
        &self.added
    }

    /// The filter of the removed keys.
    pub fn removed(&self) -> &Stage {
        &self.removed
    }

    /// The bits of both filters.
    pub fn size(&self) -> Bits {
        Bits::new(self.added.size().get() + self.removed.size().get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    /// 50,000 keys, the first 5,000 of them removed. Some of the others are hidden by these.
    fn filled() -> Composite {
        let rates = |items, rate| (Items::new(items), Rate::new(rate).unwrap());
        let set =
            Composite::with_rates(Kind::Classic, rates(50_000, 0.01), rates(5_000, 0.05)).unwrap();
        hashes(1)
            .take(50_000)
            .for_each(|hash| set.insert(hash).unwrap());
        hashes(1).take(5_000).for_each(|hash| set.remove(hash));
        set
    }

    fn share(set: &Composite, keys: impl Iterator<Item = KeyHash>, asked: Membership) -> f64 {
        let answers: Vec<_> = keys.map(|hash| set.membership(hash)).collect();
        let hits = answers.iter().filter(|&&answer| answer == asked).count();
        hits as f64 / answers.len() as f64
    }

    #[test]
    fn answer_frequencies_equal_those_of_the_table() {
        let set = filled();
        let members = || hashes(1).take(50_000).skip(5_000);
        let denied = share(&set, members(), Membership::ProbablyOut);
        assert!(
            (denied - set.denial_rate()).abs() < 0.005,
            "{denied} denied"
        );
        assert_eq!(share(&set, members(), Membership::NeverIn), 0.0);
        let taken = share(&set, hashes(2).take(100_000), Membership::ProbablyIn);
        assert!(
            (taken - set.predicted_rate()).abs() < 0.001,
            "{taken} taken in"
        );
    }

    #[test]
    fn removed_key_is_out_and_cannot_be_inserted_again() {
        let set = filled();
        for hash in hashes(1).take(5_000) {
            assert_eq!(set.membership(hash), Membership::ProbablyOut);
            assert_eq!(set.insert(hash), Err(RemovedForEver));
        }
    }
}

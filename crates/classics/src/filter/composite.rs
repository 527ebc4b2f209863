//! A set with removals, from two filters: a key is probably in when the first says *maybe* and the
//! second, which holds the removed keys, says *absent*.
//!
//! **This is no filter in the sense of [`super::Filter`]: it can deny a key that is in.** A false
//! positive of the second filter hides a key that nobody removed, at the second filter's rate. So
//! no answer here may stand in for a look-up; the type has neither `may_contain` nor the trait.
//!
//! ```text
//! answer         first    second      of a member               of a stranger
//! ProbablyIn     maybe    absent      1 − p2                    p1 (1 − p2)
//! ProbablyOut    maybe    maybe       p2: wrongly denied        p1 p2
//! NeverIn        absent   -           never                     1 − p1
//! ```
//!
//! A removed key cannot come back: nothing takes it out of the second filter. Where keys come and
//! go, take a [`super::Counting`] filter.
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

/// Keys that were added, and keys that were removed.
#[derive(Debug)]
pub struct Composite {
    added: Stage,
    removed: Stage,
}

/// What a [`Composite`] knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// It was never added: the one answer that is certain.
    NeverIn,
    /// It looks as if it had been removed.
    ProbablyOut,
    /// It looks as if it had been added and not removed.
    ProbablyIn,
}

/// A key that cannot be added, because it looks as if it had been removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a removed key, or one that looks like it, cannot be added; rebuild the set without it")]
pub struct RemovedForEver;

impl Composite {
    /// An empty set of up to `items` keys, of which up to `removals` are removed; a stranger is
    /// taken for a member at most at `rate`, and a member denied at most at `denied`.
    ///
    /// # Errors
    /// When no geometry of this kind does, or memory does not suffice.
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

    /// A set put together again from what [`Composite::added`] and [`Composite::removed`] gave.
    pub fn from_parts(added: Stage, removed: Stage) -> Self {
        Self { added, removed }
    }

    /// Adds a key.
    ///
    /// # Errors
    /// When it would stay hidden behind a removal; nothing has changed then.
    pub fn insert(&self, hash: KeyHash) -> Result<(), RemovedForEver> {
        if self.removed.may_contain(hash) {
            return Err(RemovedForEver);
        }
        self.added.insert(hash);
        Ok(())
    }

    /// Removes a key for ever, whether it was added or not.
    pub fn remove(&self, hash: KeyHash) {
        self.removed.insert(hash);
    }

    /// What is known of a key.
    pub fn membership(&self, hash: KeyHash) -> Membership {
        if !self.added.may_contain(hash) {
            Membership::NeverIn
        } else if self.removed.may_contain(hash) {
            Membership::ProbablyOut
        } else {
            Membership::ProbablyIn
        }
    }

    /// The chance that a member, which nobody removed, is answered [`Membership::ProbablyOut`].
    pub fn denial_rate(&self) -> f64 {
        self.removed.predicted_rate()
    }

    /// The chance that a stranger is answered [`Membership::ProbablyIn`].
    pub fn predicted_rate(&self) -> f64 {
        self.added.predicted_rate() * (1.0 - self.denial_rate())
    }

    /// The filter of the keys that were added.
    pub fn added(&self) -> &Stage {
        &self.added
    }

    /// The filter of the keys that were removed.
    pub fn removed(&self) -> &Stage {
        &self.removed
    }

    /// The bits of both.
    pub fn size(&self) -> Bits {
        Bits::new(self.added.size().get() + self.removed.size().get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    /// 50,000 keys, the first 5,000 of them removed. Some of the rest cannot be told from these.
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
    fn the_four_corners_of_the_table_are_as_often_as_it_says() {
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
    fn a_removed_key_is_out_and_stays_out() {
        let set = filled();
        for hash in hashes(1).take(5_000) {
            assert_eq!(set.membership(hash), Membership::ProbablyOut);
            assert_eq!(set.insert(hash), Err(RemovedForEver));
        }
    }
}

//! Merging stages without their keys: OR, AND, chain.
//!
//! Write B(S) for the bits that the keys of S set in one shape. A key x is answered *maybe* if
//! B({x}) ⊆ B(S). The bits of a key do not depend on other keys, so B(S) is the union of all
//! B({x}).
//!
//! - **OR**: B(S) ∪ B(T) = B(S ∪ T), because both are the union over the same keys. The rate is
//!   that of all keys in one stage: two half-full stages make one that is three quarters full.
//! - **AND**: B(S) ∩ B(T) ⊇ B(S ∩ T), because B grows with its set, and S ∩ T is part of both. No
//!   key of both is lost, and the rate is at most the lower of the two. That is all: a bit that one
//!   key of S and another key of T set stays set, so a stage built from S ∩ T would say *maybe*
//!   less often.
//! - **Chain** ([`super::Chain::chain`]): *maybe* if either says so. The bits stay apart, so the
//!   rate is p + q − pq.
//!
//! A static stage can be neither ORed nor ANDed, because the bits of a key depend on all other keys.
//! Counts are added, never compared with the bits: after a merge they are an upper bound of the
//! distinct keys. A mismatch is refused, and the error names the property that differs.

use super::layout::Layout;
use super::stage::Stage;
use super::{Kind, Shape, StageError};
use crate::fault::fault;
use crate::hash::{HashId, Imprint};
use crate::math::{Bits, Probes};

/// Why two filters cannot be merged: the first property in which they differ.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(
    missing_docs,
    reason = "what a variant holds is one property, left and right"
)]
pub enum Mismatch {
    /// Their keys were hashed by different functions.
    #[error("filters of different hash functions ({left:?}, {right:?}): rebuild one from its keys")]
    Hash { left: HashId, right: HashId },
    /// Their keys were hashed under different seeds.
    #[error("filters of different seeds ({left:#x}, {right:#x}): rebuild one from its keys")]
    Seed { left: u64, right: u64 },
    /// Their hash functions have one name but give different values.
    #[error("filters whose hash drifted ({left:#x}, {right:#x}): rebuild both from their keys")]
    KnownAnswer { left: u64, right: u64 },
    /// They have different numbers of stages.
    #[error("filters of {left} and {right} stages: chain them instead")]
    Stages { left: usize, right: usize },
    /// Their layouts differ.
    #[error("stages of different layouts ({left:?}, {right:?}): chain them instead")]
    Kind { left: Kind, right: Kind },
    /// Their sizes differ.
    #[error("stages of {left} and {right} bits: chain them instead")]
    Bits { left: Bits, right: Bits },
    /// Their probe counts differ.
    #[error("stages of {left} and {right} probes: chain them instead")]
    Probes { left: Probes, right: Probes },
    /// Their probes are spread over different numbers of words.
    #[error("stages of {left} and {right} groups: chain them instead")]
    Groups { left: u32, right: u32 },
    /// Their cells were solved from all keys of each.
    #[error("two {0:?} stages have no bits in common: chain them, or make one of the keys of both")]
    Static(Kind),
    /// They match, but there is no memory for the result.
    #[error(transparent)]
    Memory(#[from] StageError),
}

impl<L: Layout> Stage<L> {
    /// Adds all keys of `other`.
    ///
    /// # Errors
    /// If the shapes differ; nothing has changed then.
    pub fn or_with(&self, other: &Self) -> Result<(), Mismatch> {
        same_shape(self.shape(), other.shape())?;
        self.absorb(other);
        Ok(())
    }

    /// A stage that answers *maybe* if both do. It holds all keys that are in both, and its
    /// false-positive rate is at most the lower of the two.
    ///
    /// Its count is the smaller one, an upper bound of the keys that are in both.
    ///
    /// # Errors
    /// If the shapes differ, or if there is not enough memory.
    pub fn and(&self, other: &Self) -> Result<Self, Mismatch> {
        same_shape(self.shape(), other.shape())?;
        let words = self.words().zip(other.words()).map(|(a, b)| a & b);
        let items = self.items().min(other.items());
        Ok(Self::with_words(self.layout(), items, words)?)
    }
}

/// Returns an error if two values of one property differ.
macro_rules! same {
    ($left:expr, $right:expr, $variant:ident, $fault:ident) => {
        if $left != $right {
            fault!($fault, return Ok(()));
            return Err(Mismatch::$variant {
                left: $left,
                right: $right,
            });
        }
    };
}

pub fn same_shape(a: Shape, b: Shape) -> Result<(), Mismatch> {
    same!(a.kind, b.kind, Kind, UnequalKindsMerged);
    not_static(a.kind)?;
    same!(a.probes, b.probes, Probes, UnequalProbesMerged);
    same!(a.groups, b.groups, Groups, UnequalGroupsMerged);
    same!(a.bits, b.bits, Bits, UnequalSizesMerged);
    Ok(())
}

fn not_static(kind: Kind) -> Result<(), Mismatch> {
    fault!(StaticMerged, return Ok(()));
    match kind.is_static() {
        true => Err(Mismatch::Static(kind)),
        false => Ok(()),
    }
}

pub fn same_imprint(a: Imprint, b: Imprint) -> Result<(), Mismatch> {
    same!(a.hash, b.hash, Hash, UnequalHashesMerged);
    same!(a.seed_id, b.seed_id, Seed, UnequalSeedsMerged);
    same!(
        a.known_answer,
        b.known_answer,
        KnownAnswer,
        DriftedHashesMerged
    );
    Ok(())
}

pub(super) fn same_count(a: usize, b: usize) -> Result<(), Mismatch> {
    same!(a, b, Stages, UnequalCountsMerged);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Chain, Stage};
    use crate::math::{Probes, Rate};

    fn blocked(lines: u64) -> Stage {
        let (kind, bits) = (Kind::Blocked, Bits::new(lines * 512));
        Stage::new(Shape {
            kind,
            bits,
            probes: Probes::new(6),
            groups: 2,
        })
        .unwrap()
    }

    #[test]
    fn or_error_names_the_differing_property() {
        let (left, right) = (Bits::new(512), Bits::new(1024));
        let refusal = blocked(1).or_with(&blocked(2)).unwrap_err();
        assert_eq!(refusal, Mismatch::Bits { left, right });

        let other = Shape {
            probes: Probes::new(8),
            ..blocked(1).shape()
        };
        let refusal = blocked(1).or_with(&Stage::new(other).unwrap()).unwrap_err();
        let (left, right) = (Probes::new(6), Probes::new(8));
        assert_eq!(refusal, Mismatch::Probes { left, right });

        // As many bits in a line of the same size, but in other words of it.
        let [two, four] = [2, 4].map(|groups| Stage::new(Shape { groups, ..other }).unwrap());
        let refusal = two.or_with(&four).unwrap_err();
        let (left, right) = (2, 4);
        assert_eq!(refusal, Mismatch::Groups { left, right });
    }

    /// No bit of a static stage belongs to a single key, so nothing of two such stages could be kept.
    #[test]
    fn static_stages_are_chained_but_not_ored() {
        let fixed =
            |seed| Stage::ribbon(hashes(seed).take(100).collect(), Rate::ONE_PERCENT).unwrap();
        let (a, b) = (fixed(1), fixed(2));
        assert_eq!(a.shape(), b.shape());
        assert_eq!(a.or_with(&b), Err(Mismatch::Static(Kind::Ribbon)));
        assert_eq!(a.and(&b).unwrap_err(), Mismatch::Static(Kind::Ribbon));
        let [left, right] = [1, 2].map(|seed| Chain::new(imprint(1), vec![fixed(seed)]));
        assert_eq!(left.or(&right).unwrap_err(), Mismatch::Static(Kind::Ribbon));
        let both = left.chain(right).unwrap();
        let members = hashes(1).take(100).chain(hashes(2).take(100));
        assert!(members.into_iter().all(|hash| both.may_contain(hash)));
    }

    #[test]
    fn or_of_other_kinds_changes_no_bit() {
        let stage = blocked(2);
        let fixed = Stage::ribbon(hashes(1).take(100).collect(), Rate::ONE_PERCENT).unwrap();
        let (left, right) = (Kind::Blocked, Kind::Ribbon);
        assert_eq!(stage.or_with(&fixed), Err(Mismatch::Kind { left, right }));
        let refusal = stage.and(&fixed).unwrap_err();
        assert_eq!(refusal, Mismatch::Kind { left, right });
        assert_eq!(stage.fill(), 0.0);
    }
}

//! Merging stages without their keys: OR, AND, fold, expand.
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
//! - **Fold**: a stage of half the lines. A line is the hash's leading bits, and one bit fewer
//!   selects the pair, so the rate is that of the same keys inserted into the smaller stage.
//! - **Expand**: both lines that a key may now select have the bits of its old line. So no key is
//!   lost, and the rate stays.
//!
//! ```text
//! fold     | a | b | c | d |  ->  | a or b | c or d |            half the bits, a higher rate
//! expand   | a | b |          ->  | a | a | b | b |              twice the bits, the same rate
//! ```
//!
//! Only a blocked stage whose number of lines is a power of two can be folded and expanded, which
//! allows stages of unequal size to be ORed. A static stage can be neither merged nor resized,
//! because the bits of a key depend on all other keys. Counts are added, never compared with the
//! bits: after a merge they are an upper bound of the distinct keys. A mismatch is refused, and the
//! error names the property that differs.

use super::blocked::Blocked;
use super::layout::Layout;
use super::{Kind, Shape, Stage, StageError};
use crate::fault::fault;
use crate::hash::{HashId, Imprint};
use crate::math::{Bits, Items, Probes};

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
    #[error("stages of {left} and {right} bits: expand the smaller, or chain them")]
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

/// Why a stage cannot be folded or expanded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeError {
    /// Only blocked stages can.
    #[error("a {0:?} stage keeps its size: only blocked ones fold and expand; chain or rebuild it")]
    Kind(Kind),
    /// Only powers of two can.
    #[error("a stage of {0} lines keeps its size: only powers of two do not; chain or rebuild it")]
    Lines(u64),
    /// One line cannot be halved.
    #[error("a stage of one line cannot be folded; keep it as it is")]
    OneLine,
    /// There is no memory for the result.
    #[error(transparent)]
    Memory(#[from] StageError),
}

impl Stage {
    /// Adds all keys of `other`.
    ///
    /// # Errors
    /// If the shapes differ; nothing has changed then.
    pub fn or_with(&self, other: &Stage) -> Result<(), Mismatch> {
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
    pub fn and(&self, other: &Stage) -> Result<Stage, Mismatch> {
        same_shape(self.shape(), other.shape())?;
        let words = self.words().zip(other.words()).map(|(a, b)| a & b);
        let items = self.items().min(other.items());
        Ok(Stage::with_words(self.layout(), items, words)?)
    }

    /// A stage of half the lines with the same keys, at a higher rate.
    ///
    /// # Errors
    /// If the stage is not blocked, its lines are not a power of two above 1, or there is not
    /// enough memory.
    pub fn fold(&self) -> Result<Stage, ResizeError> {
        let blocked = resizable(self.layout())?;
        let halved = blocked.with_lines(blocked.lines() / 2);
        if halved.lines() == 0 {
            return Err(ResizeError::OneLine);
        }
        let mut lines = self.lines();
        let pairs = std::iter::from_fn(move || Some((lines.next()?, lines.next()?)));
        let words = pairs.flat_map(|(a, b)| {
            std::array::from_fn::<_, 8, _>(|i| {
                fault!(HalfFolded, return a[i]);
                a[i] | b[i]
            })
        });
        Ok(Stage::with_words(
            Layout::Blocked(halved),
            self.items(),
            words,
        )?)
    }

    /// A stage of twice the lines with the same keys, at the same rate.
    ///
    /// Every key is then in two lines and counts twice, because the rate is computed from the
    /// count.
    ///
    /// # Errors
    /// If the stage is not blocked, its lines are not a power of two, or there is not enough
    /// memory.
    pub fn expand(&self) -> Result<Stage, ResizeError> {
        let blocked = resizable(self.layout())?;
        let lines = blocked
            .lines()
            .checked_mul(2)
            .ok_or(ResizeError::Lines(blocked.lines()))?;
        let words = self
            .lines()
            .flat_map(|line| [line, line].into_iter().flatten());
        let items = Items::new(self.items().get().saturating_mul(2));
        Ok(Stage::with_words(
            Layout::Blocked(blocked.with_lines(lines)),
            items,
            words,
        )?)
    }
}

fn resizable(layout: Layout) -> Result<Blocked, ResizeError> {
    match layout {
        Layout::Blocked(blocked) if blocked.lines().is_power_of_two() => Ok(blocked),
        Layout::Blocked(blocked) => Err(ResizeError::Lines(blocked.lines())),
        other => Err(ResizeError::Kind(other.shape().kind)),
    }
}

/// Returns an error if two values of one property differ.
macro_rules! same {
    ($left:expr, $right:expr, $variant:ident, $fault:ident) => {
        let mut same = $left == $right;
        fault!($fault, same = true);
        if !same {
            return Err(Mismatch::$variant {
                left: $left,
                right: $right,
            });
        }
    };
}

pub fn same_shape(a: Shape, b: Shape) -> Result<(), Mismatch> {
    same!(a.kind, b.kind, Kind, UnequalKindsMerged);
    let mut is_static = a.kind.is_static();
    fault!(StaticMerged, is_static = false);
    if is_static {
        return Err(Mismatch::Static(a.kind));
    }
    same!(a.probes, b.probes, Probes, UnequalProbesMerged);
    same!(a.groups, b.groups, Groups, UnequalGroupsMerged);
    same!(a.bits, b.bits, Bits, UnequalSizesMerged);
    Ok(())
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
    use crate::filter::naive::hashes;
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

    fn filled(lines: u64, keys: usize) -> Stage {
        let stage = blocked(lines);
        hashes(1).take(keys).for_each(|hash| _ = stage.insert(hash));
        stage
    }

    fn words(stage: &Stage) -> Vec<u64> {
        stage.words().collect()
    }

    /// Why folding is sound: it yields exactly the stage that half the lines would have become.
    #[test]
    fn a_folded_stage_is_the_smaller_one() {
        let folded = filled(64, 1_000).fold().unwrap();
        let small = filled(32, 1_000);
        assert_eq!(folded.shape(), small.shape());
        assert_eq!(words(&folded), words(&small));
    }

    #[test]
    fn an_expanded_stage_loses_no_key_and_keeps_its_rate() {
        let stage = filled(32, 1_000);
        let expanded = stage.expand().unwrap();
        assert!(hashes(1).take(1_000).all(|hash| expanded.may_contain(hash)));
        assert!((expanded.predicted_rate() / stage.predicted_rate() - 1.0).abs() < 0.01);
        assert!((expanded.observed_rate() / stage.observed_rate() - 1.0).abs() < 1e-9);
        assert_eq!(words(&expanded.fold().unwrap()), words(&stage));
    }

    #[test]
    fn what_cannot_be_resized_says_why() {
        assert_eq!(blocked(1).fold().unwrap_err(), ResizeError::OneLine);
        assert_eq!(blocked(3).fold().unwrap_err(), ResizeError::Lines(3));
        assert_eq!(blocked(3).expand().unwrap_err(), ResizeError::Lines(3));
        for kind in [Kind::Standard, Kind::Partitioned] {
            let stage = Stage::with_rate(kind, Items::new(9), Rate::ONE_PERCENT).unwrap();
            assert_eq!(stage.fold().unwrap_err(), ResizeError::Kind(kind));
        }
    }

    #[test]
    fn or_names_the_property_that_differs() {
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
}

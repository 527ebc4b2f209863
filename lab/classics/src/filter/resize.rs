//! Halves and doubles a blocked stage, without its keys.
//!
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
//! Only a number of lines that is a power of two can be halved and doubled in this way.

use super::{Kind, Shape, Stage, StageError};
use crate::fault::fault;
use crate::math::blocked::LINE_BITS;
use crate::math::{Bits, Items};

/// The words of a line.
const LINE_WORDS: usize = LINE_BITS as usize / 64;

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

/// A stage of half the lines with the same keys, at a higher rate.
///
/// # Errors
/// If the stage is not blocked, its lines are not a power of two above 1, or there is not enough
/// memory.
pub fn fold(stage: &Stage) -> Result<Stage, ResizeError> {
    let lines = resizable(stage.shape())?;
    if lines == 1 {
        return Err(ResizeError::OneLine);
    }
    let words: Vec<u64> = stage.words().collect();
    let pairs = words
        .chunks_exact(2 * LINE_WORDS)
        .map(|pair| pair.split_at(LINE_WORDS));
    let folded = pairs.flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| ored(*a, *b)));
    with_lines(stage.shape(), lines / 2, stage.items(), folded.collect())
}

fn ored(a: u64, b: u64) -> u64 {
    fault!(HalfFolded, return a);
    a | b
}

/// A stage of twice the lines with the same keys, at the same rate.
///
/// Every key is then in two lines and counts twice, because the rate is computed from the count.
///
/// # Errors
/// If the stage is not blocked, its lines are not a power of two, or there is not enough memory.
pub fn expand(stage: &Stage) -> Result<Stage, ResizeError> {
    let lines = resizable(stage.shape())?;
    let doubled = lines.checked_mul(2).ok_or(ResizeError::Lines(lines))?;
    let words: Vec<u64> = stage.words().collect();
    let twice = words
        .chunks_exact(LINE_WORDS)
        .flat_map(|line| [line, line].concat());
    let items = Items::new(stage.items().get().saturating_mul(2));
    with_lines(stage.shape(), doubled, items, twice.collect())
}

fn resizable(shape: Shape) -> Result<u64, ResizeError> {
    match (shape.kind, shape.bits.get() / LINE_BITS) {
        (Kind::Blocked, lines) if lines.is_power_of_two() => Ok(lines),
        (Kind::Blocked, lines) => Err(ResizeError::Lines(lines)),
        (kind, _) => Err(ResizeError::Kind(kind)),
    }
}

fn with_lines(
    shape: Shape,
    lines: u64,
    items: Items,
    words: Vec<u64>,
) -> Result<Stage, ResizeError> {
    let bits = Bits::new(lines * LINE_BITS);
    Ok(Stage::from_words(Shape { bits, ..shape }, items, words)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;
    use crate::math::{Probes, Rate};

    fn blocked(lines: u64) -> Stage {
        let (kind, bits) = (Kind::Blocked, Bits::new(lines * LINE_BITS));
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
    fn folded_stage_is_the_stage_of_half_the_lines() {
        let folded = fold(&filled(64, 1_000)).unwrap();
        let small = filled(32, 1_000);
        assert_eq!(folded.shape(), small.shape());
        assert_eq!(words(&folded), words(&small));
    }

    #[test]
    fn expanded_stage_keeps_its_keys_and_its_rate() {
        let stage = filled(32, 1_000);
        let expanded = expand(&stage).unwrap();
        assert!(hashes(1).take(1_000).all(|hash| expanded.may_contain(hash)));
        assert!((expanded.predicted_rate() / stage.predicted_rate() - 1.0).abs() < 0.01);
        assert!((expanded.observed_rate() / stage.observed_rate() - 1.0).abs() < 1e-9);
        assert_eq!(words(&fold(&expanded).unwrap()), words(&stage));
    }

    #[test]
    fn resize_error_says_why() {
        assert_eq!(fold(&blocked(1)).unwrap_err(), ResizeError::OneLine);
        assert_eq!(fold(&blocked(3)).unwrap_err(), ResizeError::Lines(3));
        assert_eq!(expand(&blocked(3)).unwrap_err(), ResizeError::Lines(3));
        for kind in [Kind::Standard, Kind::Partitioned] {
            let stage = Stage::with_rate(kind, Items::new(9), Rate::ONE_PERCENT).unwrap();
            assert_eq!(fold(&stage).unwrap_err(), ResizeError::Kind(kind));
        }
    }
}

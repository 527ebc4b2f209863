//! The cache-line layout: one 64-byte line per key, and in it one word for each of 2 or 4 groups.
//!
//! ```text
//! line = ⌊ hash × lines / 2^64 ⌋                   the hash's high bits
//! g    = hash × SPREAD mod 2^64                    consumed from its high bits down:
//!
//! groups = 2, 3 probes each:   | word 2 | bit 6 | bit 6 | bit 6 | word 2 | bit 6 | bit 6 | ...
//!                              '---------- group 0 ------------' '------- group 1 --------
//!
//! | w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7 |
//! '---- group 0 -----' '---- group 1 -----'        groups = 4: two words each
//! ```
//!
//! ```text
//! insert(hash):                          may_contain(hash):
//!     g = hash × SPREAD                      g = hash × SPREAD
//!     for each group:                        for each group:
//!         word, mask = mark(g, group)            word, mask = mark(g, group)
//!         line[word] |= mask                     if line[word] & mask != mask: return absent
//!                                            return maybe
//! ```
//!
//! A lookup costs one cache miss and no branch; with AVX2 it probes all groups at once. An
//! insertion costs one atomic operation per group instead of one per bit, which is where concurrent
//! Bloom filters usually lose their time. [`crate::math::blocked`] computes how many bits this
//! layout costs.
//!
//! If the number of lines is a power of two, the line is the hash's leading bits: halving the
//! filter merges neighbours, doubling it repeats each line.

use super::simd::line::{SPREAD, mark};
use super::simd::{Simd, WithSimd, dispatch};
use super::{Kind, Shape, ShapeError, probe};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;
use crate::math::blocked::{self, LINE_BITS, Pattern};
use crate::math::{Bits, Items, Rate};

/// The geometry: at least one line.
#[derive(Clone, Copy, Debug)]
pub struct Blocked {
    lines: u64,
    pattern: Pattern,
}

/// Calls the function with the pattern's numbers as constants, so that it has neither loops nor
/// branches. Without arguments, returns a pointer to it: a compiler that sees all of the functions
/// in a loop over stages computes the masks of every pattern for every key.
macro_rules! for_pattern {
    ($pattern:expr, $function:ident $($arguments:tt)?) => {
        match $pattern {
            Pattern::TwoByOne => $function::<2, 1>$($arguments)?,
            Pattern::TwoByTwo => $function::<2, 2>$($arguments)?,
            Pattern::TwoByThree => $function::<2, 3>$($arguments)?,
            Pattern::TwoByFour => $function::<2, 4>$($arguments)?,
            Pattern::TwoByFive => $function::<2, 5>$($arguments)?,
            Pattern::FourByOne => $function::<4, 1>$($arguments)?,
            Pattern::FourByTwo => $function::<4, 2>$($arguments)?,
        }
    };
}

impl Blocked {
    /// One line, the smallest geometry.
    pub(super) const ONE_LINE: Self = Self {
        lines: 1,
        pattern: Pattern::TwoByOne,
    };

    /// The geometry that keeps `items` keys below `rate`; `None` if the rate is out of reach.
    pub(super) fn for_rate(items: Items, rate: Rate) -> Option<Self> {
        let (pattern, lines) = blocked::size(items, rate)?;
        lines.checked_mul(LINE_BITS)?;
        Some(Self { lines, pattern })
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: Kind::Blocked,
            bits: Bits::new(self.lines * LINE_BITS),
            probes: self.pattern.probes(),
            groups: self.pattern.groups(),
        }
    }

    #[inline]
    fn line(self, hash: KeyHash) -> u64 {
        probe::fast_range(hash.get(), self.lines)
    }

    #[inline]
    pub(super) fn insert(self, words: &Words, hash: KeyHash) -> bool {
        let line = words.line(self.line(hash));
        let set: fn(&Line, KeyHash) -> bool = for_pattern!(self.pattern, set);
        set(line, hash)
    }

    /// [`Blocked::insert`] of each key; returns how many of them changed a bit.
    pub(super) fn insert_each(self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        let set_each: fn(Self, &mut Words, &[KeyHash]) -> u64 =
            for_pattern!(self.pattern, set_each);
        set_each(self, words, hashes)
    }

    #[inline]
    pub(super) fn may_contain(self, words: &Words, hash: KeyHash) -> bool {
        let probe = OneKey {
            geometry: self,
            words,
        };
        dispatch(probe, hash)
    }

    /// [`Blocked::may_contain`], compiled into its caller. A line that lay outside would be *maybe*.
    #[inline(always)]
    pub(super) fn may_contain_with(self, words: &Words, simd: impl Simd, hash: KeyHash) -> bool {
        match words.get(self.line(hash)) {
            Some(line) => for_pattern!(self.pattern, contains_with(simd, line, hash)),
            None => true,
        }
    }

    #[inline]
    pub(super) fn prefetch(self, words: &Words, hash: KeyHash) {
        words.prefetch(self.line(hash));
    }

    pub(super) fn test_each(self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        let contains_each: fn(Self, &Words, &[KeyHash], &mut [bool]) =
            for_pattern!(self.pattern, contains_each);
        contains_each(self, words, hashes, answers);
    }

    pub(super) fn rate(self, items: Items) -> f64 {
        blocked::rate(self.pattern, self.lines, items)
    }

    pub(super) fn clear_chance(self) -> f64 {
        blocked::clear_chance(self.pattern, self.lines)
    }

    /// The mean over the lines as they are now.
    pub(super) fn observed_rate(self, words: &Words) -> f64 {
        let ones = |line: &Line| line.load().map(u64::count_ones);
        let rates = words
            .lines()
            .iter()
            .map(|l| blocked::observed_line_rate(self.pattern, ones(l)));
        rates.sum::<f64>() / self.lines as f64
    }
}

#[inline]
fn set<const GROUPS: usize, const EACH: u32>(line: &Line, hash: KeyHash) -> bool {
    set_by::<GROUPS, EACH>(hash, |word, mask| line.set(word, mask))
}

fn set_each<const GROUPS: usize, const EACH: u32>(
    geometry: Blocked,
    words: &mut Words,
    hashes: &[KeyHash],
) -> u64 {
    let mut changed = 0;
    for &hash in hashes {
        let line = words.line_mut(geometry.line(hash));
        let set = |word, mask| line.set_alone(word, mask);
        changed += u64::from(set_by::<GROUPS, EACH>(hash, set));
    }
    changed
}

/// Passes each group's word and bits to `set`; returns whether any call returned true.
#[inline(always)]
fn set_by<const GROUPS: usize, const EACH: u32>(
    hash: KeyHash,
    mut set: impl FnMut(usize, u64) -> bool,
) -> bool {
    let spread = hash.get().wrapping_mul(SPREAD);
    let mut changed = false;
    for group in 0..GROUPS {
        let (word, mask) = mark::<GROUPS, EACH>(spread, group);
        changed |= set(word, mask);
    }
    changed
}

/// One key, probed with the instructions of one processor.
struct OneKey<'w> {
    geometry: Blocked,
    words: &'w Words,
}

impl WithSimd<KeyHash> for OneKey<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, hash: KeyHash) -> bool {
        self.geometry.may_contain_with(self.words, simd, hash)
    }
}

fn contains_each<const GROUPS: usize, const EACH: u32>(
    geometry: Blocked,
    words: &Words,
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    let each = Each::<GROUPS, EACH> {
        geometry,
        words,
        answers,
    };
    dispatch(each, hashes);
}

/// Probes the lines of many keys, compiled into one loop.
struct Each<'a, const GROUPS: usize, const EACH: u32> {
    geometry: Blocked,
    words: &'a Words,
    answers: &'a mut [bool],
}

impl<const GROUPS: usize, const EACH: u32> WithSimd<&[KeyHash]> for Each<'_, GROUPS, EACH> {
    type Output = ();

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, hashes: &[KeyHash]) {
        for (&hash, answer) in hashes.iter().zip(self.answers) {
            let line = self.words.line(self.geometry.line(hash));
            *answer |= simd.contains::<GROUPS, EACH>(line, hash);
        }
    }
}

#[inline(always)]
fn contains_with<const GROUPS: usize, const EACH: u32>(
    simd: impl Simd,
    line: &Line,
    hash: KeyHash,
) -> bool {
    simd.contains::<GROUPS, EACH>(line, hash)
}

impl TryFrom<Shape> for Blocked {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let Shape {
            kind,
            probes,
            groups,
            ..
        } = shape;
        let pattern = Pattern::find(groups, probes);
        let pattern = pattern.ok_or(ShapeError::Groups {
            kind,
            probes,
            groups,
        })?;
        Ok(Self {
            lines: shape.bits_in_units_of(LINE_BITS)? / LINE_BITS,
            pattern,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::{Scalar, for_each_simd};
    use super::*;
    use crate::filter::naive::hashes;

    const ABSENT: usize = if cfg!(miri) { 20 } else { 1_000 };

    fn agrees<const GROUPS: usize, const EACH: u32>(simd: impl Simd) {
        let line = Line::default();
        let mut claimed = 0;
        for (inserted, asked) in hashes(1).zip(hashes(2)).take(24) {
            set::<GROUPS, EACH>(&line, inserted);
            for hash in hashes(1)
                .take(24)
                .chain([asked])
                .chain(hashes(3).take(ABSENT))
            {
                let expected = Scalar.contains::<GROUPS, EACH>(&line, hash);
                let got = simd.contains::<GROUPS, EACH>(&line, hash);
                assert_eq!(got, expected, "{GROUPS} by {EACH}: {hash:?}");
                claimed += usize::from(got);
            }
        }
        assert!(claimed > 24 * 12, "{claimed}");
    }

    #[test]
    fn line_is_probed_alike_by_every_instruction_set() {
        for_each_simd!(simd => {
            agrees::<2, 1>(simd);
            agrees::<2, 2>(simd);
            agrees::<2, 3>(simd);
            agrees::<2, 4>(simd);
            agrees::<2, 5>(simd);
            agrees::<4, 1>(simd);
            agrees::<4, 2>(simd);
        });
    }

    fn simd_answers_equal_scalar_answers(simd: impl Simd) {
        const PRESENT: usize = if cfg!(miri) { 20 } else { 600 };
        for pattern in Pattern::ALL {
            let geometry = Blocked { lines: 20, pattern };
            let words = &Words::from_values(20 * 8, []).unwrap();
            hashes(1)
                .take(PRESENT)
                .for_each(|hash| _ = geometry.insert(words, hash));
            let mut taken = 0;
            let keys = hashes(1).take(PRESENT);
            for hash in keys.chain(hashes(2).take(2 * ABSENT)) {
                let said = geometry.may_contain_with(words, simd, hash);
                let contains = geometry.may_contain(words, hash);
                assert_eq!(said, contains, "{pattern:?}: {hash:?}");
                taken += usize::from(said);
            }
            let all = PRESENT + 2 * ABSENT;
            assert!((PRESENT..all).contains(&taken), "{pattern:?}: {taken}");
        }
    }

    #[test]
    fn simd_answer_equals_scalar_answer() {
        for_each_simd!(simd => simd_answers_equal_scalar_answers(simd));
    }
}

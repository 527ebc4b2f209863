//! The cache-line layout: one 64-byte line a key, and in it one word for each of 2 or 4 groups.
//!
//! ```text
//! line = ⌊ hash × lines / 2^64 ⌋                   the hash's high bits
//! g    = hash × SPREAD mod 2^64                    spent from its high bits down:
//!
//! groups = 2, 3 probes each:   | word 2 | bit 6 | bit 6 | bit 6 | word 2 | bit 6 | bit 6 | ...
//!                              '---------- group 0 ------------' '------- group 1 --------
//!
//! | w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7 |
//! '---- group 0 -----' '---- group 1 -----'        groups = 4: two words each
//! ```
//!
//! A look-up costs one cache miss and no branch, and where the processor has AVX2 it looks at all groups
//! at once; an insertion one atomic operation a group rather than one a bit, which is where concurrent
//! Bloom filters usually lose their time. How many bits that costs is worked out in
//! [`crate::math::blocked`].
//!
//! For a power of two of lines, the line is the hash's leading bits: halving the filter merges
//! neighbours, doubling it repeats each line.

#[cfg(all(target_arch = "x86_64", not(interleave)))]
pub(super) mod avx2;

use super::lens::{Lens, Look, through_best};
use super::{Kind, Shape, ShapeError, probe};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;
use crate::math::blocked::{self, LINE_BITS, Pattern};
use crate::math::{Bits, Items, Rate};

/// The geometry: at least one line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    lines: u64,
    pattern: Pattern,
}

/// Spreads a hash, so that keys of one line do not share the bits that choose within it.
/// 2^64 divided by the golden ratio; frozen, since stored bits depend on it.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The function with the pattern's numbers as constants: it has neither loops nor branches. With
/// arguments, its answer. Without, a pointer to it, because a compiler that sees all of them in a loop
/// over stages works out the masks of every pattern for every key.
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
    /// One line, the least there is.
    pub(super) const ONE_LINE: Self = Self {
        lines: 1,
        pattern: Pattern::TwoByOne,
    };

    /// The geometry that keeps `items` keys below `rate`; `None` when the rate is out of reach.
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

    pub(super) fn lines(self) -> u64 {
        self.lines
    }

    /// The same pattern in another number of lines.
    pub(super) fn with_lines(self, lines: u64) -> Self {
        Self { lines, ..self }
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

    /// [`Blocked::insert`] of each; how many of them changed a bit.
    pub(super) fn insert_each(self, words: &mut Words, hashes: &[KeyHash]) -> u64 {
        let set_each: fn(Self, &mut Words, &[KeyHash]) -> u64 =
            for_pattern!(self.pattern, set_each);
        set_each(self, words, hashes)
    }

    #[inline]
    pub(super) fn may_contain(self, words: &Words, hash: KeyHash) -> bool {
        let line = words.line(self.line(hash));
        let contains: fn(&Line, KeyHash) -> bool = for_pattern!(self.pattern, contains);
        contains(line, hash)
    }

    /// Whether the key is certainly not in; false also if its line lay outside.
    #[inline(always)]
    pub(super) fn denies(self, words: &Words, lens: impl Lens, hash: KeyHash) -> bool {
        match words.get(self.line(hash)) {
            Some(line) => !for_pattern!(self.pattern, contains_through(lens, line, hash)),
            None => false,
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

    /// The mean over the lines as they stand.
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

/// Gives each group's word and bits to `set`; whether one of the answers is true.
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

#[inline]
fn contains<const GROUPS: usize, const EACH: u32>(line: &Line, hash: KeyHash) -> bool {
    through_best(One::<GROUPS, EACH>(line), hash)
}

/// A look at one line.
struct One<'a, const GROUPS: usize, const EACH: u32>(&'a Line);

impl<const GROUPS: usize, const EACH: u32> Look<KeyHash> for One<'_, GROUPS, EACH> {
    type Seen = bool;

    #[inline(always)]
    fn through(self, lens: impl Lens, hash: KeyHash) -> bool {
        lens.contains::<GROUPS, EACH>(self.0, hash)
    }
}

/// Loops rather than closures here and in [`mark`]: these are always compiled into their caller. One
/// comparison at the end: of one for each word, a compiler makes branches, which nobody can predict.
#[inline(always)]
pub(super) fn contains_by_words<const GROUPS: usize, const EACH: u32>(
    line: &Line,
    hash: KeyHash,
) -> bool {
    let spread = hash.get().wrapping_mul(SPREAD);
    let mut missing = 0;
    for group in 0..GROUPS {
        let (word, mask) = mark::<GROUPS, EACH>(spread, group);
        missing |= line.missing(word, mask);
    }
    missing == 0
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
    through_best(each, hashes);
}

/// A look at the lines of many keys, compiled into one loop.
struct Each<'a, const GROUPS: usize, const EACH: u32> {
    geometry: Blocked,
    words: &'a Words,
    answers: &'a mut [bool],
}

impl<const GROUPS: usize, const EACH: u32> Look<&[KeyHash]> for Each<'_, GROUPS, EACH> {
    type Seen = ();

    #[inline(always)]
    fn through(self, lens: impl Lens, hashes: &[KeyHash]) {
        for (&hash, answer) in hashes.iter().zip(self.answers) {
            let line = self.words.line(self.geometry.line(hash));
            *answer |= lens.contains::<GROUPS, EACH>(line, hash);
        }
    }
}

#[inline(always)]
fn contains_through<const GROUPS: usize, const EACH: u32>(
    lens: impl Lens,
    line: &Line,
    hash: KeyHash,
) -> bool {
    lens.contains::<GROUPS, EACH>(line, hash)
}

/// The word of one group, and the bits to be set in it.
#[inline(always)]
fn mark<const GROUPS: usize, const EACH: u32>(spread: u64, group: usize) -> (usize, u64) {
    let span = 8 / GROUPS;
    let start = group as u32 * (span.ilog2() + 6 * EACH);
    let word = group * span + take(spread, start, span.ilog2()) as usize;
    let first = start + span.ilog2();
    let mut mask = 0;
    for probe in 0..EACH {
        mask |= 1 << take(spread, first + 6 * probe, 6);
    }
    (word, mask)
}

/// `count` bits after the topmost `start`. Shifts of one product: a chain of shifted products would
/// be compiled to a multiplication for each of them.
#[inline(always)]
fn take(spread: u64, start: u32, count: u32) -> u64 {
    (spread >> (64 - start - count)) & ((1 << count) - 1)
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
    use super::super::lens::{ByWords, for_each_lens};
    use super::*;
    use crate::filter::naive::hashes;

    fn agrees<const GROUPS: usize, const EACH: u32>(lens: impl Lens) {
        let line = Line::default();
        let mut claimed = 0;
        for (inserted, asked) in hashes(1).zip(hashes(2)).take(24) {
            set::<GROUPS, EACH>(&line, inserted);
            for hash in hashes(1)
                .take(24)
                .chain([asked])
                .chain(hashes(3).take(1_000))
            {
                let expected = ByWords.contains::<GROUPS, EACH>(&line, hash);
                let got = lens.contains::<GROUPS, EACH>(&line, hash);
                assert_eq!(got, expected, "{GROUPS} by {EACH}: {hash:?}");
                claimed += usize::from(got);
            }
        }
        assert!(claimed > 24 * 12, "{claimed}");
    }

    #[test]
    fn a_line_looks_the_same_through_every_lens() {
        for_each_lens!(lens => {
            agrees::<2, 1>(lens);
            agrees::<2, 2>(lens);
            agrees::<2, 3>(lens);
            agrees::<2, 4>(lens);
            agrees::<2, 5>(lens);
            agrees::<4, 1>(lens);
            agrees::<4, 2>(lens);
        });
    }

    fn what_is_denied_is_what_the_filter_does_not_contain_through(lens: impl Lens) {
        for pattern in Pattern::ALL {
            let geometry = Blocked { lines: 20, pattern };
            let words = &Words::from_values(20 * 8, []).unwrap();
            hashes(1)
                .take(600)
                .for_each(|hash| _ = geometry.insert(words, hash));
            let mut taken = 0;
            for hash in hashes(1).take(600).chain(hashes(2).take(2_000)) {
                let said = !geometry.denies(words, lens, hash);
                let contains = geometry.may_contain(words, hash);
                assert_eq!(said, contains, "{pattern:?}: {hash:?}");
                taken += usize::from(said);
            }
            assert!((600..2_600).contains(&taken), "{pattern:?}: {taken}");
        }
    }

    #[test]
    fn what_is_denied_is_what_the_filter_does_not_contain() {
        for_each_lens!(lens => what_is_denied_is_what_the_filter_does_not_contain_through(lens));
    }

    #[test]
    fn every_group_keeps_to_its_words() {
        for hash in (0..10_000u64).map(|i| KeyHash::new(i.wrapping_mul(0xd134_2543_de82_ef95))) {
            let spread = hash.get().wrapping_mul(SPREAD);
            for group in 0..2 {
                let (word, mask) = mark::<2, 5>(spread, group);
                assert_eq!(word / 4, group);
                assert!((1..=5).contains(&mask.count_ones()));
            }
            for group in 0..4 {
                let (word, mask) = mark::<4, 2>(spread, group);
                assert_eq!(word / 2, group);
                assert!((1..=2).contains(&mask.count_ones()));
            }
        }
    }
}

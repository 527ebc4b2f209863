//! The blocked filter: one 512-bit line per key, and in it one 64-bit word for each of 2 or 4
//! groups.
//!
//! A miss reads one cache line, at the price of bits: lines that happen to hold more keys than
//! others answer *maybe* more often (Putze et al. 2009, §3). The rate is a mixture, and for this
//! layout it can be computed exactly:
//!
//! ```text
//! keys in a line            c ~ Binomial(n, 1/lines)
//! of these, in one word     t ~ Binomial(c, groups/8)      a group is 8/groups words
//! the word matches          ψ(t): the exact rate of a 64-bit Bloom filter with t keys
//! the line matches          f(c) = (Σ_t P(t | c) ψ(t))^groups
//! the filter matches        Σ_c P(c) f(c)
//! ```
//!
//! The groups of a line choose their words independently, hence the power. f depends only on the
//! [`Pattern`], so it is tabulated once, and a rate costs a few hundred multiplications.

use super::{Bits, Items, Probes, Rate, smallest_fitting, whole};
use std::sync::OnceLock;

/// The bits of a line.
pub const LINE_BITS: u64 = 512;

const WORD_BITS: u64 = 64;
const WORDS: u32 = 8;

/// How a key marks its line: `groups` words with `each` probes in every word.
///
/// A closed set, because one 64-bit hash must supply all choices: groups × (log2(8/groups) + 6
/// each) is at most 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the name says groups by probes in each")]
pub enum Pattern {
    TwoByOne,
    TwoByTwo,
    TwoByThree,
    TwoByFour,
    TwoByFive,
    FourByOne,
    FourByTwo,
}

impl Pattern {
    /// All patterns, those with two groups first.
    pub const ALL: [Pattern; 7] = [
        Pattern::TwoByOne,
        Pattern::TwoByTwo,
        Pattern::TwoByThree,
        Pattern::TwoByFour,
        Pattern::TwoByFive,
        Pattern::FourByOne,
        Pattern::FourByTwo,
    ];

    /// The number of words of a line that a key touches.
    pub const fn groups(self) -> u32 {
        match self {
            Self::FourByOne | Self::FourByTwo => 4,
            _ => 2,
        }
    }

    /// The number of probes in each of these words.
    pub const fn each(self) -> u32 {
        match self {
            Self::TwoByOne | Self::FourByOne => 1,
            Self::TwoByTwo | Self::FourByTwo => 2,
            Self::TwoByThree => 3,
            Self::TwoByFour => 4,
            Self::TwoByFive => 5,
        }
    }

    /// The total number of probes.
    pub const fn probes(self) -> Probes {
        Probes::new(self.groups() * self.each())
    }

    /// The pattern with this many groups and probes in all, if it exists.
    pub fn find(groups: u32, probes: Probes) -> Option<Self> {
        let matches = |pattern: &Self| pattern.groups() == groups && pattern.probes() == probes;
        Self::ALL.into_iter().find(matches)
    }

    /// The share of a line's keys that lands in a given word.
    fn word_share(self) -> f64 {
        f64::from(self.groups()) / f64::from(WORDS)
    }

    /// f(c) for c up to [`MAX_KEYS_A_LINE`].
    fn line_rates(self) -> &'static [f64] {
        static TABLES: [OnceLock<Vec<f64>>; Pattern::ALL.len()] =
            [const { OnceLock::new() }; Pattern::ALL.len()];
        TABLES[self as usize].get_or_init(|| tabulate(self))
    }
}

/// A line with more keys than this is assumed to match always; a filter sized for its keys never
/// comes near. Smaller under Miri, which would take minutes to tabulate 512.
const MAX_KEYS_A_LINE: usize = if cfg!(miri) { 100 } else { 512 };

fn tabulate(pattern: Pattern) -> Vec<f64> {
    let (each, share) = (Probes::new(pattern.each()), pattern.word_share());
    let word = |keys| rate_exact(Bits::new(WORD_BITS), each, Items::new(keys));
    let words: Vec<f64> = (0..=MAX_KEYS_A_LINE as u64).map(word).collect();
    // P(t | c) for the current c, turned into that for c + 1 by Pascal's rule.
    let mut loads = vec![0.0; words.len()];
    loads[0] = 1.0;
    let mut rates = Vec::with_capacity(words.len());
    for keys in 0..words.len() {
        let matches: f64 = loads
            .iter()
            .zip(&words)
            .map(|(load, word)| load * word)
            .sum();
        rates.push(matches.powf(f64::from(pattern.groups())));
        for t in (1..words.len().min(keys + 2)).rev() {
            loads[t] += share * (loads[t - 1] - loads[t]);
        }
        loads[0] *= 1.0 - share;
    }
    rates
}

/// The exact rate of a Bloom filter of few bits, by Grandi's recurrence (10): ψ(h, m) = ψ(h−1, m) −
/// (1 − 1/m)^(kn+h−1) ψ(h−1, m−1), ψ(0, ·) = 1; the rate is ψ(k, m).
///
/// Exact to about 1e-15 *absolute*, because it subtracts; the rates of words are summed. k² steps.
/// 1 for 0 bits.
pub fn rate_exact(bits: Bits, probes: Probes, items: Items) -> f64 {
    let throws = f64::from(probes.get()) * items.get() as f64;
    let sizes = (0..=probes.get()).map(|less| bits.get().saturating_sub(u64::from(less)) as f64);
    let sizes: Vec<f64> = sizes.collect();
    let mut psi = vec![1.0; sizes.len()];
    for h in 1..sizes.len() {
        for less in 0..sizes.len() - h {
            let clear = 1.0 - 1.0 / sizes[less].max(1.0);
            psi[less] -= clear.powf(throws + h as f64 - 1.0) * psi[less + 1];
        }
    }
    psi[0].clamp(0.0, 1.0)
}

/// The exact false-positive rate of `items` keys in `lines` lines: the mixture described at the top
/// of this file.
pub fn rate(pattern: Pattern, lines: u64, items: Items) -> f64 {
    let table = pattern.line_rates();
    if lines <= 1 {
        let held = usize::try_from(items.get()).unwrap_or(usize::MAX);
        return table.get(held).copied().unwrap_or(1.0);
    }
    let (n, chance) = (items.get() as f64, 1.0 / lines as f64);
    let odds = chance / (1.0 - chance);
    let mut weight = (n * (-chance).ln_1p()).exp();
    let (mut rate, mut left) = (0.0, 1.0);
    for (keys, line_rate) in table.iter().enumerate() {
        rate += weight * line_rate;
        left -= weight;
        let keys = keys as f64;
        weight *= (n - keys) / (keys + 1.0) * odds;
        if weight < NEGLIGIBLE && keys > n * chance {
            return rate.min(1.0);
        }
    }
    (rate + left.max(0.0)).min(1.0)
}

/// A term this small, past the mean, does not change any rate that a filter can have.
const NEGLIGIBLE: f64 = 1e-18;

/// Four groups must save more than this share of the bits, because they cost an insert two more
/// atomics, and a lookup one nanosecond if the processor has no SIMD to probe all groups at once.
const WORTH_FOUR_GROUPS: f64 = 0.03;

/// The bits of a filter of that [`size`]; `u64::MAX` if there is no such size.
pub fn size_in_bits(items: Items, rate: Rate) -> Bits {
    let lines = size(items, rate).map_or(u64::MAX, |(_, lines)| lines);
    Bits::new(lines.saturating_mul(LINE_BITS))
}

/// The fewest lines, and the pattern with them, that keep `items` keys below `rate`.
///
/// `None` if 256 bits per key are not enough, which is the case below about 1e-11.
pub fn size(items: Items, rate: Rate) -> Option<(Pattern, u64)> {
    let best = |groups| {
        let patterns = Pattern::ALL.into_iter().filter(|p| p.groups() == groups);
        let sized = patterns.filter_map(|p| Some((p, lines_for(p, items, rate)?)));
        sized.min_by_key(|&(_, lines)| lines)
    };
    match (best(2), best(4)) {
        (Some(two), Some(four)) => {
            let saves = four.1 as f64 <= two.1 as f64 * (1.0 - WORTH_FOUR_GROUPS);
            Some(if saves { four } else { two })
        }
        (two, four) => two.or(four),
    }
}

/// The fewest lines between 2 and 256 bits per key that keep the rate, by bisection: the rate falls
/// as lines are added.
fn lines_for(pattern: Pattern, items: Items, wanted: Rate) -> Option<u64> {
    let fits = |lines| rate(pattern, lines, items) <= wanted.get();
    let least = items.get().div_ceil(LINE_BITS / 2).max(1);
    smallest_fitting(least..=items.get() / 2 + 64, fits)
}

/// The lowest rate whose filter takes at most `bits_a_key`, for many keys. No filter takes less
/// than two bits; below that, the rate is that of no filter.
///
/// # Panics
/// If `bits_a_key` is not between 1 and 256.
pub fn rate_of(bits_a_key: f64) -> Rate {
    let items = Items::new(1 << 20);
    assert!(
        is_bits_per_key(bits_a_key),
        "{bits_a_key} bits per key make no filter; ask for 1 to 256"
    );
    let lines = whole(items.get() as f64 * bits_a_key / LINE_BITS as f64);
    let rates = Pattern::ALL.map(|pattern| Rate::clamped(rate(pattern, lines, items)));
    let fitting = rates.into_iter().filter(|&rate| {
        let sized = size(items, rate);
        sized.is_some_and(|(_, least)| least <= lines)
    });
    let lowest = fitting.map(Rate::get).fold(1.0, f64::min);
    Rate::clamped(lowest)
}

/// Whether filters can have this number of bits per key: 1 to 256.
pub fn is_bits_per_key(bits: f64) -> bool {
    (1.0..=256.0).contains(&bits)
}

/// The probability that one key leaves a given bit clear: its word is another one, or its probes
/// miss.
pub fn clear_chance(pattern: Pattern, lines: u64) -> f64 {
    let touched = pattern.word_share() / lines.max(1) as f64;
    let missed = (1.0 - 1.0 / WORD_BITS as f64).powf(f64::from(pattern.each()));
    1.0 - touched * (1.0 - missed)
}

/// The false-positive rate of one line as it is now, from the number of set bits in its eight
/// words: for each group the mean over its words of (set/64)^each, multiplied over the groups.
pub fn observed_line_rate(pattern: Pattern, ones: [u32; 8]) -> f64 {
    let span = ones.len() / pattern.groups() as usize;
    let word = |&set: &u32| (f64::from(set) / WORD_BITS as f64).powf(f64::from(pattern.each()));
    let group = |words: &[u32]| words.iter().map(word).sum::<f64>() / span as f64;
    ones.chunks(span).map(group).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    const MANY: u64 = 1_000_000;

    fn at(bits_a_key: f64, groups: u32, each: u32) -> f64 {
        let pattern = Pattern::find(groups, Probes::new(groups * each)).unwrap();
        let lines = (MANY as f64 * bits_a_key / LINE_BITS as f64).round() as u64;
        rate(pattern, lines, Items::new(MANY))
    }

    /// Percentages computed independently of this crate, by summing the occupancy distribution
    /// itself.
    #[test]
    fn agrees_with_reference_rates() {
        for (bits_a_key, groups, each, percent) in [
            (12.0, 2, 3, 0.536),
            (10.5, 2, 3, 0.915),
            (10.0, 2, 3, 1.109),
            (12.0, 4, 2, 0.429),
            (16.0, 4, 2, 0.094),
            (10.0, 4, 2, 1.056),
            (16.0, 2, 4, 0.137),
        ] {
            assert_close(at(bits_a_key, groups, each) * 100.0, percent, 0.006);
        }
    }

    #[test]
    fn rates_of_few_keys_equal_hand_counts() {
        // One key, one line, one probe in each of two words: (1/4 · 1/64)².
        assert_close(
            rate(Pattern::TwoByOne, 1, Items::new(1)),
            2f64.powi(-16),
            1e-9,
        );
        // In two lines, a query reads the key's line every other time.
        assert_close(
            rate(Pattern::TwoByOne, 2, Items::new(1)),
            2f64.powi(-17),
            1e-9,
        );
        assert_eq!(rate(Pattern::TwoByOne, 1, Items::new(0)), 0.0);
    }

    #[test]
    fn a_size_is_the_least_that_keeps_its_rate() {
        for n in [1, 10, 1_000, 1_000_000, 1_000_000_000] {
            for p in [0.9, 0.1, 0.01, 1e-3, 1e-6, 1e-9] {
                let items = Items::new(n);
                let (pattern, lines) = size(items, Rate::new(p).unwrap()).unwrap();
                assert!(rate(pattern, lines, items) <= p);
                let loosest = n.div_ceil(256).max(1);
                assert!(lines == loosest || rate(pattern, lines - 1, items) > p);
            }
        }
    }

    #[test]
    fn one_percent_takes_two_by_three_and_10_3_bits() {
        let (pattern, lines) = size(Items::new(MANY), Rate::ONE_PERCENT).unwrap();
        assert_eq!(pattern, Pattern::TwoByThree);
        assert_close((lines * LINE_BITS) as f64 / MANY as f64, 10.28, 0.01);
    }

    #[test]
    fn half_a_percent_takes_four_by_two_and_11_7_bits() {
        let (pattern, lines) = size(Items::new(MANY), Rate::new(0.005).unwrap()).unwrap();
        assert_eq!(pattern, Pattern::FourByTwo);
        assert_close((lines * LINE_BITS) as f64 / MANY as f64, 11.66, 0.01);
    }

    #[test]
    fn rate_of_given_bits_needs_at_most_those_bits() {
        for bits in [2.5, 6.0, 8.0, 10.0, 11.0, 11.5, 12.0, 14.0, 20.0, 64.0] {
            let rate = rate_of(bits);
            let takes = size_in_bits(Items::new(1 << 20), rate).get() as f64 / f64::from(1 << 20);
            assert!(takes <= bits + 1e-3, "{bits}: {takes}");
            assert!(takes > bits * 0.95, "{bits}: {takes}");
        }
    }

    #[test]
    fn impossible_rate_has_no_size_and_overload_has_rate_one() {
        assert_eq!(size(Items::new(MANY), Rate::new(1e-30).unwrap()), None);
        for lines in [1, 2, 7] {
            assert_eq!(rate(Pattern::TwoByThree, lines, Items::new(u64::MAX)), 1.0);
        }
    }

    #[test]
    fn full_line_has_rate_one_and_empty_line_zero() {
        for pattern in Pattern::ALL {
            assert_eq!(observed_line_rate(pattern, [64; 8]), 1.0);
            assert_eq!(observed_line_rate(pattern, [0; 8]), 0.0);
            assert_eq!(
                Pattern::find(pattern.groups(), pattern.probes()),
                Some(pattern)
            );
        }
        assert_eq!(Pattern::find(3, Probes::new(6)), None);
    }
}

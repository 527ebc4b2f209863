//! How often a Bloom filter causes an unnecessary search of a differential file.
//!
//! A differential file holds the records changed since the main file was last written (Severance
//! and Lohman 1976). A reader must search it first, unless a Bloom filter of its keys says that
//! the record is unchanged. The filter errs only in one direction: a false positive costs an
//! *unnecessary search*; a stale record is never read.
//!
//! ```text
//! a transaction reads a modified record   α         searched, and found
//! it reads an unmodified one          1 − α         searched unnecessarily with probability p
//!
//! ER = (1 − α) (1 − (1 − 1/m)^kn)^k                 Mullin 1983
//! ```
//!
//! Mullin writes N for m, m for k and k for n. His sizes are *bits*: the surviving table heads them
//! as bytes, but in bytes his first value would be 0.0003 and not 0.214. His α is the share of
//! changed records in the whole file. With n = 7,000 and α = 0, the formula gives his eight values
//! to three digits, except for 65,536 bits and 4 functions: there it gives 0.0146, and 0.014 is
//! printed.
//!
//! His formula assumes that the bits are independent. [`preloaded`] and [`filling`] do not. Over
//! all choices of the hash functions they are exact, for any order and popularity of the keys,
//! because every unmodified key looks modified with the same probability.

use super::{Bits, Items, Probes, grandi, standard};

mod cost;

pub use cost::{Advice, Choice, Cost, Costs, Filtering, Operation, Plan};

/// ER, the unnecessary searches per transaction (Mullin 1983); `modified` is α, in 0..=1.
pub fn mullin(modified: f64, bits: Bits, probes: Probes, records: Items) -> f64 {
    (1.0 - modified) * standard::rate(bits, probes, records)
}

/// The exact rate: the probability that a read of an unmodified record searches the differential
/// file, if the filter has all `records` from the start.
pub fn preloaded(bits: Bits, probes: Probes, records: Items) -> f64 {
    grandi::standard(bits, probes, records)
}

/// The mean of the exact rate over a run in which the filter fills: `reads[n]` reads of unmodified
/// records happened while the filter had n records. 0 without a read.
pub fn filling(reads: &[u64], rates: &[f64]) -> f64 {
    let total: u64 = reads.iter().sum();
    let searched: f64 = reads
        .iter()
        .zip(rates)
        .map(|(&reads, rate)| reads as f64 * rate)
        .sum();
    searched / total.max(1) as f64
}

/// The exact rate if the hash function folds each key to one base value below `range`, from which
/// all positions follow.
///
/// The n records have d distinct base values, r(1 − (1 − 1/r)^n) on average. A key with one of
/// these base values (probability d/r) looks modified in a filter of any size: this is a floor. Any
/// other key is tested against a filter of d keys:
///
/// ```text
/// d/r + (1 − d/r) ψ(d)
/// ```
///
/// The mean of d is used for d. The deviation of d is less than a hundredth of it if n is small
/// compared with r.
pub fn folded(range: u64, bits: Bits, probes: Probes, records: Items) -> f64 {
    let distinct = distinct(range, records.get() as f64);
    let taken = distinct / range.max(1) as f64;
    let whole = Items::new(distinct as u64);
    let next = Items::new(whole.get() + 1);
    let below = grandi::standard(bits, probes, whole);
    let above = grandi::standard(bits, probes, next);
    taken + (1.0 - taken) * (below + distinct.fract() * (above - below))
}

/// The expected number of distinct values in `draws` draws from `range` equally likely ones,
/// r(1 − (1 − 1/r)^draws).
pub fn distinct(range: u64, draws: f64) -> f64 {
    let range = range.max(1) as f64;
    -range * (draws * (-1.0 / range).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    const RECORDS: Items = Items::new(7_000);

    /// The eight values of 1983: bits, hash functions, the printed rate.
    const PRINTED: [(u64, u32, f64); 8] = [
        (24_576, 4, 0.214),
        (24_576, 6, 0.302),
        (32_768, 4, 0.109),
        (32_768, 6, 0.142),
        (49_152, 4, 0.036),
        (49_152, 6, 0.036),
        (65_536, 4, 0.014),
        (65_536, 6, 0.011),
    ];

    fn rounded(modified: f64, unit: u64, bits: u64, probes: u32) -> f64 {
        let bits = Bits::new(bits * unit);
        (mullin(modified, bits, Probes::new(probes), RECORDS) * 1_000.0).round() / 1_000.0
    }

    #[test]
    fn seven_of_mullins_values_are_rounded_and_one_is_truncated() {
        for (bits, probes, printed) in PRINTED {
            let odd_one = (bits, probes) == (65_536, 4);
            let want = if odd_one { 0.015 } else { printed };
            assert_eq!(rounded(0.0, 1, bits, probes), want, "{bits} {probes}");
        }
        let exact = mullin(0.0, Bits::new(65_536), Probes::new(4), RECORDS);
        assert_close(exact, 0.014_616, 1e-4);
    }

    #[test]
    fn sizes_in_bytes_and_modified_records_miss_mullins_values() {
        for (bits, probes, printed) in PRINTED {
            assert!(rounded(0.0, 8, bits, probes) < printed / 10.0);
        }
        assert_eq!(rounded(7.0 / 30.0, 1, 24_576, 4), 0.164);
        assert_eq!(rounded(7.0 / 30.0, 1, 24_576, 6), 0.231);
    }

    #[test]
    fn rate_of_a_filling_filter_is_the_mean_over_its_reads() {
        let rates: Vec<f64> = (0..=4)
            .map(|n| preloaded(Bits::new(64), Probes::new(2), Items::new(n)))
            .collect();
        assert_eq!(filling(&[0, 0, 0, 0, 9], &rates), rates[4]);
        assert_close(
            filling(&[1, 0, 1, 0, 2], &rates),
            (rates[2] + 2.0 * rates[4]) / 4.0,
            1e-12,
        );
        assert_eq!(filling(&[], &rates), 0.0);
    }

    #[test]
    fn folded_keys_set_a_floor_of_the_rate() {
        let rate = |range, bits| folded(range, Bits::new(bits), Probes::new(6), RECORDS);
        // 1 − (1 − 1/190,000)^7,000
        assert_close(rate(190_000, 1 << 40), 0.036_171, 1e-4);
        assert_close(
            rate(u64::MAX, 65_536),
            preloaded(Bits::new(65_536), Probes::new(6), RECORDS),
            1e-9,
        );
    }

    #[test]
    fn distinct_keys_grow_from_draws_to_the_whole_range() {
        assert_close(distinct(1 << 40, 1_000.0), 1_000.0, 1e-6);
        assert_close(distinct(2, 1.0), 1.0, 1e-12);
        assert_close(distinct(2, 2.0), 1.5, 1e-12);
        assert_close(distinct(100, 1e6), 100.0, 1e-12);
    }
}

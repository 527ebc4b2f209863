//! Counters instead of bits: the probability of an overflow (Fan, Cao, Almeida & Broder, *Summary
//! Cache*, ToN 8(3), 2000, §V-C) and of a wrong estimate (Cohen & Matias, *Spectral Bloom Filters*,
//! SIGMOD 2003, §2).
//!
//! With k slices of m counters, the false-positive rate is that of [`super::partitioned`], since a
//! counter is above zero exactly if a bit would be set.

use super::{Bits, Items, Probes, partitioned};
use std::f64::consts::E;

/// An upper bound on the probability that one of `counters` counters reaches `limit` if n keys
/// raise k counters each: M (e n k / (limit M))^limit, where M is the number of all counters.
///
/// For a half-full filter (n k / M = ln 2) with 4 bits (a limit of 16), it is 1.4e-15 per counter.
pub fn overflow_bound(counters: u64, probes: Probes, items: Items, limit: u64) -> f64 {
    let (counters, limit) = (counters.max(1) as f64, limit.max(1) as f64);
    let load = items.get() as f64 * f64::from(probes.get()) / counters;
    // The bound holds for loads below the limit. Above it, overflow is certain.
    if load >= limit {
        return 1.0;
    }
    (counters * (E * load / limit).powf(limit)).min(1.0)
}

/// The probability that minimum selection overestimates a given key among `items` distinct ones:
/// (1 − (1 − 1/m)^(n−1))^k, where m is the number of counters per slice. This is the probability
/// that each of its counters is shared with another key.
pub fn wrong_estimate(slice: u64, probes: Probes, items: Items) -> f64 {
    let others = Items::new(items.get().saturating_sub(1));
    partitioned::rate(Bits::new(slice), probes, others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    /// The figure of Fan et al.: 1.37e-15 m at a load of ln 2.
    #[test]
    fn overflow_bound_of_four_bits_equals_fan_et_al() {
        let (counters, probes) = (1_000_000, Probes::new(10));
        let items = Items::new(69_315);
        let bound = overflow_bound(counters, probes, items, 16);
        assert_close(bound, 1.37e-15 * 1e6, 0.01);
        assert_eq!(
            overflow_bound(counters, probes, Items::new(10_000_000), 16),
            1.0
        );
    }

    #[test]
    fn single_key_is_estimated_without_error() {
        assert_eq!(wrong_estimate(64, Probes::new(4), Items::new(1)), 0.0);
        assert_close(wrong_estimate(2, Probes::new(1), Items::new(2)), 0.5, 1e-12);
    }
}

//! Counters in place of bits: when they overflow (Fan, Cao, Almeida & Broder, *Summary Cache*, ToN
//! 8(3), 2000, §V-C) and how often an estimate is wrong (Cohen & Matias, *Spectral Bloom Filters*,
//! SIGMOD 2003, §2).
//!
//! In k slices of m counters the rate of *maybe* is that of [`super::partitioned`], since a counter
//! is above zero where a bit would be set.

use super::{Bits, Items, Probes, partitioned};
use std::f64::consts::E;

/// A bound on the chance that one of `counters` counters reaches `limit`, when n keys raise k
/// counters each: M (e n k / (limit M))^limit, M the counters of all slices.
///
/// At half full, n k / M = ln 2, and with 4 bits (a limit of 16), this is 1.4e-15 a counter.
pub fn overflow_bound(counters: u64, probes: Probes, items: Items, limit: u64) -> f64 {
    let (counters, limit) = (counters.max(1) as f64, limit.max(1) as f64);
    let load = items.get() as f64 * f64::from(probes.get()) / counters;
    // The bound speaks of loads below the limit; above, overflow is certain.
    if load >= limit {
        return 1.0;
    }
    (counters * (E * load / limit).powf(limit)).min(1.0)
}

/// The chance that minimum selection overestimates a given key among `items` distinct ones: each of
/// its counters is met by some other key, (1 − (1 − 1/m)^(n−1))^k, m the counters of one slice.
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
    fn four_bits_are_enough() {
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
    fn a_key_alone_is_estimated_rightly() {
        assert_eq!(wrong_estimate(64, Probes::new(4), Items::new(1)), 0.0);
        assert_close(wrong_estimate(2, Probes::new(1), Items::new(2)), 0.5, 1e-12);
    }
}

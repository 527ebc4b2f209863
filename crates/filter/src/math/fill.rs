//! From keys to set bits and back.
//!
//! In each layout, one key leaves a given bit clear with probability c: (1 − 1/m)^k, or about
//! e^(−k/m). After n keys the bit is still clear with probability c^n. Everything else follows.

use super::{Items, Probes};

/// The expected share of set bits after `items` keys, 1 − c^n.
pub fn expected(clear_chance: f64, items: Items) -> f64 {
    // If c = 0, then 0 · ln c would be NaN.
    if items.get() == 0 {
        return 0.0;
    }
    -(items.get() as f64 * clear_chance.ln())
        .exp_m1()
        .clamp(-1.0, 0.0)
}

/// The probability that all k probes find set bits, fill^k.
pub fn matching(fill: f64, probes: Probes) -> f64 {
    fill.powf(f64::from(probes.get()))
}

/// The number of keys that makes this fill ratio most likely, n* = ln(1 − fill) / ln c; for large
/// m, −(m/k) ln(1 − fill) (Swamidass & Baldi 2007).
///
/// A full filter may hold any number of keys; the result is then the largest number.
pub fn items(clear_chance: f64, fill: f64) -> Items {
    let estimate = (-fill).ln_1p() / clear_chance.ln();
    Items::new(estimate.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The probability that a given bit stays clear after `probes` probes into `bits` bits.
    fn clear_chance(bits: f64, probes: i32) -> f64 {
        (1.0 - 1.0 / bits).powi(probes)
    }

    #[test]
    fn estimate_and_expectation_are_inverse() {
        let clear = clear_chance(10_000.0, 7);
        for n in [0, 1, 100, 1_000, 3_000] {
            assert_eq!(items(clear, expected(clear, Items::new(n))).get(), n);
        }
    }

    #[test]
    fn expected_fill_is_zero_or_one_at_clear_chance_zero() {
        assert_eq!(expected(0.0, Items::new(0)), 0.0);
        assert_eq!(expected(0.0, Items::new(1)), 1.0);
    }

    #[test]
    fn estimate_of_a_full_filter_is_unbounded() {
        let clear = clear_chance(64.0, 3);
        assert_eq!(items(clear, 1.0).get(), u64::MAX);
    }
}

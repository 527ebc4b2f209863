//! Bloom's filter as he described it: k *different* bits of m (Bloom 1970; Grandi 2018, §2).
//!
//! A key sets a k-subset instead of making k throws, so no throw is lost on a bit that the key
//! itself has set. That lowers the rate by a few percent in filters of some hundred bits, and not
//! measurably in large ones. If the bits are far too few for so many probes, it raises the rate:
//!
//! ```text
//! bits set by n keys   E(X) = m (1 − (1 − k/m)^n)
//! rate, given X = x    C(x, k) / C(m, k) = ∏ (x − i) / (m − i),  i = 0 .. k−1
//! ```

use super::grandi::{Moments, classic_moments};
use super::{Bits, Items, Probes, Rate, halvings};

/// The rate, the mean of C(X, k) / C(m, k) to second order in the variance of X.
pub fn rate(bits: Bits, probes: Probes, items: Items) -> f64 {
    if items.get() == 0 {
        return 0.0;
    }
    let Moments { mean, variance } = classic_moments(bits, probes, items);
    let inverse = || (0..probes.get()).map(|i| 1.0 / (mean - f64::from(i)));
    // g''/g of g(x) = ∏ (x − i).
    let curvature = inverse().sum::<f64>().powi(2) - inverse().map(|x| x * x).sum::<f64>();
    (matching(mean, bits, probes) * (1.0 + curvature / 2.0 * variance)).clamp(0.0, 1.0)
}

/// The probability that k different bits are all among `set` set bits, C(x, k) / C(m, k).
pub fn matching(set: f64, bits: Bits, probes: Probes) -> f64 {
    let m = bits.get() as f64;
    let each = (0..probes.get()).map(|i| ((set - f64::from(i)) / (m - f64::from(i))).max(0.0));
    each.product::<f64>().min(1.0)
}

/// The fewest bits, and the probes with them, that keep `items` keys below `rate`.
///
/// The probe count is log2 1/p rounded down or up, whichever needs fewer bits.
pub fn size(items: Items, rate: Rate) -> (Bits, Probes) {
    let most = halvings(rate);
    let least = most.saturating_sub(1).max(1);
    let sized = |k| (bits_for(items, Probes::new(k), rate), Probes::new(k));
    let (fewer, more) = (sized(least), sized(most));
    if fewer.0 <= more.0 { fewer } else { more }
}

/// The fewest bits, by bisection: the rate falls as bits are added.
fn bits_for(items: Items, probes: Probes, wanted: Rate) -> Bits {
    let fits = |bits| rate(Bits::new(bits), probes, items) <= wanted.get();
    let mut least = u64::from(probes.get()) + 1;
    let mut enough = least;
    while !fits(enough) && enough < u64::MAX / 2 {
        least = enough + 1;
        enough *= 2;
    }
    while least < enough {
        let middle = least + (enough - least) / 2;
        if fits(middle) {
            enough = middle;
        } else {
            least = middle + 1;
        }
    }
    Bits::new(enough)
}

/// The probability that one key leaves a given bit clear, 1 − k/m.
pub fn clear_chance(bits: Bits, probes: Probes) -> f64 {
    1.0 - f64::from(probes.get()) / bits.get().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    fn at(m: u64, k: u32, n: u64) -> f64 {
        rate(Bits::new(m), Probes::new(k), Items::new(n))
    }

    #[test]
    fn follows_the_exact_rate() {
        for n in [8, 16, 100, 1_000] {
            for k in [1, 2, 5, 8, 10] {
                let (m, k, n) = (Bits::new(8 * n), Probes::new(k), Items::new(n));
                let exact = crate::math::grandi::classic(m, k, n);
                assert_close(rate(m, k, n), exact, 0.2 / n.get() as f64);
            }
        }
    }

    #[test]
    fn rate_of_one_key_is_one_over_the_number_of_subsets() {
        assert_close(at(64, 2, 1), 1.0 / (64.0 * 63.0 / 2.0), 1e-9);
        assert_eq!(at(64, 2, 0), 0.0);
        assert_close(at(64, 2, u64::MAX), 1.0, 1e-9);
    }

    #[test]
    fn a_size_is_the_least_that_keeps_its_rate() {
        for n in [1, 10, 1_000, 1_000_000] {
            for p in [0.5, 0.1, 0.01, 1e-6, 1e-12] {
                let (m, k) = size(Items::new(n), Rate::new(p).unwrap());
                assert!(at(m.get(), k.get(), n) <= p, "{n} {p} {m}");
                let least = m.get() == u64::from(k.get()) + 1;
                assert!(least || at(m.get() - 1, k.get(), n) > p, "{n} {p} {m}");
            }
        }
    }

    #[test]
    fn classic_filter_needs_fewer_bits_than_standard() {
        for n in [10, 100, 10_000] {
            let classic = size(Items::new(n), Rate::ONE_PERCENT).0;
            let standard = crate::math::standard::size(Items::new(n), Rate::ONE_PERCENT).0;
            assert!(classic < standard, "{classic} against {standard}");
        }
    }
}

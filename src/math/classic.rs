//! Bloom's filter as he described it: k *different* bits of m (Bloom 1970; Grandi 2018, §2).
//!
//! A key takes a k-subset rather than k throws, so no throw is lost on a bit that the key has set
//! itself. That is worth a few percent of the rate in filters of some hundred bits, and nothing
//! measurable in large ones; where the bits are far too few for so many probes, it costs:
//!
//! ```text
//! bits set by n keys   E(X) = m (1 − (1 − k/m)^n)
//! rate, given X = x    C(x, k) / C(m, k) = ∏ (x − i) / (m − i),  i = 0 .. k−1
//! ```

use super::{Bits, Items, Probes, Rate, halvings};

/// The rate, the mean of C(X, k) / C(m, k) to second order in the variance of X.
pub fn rate(bits: Bits, probes: Probes, items: Items) -> f64 {
    if items.get() == 0 {
        return 0.0;
    }
    let m = bits.get() as f64;
    let set = m * super::fill::expected(clear_chance(bits, probes), items);
    let inverse = || (0..probes.get()).map(|i| 1.0 / (set - f64::from(i)));
    // g''/g of g(x) = ∏ (x − i).
    let curvature = inverse().sum::<f64>().powi(2) - inverse().map(|x| x * x).sum::<f64>();
    let spread = 1.0 + curvature / 2.0 * m * m * fill_variance(bits, probes, items);
    (matching(set, bits, probes) * spread).clamp(0.0, 1.0)
}

/// Var(X)/m² = q(1 − q)/m + (1 − 1/m) q² ((1 − k/((m−1)(m−k)))^n − 1), q = (1 − k/m)^n.
fn fill_variance(bits: Bits, probes: Probes, items: Items) -> f64 {
    let (m, k, n) = (
        bits.get() as f64,
        f64::from(probes.get()),
        items.get() as f64,
    );
    if m <= k {
        return 0.0;
    }
    let clear = (n * (-k / m).ln_1p()).exp();
    let paired = (n * (-k / ((m - 1.0) * (m - k))).ln_1p()).exp_m1();
    clear * (1.0 - clear) / m + (1.0 - 1.0 / m) * clear * clear * paired
}

/// The chance that k different bits are all among `set` ones, C(x, k) / C(m, k).
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

/// The fewest bits, by bisection: the rate falls with them.
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

/// The chance that one key leaves a given bit alone, 1 − k/m.
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

    /// Exact values of Grandi's recurrence (19), by rational arithmetic apart from this crate.
    #[test]
    fn follows_the_exact_rate_of_small_filters() {
        for (m, k, n, exact) in [
            (128, 1, 16, 0.117_936_155),
            (128, 2, 16, 0.048_403_805),
            (128, 4, 16, 0.023_779_056),
            (128, 5, 16, 0.021_799_886),
            (128, 8, 16, 0.027_461_731),
            (128, 4, 8, 0.002_175_301),
            (128, 10, 8, 0.000_464_233),
        ] {
            assert_close(at(m, k, n), exact, 0.01);
        }
    }

    #[test]
    fn one_key_is_matched_by_its_own_subset_only() {
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
    fn no_throw_is_lost_so_fewer_bits_are_needed() {
        for n in [10, 100, 10_000] {
            let classic = size(Items::new(n), Rate::ONE_PERCENT).0;
            let standard = crate::math::standard::size(Items::new(n), Rate::ONE_PERCENT).0;
            assert!(classic < standard, "{classic} against {standard}");
        }
    }
}

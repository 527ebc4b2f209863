//! The closed forms of every tutorial, for large filters, and the mistakes of two texts.
//!
//! ```text
//! p = (1 − e^(−kn/m))^k          rate                       standard::rate_asymptotic
//! k = (m/n) ln 2                 best for m and n           half of the bits are then set
//! p = 0.6185^(m/n)               the rate with this k
//! m = n |ln p| / (ln 2)²         bits for n keys at p
//! n = −(m/k) ln(1 − p^(1/k))     keys until p is reached
//! ```
//!
//! *The tutorial* derives the best k through "k = −m/n ln(e^(kn/m))" and "e^(kn/m) = 0.5": the
//! minus of both exponents is missing; it is e^(−kn/m) throughout. Its first formulas have the
//! power kn outside the bracket and count collisions, as [`super::standard::rate`] does.
//!
//! *The CS51 text* (*Scalable Bloom Filters, the Algorithms*, 2015), corrected:
//! 1. (1 − e^(−kn/m))^k is the rate, not the probability that a bit is set, which lacks the outer
//!    k.
//! 2. Nothing assumes that hash functions do not collide: (1 − 1/m)^(kn) counts collisions.
//! 3. The fill is 1 − e^(−kn/m) and ln 2 = kn/m; the text has km/n in both.
//! 4. A filter is smallest if it is half full. With k rounded up, it reaches its rate a little
//!    later: see [`super::ladder::Capacity`].
//! 5. 1 − ∏(1 − e_i) is bounded by the *sum* of the e_i, e0/(1 − r), and does not converge to it;
//!    the product of the e_i goes to 0. See [`super::growth::compound`].
//! 6. A partitioned filter of n keys takes n k / |ln(1 − fill)| bits. The text drops a logarithm
//!    and gets 2 n |ln p| / ln 2, which is 38.6 % *more* than it gives for a static filter, and then
//!    says "about 20 percent" less. The right coefficients are equal: [`bits`] is valid for both.
//! 7. At finite size a partitioned filter answers *maybe* more often than a standard one of the
//!    same bits: by 2.1 % at m = 128, n = 16, k = 4, by 10.3 % at n = 8, k = 8 ([`super::grandi`]).

use super::{Bits, Items, Probes, Rate};
use std::f64::consts::LN_2;

/// The best number of probes, (m/n) ln 2, before it is rounded.
pub fn best_probes(bits: Bits, items: Items) -> f64 {
    bits.per_key(items) * LN_2
}

/// The lowest rate of m bits with n keys, 2^(−(m/n) ln 2) ≈ 0.6185^(m/n).
pub fn least_rate(bits: Bits, items: Items) -> f64 {
    (-best_probes(bits, items)).exp2()
}

/// The fewest bits that keep n keys at p, n |ln p| / (ln 2)², standard or partitioned, rounded up.
pub fn bits(items: Items, rate: Rate) -> Bits {
    Bits::new(super::whole(super::ladder::static_bits(
        rate,
        items.get() as f64,
    )))
}

/// The most keys that m bits and k probes keep at p: −(m/k) ln(1 − p^(1/k)), rounded down.
pub fn items(bits: Bits, probes: Probes, rate: Rate) -> Items {
    let k = f64::from(probes.get().max(1));
    let fill = rate.get().powf(1.0 / k);
    Items::new((bits.get() as f64 / k * -(-fill).ln_1p()) as u64)
}

/// The keys for which k probes are the best choice, (m/k) ln 2, rounded to the nearest.
pub fn best_items(bits: Bits, probes: Probes) -> Items {
    let k = f64::from(probes.get().max(1));
    Items::new((bits.get() as f64 / k * LN_2).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{assert_close, grandi, partitioned, standard};

    const MEGABYTE: Bits = Bits::new(8_000_000);

    #[test]
    fn least_rate_at_one_bit_per_key_is_0_6185() {
        assert_close(least_rate(Bits::new(1), Items::new(1)), 0.6185, 1e-4);
    }

    #[test]
    fn half_of_the_bits_are_set_at_the_best_probes() {
        let n = best_items(MEGABYTE, Probes::new(7));
        let (k, rate) = (best_probes(MEGABYTE, n), least_rate(MEGABYTE, n));
        assert_close(k, 7.0, 1e-6);
        assert_close(rate, 0.5_f64.powi(7), 1e-5);
        assert_close(
            standard::rate_asymptotic(MEGABYTE, Probes::new(7), n),
            rate,
            1e-5,
        );
        for other in [6, 8] {
            assert!(standard::rate_asymptotic(MEGABYTE, Probes::new(other), n) > rate);
        }
    }

    #[test]
    fn bits_and_items_are_inverse() {
        let n = Items::new(1_000_000);
        let rate = Rate::new(0.5_f64.powi(10)).unwrap();
        let found = items(bits(n, rate), Probes::new(10), rate);
        assert!(found.get().abs_diff(n.get()) <= 1, "{found}");
    }

    /// Mistake 6: with the logarithm, both layouts take the same; the text's formula gives 38.6 %
    /// more.
    #[test]
    fn partitioned_filter_needs_as_many_bits_as_standard() {
        let (n, p) = (1e6, 0.01_f64);
        let standard = bits(Items::new(1_000_000), Rate::ONE_PERCENT).get() as f64;
        let slices = -p.log2();
        assert_close(n * slices / LN_2, standard, 1e-6);
        assert_close(2.0 * n * -p.ln() / LN_2 / standard, 1.386, 1e-3);
    }

    /// Mistake 7.
    #[test]
    fn small_partitioned_filters_are_worse_than_standard_ones() {
        for (n, k, excess) in [(16, 4, 0.021), (16, 8, 0.081), (8, 8, 0.103)] {
            let (m, k, n) = (Bits::new(128), Probes::new(k), Items::new(n));
            let slice = Bits::new(128 / u64::from(k.get()));
            let found = partitioned::rate(slice, k, n) / grandi::standard(m, k, n) - 1.0;
            assert!((found - excess).abs() < 6e-4, "{found}");
        }
    }
}

//! Bloom's filter: k probes anywhere in m bits.
//!
//! The textbook formula treats the bits as independent, which they are not. The fill ratio varies
//! from filter to filter, and the mean of its k-th power is above the k-th power of its mean. At a
//! million bits the difference is not measurable; at a hundred it is several percent, and always an
//! underestimate. So [`rate`] is the textbook's, [`rate_corrected`] is used to size filters, and
//! the exact rate is affordable for small filters: [`grandi::standard`].

use super::{Bits, Items, MAX_PROBES, Probes, Rate, grandi, halvings, whole};

pub use super::blocked::rate_exact;

/// The textbook's rate, (1 − (1 − 1/m)^kn)^k (Bloom 1970; Grandi's A1).
pub fn rate(bits: Bits, probes: Probes, items: Items) -> f64 {
    super::fill::expected(clear_chance(bits, probes), items).powf(f64::from(probes.get()))
}

/// The rate as bits go to infinity, (1 − e^(−kn/m))^k (Grandi's A2): always below [`rate`].
pub fn rate_asymptotic(bits: Bits, probes: Probes, items: Items) -> f64 {
    let k = f64::from(probes.get());
    let clear = -k * items.get() as f64 / bits.get().max(1) as f64;
    (-clear.exp_m1()).powf(k)
}

/// The rate with the variance of the fill ratio included, to second order (Grandi's A3): φ^k + k(k
/// − 1)/2 · φ^(k−2) · Var(X)/m², φ = E(X)/m, X = bits set.
pub fn rate_corrected(bits: Bits, probes: Probes, items: Items) -> f64 {
    let k = f64::from(probes.get());
    let fill = super::fill::expected(clear_chance(bits, probes), items);
    let curvature = k * (k - 1.0) / 2.0 * fill.powf(k - 2.0);
    let variance = grandi::standard_moments(bits, probes, items).variance;
    let m = bits.get().max(1) as f64;
    let rate = fill.powf(k) + curvature * variance / (m * m);
    if fill > 0.0 { rate.min(1.0) } else { 0.0 }
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

/// m with (1 − (1 − 1/m)^kn)^k = p, then raised in steps of 0.1 % until the correction fits too.
fn bits_for(items: Items, probes: Probes, rate: Rate) -> Bits {
    let k = f64::from(probes.get().clamp(1, MAX_PROBES));
    let throws = k * items.get().max(1) as f64;
    let clear = (-rate.get().powf(1.0 / k)).ln_1p() / throws;
    let mut bits = whole(-1.0 / clear.exp_m1()).max(2);
    while rate_corrected(Bits::new(bits), probes, items) > rate.get() && bits < u64::MAX / 2 {
        bits += (bits / 1000).max(1);
    }
    Bits::new(bits)
}

/// The probability that one key leaves a given bit clear, (1 − 1/m)^k.
pub fn clear_chance(bits: Bits, probes: Probes) -> f64 {
    let m = bits.get().max(1) as f64;
    (1.0 - 1.0 / m).powf(f64::from(probes.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    /// Mullin's table (CACM 26(8), 1983) with 7,000 records; the 1983 figures have three digits.
    #[test]
    fn agrees_with_mullin() {
        let n = Items::new(7_000);
        for (m, k, want) in [
            (24_576, 4, 0.213_778),
            (24_576, 6, 0.301_693),
            (49_152, 4, 0.035_572),
            (65_536, 6, 0.011_223),
        ] {
            assert_close(rate(Bits::new(m), Probes::new(k), n), want, 1e-4);
        }
    }

    /// One bit, one probe: set for certain. Two bits, one key, one probe: one in two.
    #[test]
    fn exact_rate_equals_hand_counts() {
        let exact = |m, k, n| rate_exact(Bits::new(m), Probes::new(k), Items::new(n));
        assert_close(exact(2, 1, 1), 0.5, 1e-12);
        // Both probes of the key hit one bit (1/2): 1/4 of the queries match; else all do.
        assert_close(exact(2, 2, 1), 0.5 * 0.25 + 0.5, 1e-12);
        assert_eq!(exact(100, 3, 0), 0.0);
    }

    #[test]
    fn the_correction_follows_the_exact_rate() {
        for (m, k, n) in [(128, 4, 16), (128, 8, 8), (256, 6, 30), (1024, 5, 140)] {
            let (m, k, n) = (Bits::new(m), Probes::new(k), Items::new(n));
            let exact = rate_exact(m, k, n);
            assert!(rate(m, k, n) < exact);
            assert_close(rate_corrected(m, k, n), exact, 0.02);
        }
    }

    #[test]
    fn a_size_keeps_its_rate_and_one_tenth_less_does_not() {
        for n in [1, 10, 1_000, 1_000_000] {
            for p in [0.5, 0.1, 0.01, 1e-6, 1e-12] {
                let (m, k) = size(Items::new(n), Rate::new(p).unwrap());
                assert!(rate_corrected(m, k, Items::new(n)) <= p, "{n} {p} {m}");
                let less = Bits::new(m.get() * 9 / 10);
                assert!(n < 1_000 || rate_corrected(less, k, Items::new(n)) > p);
            }
        }
    }

    #[test]
    fn one_percent_takes_nine_point_six_bits() {
        let n = Items::new(1_000_000);
        let (m, k) = size(n, Rate::ONE_PERCENT);
        assert_eq!(k.get(), 7);
        assert_close(m.per_key(n), 9.59, 0.002);
    }
}

//! Small filters, exactly (Grandi, *On the analysis of Bloom filters*, IPL 129, 2018).
//!
//! A *standard* filter draws the k bits of a key with replacement, a *classic* one (Bloom's own)
//! draws k distinct bits. X is the number of set bits after n keys.
//!
//! ```text
//! E(X)   = m (1 − q)                                            (7), (13)
//! Var(X) = m q (1 − m q + (m − 1)(1 − d/(m−1))^t)               (8), (14)
//!          q = (1 − d/m)^t;   standard: d = 1, t = kn;   classic: d = k, t = n
//! FPP_S  = Σ_x (x/m)^k P(X = x)                                 (3), (9)
//! FPP_C  = Σ_j (−1)^j C(k, j) [C(m−j, k) / C(m, k)]^n           (18)
//! ```
//!
//! The printed sums alternate: their terms reach 10^37 at m = 128 while they add up to 10^-4. The
//! iterations (10) and (19) lose their digits in the same way, only later. So [`standard`] and
//! [`classic`] add only positive terms. They track how many of the queried bits are *still clear*
//! from key to key. The probability that none is left is the same inclusion and exclusion, carried
//! out by the process instead of by signs.
//!
//! Corrections to the text of 2017:
//! - ψ_S is printed with the exponent km; it must be kn.
//! - §3 swaps the errors of A1 and A2: A1 is always the better one.
//! - §3 orders the curves C, S, A3, A2, A1 from the top. But C is below S up to k = 7 (n = 16) and
//!   k = 15 (n = 8), the optima included, and A1 is above A2.
//! - §1 calls the partitioned filter a classic one with disjoint ranges. E(X) is the same, but near
//!   the optimum its rate is the highest of the three, and the classic one's the lowest.

use super::{Bits, Items, Probes};

/// Mean and variance of the number of set bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// E(X), in bits.
    pub mean: f64,
    /// Var(X), in bits squared.
    pub variance: f64,
}

/// E(X) and Var(X) of the standard filter: equations (7) and (8).
pub fn standard_moments(bits: Bits, probes: Probes, items: Items) -> Moments {
    moments(bits, 1.0, f64::from(probes.get()) * items.get() as f64)
}

/// E(X) and Var(X) of the classic filter: equations (13) and (14).
pub fn classic_moments(bits: Bits, probes: Probes, items: Items) -> Moments {
    moments(bits, f64::from(probes.get()), items.get() as f64)
}

/// E(X) and Var(X) for `times` draws of `drawn` distinct bits out of m.
///
/// Var(X) = m q (1 − q) + m (m − 1) q² ((1 − d/((m − d)(m − 1)))^t − 1): equation (14), rewritten
/// so that what is subtracted is small.
fn moments(bits: Bits, drawn: f64, times: f64) -> Moments {
    let m = bits.get() as f64;
    if drawn >= m {
        let mean = if times > 0.0 { m } else { 0.0 };
        return Moments {
            mean,
            variance: 0.0,
        };
    }
    let log_clear = times * (-drawn / m).ln_1p();
    let (clear, set) = (log_clear.exp(), -log_clear.exp_m1());
    let paired = (times * (-drawn / ((m - drawn) * (m - 1.0))).ln_1p()).exp_m1();
    Moments {
        mean: m * set,
        variance: m * clear * (set + (m - 1.0) * clear * paired),
    }
}

/// The exact rate of the standard filter, FPP_S (9), from positive terms; k³ log kn steps.
///
/// A query's k probes hit d distinct bits, which are all set with probability `all_set`. The error
/// is relative, about kn·1e-16, however small the rate.
pub fn standard(bits: Bits, probes: Probes, items: Items) -> f64 {
    let k = probes.get();
    let throws = u64::from(k).saturating_mul(items.get());
    let asked = distinct(bits, probes);
    dot(&all_set(bits, k, throws), &asked)
}

/// P(k probes hit d distinct bits), for d from 0 to k.
fn distinct(bits: Bits, probes: Probes) -> Vec<f64> {
    let m = bits.get().max(1) as f64;
    let mut chance = vec![0.0; probes.get() as usize + 1];
    chance[0] = 1.0;
    for _ in 0..probes.get() {
        for d in (0..chance.len()).rev() {
            let new = if d == 0 {
                0.0
            } else {
                chance[d - 1] * (m - (d - 1) as f64).max(0.0) / m
            };
            chance[d] = chance[d] * d as f64 / m + new;
        }
    }
    chance
}

/// P(d given bits are all set after `throws` throws of one bit each), for d from 0 to `most`.
///
/// Tracks how many of the d bits are still clear: a throw hits one of c clear bits with probability
/// c/m. That is a transition matrix from one count (row) to the next (column); its powers of two
/// are computed by squaring.
fn all_set(bits: Bits, most: u32, mut throws: u64) -> Vec<f64> {
    let m = bits.get().max(1) as f64;
    let chance = |from: u32, to: u32| match from.checked_sub(to) {
        Some(0) => (1.0 - f64::from(from) / m).max(0.0),
        Some(1) => f64::from(from) / m,
        _ => 0.0,
    };
    let row = |from| (0..=most).map(|to| chance(from, to)).collect();
    let mut power: Vec<Vec<f64>> = (0..=most).map(row).collect();
    let mut set: Vec<f64> = (0..=most).map(|d| f64::from(u8::from(d == 0))).collect();
    while throws > 0 {
        if throws % 2 == 1 {
            set = power.iter().map(|row| dot(row, &set)).collect();
        }
        power = squared(&power);
        throws /= 2;
    }
    set
}

/// A matrix that is 0 above its diagonal, times itself.
fn squared(lower: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let entry = |from: usize, to: usize| -> f64 {
        let ways = to..=from;
        ways.map(|via| lower[from][via] * lower[via][to]).sum()
    };
    let row = |from| (0..lower.len()).map(|to| entry(from, to)).collect();
    (0..lower.len()).map(row).collect()
}

fn dot(row: &[f64], column: &[f64]) -> f64 {
    row.iter().zip(column).map(|(a, b)| a * b).sum()
}

/// The exact rate of the classic filter, FPP_C (18), from positive terms; nk² steps.
///
/// A query probes k distinct bits. With c of them still clear, a key's k bits hit h of these with
/// the hypergeometric probability C(c, h) C(m − c, k − h) / C(m, k). 1 if k exceeds m.
pub fn classic(bits: Bits, probes: Probes, items: Items) -> f64 {
    let (m, k) = (bits.get(), u64::from(probes.get()));
    if k > m {
        return 1.0;
    }
    let hits: Vec<Vec<f64>> = (0..=k).map(|clear| hypergeometric(m, clear, k)).collect();
    let mut clear = vec![0.0; hits.len()];
    clear[hits.len() - 1] = 1.0;
    for _ in 0..items.get() {
        for left in 0..clear.len() {
            let from = |c: usize| clear[c] * hits[c][c - left];
            clear[left] = (left..clear.len()).map(from).sum();
        }
    }
    clear[0]
}

/// C(c, h) C(m − c, k − h) / C(m, k) for h from 0 to c: of k bits drawn from m, h are among c.
///
/// Computed bit by bit: each of the c is among those drawn with probability (k − drawn so far) / (m
/// − bits considered so far).
fn hypergeometric(m: u64, c: u64, k: u64) -> Vec<f64> {
    let mut chance = vec![0.0; c as usize + 1];
    chance[0] = 1.0;
    for looked in 0..c {
        let left = (m - looked) as f64;
        for h in (0..=looked as usize + 1).rev() {
            let undrawn = |h: usize| (k as f64 - h as f64).max(0.0);
            let stays = chance[h] * (left - undrawn(h)).max(0.0) / left;
            let drawn = if h == 0 {
                0.0
            } else {
                chance[h - 1] * undrawn(h - 1) / left
            };
            chance[h] = stays + drawn;
        }
    }
    chance
}

/// The rate of k slices of m/k bits, (1 − (1 − k/m)^n)^k (§1's aside), as a real formula: m/k need
/// not be whole.
///
/// The slices of an actual filter are whole: [`super::partitioned::rate`] is their rate, which is
/// the same if k divides m. Slices of ⌊m/k⌋ and ⌈m/k⌉ bits that add up to m come within 2 % of it
/// for 128 bits and up to 20 slices.
pub fn partitioned(bits: Bits, probes: Probes, items: Items) -> f64 {
    let (m, k) = (bits.get() as f64, f64::from(probes.get()));
    let clear = (items.get() as f64 * (-(k / m).min(1.0)).ln_1p()).exp_m1();
    (-clear).powf(k)
}

/// P(X = x) of the standard filter for x from 0 to m, f_S (6), by the occupancy of one more throw:
/// with x bits set, the next one is new with probability (m − x)/m. kn·m steps, m + 1 numbers.
pub fn standard_distribution(bits: Bits, probes: Probes, items: Items) -> Vec<f64> {
    let m = bits.get().max(1) as f64;
    let len = usize::try_from(bits.get()).map_or(usize::MAX, |len| len.saturating_add(1));
    let mut chance = vec![0.0; len];
    chance[0] = 1.0;
    for _ in 0..u64::from(probes.get()).saturating_mul(items.get()) {
        for x in (0..chance.len()).rev() {
            let new = if x == 0 {
                0.0
            } else {
                chance[x - 1] * (m - (x - 1) as f64) / m
            };
            chance[x] = chance[x] * x as f64 / m + new;
        }
    }
    chance
}

/// FPP_S as the paper's total probability (3) over [`standard_distribution`]; kn·m steps.
pub fn standard_direct(bits: Bits, probes: Probes, items: Items) -> f64 {
    let m = bits.get().max(1) as f64;
    let matches = |x: usize| (x as f64 / m).powf(f64::from(probes.get()));
    let chances = standard_distribution(bits, probes, items);
    chances
        .iter()
        .enumerate()
        .map(|(x, chance)| chance * matches(x))
        .sum()
}

/// FPP_C as the paper's alternating sum (18); its error grows to C(k, k/2) times 1e-16.
pub fn classic_direct(bits: Bits, probes: Probes, items: Items) -> f64 {
    let (m, k) = (bits.get() as f64, probes.get());
    let (mut term, mut sum) = (1.0, 1.0);
    let mut missed = 1.0;
    for j in 0..k {
        let at = f64::from(j);
        term *= -(f64::from(k) - at) / (at + 1.0);
        missed *= ((m - at - f64::from(k)) / (m - at)).max(0.0);
        sum += term * missed.powf(items.get() as f64);
    }
    sum
}

/// FPP_C by the paper's iteration (19): ψ(h, m) = ψ(h−1, m) − (1 − k/m)^n ψ(h−1, m−1), ψ(0, ·) = 1;
/// the rate is ψ(k, m).
///
/// k² steps. Like [`super::standard::rate_exact`], which is the iteration (10), it subtracts.
pub fn classic_iterated(bits: Bits, probes: Probes, items: Items) -> f64 {
    let k = probes.get();
    let mut psi = vec![1.0; k as usize + 1];
    for h in 1..psi.len() {
        for less in 0..psi.len() - h {
            let m = bits.get().saturating_sub(less as u64) as f64;
            let clear = (1.0 - f64::from(k) / m.max(1.0)).max(0.0);
            psi[less] -= clear.powf(items.get() as f64) * psi[less + 1];
        }
    }
    psi[0].clamp(0.0, 1.0)
}

#[cfg(test)]
mod exact;
#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::vectors::{Row, S1, S2};
    use super::*;
    use crate::math::{assert_close, partitioned as slices, standard as textbook};

    const M: Bits = Bits::new(128);

    /// Every row of both settings, with its probes and its keys.
    fn rows() -> impl Iterator<Item = (&'static Row, Probes, Items)> {
        let settings = [(&S1, 16), (&S2, 8)].into_iter();
        settings.flat_map(|(rows, keys)| {
            rows.iter()
                .map(move |row| (row, Probes::new(row.probes), Items::new(keys)))
        })
    }

    #[test]
    fn exact_rates_agree_with_rational_arithmetic() {
        for (row, k, n) in rows() {
            let [with, without] = row.exact;
            assert_close(standard(M, k, n), with, 1e-12);
            assert_close(standard_direct(M, k, n), with, 1e-12);
            assert_close(classic(M, k, n), without, 1e-12);
        }
    }

    #[test]
    fn approximations_agree_with_rational_arithmetic() {
        for (row, k, n) in rows() {
            let [a1, a2, a3] = row.approximate;
            assert_close(textbook::rate(M, k, n), a1, 1e-12);
            assert_close(textbook::rate_asymptotic(M, k, n), a2, 1e-12);
            assert_close(textbook::rate_corrected(M, k, n), a3, 1e-12);
        }
    }

    #[test]
    fn moments_agree_with_rational_arithmetic() {
        for (row, k, n) in rows() {
            let found = [standard_moments(M, k, n), classic_moments(M, k, n)];
            for (found, [mean, variance]) in found.into_iter().zip([row.standard, row.classic]) {
                assert_close(found.mean, mean, 1e-12);
                assert_close(found.variance, variance, 1e-12);
            }
        }
    }

    #[test]
    fn partitioned_rates_agree_with_rational_arithmetic() {
        for (row, k, n) in rows() {
            assert_close(partitioned(M, k, n), row.partitioned, 1e-12);
            if M.get().is_multiple_of(k.get().into()) {
                let slice = Bits::new(M.get() / u64::from(k.get()));
                assert_close(slices::rate(slice, k, n), row.partitioned, 1e-12);
            }
        }
    }

    /// If k does not divide m, some slices are one bit larger than the others. The rate is the
    /// product of their probabilities.
    #[test]
    fn uneven_slices_approach_the_partitioned_formula() {
        for (row, k, n) in rows() {
            let (bits, count) = (M.get(), u64::from(k.get()));
            let of = |bits, count| slices::rate(Bits::new(bits), Probes::new(count), n);
            let larger = u32::try_from(bits % count).unwrap();
            let uneven = of(bits / count + 1, larger) * of(bits / count, k.get() - larger);
            assert_close(uneven, row.partitioned, 0.02);
        }
    }

    /// Formulas that subtract lose digits, so these are compared by absolute error.
    #[test]
    fn subtracting_formulas_of_the_paper_agree_to_1e_11() {
        for (row, k, n) in rows() {
            let [with, without] = row.exact;
            assert!((textbook::rate_exact(M, k, n) - with).abs() < 1e-11);
            assert!((classic_iterated(M, k, n) - without).abs() < 1e-11);
            assert!((classic_direct(M, k, n) - without).abs() < 1e-11);
        }
    }

    #[test]
    fn distribution_has_the_computed_moments() {
        let (k, n) = (Probes::new(5), Items::new(16));
        let chances = standard_distribution(M, k, n);
        let about = |centre: f64, power| -> f64 {
            let term = |(x, chance): (usize, &f64)| (x as f64 - centre).powi(power) * chance;
            chances.iter().enumerate().map(term).sum()
        };
        let Moments { mean, variance } = standard_moments(M, k, n);
        assert_close(about(0.0, 0), 1.0, 1e-12);
        assert_close(about(0.0, 1), mean, 1e-12);
        assert_close(about(mean, 2), variance, 1e-11);
    }

    /// The best k of a setting, and its rate, which is the lowest.
    fn best(rate: fn(Bits, Probes, Items) -> f64, keys: u64) -> (u32, f64) {
        let rated = (1..=60).map(|k| (k, rate(M, Probes::new(k), Items::new(keys))));
        rated.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    /// §3: optima 5 and 5, .023 and .022, 3.28 % apart; 11 and 10, .00054 and .00046, 13.6 %.
    #[test]
    fn optima_equal_those_of_the_paper() {
        for (keys, ks, rates, apart) in [
            (16, (5, 5), (0.023, 0.022), 0.032_796),
            (8, (11, 10), (0.000_54, 0.000_46), 0.136_09),
        ] {
            let (with, without) = (best(standard, keys), best(classic, keys));
            assert_eq!((with.0, without.0), ks);
            assert_close(with.1, rates.0, 0.03);
            assert_close(without.1, rates.1, 0.03);
            assert_close(1.0 - without.1 / with.1, apart, 1e-4);
        }
    }

    /// The largest relative error of an approximation over k, and the k at which it occurs.
    fn worst(approximate: fn(Bits, Probes, Items) -> f64, keys: u64) -> (u32, f64) {
        let error = |k| {
            let (k, n) = (Probes::new(k), Items::new(keys));
            (approximate(M, k, n) / standard(M, k, n) - 1.0).abs()
        };
        let errors = (1..=60).map(|k| (k, error(k)));
        errors.max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    /// §3 swaps the errors of A1 and A2, and some of the printed places are off by one.
    #[test]
    fn the_errors_of_section_3_are_corrected() {
        for (approximate, keys, place, error) in [
            (textbook::rate as fn(_, _, _) -> _, 16, 18, 0.0950),
            (textbook::rate_asymptotic, 16, 18, 0.1118),
            (textbook::rate_corrected, 16, 38, 0.002_750),
            (textbook::rate, 8, 35, 0.3284),
            (textbook::rate_asymptotic, 8, 35, 0.3533),
            (textbook::rate_corrected, 8, 32, 0.045_29),
        ] {
            let found = worst(approximate, keys);
            assert_eq!(found.0, place, "{keys} keys: {found:?}");
            assert_close(found.1, error, 1e-3);
        }
    }

    /// C/S − 1 is greatest at k = 25 (25.62 %) and k = 45 (151.3 %), and negative below 8 and 16.
    #[test]
    fn classic_beats_standard_up_to_a_crossing() {
        for (keys, crossing, place, most) in [(16, 8, 25, 0.256_17), (8, 16, 45, 1.512_97)] {
            let excess = |k| {
                let (k, n) = (Probes::new(k), Items::new(keys));
                classic(M, k, n) / standard(M, k, n) - 1.0
            };
            assert!((2..crossing).all(|k| excess(k) < 0.0));
            assert!((crossing..=60).all(|k| excess(k) > 0.0));
            assert_close(excess(place), most, 1e-4);
            assert!((2..=60).all(|k| excess(k) <= excess(place)));
        }
    }

    #[test]
    fn partitioned_is_the_worst_near_the_optimum_and_classic_the_best() {
        let (k, n) = (Probes::new(4), Items::new(16));
        let slices = slices::rate(Bits::new(32), k, n);
        assert!(classic(M, k, n) < standard(M, k, n) && standard(M, k, n) < slices);
    }

    /// The second-order rate that is used to size classic filters.
    #[test]
    fn the_estimate_of_classic_filters_follows_the_exact_rate() {
        for (m, k, n) in [(128, 4, 16), (1_024, 7, 100), (65_536, 7, 6_800)] {
            let (m, k, n) = (Bits::new(m), Probes::new(k), Items::new(n));
            assert_close(crate::math::classic::rate(m, k, n), classic(m, k, n), 2e-3);
        }
    }

    #[test]
    fn rates_of_edge_cases_are_exact() {
        let of = |m, k, n| (Bits::new(m), Probes::new(k), Items::new(n));
        for rate in [standard, classic] {
            let (m, k, none) = of(64, 3, 0);
            assert_eq!(rate(m, k, none), 0.0);
            let (two, both, one) = of(2, 2, 1);
            assert!(rate(two, both, one) > 0.6);
        }
        let (m, k, n) = of(2, 3, 1);
        assert_eq!(classic(m, k, n), 1.0);
        assert_eq!(classic_moments(m, k, n).variance, 0.0);
    }
}

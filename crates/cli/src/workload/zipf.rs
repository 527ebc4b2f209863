//! Zipf's law: rank k of n is drawn with probability proportional to k^-e.
//!
//! Sampled by rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate
//! variates from monotone discrete distributions", ACM TOMACS 6(3), 1996). This takes constant time
//! and no table, for any n and any exponent e > 0. With h(x) = x^-e and H its integral, a point u
//! below the curve is drawn and H is inverted. The nearest rank is accepted unless the point lies
//! between the curve and the steps of the discrete distribution.

use super::random::Random;

/// The ranks from 0 on, by their popularity.
#[derive(Clone, Debug)]
pub struct Zipf {
    ranks: u64,
    exponent: f64,
    upper: f64,
    lower: f64,
    squeeze: f64,
}

impl Zipf {
    /// The law over this many ranks.
    ///
    /// # Panics
    /// If `ranks` is 0, or the exponent is not above 0.
    pub fn new(ranks: u64, exponent: f64) -> Self {
        assert!(ranks > 0, "a Zipf distribution needs a rank to draw");
        assert!(
            exponent > 0.0,
            "a Zipf exponent lies above 0, got {exponent}"
        );
        Self {
            ranks,
            exponent,
            upper: integral(1.5, exponent) - 1.0,
            lower: integral(ranks as f64 + 0.5, exponent),
            squeeze: 2.0 - inverse(integral(2.5, exponent) - density(2.0, exponent), exponent),
        }
    }

    /// A rank in 0..ranks; 0 is drawn most often.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let u = self.lower + random.unit() * (self.upper - self.lower);
            let x = inverse(u, self.exponent);
            let k = x.round().clamp(1.0, self.ranks as f64);
            let below_curve = || u >= integral(k + 0.5, self.exponent) - density(k, self.exponent);
            if k - x <= self.squeeze || below_curve() {
                return (k as u64).min(self.ranks) - 1;
            }
        }
    }
}

/// h(x) = x^-e.
fn density(x: f64, e: f64) -> f64 {
    (-e * x.ln()).exp()
}

/// H(x), the integral of h from 1 to x; ln x in the limit e = 1.
fn integral(x: f64, e: f64) -> f64 {
    let ln = x.ln();
    expm1_over((1.0 - e) * ln) * ln
}

/// The x with H(x) = y.
fn inverse(y: f64, e: f64) -> f64 {
    let t = ((1.0 - e) * y).max(-1.0);
    (ln1p_over(t) * y).exp()
}

/// (e^x - 1) / x, by its series near 0, where the quotient loses all digits.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.exp_m1() / x
    } else {
        1.0 + x / 2.0
    }
}

/// ln(1 + x) / x, by its series near 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 {
        x.ln_1p() / x
    } else {
        1.0 - x / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the counts against the definition, within five standard deviations of the binomial at
    /// a fixed seed.
    #[test]
    fn rank_frequencies_follow_the_zipf_distribution() {
        const RANKS: u64 = 50;
        const DRAWS: u32 = 200_000;
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let zipf = Zipf::new(RANKS, exponent);
            let mut random = Random::new(42);
            let mut counts = [0_u32; RANKS as usize];
            for _ in 0..DRAWS {
                counts[zipf.draw(&mut random) as usize] += 1;
            }
            let total: f64 = (1..=RANKS).map(|k| (k as f64).powf(-exponent)).sum();
            for (count, k) in counts.iter().zip(1..) {
                let p = f64::from(k).powf(-exponent) / total;
                let mean = p * f64::from(DRAWS);
                let bound = 5.0 * (mean * (1.0 - p)).sqrt();
                let off = (f64::from(*count) - mean).abs();
                assert!(
                    off < bound,
                    "e {exponent}, rank {k}: {count} drawn, {mean:.0} expected"
                );
            }
        }
    }

    #[test]
    fn a_single_rank_is_always_drawn() {
        let zipf = Zipf::new(1, 1.0);
        let mut random = Random::new(1);
        assert!((0..1000).all(|_| zipf.draw(&mut random) == 0));
    }
}

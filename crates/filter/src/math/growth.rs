//! Stages of a scalable filter (Almeida et al. 2007, §3).
//!
//! Stage i is s^i times as large as the first and r^i times as strict, so that the rates of all
//! stages, however many there will be, add up to at most P:
//!
//! ```text
//! P = 1 − ∏ (1 − P_i)  ≤  ∑ P_i  ≤  P0 / (1 − r),    P_i = P0 r^i,    P0 = P (1 − r)
//! ```

use super::{Bits, Items, Probes, Rate, halvings};
use std::f64::consts::{LN_2, PI};

/// How a false-positive rate P is divided among stages, so that their rates add up to at most P.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tightening {
    /// P_i = P0 r^i with P0 = P (1 − r), for any number of stages (equation 2, solved for P0). r is
    /// between 0 and 1.
    Geometric(f64),
    /// The same with P0 = P (1 − r) / (1 − r^L), for at most L stages: no part of P is kept for
    /// stages that never open. A single stage gets all of P.
    Bounded {
        /// r, between 0 and 1.
        r: f64,
        /// L, at least 1.
        stages: u32,
    },
    /// P_i = 6 P / (π² (i + 1)²), for any number of stages: each is stricter than the last by a
    /// factor that shrinks (Pagh, Segev, Wieder, *How to approximate a set without knowing its
    /// size*, FOCS 2013).
    Polynomial,
}

/// The range of r for which stages are built. Below it, the rate of a second stage is out of reach;
/// above it, that of the first one.
const R: std::ops::RangeInclusive<f64> = 0.1..=0.95;

impl Tightening {
    /// The nearest tightening for which stages can be built: r between 0.1 and 0.95.
    #[must_use]
    pub fn confined(self) -> Self {
        // `max` before `min`: together they replace a NaN by a number, which `clamp` does not.
        let within = |r: f64| r.max(*R.start()).min(*R.end());
        match self {
            Self::Geometric(r) => Self::Geometric(within(r)),
            Self::Bounded { r, stages } => Self::Bounded {
                r: within(r),
                stages,
            },
            Self::Polynomial => Self::Polynomial,
        }
    }

    /// Whether there is a share of P for stage i.
    pub fn has_stage(self, stage: u32) -> bool {
        match self {
            Self::Geometric(_) | Self::Polynomial => true,
            Self::Bounded { stages, .. } => stage < stages.max(1),
        }
    }

    /// The rate of stage i.
    pub fn rate(self, promised: Rate, stage: u32) -> Rate {
        Rate::clamped((-self.halvings(promised, stage)).exp2())
    }

    /// P0/P: the part of the rate that the first stage gets.
    pub fn first_share(self) -> f64 {
        self.rate(Rate::ONE_PERCENT, 0).get() / Rate::ONE_PERCENT.get()
    }

    /// log2 1/P_i: the number of half-full slices that stage i needs, as a real number.
    ///
    /// A logarithm, so that no stage underflows.
    pub fn halvings(self, promised: Rate, stage: u32) -> f64 {
        let index = f64::from(stage);
        let further = match self {
            Self::Geometric(r) => -(-r).ln_1p() / LN_2 - index * r.log2(),
            Self::Bounded { r, stages } => {
                let kept = (-r.powf(f64::from(stages.max(1)))).ln_1p();
                (kept - (-r).ln_1p()) / LN_2 - index * r.log2()
            }
            Self::Polynomial => (PI * PI / 6.0).log2() + 2.0 * (index + 1.0).log2(),
        };
        further - promised.get().log2()
    }
}

/// The number of slices of a stage with this rate, k_i = ⌈log2 1/P_i⌉ (§3, equation 1), at most
/// [`super::MAX_PROBES`].
pub fn stage_probes(rate: Rate) -> Probes {
    Probes::new(halvings(rate))
}

/// The bits of one slice of stage i, m_i = m0 s^i (§3.1); saturates.
pub fn stage_slice(first: Bits, growth: u32, stage: u32) -> Bits {
    let times = u64::from(growth).saturating_pow(stage);
    Bits::new(first.get().saturating_mul(times))
}

/// The number of keys that fill a slice of m bits to one half, n ≈ m ln 2 (§2).
pub fn half_full(slice: Bits) -> Items {
    Items::new((slice.get() as f64 * LN_2) as u64)
}

/// The false-positive rate of all stages together, 1 − ∏ (1 − P_i): equation (1).
pub fn compound(rates: impl IntoIterator<Item = f64>) -> f64 {
    let absent: f64 = rates.into_iter().map(|rate| (-rate).ln_1p()).sum();
    -absent.exp_m1()
}

/// An upper bound of [`compound`], ∑ P_i.
pub fn compound_bound(rates: impl IntoIterator<Item = f64>) -> f64 {
    rates.into_iter().sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    /// Figure 1 of the paper, m0 = 128, r = 1/2, P = 1e-6: keys and bits at the end of each stage.
    #[test]
    fn agrees_with_figure_1() {
        let promised = Rate::new(1e-6).unwrap();
        let (mut keys, mut bits) = (0.0, 0);
        let mut ends = Vec::new();
        for stage in 0..10 {
            let slice = stage_slice(Bits::new(128), 2, stage);
            keys += slice.get() as f64 * LN_2;
            let rate = Tightening::Geometric(0.5).rate(promised, stage);
            bits += slice.get() * u64::from(stage_probes(rate).get());
            ends.push((keys.floor() as u64, bits));
        }
        assert_eq!(ends[0], (88, 2_688));
        assert_eq!(ends[1], (266, 8_320));
        assert_eq!(ends[7], (22_624, 882_304));
        assert_eq!(ends[9], (90_763, 3_798_656));
    }

    #[test]
    fn compound_rate_stays_below_the_requested_rate() {
        for r in [0.3, 0.5, 0.85, 0.95] {
            let stage = |i| Tightening::Geometric(r).rate(Rate::ONE_PERCENT, i);
            let rates = || (0..200).map(|i| stage(i).get());
            let (compound, bound) = (compound(rates()), compound_bound(rates()));
            assert!(
                compound < bound && bound <= 0.01 + 1e-12,
                "{r}: {compound} {bound}"
            );
        }
    }

    /// P0 = .005, r = .5: the product gives .009967, the sum .01.
    #[test]
    fn compound_bound_is_close_at_one_percent() {
        let stage = |i| Tightening::Geometric(0.5).rate(Rate::ONE_PERCENT, i);
        let rates = (0..200).map(|i| stage(i).get());
        assert_close(compound(rates), 0.009_967, 1e-4);
    }

    #[test]
    fn every_tightening_keeps_the_requested_rate() {
        let bounded = Tightening::Bounded { r: 0.9, stages: 8 };
        for (tightening, stages) in [
            (Tightening::Geometric(0.5), 300),
            (Tightening::Geometric(0.9), 300),
            (Tightening::Polynomial, 100_000),
            (bounded, 8),
        ] {
            let rates = (0..stages).map(|i| tightening.rate(Rate::ONE_PERCENT, i).get());
            let bound = compound_bound(rates);
            assert!(
                bound > 0.009_99 && bound <= 0.01 + 1e-12,
                "{tightening:?}: {bound}"
            );
        }
    }

    /// For one stage and r = 0.9 the bound saves log2 10 = 3.3 slices.
    #[test]
    fn stage_limit_saves_bits() {
        let (one, any) = (
            Tightening::Bounded { r: 0.9, stages: 1 },
            Tightening::Geometric(0.9),
        );
        let at = |tightening: Tightening| tightening.halvings(Rate::ONE_PERCENT, 0);
        assert_close(at(one), -Rate::ONE_PERCENT.get().log2(), 1e-12);
        assert_close(at(any) - at(one), 10_f64.log2(), 1e-12);
    }

    #[test]
    fn invalid_tightening_is_clamped() {
        for (r, nearest) in [
            (f64::NAN, 0.1),
            (-1.0, 0.1),
            (0.5, 0.5),
            (f64::INFINITY, 0.95),
        ] {
            let (any, bounded) = (
                Tightening::Geometric(r),
                Tightening::Bounded { r, stages: 0 },
            );
            assert_eq!(any.confined(), Tightening::Geometric(nearest));
            assert!(any.has_stage(u32::MAX));
            assert!(bounded.has_stage(0) && !bounded.has_stage(1));
            let only = bounded.confined().rate(Rate::ONE_PERCENT, 0).get();
            assert_close(only, 0.01, 1e-12);
        }
    }

    #[test]
    fn geometric_tightening_follows_its_formula() {
        for stage in [0, 1, 7, 40] {
            let found = Tightening::Geometric(0.85).rate(Rate::ONE_PERCENT, stage);
            let want = 0.01 * (1.0 - 0.85) * 0.85_f64.powf(f64::from(stage));
            assert_close(found.get(), want, 1e-12);
        }
    }

    /// P0 = .1, r = .9: for large rates the sum is a poor bound.
    #[test]
    fn compound_bound_is_loose_for_high_rates() {
        let rates = || (0..2_000).map(|i| 0.1 * 0.9_f64.powi(i));
        assert_close(compound(rates()), 0.642, 1e-3);
        assert_close(compound_bound(rates()), 1.0, 1e-12);
    }

    #[test]
    fn rate_of_a_very_late_stage_is_positive() {
        let far = Tightening::Geometric(0.1).rate(Rate::ONE_PERCENT, 100_000);
        assert!(far.get() > 0.0);
        assert_eq!(compound([1.0, 0.5]), 1.0);
        assert_eq!(half_full(Bits::new(1_000)).get(), 693);
    }
}

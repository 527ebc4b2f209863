//! A model of a scalable filter: the size of its stages, compared with a filter of the right size
//! (Almeida et al. 2007, §4).
//!
//! ```text
//! P_i    rate of stage i, by its Tightening             m_i = m0 s^i     bits of a slice
//! k_i = ⌈log2 1/P_i⌉                                    n_i = m_i ln 2   keys, at half full
//! bits_i = k_i m_i                 static(n) = n log2(1/P) / ln 2        bits of a right-sized one
//! ```
//!
//! Everything is relative to n0, the keys of the first stage: a *growth* g means g n0 keys. Values
//! are real numbers, as in the paper's figures; the actual filters are sized by [`super::growth`]
//! and their layout.
//!
//! What the paper's figures do not show:
//! - They show the ends of stages. Just after a stage has opened, the space is 3.9 times that of a
//!   static filter for s = 2 and 6.2 times for s = 4, at a growth of a million (Figure 2).
//! - "Only slightly more than a static filter" at 22,624 keys (§4.1) is 36 % more.
//! - The sum of the rates reaches its bound only with infinitely many *full* stages. With at most L
//!   stages, [`Tightening::Bounded`] keeps the same rate with fewer bits.
//! - A geometric tightening costs log2(1/r) more bits per key with *every* stage, a polynomial one
//!   2 log2((i+1)/i): r = 0.9 takes fewer bits than that from the third stage to the 62nd.

use super::growth::Tightening;
use super::{MAX_PROBES, Rate};
use std::f64::consts::LN_2;

/// A scalable filter whose stages grow by a constant factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ladder {
    /// P, of all stages together.
    pub promised: Rate,
    /// How P is divided among the stages.
    pub tightening: Tightening,
    /// s, at least 1: the size of a stage over that of the one before it.
    pub growth: f64,
    /// m0, the bits per slice of the first stage.
    pub first_slice: f64,
    /// Whether stages have a whole number of slices, as in actual filters but not in closed forms.
    pub whole_slices: bool,
}

/// One stage of a [`Ladder`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// k_i, the number of slices.
    pub slices: f64,
    /// m_i, the bits per slice.
    pub slice_bits: f64,
    /// Keys that all stages up to this one hold.
    pub keys: f64,
    /// Bits of all stages up to this one.
    pub bits: f64,
}

impl Ladder {
    /// The stages from the first on, without end.
    pub fn steps(self) -> impl Iterator<Item = Step> {
        (0_u32..).scan((0.0, 0.0), move |(keys, bits), stage| {
            let slices = self.slices(stage);
            let slice_bits = self.first_slice * self.growth.powf(f64::from(stage));
            *keys += slice_bits * LN_2;
            *bits += slices * slice_bits;
            let (keys, bits) = (*keys, *bits);
            Some(Step {
                slices,
                slice_bits,
                keys,
                bits,
            })
        })
    }

    /// k_i = log2 1/P_i (§4), rounded up if slices are whole; not limited to [`MAX_PROBES`].
    fn slices(self, stage: u32) -> f64 {
        let exact = self.tightening.halvings(self.promised, stage);
        if self.whole_slices {
            exact.ceil().max(1.0)
        } else {
            exact
        }
    }

    /// n0, the keys of the first stage.
    pub fn first_keys(self) -> f64 {
        self.first_slice * LN_2
    }

    /// The stages that a growth of g opens: ⌈log_s(1 + g (s − 1))⌉, or ⌈g⌉ for s = 1 (Figure 3).
    pub fn stages(self, growth: f64) -> u32 {
        let exact = if self.growth > 1.0 {
            (growth * (self.growth - 1.0)).ln_1p() / self.growth.ln()
        } else {
            growth
        };
        // If the growth ends exactly with a stage, rounding must not open another one.
        super::whole(exact - 1e-9).clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Bits of the stages that are open at `keys` keys, over those of a filter of the right size.
    pub fn space(self, keys: f64) -> f64 {
        let bits = self.steps().find(|step| step.keys >= keys * (1.0 - 1e-12));
        bits.map_or(f64::NAN, |step| {
            step.bits / static_bits(self.promised, keys)
        })
    }

    /// Mean of the bits in use while the set grows from 0 to g n0 keys, over those of a filter made
    /// for all keys: A = ∫ B(n) dn / (N static(N)) (Figure 4).
    pub fn mean_space(self, growth: f64) -> f64 {
        let keys = growth * self.first_keys();
        let bits = self
            .lives(growth)
            .map(|(step, life)| step.slices * step.slice_bits * life);
        bits.sum::<f64>() / static_bits(self.promised, keys)
    }

    /// The stages that a growth of g opens, each with the share of the growth during which it is
    /// open.
    fn lives(self, growth: f64) -> impl Iterator<Item = (Step, f64)> {
        let keys = growth * self.first_keys();
        let stages = self.steps().take(self.stages(growth) as usize);
        stages.scan(0.0, move |opened, step| {
            let life = 1.0 - *opened / keys;
            *opened = step.keys;
            Some((step, life))
        })
    }

    /// The geometric tightening with the least [`Ladder::mean_space`] over real numbers of slices:
    /// r = c / (1 + c), where c is the mean index of a stage, weighted by its bits and its life
    /// (Figure 6).
    ///
    /// The paper does not have this formula. Only log2 1/(1−r) + c log2 1/r depends on r, and its
    /// derivative is 0 there. So the optimum does not depend on P, as the paper observes.
    pub fn best_tightening(self, growth: f64) -> f64 {
        let (mut weights, mut indexes) = (0.0, 0.0);
        for (index, (step, life)) in self.lives(growth).enumerate() {
            let weight = step.slice_bits * life;
            weights += weight;
            indexes += weight * index as f64;
        }
        indexes / (weights + indexes)
    }

    /// The same by trial in steps of 0.001, with whole slices if this ladder has them.
    pub fn best_tightening_by_trial(self, growth: f64) -> f64 {
        let space = |thousandths: u32| {
            let r = f64::from(thousandths) / 1e3;
            let tightening = Tightening::Geometric(r);
            (r, Self { tightening, ..self }.mean_space(growth))
        };
        let tried = (1..1_000).map(space).min_by(|a, b| a.1.total_cmp(&b.1));
        tried.map_or(f64::NAN, |(r, _)| r)
    }

    /// Whether the first `stages` stages can be built: none needs more than [`MAX_PROBES`] slices.
    pub fn is_feasible(self, stages: u32) -> bool {
        let most = f64::from(MAX_PROBES);
        (0..stages).all(|stage| self.slices(stage) <= most)
    }
}

/// The bits of a filter of the right size, n log2(1/P) / ln 2 (§3.2, solved for M).
pub fn static_bits(promised: Rate, keys: f64) -> f64 {
    -keys * promised.get().log2() / LN_2
}

/// A row of Table 1: a partitioned filter of M bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// k = ⌈log2 1/P⌉.
    pub slices: u32,
    /// m = ⌊M/k⌋.
    pub slice_bits: u64,
    /// n ≈ M (ln 2)² / |ln P|, as printed: computed with k before rounding.
    pub printed: u64,
    /// m ln 2: the keys at which slices are half full, where §4 opens the next stage. Up to 5 %
    /// fewer than printed.
    pub half_full: u64,
    /// ln(1 − P^(1/k)) / ln(1 − 1/m): the most keys that keep P, a little above half full.
    pub by_fill: u64,
}

/// Table 1 for a filter of `bits`, and its capacity by other rules.
pub fn capacity(bits: super::Bits, rate: Rate) -> Capacity {
    let slices = super::halvings(rate);
    let slice_bits = bits.get() / u64::from(slices);
    let slice = super::Bits::new(slice_bits);
    let fill = rate.get().powf(1.0 / f64::from(slices));
    let clear = super::partitioned::clear_chance(slice);
    Capacity {
        slices,
        slice_bits,
        printed: (bits.get() as f64 * LN_2 * LN_2 / -rate.get().ln()) as u64,
        half_full: super::growth::half_full(slice).get(),
        by_fill: ((-fill).ln_1p() / clear.ln()) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::{Bits, assert_close};
    use crate::math::{Items, Probes, partitioned};

    fn ladder(promised: f64, r: f64, growth: f64) -> Ladder {
        Ladder {
            promised: Rate::new(promised).unwrap(),
            tightening: Tightening::Geometric(r),
            growth,
            first_slice: 128.0,
            whole_slices: true,
        }
    }

    /// Table 1, and the capacities by two rules that the paper gives elsewhere in its text.
    #[test]
    fn table_1_is_reproduced() {
        for (p, k, m, printed, half_full, by_fill) in [
            (1e-3, 10, 26_214, 18_232, 18_170, 18_232),
            (1e-4, 14, 18_724, 13_674, 12_978, 13_662),
            (1e-5, 17, 15_420, 10_939, 10_688, 10_937),
            (1e-6, 20, 13_107, 9_116, 9_085, 9_115),
        ] {
            let found = capacity(Bits::new(262_144), Rate::new(p).unwrap());
            assert_eq!((found.slices, found.slice_bits), (k, m));
            assert_eq!(found.printed, printed);
            assert_eq!(
                (found.half_full, found.by_fill),
                (half_full, by_fill),
                "{p}"
            );
            let rate = |keys| {
                let slice = Bits::new(found.slice_bits);
                partitioned::rate(slice, Probes::new(found.slices), Items::new(keys))
            };
            assert!(rate(by_fill) <= p && rate(by_fill + 1) > p);
        }
    }

    /// Figure 1: keys, bits and space at the end of each stage.
    #[test]
    fn figure_1_is_reproduced() {
        let ends = [
            (21.0, 88.722_839_111_673, 2_688.0, 1.053_604_984_823_934),
            (22.0, 266.168_517_335_019, 8_320.0, 1.087_052_762_119_932),
            (23.0, 621.059_873_781_711, 20_096.0, 1.125_278_793_315_358),
            (24.0, 1_330.842_586_675_095, 44_672.0, 1.167_327_427_630_327),
            (25.0, 2_750.408_012_461_863, 95_872.0, 1.212_212_186_840_44),
            (26.0, 5_589.538_864_035_4, 202_368.0, 1.259_069_902_499_35),
            (
                27.0,
                11_267.800_567_182_472,
                423_552.0,
                1.307_228_681_958_154,
            ),
            (
                28.0,
                22_624.323_973_476_618,
                882_304.0,
                1.356_208_993_537_138,
            ),
            (
                29.0,
                45_337.370_786_064_9,
                1_832_576.0,
                1.405_690_296_125_642,
            ),
            (
                30.0,
                90_763.464_411_241_47,
                3_798_656.0,
                1.455_468_748_993_153,
            ),
        ];
        let doubling = ladder(1e-6, 0.5, 2.0);
        for (step, (slices, keys, bits, space)) in doubling.steps().zip(ends) {
            assert_eq!((step.slices, step.bits), (slices, bits));
            assert_close(step.keys, keys, 1e-12);
            assert_close(doubling.space(step.keys), space, 1e-12);
        }
        let constant = ladder(1e-6, 0.5, 1.0);
        let last = constant.steps().nth(254).unwrap();
        assert_eq!(last.bits, 4_830_720.0);
        assert_close(constant.space(last.keys), 7.425_406_559_711_522, 1e-12);
    }

    /// The space at the end of stage number `stages`.
    fn at_end(ladder: Ladder, stages: usize) -> f64 {
        ladder.space(ladder.steps().nth(stages - 1).unwrap().keys)
    }

    /// "About twice" for s = 2 and "about 50 % more" for s = 4, and the space just after a new
    /// stage.
    #[test]
    fn figure_2_is_reproduced_at_the_ends_of_stages_only() {
        let (two, four) = (ladder(1e-6, 0.5, 2.0), ladder(1e-6, 0.5, 4.0));
        assert_close(at_end(two, 20), 1.957, 1e-3);
        assert_close(at_end(four, 10), 1.488, 1e-3);
        assert_close(at_end(four, 11), 1.539, 1e-3);
        let after = |ladder: Ladder, stages: usize| {
            ladder.space(ladder.steps().nth(stages - 1).unwrap().keys * 1.000_001)
        };
        assert_close(after(two, 20), 3.9, 0.03);
        assert_close(after(four, 10), 6.2, 0.03);
    }

    #[test]
    fn figure_3_is_reproduced() {
        let grown = [1.1, 1.2, 1.5, 2.0, 3.0, 4.0, 8.0, 10.0];
        let stages = |growth| grown.map(|s| ladder(1e-6, 0.5, s).stages(growth));
        assert_eq!(stages(1e2), [26, 17, 10, 7, 5, 5, 4, 3]);
        assert_eq!(stages(1e6), [121, 67, 33, 20, 14, 11, 8, 7]);
        assert_eq!(ladder(1e-6, 0.5, 2.0).stages(1_023.0), 10);
    }

    #[test]
    fn figure_4_is_reproduced() {
        for (p, growth, want) in [
            (1e-3, 1e2, [0.82, 0.89, 1.02, 1.14, 1.45]),
            (1e-3, 1e6, [0.95, 1.02, 1.07, 1.45, 1.49]),
            (1e-6, 1e2, [0.69, 0.76, 0.88, 0.99, 1.27]),
            (1e-6, 1e6, [0.75, 0.82, 0.87, 1.21, 1.25]),
        ] {
            for (s, want) in [1.2, 1.5, 2.0, 3.0, 4.0].into_iter().zip(want) {
                let any = Ladder {
                    whole_slices: false,
                    ..ladder(p, 0.5, s)
                };
                let tightening = Tightening::Geometric(any.best_tightening(growth));
                let found = Ladder { tightening, ..any }.mean_space(growth);
                assert!((found - want).abs() < 0.0101, "{p} {growth} {s}: {found}");
            }
        }
    }

    #[test]
    fn figure_5_is_reproduced() {
        for (p, r, want) in [
            (1e-3, 0.5, [1.10, 1.91, 2.91]),
            (1e-3, 0.8, [1.30, 1.55, 1.88]),
            (1e-3, 0.9, [1.41, 1.50, 1.68]),
            (1e-6, 0.5, [1.05, 1.46, 1.96]),
            (1e-6, 0.8, [1.15, 1.28, 1.44]),
            (1e-6, 0.9, [1.20, 1.25, 1.33]),
        ] {
            let found = [1, 10, 20].map(|stages| at_end(ladder(p, r, 2.0), stages));
            for (found, want) in found.into_iter().zip(want) {
                assert!((found - want).abs() < 0.006, "{p} {r}: {found}, not {want}");
            }
        }
    }

    /// The closed form agrees with the trial, which does not use it.
    #[test]
    fn figure_6_is_reproduced() {
        for (s, want) in [
            (2.0_f64.sqrt(), [0.675, 0.873, 0.930, 0.952, 0.964, 0.971]),
            (2.0, [0.646, 0.822, 0.885, 0.918, 0.935, 0.946]),
            (4.0, [0.609, 0.757, 0.820, 0.866, 0.890, 0.905]),
        ] {
            for (power, want) in (1..).zip(want) {
                let growth = 10_f64.powi(power);
                let real = Ladder {
                    whole_slices: false,
                    ..ladder(1e-6, 0.5, s)
                };
                let found = real.best_tightening(growth);
                assert!((found - want).abs() <= 0.001, "{s} {growth}: {found}");
                assert!((found - real.best_tightening_by_trial(growth)).abs() <= 0.001);
            }
        }
    }

    #[test]
    fn whole_slices_lower_the_best_tightening() {
        for (power, want) in (1..).zip([0.49, 0.75, 0.82, 0.88, 0.88, 0.91]) {
            let found = ladder(1e-6, 0.5, 2.0).best_tightening_by_trial(10_f64.powi(power));
            assert!((found - want).abs() <= 0.01, "10^{power}: {found}");
        }
    }

    /// Bits per key of a full stage: the polynomial tightening takes the fewest at the start and
    /// far out, and r = 0.9 in between.
    #[test]
    fn no_tightening_is_the_best_at_every_growth() {
        let at = |tightening: Tightening, stage| tightening.halvings(Rate::ONE_PERCENT, stage);
        let (geometric, polynomial) = (Tightening::Geometric(0.9), Tightening::Polynomial);
        for stage in [0, 1, 62, 200] {
            assert!(at(polynomial, stage) < at(geometric, stage), "{stage}");
        }
        for stage in [2, 20, 61] {
            assert!(at(polynomial, stage) > at(geometric, stage), "{stage}");
        }
    }

    #[test]
    fn ladder_is_feasible_up_to_its_last_possible_stage() {
        let halving = ladder(1e-6, 0.5, 2.0);
        assert!(halving.is_feasible(44) && !halving.is_feasible(45));
    }
}

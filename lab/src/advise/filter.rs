//! Computes the missing parameters of a filter from the given ones.
//!
//! ```text
//! items   rate   bits        any two determine the third
//! probes                     given beside two of these: this number of probes
//!                            given in place of the rate: the rate for which they are best
//! growth                     given: a scalable filter, whose first stage takes items / growth keys
//!                            not given, but items, rate and bits: the most that the bits allow
//! ```
//!
//! A scalable filter is sized as [`crate::filter::Scalable`] grows: each stage takes twice the keys
//! of the one before it, and its rate is tightened. All stages count in full, also the last one, as
//! they do in memory.

use super::design::{Design, Part};
use crate::math::growth::Tightening;
use crate::math::{Bits, Items, MAX_PROBES, Probes, Rate, standard};
use serde::Serialize;

/// The given parameters of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// The kind of filter.
    pub kind: Design,
    /// Final number of keys.
    pub items: Option<Items>,
    /// The false-positive rate with all keys inserted.
    pub rate: Option<Rate>,
    /// Size in bits; together with items and rate, the maximum size.
    pub bits: Option<Bits>,
    /// Bits that a key sets; with growth, in the first stage.
    pub probes: Option<Probes>,
    /// Final number of keys divided by those of the first stage, at least 1.
    pub growth: Option<f64>,
    /// How the stages share the rate.
    pub tightening: Tightening,
}

/// A filter with all its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The kind of filter.
    pub kind: Design,
    /// The number of keys that it takes.
    pub items: u64,
    /// The false-positive rate with all keys inserted, at most.
    pub rate: f64,
    /// Size in bits.
    pub bits: u64,
    /// Bits per key.
    pub bits_per_key: f64,
    /// Bits that a key sets in the first stage.
    pub probes: u32,
    /// Number of stages or parts; 1 for a filter of fixed size in one part.
    pub stages: u32,
    /// Final number of keys divided by those of the first stage; 1 for a filter of fixed size.
    pub growth: f64,
    /// The most growth that the bits allow, if items, rate and bits were given.
    pub growth_max: Option<f64>,
    /// Mean number of cache lines that a miss touches when the filter is full.
    pub lines_per_miss: f64,
    /// The reasons.
    pub reasons: Vec<String>,
}

/// Why no filter can be recommended.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WishError {
    /// Too few parameters are given.
    #[error("a filter needs two of keys, rate and bits (probes may replace the rate); add one")]
    Open,
    /// The stages of a scalable filter choose their probes.
    #[error("with growth, probes replace the rate; leave out one of probes, rate, keys and bits")]
    TooMuch,
    /// A growth below 1.
    #[error("growth is the final number of keys over that of the first stage, at least 1; got {0}")]
    Growth(f64),
    /// A filter of this kind has a fixed size.
    #[error("a {0:?} filter does not grow; leave the growth out")]
    Fixed(Design),
    /// No filter of this kind meets the requirements.
    #[error("no filter of this kind does that; allow more bits, fewer keys or a higher rate")]
    OutOfReach,
    /// The filter needs more bits than allowed.
    #[error(
        "that takes {needed} bits, but {allowed} are allowed; allow more bits or a higher rate"
    )]
    TooFewBits {
        /// Bits that the filter takes.
        needed: Bits,
        /// Bits that are allowed.
        allowed: Bits,
    },
}

/// Each stage takes this many times the keys of the one before it: the default of the filters.
const FACTOR: f64 = 2.0;

impl Wish {
    /// Computes the missing parameters.
    ///
    /// # Errors
    /// If too few or too many parameters are given, or no such filter exists.
    pub fn advise(&self) -> Result<Advice, WishError> {
        let plan = self.plan()?;
        match (self.items, self.rate()?, self.bits) {
            (Some(items), Some(rate), Some(bits)) => {
                let growth_max = self
                    .growth
                    .is_none()
                    .then(|| plan.most_growth(items, rate, bits));
                let advice = plan.within(items, rate, bits)?;
                Ok(Advice {
                    growth_max,
                    ..advice
                })
            }
            (Some(items), Some(rate), None) => plan.within(items, rate, Bits::new(u64::MAX)),
            (Some(items), None, Some(bits)) => plan.with_rate_of(items, bits),
            (None, Some(rate), Some(bits)) => plan.with_items_of(rate, bits),
            _ => Err(WishError::Open),
        }
    }

    fn plan(&self) -> Result<Plan, WishError> {
        let growth = self.growth.unwrap_or(1.0);
        if !(growth >= 1.0 && growth.is_finite()) {
            return Err(WishError::Growth(growth));
        }
        let decided = [
            self.items.is_some(),
            self.rate.is_some(),
            self.bits.is_some(),
        ];
        let decided = decided.into_iter().filter(|known| *known).count();
        if growth > 1.0 && self.probes.is_some() && decided > 1 {
            return Err(WishError::TooMuch);
        }
        if growth > 1.0 && !self.kind.grows() {
            return Err(WishError::Fixed(self.kind));
        }
        Ok(Plan {
            kind: self.kind,
            growth,
            tightening: self.tightening.confined(),
            probes: self.probes.filter(|_| decided > 1),
        })
    }

    /// The given rate, or the rate for which the given probes are best: 2^-k, in the first stage.
    fn rate(&self) -> Result<Option<Rate>, WishError> {
        let known = self.items.is_some() && self.bits.is_some();
        let Some(probes) = self.probes.filter(|_| self.rate.is_none() && !known) else {
            return Ok(self.rate);
        };
        let first = (-f64::from(probes.get())).exp2();
        let share = if self.growth.unwrap_or(1.0) > 1.0 {
            self.tightening.confined().first_share()
        } else {
            1.0
        };
        Rate::new(first / share)
            .map(Some)
            .map_err(|_| WishError::OutOfReach)
    }
}

/// The parameters that are known before the quantities.
#[derive(Clone, Copy)]
struct Plan {
    kind: Design,
    growth: f64,
    tightening: Tightening,
    probes: Option<Probes>,
}

impl Plan {
    fn within(self, items: Items, rate: Rate, allowed: Bits) -> Result<Advice, WishError> {
        let stages = self.stages(items, rate).ok_or(WishError::OutOfReach)?;
        let needed = total(&stages);
        if needed > allowed {
            return Err(WishError::TooFewBits { needed, allowed });
        }
        Ok(self.advice(items, rate.get(), &stages))
    }

    /// The growth of the longest sequence of full stages that fits in the bits.
    fn most_growth(self, items: Items, rate: Rate, allowed: Bits) -> f64 {
        if !self.kind.grows() {
            return 1.0;
        }
        let fits = |growth: &f64| {
            let stages = Self {
                growth: *growth,
                ..self
            }
            .stages(items, rate);
            stages.is_some_and(|stages| total(&stages) <= allowed)
        };
        let growths = std::iter::successors(Some(1.0), |growth| Some(growth * FACTOR + 1.0));
        let within = growths.take_while(|&growth| growth <= items.get() as f64);
        within.take_while(fits).last().unwrap_or(1.0)
    }

    /// The strictest rate that fits, by bisection over its logarithm.
    fn with_rate_of(self, items: Items, bits: Bits) -> Result<Advice, WishError> {
        const STEPS: u32 = 48;
        let fits = |halvings: f64| {
            let rate = Rate::new((-halvings).exp2()).ok()?;
            let stages = self.stages(items, rate)?;
            (total(&stages) <= bits).then_some((rate, stages))
        };
        let (mut loose, mut strict) = (1e-3, f64::from(MAX_PROBES));
        let mut best = fits(loose).ok_or(WishError::OutOfReach)?;
        for _ in 0..STEPS {
            let middle = f64::midpoint(loose, strict);
            if let Some(found) = fits(middle) {
                (loose, best) = (middle, found);
            } else {
                strict = middle;
            }
        }
        Ok(self.advice(items, best.0.get(), &best.1))
    }

    /// The most items that fit, by bisection.
    fn with_items_of(self, rate: Rate, bits: Bits) -> Result<Advice, WishError> {
        let fits = |items: u64| {
            let stages = self.stages(Items::new(items), rate)?;
            (total(&stages) <= bits).then_some(stages)
        };
        let (mut least, mut over) = (1, bits.get().saturating_add(1));
        let mut best = fits(least).ok_or(WishError::OutOfReach)?;
        while over - least > 1 {
            let middle = least + (over - least) / 2;
            if let Some(found) = fits(middle) {
                (least, best) = (middle, found);
            } else {
                over = middle;
            }
        }
        Ok(self.advice(Items::new(least), rate.get(), &best))
    }

    /// The stages that `items` keys open; `None` if one of them cannot be built.
    fn stages(self, items: Items, rate: Rate) -> Option<Vec<Part>> {
        if self.growth <= 1.0 {
            return self.kind.parts(items, rate, self.probes);
        }
        let mut stages = Vec::new();
        // The first stage exists before the first key.
        let mut left = items.get().max(1);
        let mut takes = (items.get() as f64 / self.growth).ceil().max(1.0);
        while left > 0 {
            let index = u32::try_from(stages.len()).ok()?;
            let held = Items::new(takes as u64);
            let share = self.tightening.rate(rate, index);
            stages.extend(self.kind.parts(held, share, self.probes)?);
            left = left.saturating_sub(held.get());
            takes *= FACTOR;
        }
        Some(stages)
    }

    fn advice(self, items: Items, rate: f64, stages: &[Part]) -> Advice {
        let bits = total(stages);
        let probed = stages.iter().take(self.kind.probed());
        Advice {
            kind: self.kind,
            items: items.get(),
            rate,
            bits: bits.get(),
            bits_per_key: bits.per_key(items),
            probes: stages.first().map_or(0, |stage| stage.probes.get()),
            stages: u32::try_from(stages.len()).unwrap_or(u32::MAX),
            growth: self.growth,
            growth_max: None,
            lines_per_miss: probed.map(|stage| stage.lines).sum(),
            reasons: self.reasons(items, rate, bits, stages.len()),
        }
    }

    fn reasons(self, items: Items, rate: f64, bits: Bits, stages: usize) -> Vec<String> {
        let mut reasons = vec![self.kind.reason().to_owned()];
        let Ok(rate) = Rate::new(rate) else {
            return reasons;
        };
        if self.growth > 1.0 {
            let fixed = self.kind.parts(items, rate, self.probes);
            let over = fixed.map_or(f64::NAN, |fixed| ratio(bits, total(&fixed)));
            reasons.push(format!(
                "{stages} stages take {over:.2} times the bits of one stage of the right size; \
                 rebuild the filter once all keys are known"
            ));
        } else if self.kind != Design::Standard {
            let over = ratio(bits, standard::size(items, rate).0);
            reasons.push(format!("{over:.2} times the bits of the standard filter"));
        }
        reasons
    }
}

fn ratio(bits: Bits, others: Bits) -> f64 {
    bits.get() as f64 / others.get() as f64
}

fn total(stages: &[Part]) -> Bits {
    stages.iter().map(|stage| stage.bits).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Design; 4] = [
        Design::Standard,
        Design::Classic,
        Design::Partitioned,
        Design::Blocked,
    ];
    const ITEMS: Items = Items::new(100_000);

    fn wish(kind: Design) -> Wish {
        Wish {
            kind,
            items: None,
            rate: None,
            bits: None,
            probes: None,
            growth: None,
            tightening: Tightening::Geometric(0.85),
        }
    }

    /// Regression: the bisection tried one bit more than the maximum, which wrapped around to none.
    #[test]
    fn the_most_bits_there_are_can_be_filled() {
        for layout in LAYOUTS {
            let (rate, bits) = (Some(Rate::ONE_PERCENT), Some(Bits::new(u64::MAX)));
            let full = Wish {
                rate,
                bits,
                ..wish(layout)
            };
            assert!(full.advise().unwrap().items > 1 << 59, "{layout:?}");
        }
    }

    #[test]
    fn a_filter_for_no_key_has_a_stage() {
        for layout in Design::ALL {
            let growths = [None, layout.grows().then_some(50.0)];
            for growth in growths {
                let (items, rate) = (Some(Items::new(0)), Some(Rate::ONE_PERCENT));
                let empty = Wish {
                    items,
                    rate,
                    growth,
                    ..wish(layout)
                };
                let advice = empty.advise().unwrap();
                assert!(
                    advice.bits > 0 && advice.stages > 0,
                    "{layout:?}: {advice:?}"
                );
            }
        }
    }

    /// Items and rate give bits; items and those bits the rate; rate and bits the items.
    #[test]
    fn each_of_three_is_found_from_the_other_two() {
        let growing = |kind: &Design| kind.grows().then_some(50.0);
        for layout in Design::ALL {
            // Codes have whole bits: 7 of them give 0.8 %. Slots of a ribbon have sixteenths.
            let least = match layout {
                Design::HashCoding | Design::Ribbon => 0.005,
                _ => 0.0099,
            };
            for growth in [None, growing(&layout)] {
                let wish = Wish {
                    growth,
                    ..wish(layout)
                };
                let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
                let sized = Wish {
                    items,
                    rate,
                    ..wish
                }
                .advise()
                .unwrap();
                let bits = Some(Bits::new(sized.bits));
                let rated = Wish {
                    items,
                    bits,
                    ..wish
                }
                .advise()
                .unwrap();
                let held = Wish { rate, bits, ..wish }.advise().unwrap();
                assert!(
                    rated.rate <= 0.01 && rated.rate > least,
                    "{layout:?}: {rated:?}"
                );
                assert!(held.items >= sized.items, "{layout:?}: {held:?}");
                assert!(
                    held.items < sized.items + sized.items / 200,
                    "{layout:?}: {held:?}"
                );
            }
        }
    }

    #[test]
    fn one_percent_takes_what_the_layouts_take() {
        let bits = LAYOUTS.map(|layout| {
            let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
            Wish {
                items,
                rate,
                ..wish(layout)
            }
            .advise()
            .unwrap()
            .bits_per_key
        });
        assert!(
            bits[..3].iter().all(|bits| (9.5..9.7).contains(bits)),
            "{bits:?}"
        );
        assert!((9.8..11.0).contains(&bits[3]), "{bits:?}");
    }

    #[test]
    fn probes_are_kept_where_they_are_given() {
        for layout in [Design::Standard, Design::Classic, Design::Partitioned] {
            let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
            let free = Wish {
                items,
                rate,
                ..wish(layout)
            }
            .advise()
            .unwrap();
            let probes = Some(Probes::new(3));
            let few = Wish {
                items,
                rate,
                probes,
                ..wish(layout)
            }
            .advise()
            .unwrap();
            assert_eq!(few.probes, 3);
            assert!(
                few.bits > free.bits,
                "three probes are not the best for one percent"
            );
        }
    }

    #[test]
    fn probes_stand_for_the_rate_they_are_best_for() {
        let (items, probes) = (Some(ITEMS), Some(Probes::new(10)));
        let found = Wish {
            items,
            probes,
            ..wish(Design::Partitioned)
        }
        .advise()
        .unwrap();
        assert_eq!((found.probes, found.rate), (10, 1.0 / 1_024.0));
        let growth = Some(20.0);
        let grown = Wish {
            items,
            probes,
            growth,
            ..wish(Design::Partitioned)
        }
        .advise()
        .unwrap();
        assert_eq!(grown.probes, 10, "of the first stage");
        assert!(grown.stages > 3 && grown.rate > found.rate);
    }

    /// With items, rate and twice the bits of a filter of fixed size, `growth_max` is the growth
    /// that still fits.
    #[test]
    fn bits_to_spare_allow_growth() {
        for kind in Design::ALL {
            let given = Wish {
                items: Some(ITEMS),
                rate: Some(Rate::ONE_PERCENT),
                ..wish(kind)
            };
            let fixed = given.advise().unwrap();
            let bits = Some(Bits::new(2 * fixed.bits));
            let free = Wish { bits, ..given }.advise().unwrap();
            let growth = free.growth_max.unwrap();
            assert_eq!(growth > 1.0, kind.grows(), "{kind:?}: {growth}");
            let grown = Wish {
                growth: free.growth_max,
                ..given
            };
            let further = Wish {
                growth: Some(growth * 2.0 + 1.0),
                ..given
            };
            assert!(grown.advise().unwrap().bits <= 2 * fixed.bits);
            if kind.grows() {
                assert!(further.advise().unwrap().bits > 2 * fixed.bits);
            } else {
                assert_eq!(further.advise(), Err(WishError::Fixed(kind)));
            }
        }
    }

    #[test]
    fn few_stages_are_cheaper_when_they_tighten_polynomially() {
        let geometric = Wish {
            items: Some(ITEMS),
            rate: Some(Rate::ONE_PERCENT),
            growth: Some(3.0),
            ..wish(Design::Standard)
        };
        let polynomial = Wish {
            tightening: Tightening::Polynomial,
            ..geometric
        };
        assert!(polynomial.advise().unwrap().bits < geometric.advise().unwrap().bits);
    }

    #[test]
    fn counters_take_as_many_times_more() {
        let bits = |kind| {
            let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
            let given = Wish {
                items,
                rate,
                ..wish(kind)
            };
            given.advise().unwrap().bits
        };
        let one = bits(Design::Partitioned);
        assert_eq!(bits(Design::Counting), 4 * one);
        assert_eq!(bits(Design::Spectral), 16 * one);
        assert!(bits(Design::Recurring).abs_diff(24 * one) < one / 100);
    }

    #[test]
    fn growth_costs_bits_and_lines() {
        let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
        let fixed = Wish {
            items,
            rate,
            ..wish(Design::Blocked)
        };
        let grown = Wish {
            growth: Some(1_000.0),
            ..fixed
        };
        let (fixed, grown) = (fixed.advise().unwrap(), grown.advise().unwrap());
        assert_eq!((fixed.stages, fixed.lines_per_miss), (1, 1.0));
        assert_eq!((grown.stages, grown.lines_per_miss), (10, 10.0));
        assert!(grown.bits > fixed.bits);
    }

    /// In a half-full filter, a miss reads two bits on average.
    #[test]
    fn a_miss_touches_two_lines_of_a_standard_filter() {
        let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
        let found = Wish {
            items,
            rate,
            ..wish(Design::Standard)
        }
        .advise()
        .unwrap();
        assert!((1.9..2.1).contains(&found.lines_per_miss), "{found:?}");
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let open = wish(Design::Standard);
        assert_eq!(open.advise(), Err(WishError::Open));
        let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
        assert_eq!(Wish { items, ..open }.advise(), Err(WishError::Open));
        let shrunk = Wish {
            items,
            rate,
            growth: Some(0.5),
            ..open
        };
        assert_eq!(shrunk.advise(), Err(WishError::Growth(0.5)));
        let (probes, growth) = (Some(Probes::new(4)), Some(4.0));
        let both = Wish {
            items,
            rate,
            probes,
            growth,
            ..open
        };
        assert_eq!(both.advise(), Err(WishError::TooMuch));
        let strict = Rate::new(1e-18).ok();
        let blocked = Wish {
            items,
            rate: strict,
            ..wish(Design::Blocked)
        };
        assert_eq!(blocked.advise(), Err(WishError::OutOfReach));
        let tight = Wish {
            items,
            rate,
            bits: Some(Bits::new(900_000)),
            ..open
        };
        assert!(matches!(tight.advise(), Err(WishError::TooFewBits { .. })));
    }
}

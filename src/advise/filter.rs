//! The rest of a filter, from what is known of it.
//!
//! ```text
//! items   rate   bits        any two decide the third
//! probes                     given: so many; or, in place of the rate, the rate they are best for
//! growth                     given: a scalable filter, whose first stage takes items / growth keys
//! ```
//!
//! A scalable filter is sized as [`crate::filter::Scalable`] grows by default: each stage takes twice
//! the keys of the one before it, and its rate is 0.85 times as large. All stages count in full,
//! the last one too, as they do in memory.

use crate::math::growth::Tightening;
use crate::math::{
    Bits, Items, MAX_PROBES, Probes, Rate, blocked, classic, fill, partitioned, standard,
};
use serde::Serialize;

/// How a filter lays out its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// k probes anywhere.
    Standard,
    /// k different bits anywhere.
    Classic,
    /// k slices, one probe in each.
    Partitioned,
    /// One cache line a key.
    Blocked,
}

/// What is known of a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wish {
    /// The layout.
    pub layout: Layout,
    /// Keys at the end.
    pub items: Option<Items>,
    /// The rate with all of them.
    pub rate: Option<Rate>,
    /// Bits in all; beside items and rate, the most there may be.
    pub bits: Option<Bits>,
    /// Bits a key sets: in the first stage, where there is growth.
    pub probes: Option<Probes>,
    /// Keys at the end over those of the first stage, at least 1.
    pub growth: Option<f64>,
}

/// A filter, decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The layout.
    pub layout: Layout,
    /// Keys that it takes.
    pub items: u64,
    /// The rate with all of them, at most.
    pub rate: f64,
    /// All bits.
    pub bits: u64,
    /// Bits for each of the keys.
    pub bits_per_key: f64,
    /// Bits that a key sets in the first stage.
    pub probes: u32,
    /// Stages; 1 for a static filter.
    pub stages: u32,
    /// Cache lines that a miss touches, on average, when the filter is full.
    pub lines_per_miss: f64,
    /// Why it came out like this.
    pub reasons: Vec<String>,
}

/// Why there is no advice.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum WishError {
    /// Too little is known.
    #[error("two of items, rate and bits decide a filter (probes may stand for the rate); add one")]
    Open,
    /// The stages of a scalable filter choose their probes.
    #[error(
        "with a growth, probes stand for the rate; leave one of probes, rate and the others out"
    )]
    TooMuch,
    /// A growth below 1.
    #[error("a growth is the keys at the end over those of the first stage, at least 1; got {0}")]
    Growth(f64),
    /// Nothing of this layout does it.
    #[error("no filter of this layout does that; allow more bits, fewer keys or a looser rate")]
    OutOfReach,
    /// The budget does not suffice.
    #[error(
        "that takes {needed} bits where {allowed} are allowed; allow more bits or a looser rate"
    )]
    TooFewBits {
        /// Bits that it takes.
        needed: Bits,
        /// Bits that there may be.
        allowed: Bits,
    },
}

/// How much stricter each stage is, and how many times more keys it takes: as the filters default.
const TIGHTENING: Tightening = Tightening::Geometric(0.85);
const FIRST_SHARE: f64 = 0.15;
const FACTOR: f64 = 2.0;

const LINE_BITS: u64 = blocked::LINE_BITS;

impl Wish {
    /// The rest.
    ///
    /// # Errors
    /// When too little or too much is known, or no such filter exists.
    pub fn advise(&self) -> Result<Advice, WishError> {
        let plan = self.plan()?;
        match (self.items, self.rate()?, self.bits) {
            (Some(items), Some(rate), allowed) => plan.within(items, rate, allowed),
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
        Ok(Plan {
            layout: self.layout,
            growth,
            probes: self.probes.filter(|_| decided > 1),
        })
    }

    /// The rate asked for, or the one that these probes are best for: 2^-k, of the first stage.
    fn rate(&self) -> Result<Option<Rate>, WishError> {
        let known = self.items.is_some() && self.bits.is_some();
        let Some(probes) = self.probes.filter(|_| self.rate.is_none() && !known) else {
            return Ok(self.rate);
        };
        let first = (-f64::from(probes.get())).exp2();
        let all = if self.growth.unwrap_or(1.0) > 1.0 {
            first / FIRST_SHARE
        } else {
            first
        };
        Rate::new(all).map(Some).map_err(|_| WishError::OutOfReach)
    }
}

/// What is decided before the quantities are.
#[derive(Clone, Copy)]
struct Plan {
    layout: Layout,
    growth: f64,
    probes: Option<Probes>,
}

/// One stage: its size and how it is probed.
#[derive(Clone, Copy)]
struct Stage {
    items: Items,
    bits: Bits,
    probes: Probes,
}

impl Plan {
    fn within(self, items: Items, rate: Rate, allowed: Option<Bits>) -> Result<Advice, WishError> {
        let stages = self.stages(items, rate).ok_or(WishError::OutOfReach)?;
        let needed = total(&stages);
        match allowed {
            Some(allowed) if needed > allowed => Err(WishError::TooFewBits { needed, allowed }),
            _ => Ok(self.advice(items, rate.get(), &stages)),
        }
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

    /// The stages that so many items open; `None` when one cannot be made.
    fn stages(self, items: Items, rate: Rate) -> Option<Vec<Stage>> {
        if self.growth <= 1.0 {
            return Some(vec![self.stage(items, rate)?]);
        }
        let mut stages = Vec::new();
        let mut left = items.get();
        let mut takes = (items.get() as f64 / self.growth).ceil().max(1.0);
        while left > 0 {
            let index = u32::try_from(stages.len()).ok()?;
            let held = Items::new(takes as u64);
            stages.push(self.stage(held, TIGHTENING.rate(rate, index))?);
            left = left.saturating_sub(held.get());
            takes *= FACTOR;
        }
        Some(stages)
    }

    /// The smallest filter for these items and this rate.
    fn stage(self, items: Items, rate: Rate) -> Option<Stage> {
        if let Some(probes) = self.probes {
            return self.stage_with(items, rate, probes);
        }
        let (bits, probes) = match self.layout {
            Layout::Standard => standard::size(items, rate),
            Layout::Classic => classic::size(items, rate),
            Layout::Partitioned => {
                let (slice, slices) = partitioned::size(items, rate);
                (sliced(slice, slices)?, slices)
            }
            Layout::Blocked => {
                let (pattern, lines) = blocked::size(items, rate)?;
                (Bits::new(lines.checked_mul(LINE_BITS)?), pattern.probes())
            }
        };
        Some(Stage {
            items,
            bits,
            probes,
        })
    }

    /// The smallest with so many probes, by bisection: the rate falls with the bits.
    fn stage_with(self, items: Items, wanted: Rate, probes: Probes) -> Option<Stage> {
        const MOST_BITS_A_KEY: u64 = 4_096;
        let unit = self.unit(probes)?;
        let fits = |units: u64| {
            let bits = Bits::new(units.saturating_mul(unit));
            self.rate(bits, probes, items) <= wanted.get()
        };
        let mut least = 1;
        let mut enough = items.get().checked_mul(MOST_BITS_A_KEY)?.div_ceil(unit) + 1;
        if !fits(enough) {
            return None;
        }
        while least < enough {
            let middle = least + (enough - least) / 2;
            if fits(middle) {
                enough = middle;
            } else {
                least = middle + 1;
            }
        }
        let bits = Bits::new(enough.checked_mul(unit)?);
        Some(Stage {
            items,
            bits,
            probes,
        })
    }

    /// What the bits must be a multiple of; `None` where the layout has no such probes.
    fn unit(self, probes: Probes) -> Option<u64> {
        if !(1..=MAX_PROBES).contains(&probes.get()) {
            return None;
        }
        match self.layout {
            Layout::Standard | Layout::Classic => Some(1),
            Layout::Partitioned => Some(probes.get().into()),
            Layout::Blocked => pattern(probes).map(|_| LINE_BITS),
        }
    }

    /// The rate of a stage of this layout.
    fn rate(self, bits: Bits, probes: Probes, items: Items) -> f64 {
        match self.layout {
            Layout::Standard => standard::rate_corrected(bits, probes, items),
            Layout::Classic => classic::rate(bits, probes, items),
            Layout::Partitioned => partitioned::rate(slice(bits, probes), probes, items),
            Layout::Blocked => {
                let lines = bits.get() / LINE_BITS;
                pattern(probes).map_or(1.0, |pattern| blocked::rate(pattern, lines, items))
            }
        }
    }

    fn advice(self, items: Items, rate: f64, stages: &[Stage]) -> Advice {
        let bits = total(stages);
        let lines = stages.iter().map(|stage| self.lines_per_miss(stage)).sum();
        Advice {
            layout: self.layout,
            items: items.get(),
            rate,
            bits: bits.get(),
            bits_per_key: bits.per_key(items),
            probes: stages.first().map_or(0, |stage| stage.probes.get()),
            stages: u32::try_from(stages.len()).unwrap_or(u32::MAX),
            lines_per_miss: lines,
            reasons: self.reasons(items, rate, stages),
        }
    }

    /// Lines looked at until a clear bit is met: (1 − f^k)/(1 − f) probes at a fill of f, which in
    /// a filter of few lines fall on the same ones.
    fn lines_per_miss(self, stage: &Stage) -> f64 {
        let Stage {
            items,
            bits,
            probes,
        } = *stage;
        let clear = match self.layout {
            Layout::Blocked => return 1.0,
            Layout::Standard => standard::clear_chance(bits, probes),
            Layout::Classic => classic::clear_chance(bits, probes),
            Layout::Partitioned => partitioned::clear_chance(slice(bits, probes)),
        };
        let fill = fill::expected(clear, items);
        let probed = (1.0 - fill::matching(fill, probes)) / (1.0 - fill);
        let lines = bits.get().div_ceil(LINE_BITS) as f64;
        lines * (1.0 - (1.0 - 1.0 / lines).powf(probed))
    }

    fn reasons(self, items: Items, rate: f64, stages: &[Stage]) -> Vec<String> {
        let layout = match self.layout {
            Layout::Standard => "the fewest bits; a miss stops at the first clear bit",
            Layout::Classic => "as standard, a little better below some hundred bits",
            Layout::Partitioned => "no key is weak; the bits of standard",
            Layout::Blocked => "one cache line a stage, hit or miss, paid for with bits",
        };
        let mut reasons = vec![layout.to_owned()];
        let fixed = Rate::new(rate).ok().and_then(|rate| {
            Self {
                growth: 1.0,
                ..self
            }
            .stage(items, rate)
        });
        if let (true, Some(fixed)) = (stages.len() > 1, fixed) {
            let over = total(stages).get() as f64 / fixed.bits.get() as f64;
            reasons.push(format!(
                "{} stages take {over:.2} times the bits of one of the right size; rebuild it when \
                 the keys are at hand",
                stages.len()
            ));
        }
        if let (Layout::Blocked, Ok(rate)) = (self.layout, Rate::new(rate)) {
            let standard = standard::size(items, rate).0.get();
            if let (1, Some(fixed)) = (stages.len(), fixed) {
                let over = fixed.bits.get() as f64 / standard as f64;
                reasons.push(format!("{over:.2} times the bits of the standard layout"));
            }
        }
        reasons
    }
}

fn total(stages: &[Stage]) -> Bits {
    let bits = stages.iter().map(|stage| stage.bits.get());
    Bits::new(bits.fold(0, u64::saturating_add))
}

fn slice(bits: Bits, slices: Probes) -> Bits {
    Bits::new(bits.get() / u64::from(slices.get().max(1)))
}

fn sliced(slice: Bits, slices: Probes) -> Option<Bits> {
    slice.get().checked_mul(slices.get().into()).map(Bits::new)
}

/// The pattern with so many probes and the fewest groups.
fn pattern(probes: Probes) -> Option<blocked::Pattern> {
    [2, 4]
        .into_iter()
        .find_map(|groups| blocked::Pattern::find(groups, probes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUTS: [Layout; 4] = [
        Layout::Standard,
        Layout::Classic,
        Layout::Partitioned,
        Layout::Blocked,
    ];
    const ITEMS: Items = Items::new(100_000);

    fn wish(layout: Layout) -> Wish {
        Wish {
            layout,
            items: None,
            rate: None,
            bits: None,
            probes: None,
            growth: None,
        }
    }

    /// One more than the most bits there are was looked at, which is none.
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

    /// Items and rate give bits; items and those bits the rate; rate and bits the items.
    #[test]
    fn each_of_three_is_found_from_the_other_two() {
        for layout in LAYOUTS {
            for growth in [None, Some(50.0)] {
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
                    rated.rate <= 0.01 && rated.rate > 0.0099,
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
        for layout in [Layout::Standard, Layout::Classic, Layout::Partitioned] {
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
            ..wish(Layout::Partitioned)
        }
        .advise()
        .unwrap();
        assert_eq!((found.probes, found.rate), (10, 1.0 / 1_024.0));
        let growth = Some(20.0);
        let grown = Wish {
            items,
            probes,
            growth,
            ..wish(Layout::Partitioned)
        }
        .advise()
        .unwrap();
        assert_eq!(grown.probes, 10, "of the first stage");
        assert!(grown.stages > 3 && grown.rate > found.rate);
    }

    #[test]
    fn growth_costs_bits_and_lines() {
        let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
        let fixed = Wish {
            items,
            rate,
            ..wish(Layout::Blocked)
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

    /// Half full, a miss looks at two bits on average.
    #[test]
    fn a_miss_touches_two_lines_of_a_standard_filter() {
        let (items, rate) = (Some(ITEMS), Some(Rate::ONE_PERCENT));
        let found = Wish {
            items,
            rate,
            ..wish(Layout::Standard)
        }
        .advise()
        .unwrap();
        assert!((1.9..2.1).contains(&found.lines_per_miss), "{found:?}");
    }

    #[test]
    fn what_cannot_be_decided_is_refused() {
        let open = wish(Layout::Standard);
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
            ..wish(Layout::Blocked)
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

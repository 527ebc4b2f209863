//! What happens to the filters when segments merge: a pure function from facts to a decision.
//!
//! The outputs of a merge hold no key that its inputs did not hold. So the inputs' filters,
//! consulted one after the other, cover the outputs at once. What that costs, and the alternatives:
//!
//! ```text
//!   Rebuild   for free if the keys are at hand, else from disk in the background: as good as new
//!   Chain     consult them all: rates add up, probes add up, nothing is read
//!   Or        one filter with the bits of all: one probe, but the fill ratios add up, and the rate
//!             is their k-th power: two half-full filters of 10 bits per key go from 0.8 % to
//!             13.8 %, four to 64 %, while a chain has 1.6 % and 3.2 %
//!   Fold      the halves of an over-allocated filter ORed onto each other: half the memory
//!   Keep      one input, within the budget
//!   Drop      nothing fits the memory: reads go to the engine
//! ```
//!
//! So the inputs are ORed if they overlap or have headroom, that is if the predicted rate of the OR
//! is within the budget. They are also ORed into a coarse parent of a long chain, so that most
//! lookups need not probe the chain. Until a rebuild from disk is done, the inputs stay chained.
//!
//! If the inputs differ in hash or seed, they cannot be probed with one hash, and only a rebuild
//! helps. If they differ in layout, they can be chained but not ORed.
//!
//! The rates are predictions, used to choose and to report, never to answer.

mod rates;

use crate::filter::{Kind, Shape};
use crate::hash::Imprint;
use crate::id::SegmentId;
use crate::math::{Bits, Items, Rate};
use rates::{any_of, ored_rate, standard_bits, union_items};
use std::fmt;

/// The filter of one segment that goes into a merge.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// The segment.
    pub id: SegmentId,
    /// The number of keys in it.
    pub items: Items,
    /// The hash and the seed of its keys.
    pub imprint: Imprint,
    /// Its stages, oldest first.
    pub stages: Vec<InputStage>,
}

/// One stage of an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InputStage {
    /// Its geometry.
    pub shape: Shape,
    /// The false-positive rate predicted from its fill ratio.
    pub rate: Fraction,
}

/// A part of a whole, from 0 to 1 by construction: an overlap, or the false-positive rate of a
/// filter that may be empty or saturated, which a [`Rate`] cannot express.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Fraction(f64);

impl Fraction {
    /// Zero.
    pub const NONE: Self = Self(0.0);
    /// One.
    pub const ALL: Self = Self(1.0);

    /// Takes a number from 0 to 1; `None` for anything else, NaN included.
    pub fn new(part: f64) -> Option<Self> {
        (0.0..=1.0).contains(&part).then_some(Self(part))
    }

    /// The part as a number from 0 to 1.
    pub const fn get(self) -> f64 {
        self.0
    }

    /// The result of a formula, clamped against rounding errors.
    fn rounded(part: f64) -> Self {
        Self(part.clamp(0.0, 1.0))
    }
}

impl From<Rate> for Fraction {
    fn from(rate: Rate) -> Self {
        Self(rate.get())
    }
}

/// What is known of a merge besides its inputs' filters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Facts {
    /// Where the keys of the outputs are.
    pub keys: Keys,
    /// The expected part of each input's keys that the other inputs hold too.
    pub overlap: Fraction,
}

/// Where the keys of a merge's outputs can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Seen while the outputs are written: a rebuild costs no further reads.
    AtHand,
    /// In the outputs on disk: a rebuild reads them in the background.
    OnDisk,
}

/// What the filter of the outputs may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The highest false-positive rate.
    pub rate: Rate,
    /// The most stages that a lookup may probe, on average.
    pub probed_stages: u32,
    /// The most memory.
    pub bits: Bits,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The one input's filter covers the outputs as it is.
    Keep,
    /// Consult the filters of all inputs.
    Chain,
    /// OR the inputs, smaller ones expanded to the largest.
    Or(OrRole),
    /// OR the inputs, if there are several, and fold the result to this size.
    Fold {
        /// The size after folding.
        to: Bits,
    },
    /// Build a new filter. From [`Keys::OnDisk`] this happens in the background; until then the
    /// inputs are chained, unless their hash or seed differs.
    Rebuild {
        /// Where to take the keys from.
        from: Keys,
        /// How many keys to expect.
        items: Items,
    },
    /// Have no filter: reads go to the engine.
    Drop,
}

/// What an ORed filter is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrRole {
    /// It replaces the inputs.
    Replacement,
    /// It is probed before the chained inputs, which are probed only if it says *maybe*.
    Parent,
}

/// What to do, why, and the expected result.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// The reason, for a log.
    pub reason: String,
    /// The predicted false-positive rate; [`Fraction::ALL`] if there will be no filter.
    pub predicted_rate: Fraction,
    /// What it will cost.
    pub cost: Cost,
}

/// What a plan costs once it has been carried out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Memory.
    pub bits: Bits,
    /// The average number of stages that a miss probes, assuming that it probes every stage it may
    /// need to.
    pub probed_stages: f64,
    /// The number of keys to be read from disk.
    pub keys_read: Items,
}

/// Decides what becomes of the inputs' filters.
pub fn plan(inputs: &[Input], facts: &Facts, budget: &Budget) -> Decision {
    Planner {
        inputs,
        facts,
        budget,
    }
    .decide()
}

struct Planner<'a> {
    inputs: &'a [Input],
    facts: &'a Facts,
    budget: &'a Budget,
}

impl Planner<'_> {
    fn decide(&self) -> Decision {
        if self.facts.keys == Keys::AtHand {
            return self.rebuild_or_drop("the keys are at hand");
        }
        let without_filter = |input: &Input| input.stages.is_empty();
        if self.inputs.is_empty() || self.inputs.iter().any(without_filter) {
            return self.rebuild_or_drop("an input has no filter, or there is no input");
        }
        if !self.alike(|input| input.imprint) {
            return self.rebuild_or_drop("hash or seed of the inputs differ");
        }
        let choices = [self.fold(), self.or(), self.chain(), self.parent()];
        let fits = |choice: &Decision| self.fits(choice);
        choices
            .into_iter()
            .flatten()
            .find(fits)
            .unwrap_or_else(|| self.rebuild_or_drop(self.what_the_chain_breaks()))
    }

    /// Whether a choice is within the budget.
    fn fits(&self, choice: &Decision) -> bool {
        choice.predicted_rate <= self.budget.rate.into()
            && choice.cost.probed_stages <= f64::from(self.budget.probed_stages)
            && choice.cost.bits <= self.budget.bits
    }

    fn what_the_chain_breaks(&self) -> &'static str {
        if self.chained_rate() > self.budget.rate.into() {
            "chained, the inputs pass the promised rate"
        } else if self.stages() > f64::from(self.budget.probed_stages) {
            "chained, the inputs pass the budget of probes"
        } else {
            "chained, the inputs pass the budget of memory"
        }
    }

    fn rebuild_or_drop(&self, why: &str) -> Decision {
        let items = union_items(self.inputs, self.facts.overlap);
        let bits = standard_bits(items, self.budget.rate);
        if bits > self.budget.bits {
            return decision(
                Action::Drop,
                format!("{why}, and {bits} bits for {items} keys pass the budget of memory"),
                Fraction::ALL,
                Cost::of(Bits::new(0), 0.0),
            );
        }
        let from = self.facts.keys;
        let keys_read = match from {
            Keys::AtHand => Items::new(0),
            Keys::OnDisk => items,
        };
        decision(
            Action::Rebuild { from, items },
            why.to_owned(),
            self.budget.rate.into(),
            Cost {
                keys_read,
                ..Cost::of(bits, 1.0)
            },
        )
    }

    fn chain(&self) -> Option<Decision> {
        let (action, reason) = if self.inputs.len() == 1 {
            (Action::Keep, "one input, within the budget")
        } else {
            (
                Action::Chain,
                "the inputs' filters cover the outputs, within the budget",
            )
        };
        let cost = Cost::of(self.bits(), self.stages());
        Some(decision(
            action,
            reason.to_owned(),
            self.chained_rate(),
            cost,
        ))
    }

    fn or(&self) -> Option<Decision> {
        let (ored, rate) = self.ored().filter(|_| self.inputs.len() > 1)?;
        Some(decision(
            Action::Or(OrRole::Replacement),
            "ORed, the inputs keep the promised rate: they overlap or have head-room".to_owned(),
            rate,
            Cost::of(ored, self.stages_of_one()),
        ))
    }

    /// A parent answers most misses alone. If it says *maybe*, the whole chain is probed. It has
    /// every bit of its children, so it denies no key that they pass.
    fn parent(&self) -> Option<Decision> {
        let (ored, rate) = self.ored().filter(|_| self.inputs.len() > 1)?;
        let bits = ored.get().saturating_add(self.bits().get());
        Some(decision(
            Action::Or(OrRole::Parent),
            format!(
                "a parent spares a chain of {} stages most look-ups",
                self.stages()
            ),
            self.chained_rate(),
            Cost::of(
                Bits::new(bits),
                self.stages_of_one() + rate.get() * self.stages(),
            ),
        ))
    }

    /// The smallest fold of the ORed inputs that keeps the rate.
    fn fold(&self) -> Option<Decision> {
        let (ored, rate) = self.ored()?;
        let shape = self.one_foldable_stage()?;
        let mut folded = (ored.get(), rate);
        while folded.0 > LINE_BITS {
            let next = (
                folded.0 / 2,
                ored_rate(&[folded.1; 2], shape, Fraction::NONE),
            );
            if next.1 > self.budget.rate.into() {
                break;
            }
            folded = next;
        }
        let to = Bits::new(folded.0);
        (to < ored).then(|| {
            decision(
                Action::Fold { to },
                format!("{ored} bits are more than the promised rate needs"),
                folded.1,
                Cost::of(to, 1.0),
            )
        })
    }

    /// The size and rate of the inputs ORed; `None` if they cannot be ORed.
    fn ored(&self) -> Option<(Bits, Fraction)> {
        let like = self.alike(shapes) || self.one_foldable_stage().is_some();
        let first = self.inputs.first().filter(|_| like)?;
        if first
            .stages
            .iter()
            .any(|stage| stage.shape.kind.is_static())
        {
            return None;
        }
        let rates = (0..first.stages.len()).map(|stage| {
            let stages = self.inputs.iter().map(|input| input.stages[stage].rate);
            let stages: Vec<Fraction> = stages.collect();
            ored_rate(&stages, first.stages[stage].shape, self.facts.overlap)
        });
        let size = self.inputs.iter().map(Input::bits).max()?;
        Some((size, any_of(rates)))
    }

    /// The common shape except for the size, if every input has one blocked stage with a power of
    /// two of lines: such filters can be expanded to each other's size and folded.
    fn one_foldable_stage(&self) -> Option<Shape> {
        let foldable = |input: &Input| match input.stages.as_slice() {
            [stage] if is_foldable(&stage.shape) => Some(stage.shape),
            _ => None,
        };
        let shape = foldable(self.inputs.first()?)?;
        let scheme = |shape: Shape| (shape.probes, shape.groups);
        let like = |input| foldable(input).is_some_and(|other| scheme(other) == scheme(shape));
        self.inputs.iter().all(like).then_some(shape)
    }

    fn alike<T: PartialEq>(&self, of: impl Fn(&Input) -> T) -> bool {
        self.inputs
            .windows(2)
            .all(|pair| of(&pair[0]) == of(&pair[1]))
    }

    fn chained_rate(&self) -> Fraction {
        let stages = self.inputs.iter().flat_map(|input| &input.stages);
        any_of(stages.map(|stage| stage.rate))
    }

    fn stages(&self) -> f64 {
        let stages: usize = self.inputs.iter().map(|input| input.stages.len()).sum();
        stages as f64
    }

    fn stages_of_one(&self) -> f64 {
        self.inputs
            .first()
            .map_or(0.0, |input| input.stages.len() as f64)
    }

    fn bits(&self) -> Bits {
        self.inputs.iter().map(Input::bits).sum()
    }
}

impl Input {
    /// The memory of all its stages.
    pub fn bits(&self) -> Bits {
        self.stages.iter().map(|stage| stage.shape.bits).sum()
    }

    /// The predicted rate of all its stages together.
    pub fn rate(&self) -> Fraction {
        any_of(self.stages.iter().map(|stage| stage.rate))
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.predicted_rate.get() * 100.0;
        let Cost {
            bits,
            probed_stages,
            keys_read,
        } = self.cost;
        write!(
            f,
            "{}: {} (rate {percent:.2} %, {bits} bits, {} stages a look-up, {keys_read} keys to read)",
            self.action,
            self.reason,
            (probed_stages * 100.0).round() / 100.0,
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keep => f.write_str("keep"),
            Self::Chain => f.write_str("chain"),
            Self::Or(OrRole::Replacement) => f.write_str("or"),
            Self::Or(OrRole::Parent) => f.write_str("or as a parent"),
            Self::Fold { to } => write!(f, "fold to {to} bits"),
            Self::Rebuild { items, .. } => write!(f, "rebuild for {items} keys"),
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl Cost {
    fn of(bits: Bits, probed_stages: f64) -> Self {
        Self {
            bits,
            probed_stages,
            keys_read: Items::new(0),
        }
    }
}

const LINE_BITS: u64 = 512;

fn is_foldable(shape: &Shape) -> bool {
    // Bits that are a power of two and at least one line make a power of two of lines.
    let bits = shape.bits.get();
    shape.kind == Kind::Blocked && bits.is_power_of_two() && bits >= LINE_BITS
}

fn shapes(input: &Input) -> Vec<Shape> {
    input.stages.iter().map(|stage| stage.shape).collect()
}

fn decision(action: Action, reason: String, predicted_rate: Fraction, cost: Cost) -> Decision {
    Decision {
        action,
        reason,
        predicted_rate,
        cost,
    }
}

#[cfg(test)]
mod tests;

//! What a differential file costs a transaction, and what a filter and a reorganisation save.
//!
//! The trade is that of Severance and Lohman (1976): a file that grows makes every transaction
//! dearer, and a reorganisation, which empties it, is dear itself. Aghili and Severance (1982)
//! choose filter, dumps and reorganisations by such a model; the one here is derived afresh, for
//! records that are accessed equally often:
//!
//! ```text
//! records in the file after t transactions   n = F (1 − (1 − 1/F)^(ut))     α = n/F
//! without a filter     S + (1 − α) M + h n
//! with one             α (k c + S) + (1 − α) (e c + p S + M) + u k c + h n
//! the filter saves     (1 − α) (1 − p) S
//! and is paid          α k c + (1 − α) e c + u k c        e = (1 − φ^k)/(1 − φ) probes to a miss
//! over an interval T   mean of the above over 0..T, and (R + r n(T)) / T
//! ```
//!
//! F records in the main file, u updates a transaction, φ the filter's fill, p = φ^k its rate; the
//! prices are [`Costs`]. While n ≈ ut and all but h n stays as it is, a transaction grows dearer
//! by h u each time, and the best interval is the square-root law, T = √(2R / (h u)).
//!
//! Skew is left out: under it fewer records change, and those that do are read more often.

use crate::math::{Bits, Items, Probes, fill, standard, whole};

/// What is done to the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// F, records of the main file; at least 1.
    pub records: Items,
    /// u, the share of transactions that update the record they read, above 0 and at most 1.
    pub updates: f64,
}

/// Prices, all in one unit of time; microseconds in the command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// S, a search of the differential file.
    pub search: f64,
    /// M, a read of the main file.
    pub main: f64,
    /// c, one probe of the filter.
    pub probe: f64,
    /// h, what one record in the differential file adds to every transaction: longer searches,
    /// larger backups, a longer recovery.
    pub held: f64,
    /// R, a reorganisation, whatever it moves.
    pub reorganisation: f64,
    /// r, moving one record in it.
    pub moved: f64,
}

/// A filter of the differential file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filtering {
    /// Its size.
    pub bits: Bits,
    /// Its hash functions.
    pub probes: Probes,
}

/// How the file is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The filter, or none.
    pub filter: Option<Filtering>,
    /// T, transactions from one reorganisation to the next.
    pub interval: f64,
}

/// What a plan comes to, a transaction, as means over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Searches of the differential file that the filter spares, between 0 and 1.
    pub searches_avoided: f64,
    /// Searches for nothing that it lets through, p (1 − α).
    pub searches_unnecessary: f64,
    /// Time that it saves.
    pub saved: f64,
    /// Time that it takes.
    pub paid: f64,
    /// Time of reorganisations.
    pub reorganising: f64,
    /// Time of all: reads, searches, filter, held records, reorganisations.
    pub all: f64,
    /// Records in the differential file at the end of the interval, at most.
    pub records_max: Items,
}

/// Moments of an interval that stand for all of it.
const MOMENTS: u32 = 64;

impl Operation {
    /// n after `transactions`: each update meets any record alike.
    pub fn differential_records(&self, transactions: f64) -> f64 {
        super::distinct(self.records.get(), self.updates * transactions)
    }

    /// The transactions after which 99 in 100 records are in the differential file: it is the main
    /// file by then, and no interval is longer.
    pub fn longest_interval(&self) -> f64 {
        100_f64.ln() * self.records.get() as f64 / self.updates
    }

    /// What `plan` costs at these prices.
    ///
    /// # Panics
    /// If the interval is not above 0.
    pub fn cost(&self, costs: &Costs, plan: Plan) -> Cost {
        assert!(plan.interval > 0.0, "an interval has a transaction");
        let mut mean = Cost::default();
        for moment in 0..MOMENTS {
            let at = (f64::from(moment) + 0.5) / f64::from(MOMENTS);
            let now = self.moment(costs, plan.filter, at * plan.interval);
            mean.searches_avoided += now.searches_avoided / f64::from(MOMENTS);
            mean.searches_unnecessary += now.searches_unnecessary / f64::from(MOMENTS);
            mean.saved += now.saved / f64::from(MOMENTS);
            mean.paid += now.paid / f64::from(MOMENTS);
            mean.all += now.all / f64::from(MOMENTS);
        }
        let moved = self.differential_records(plan.interval);
        mean.reorganising = (costs.reorganisation + costs.moved * moved) / plan.interval;
        mean.all += mean.reorganising;
        mean.records_max = Items::new(whole(moved));
        mean
    }

    /// One transaction, `transactions` after a reorganisation.
    fn moment(&self, costs: &Costs, filter: Option<Filtering>, transactions: f64) -> Cost {
        let records = self.differential_records(transactions);
        let modified = records / self.records.get() as f64;
        let bare = costs.search + (1.0 - modified) * costs.main + costs.held * records;
        let Some(filter) = filter else {
            return Cost {
                searches_unnecessary: 1.0 - modified,
                all: bare,
                ..Cost::default()
            };
        };
        let k = f64::from(filter.probes.get());
        let (rate, until_clear) = filter.at(records);
        let probes = modified * k + (1.0 - modified) * until_clear + self.updates * k;
        let avoided = (1.0 - modified) * (1.0 - rate);
        let (saved, paid) = (avoided * costs.search, probes * costs.probe);
        Cost {
            searches_avoided: avoided,
            searches_unnecessary: (1.0 - modified) * rate,
            saved,
            paid,
            all: bare - saved + paid,
            ..Cost::default()
        }
    }

    /// The interval in which this filter costs least; `None` where no reorganisation pays before
    /// [`Operation::longest_interval`].
    pub fn best_interval(&self, costs: &Costs, filter: Option<Filtering>) -> Option<f64> {
        let cost = |log: f64| {
            let interval = log.exp();
            self.cost(costs, Plan { filter, interval }).all
        };
        let (least, longest) = (1_f64.ln(), self.longest_interval().ln());
        let step = (longest - least) / f64::from(STEPS);
        let at = |step_index: u32| least + step * f64::from(step_index);
        let cheapest = (0..=STEPS).min_by(|&a, &b| cost(at(a)).total_cmp(&cost(at(b))))?;
        (cheapest < STEPS).then(|| valley(cost, at(cheapest) - step, at(cheapest) + step).exp())
    }

    /// T = √(2R / (h u)), the square-root law; `None` where records are held for nothing.
    pub fn square_root_interval(&self, costs: &Costs) -> Option<f64> {
        let growth = costs.held * self.updates;
        (growth > 0.0).then(|| (2.0 * costs.reorganisation / growth).sqrt())
    }

    /// The cheapest way to run the file with a filter of so many bits or, with `None`, without
    /// one; the interval is free unless given.
    pub fn cheapest(&self, costs: &Costs, bits: Option<Bits>, fixed: Option<f64>) -> Choice {
        let Some(bits) = bits else {
            return self.choice(costs, None, fixed);
        };
        let with = |k| {
            let probes = Probes::new(k);
            self.choice(costs, Some(Filtering { bits, probes }), fixed)
        };
        let more = (2..=PROBES_MAX).map(with);
        more.fold(with(1), |best, next| {
            if next.cost.all < best.cost.all {
                next
            } else {
                best
            }
        })
    }

    fn choice(&self, costs: &Costs, filter: Option<Filtering>, fixed: Option<f64>) -> Choice {
        let pays = fixed.or_else(|| self.best_interval(costs, filter));
        let interval = pays.unwrap_or_else(|| self.longest_interval());
        let plan = Plan { filter, interval };
        Choice {
            plan,
            reorganisation_pays: pays.is_some(),
            cost: self.cost(costs, plan),
        }
    }

    /// Compares filters of 1 to 32 bits a record of the differential file, none above `limit`.
    ///
    /// The advice is the smallest filter whose cost is within `worth` (a share, 0.01 for one in a
    /// hundred) of the cheapest, and no filter where that does not beat having none.
    pub fn advise(
        &self,
        costs: &Costs,
        fixed: Option<f64>,
        limit: Option<Bits>,
        worth: f64,
    ) -> Advice {
        let unfiltered = self.cheapest(costs, None, fixed);
        let sizes = sizes(unfiltered.cost.records_max, limit);
        let sized = |&bits| self.cheapest(costs, Some(bits), fixed);
        let choices: Vec<Choice> = sizes.iter().map(sized).collect();
        let least = choices
            .iter()
            .map(|choice| choice.cost.all)
            .fold(f64::INFINITY, f64::min);
        let good = |choice: &Choice| choice.cost.all <= least * (1.0 + worth);
        let pays = |choice: &Choice| choice.cost.all < unfiltered.cost.all;
        let recommended = choices.iter().copied().find(|c| good(c) && pays(c));
        Advice {
            unfiltered,
            choices,
            recommended,
        }
    }
}

/// Places looked at before the valley is searched.
const STEPS: u32 = 100;

/// 32 bits per key want 22; more are never cheaper.
const PROBES_MAX: u32 = 24;

/// The lowest point of a curve that falls and then rises between the two, by ternary search.
fn valley(curve: impl Fn(f64) -> f64, mut from: f64, mut to: f64) -> f64 {
    const ROUNDS: usize = 40;
    for _ in 0..ROUNDS {
        let third = (to - from) / 3.0;
        if curve(from + third) < curve(to - third) {
            to -= third;
        } else {
            from += third;
        }
    }
    f64::midpoint(from, to)
}

/// Sizes worth comparing, in whole words.
fn sizes(records: Items, limit: Option<Bits>) -> Vec<Bits> {
    const BITS_A_RECORD: [u64; 11] = [1, 2, 4, 6, 8, 10, 12, 16, 20, 24, 32];
    let most = limit.map_or(u64::MAX, |bits| (bits.get() / 64).max(1) * 64);
    let wanted = |each: u64| records.get().max(1).saturating_mul(each).div_ceil(64) * 64;
    let mut sizes: Vec<_> = BITS_A_RECORD
        .map(|each| Bits::new(wanted(each).min(most)))
        .into();
    sizes.dedup();
    sizes
}

impl Filtering {
    /// Its rate with so many records, and the probes it takes until a clear bit is met.
    fn at(self, records: f64) -> (f64, f64) {
        let clear = standard::clear_chance(self.bits, self.probes).powf(records);
        let (fill, k) = (1.0 - clear, self.probes);
        let rate = fill::matching(fill, k);
        let until_clear = if clear > 0.0 {
            (1.0 - rate) / clear
        } else {
            f64::from(k.get())
        };
        (rate, until_clear)
    }
}

/// A plan and what it comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Filter and interval.
    pub plan: Plan,
    /// Whether the interval is a given or a best one; if not, the file had better never be
    /// reorganised, and the plan goes on until it is all of the main file.
    pub reorganisation_pays: bool,
    /// What it comes to.
    pub cost: Cost,
}

/// Filters of several sizes, each with the functions and the interval that suit it best.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// Without a filter.
    pub unfiltered: Choice,
    /// With filters, the smallest first.
    pub choices: Vec<Choice>,
    /// The one to take; `None` where no filter pays.
    pub recommended: Option<Choice>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    const OPERATION: Operation = Operation {
        records: Items::new(1_000_000_000),
        updates: 0.1,
    };
    const COSTS: Costs = Costs {
        search: 100.0,
        main: 100.0,
        probe: 0.01,
        held: 1e-4,
        reorganisation: 5e6,
        moved: 0.0,
    };

    fn filter(bits: u64, probes: u32) -> Option<Filtering> {
        let (bits, probes) = (Bits::new(bits), Probes::new(probes));
        Some(Filtering { bits, probes })
    }

    #[test]
    fn the_best_interval_is_the_square_root_law_where_only_held_records_grow() {
        let law = OPERATION.square_root_interval(&COSTS).unwrap();
        assert_close(law, 1e6, 1e-9);
        assert_close(OPERATION.best_interval(&COSTS, None).unwrap(), law, 0.01);
        let roomy = filter(1 << 30, 7);
        assert_close(OPERATION.best_interval(&COSTS, roomy).unwrap(), law, 0.02);
    }

    #[test]
    fn a_crowded_filter_is_reorganised_sooner() {
        let roomy = OPERATION.best_interval(&COSTS, filter(1 << 22, 4)).unwrap();
        let crowded = OPERATION.best_interval(&COSTS, filter(1 << 17, 4)).unwrap();
        assert!(crowded < 0.8 * roomy, "{crowded} {roomy}");
    }

    /// An instant after a reorganisation nothing is modified and the filter is empty: a look-up is
    /// one probe, and spares one search.
    #[test]
    fn a_fresh_file_costs_what_can_be_added_up_by_hand() {
        let plan = Plan {
            filter: filter(1 << 30, 4),
            interval: 1.0,
        };
        let cost = OPERATION.cost(&COSTS, plan);
        assert_close(cost.searches_avoided, 1.0, 1e-6);
        assert_close(cost.saved, 100.0, 1e-6);
        assert_close(cost.paid, 0.01 * (1.0 + 0.1 * 4.0), 1e-6);
        assert_close(cost.reorganising, 5e6, 1e-12);
        assert_close(cost.all, 100.0 + cost.paid + 5e6, 1e-6);
    }

    #[test]
    fn a_filter_saves_what_the_plan_without_it_costs_more() {
        for (bits, probes, interval) in [(1 << 20, 3, 1e5), (1 << 14, 1, 1e6), (1 << 24, 8, 1e7)] {
            let plan = |filter| OPERATION.cost(&COSTS, Plan { filter, interval });
            let (with, without) = (plan(filter(bits, probes)), plan(None));
            assert_close(without.all - with.all, with.saved - with.paid, 1e-6);
        }
    }

    #[test]
    fn no_filter_is_advised_where_a_search_is_cheaper_than_a_probe() {
        let cheap = Costs {
            search: 0.005,
            ..COSTS
        };
        assert_eq!(OPERATION.advise(&cheap, None, None, 0.01).recommended, None);
        let advice = OPERATION.advise(&COSTS, None, None, 0.01);
        let choice = advice.recommended.unwrap();
        assert!(choice.cost.all < advice.unfiltered.cost.all);
        let smaller = advice.choices.iter().take_while(|c| **c != choice);
        for smaller in smaller {
            assert!(smaller.cost.all > choice.cost.all, "{smaller:?}");
        }
    }

    #[test]
    fn a_file_that_costs_nothing_to_hold_is_never_reorganised() {
        let free = Costs { held: 0.0, ..COSTS };
        assert_eq!(OPERATION.best_interval(&free, None), None);
        assert_eq!(OPERATION.square_root_interval(&free), None);
        assert!(!OPERATION.cheapest(&free, None, None).reorganisation_pays);
        // A filter that cannot grow with the file makes it pay again.
        assert!(OPERATION.best_interval(&free, filter(1 << 17, 4)).is_some());
    }

    #[test]
    fn no_size_is_above_the_limit() {
        let limit = Some(Bits::new(100_000));
        let advice = OPERATION.advise(&COSTS, None, limit, 0.01);
        let bits = |choice: &Choice| choice.plan.filter.unwrap().bits.get();
        assert_eq!(advice.choices.iter().map(bits).max(), Some(99_968));
    }
}

//! The cost of a differential file per transaction, and the savings by a filter and by
//! reorganisations.
//!
//! The trade-off is that of Severance and Lohman (1976): a growing file makes every transaction
//! more expensive, and a reorganisation, which empties it, is expensive itself. Aghili and
//! Severance (1982) choose filter, dumps and reorganisations by such a model. The model here is
//! derived independently, for records that are accessed equally often:
//!
//! ```text
//! records in the file after t transactions   n = F (1 − (1 − 1/F)^(ut))     α = n/F
//! without a filter     S + (1 − α) M + h n
//! with one             α (k c + S) + (1 − α) (e c + p S + M) + u k c + h n
//! the filter saves     (1 − α) (1 − p) S
//! and costs            α k c + (1 − α) e c + u k c        e = (1 − φ^k)/(1 − φ) probes to a miss
//! over an interval T   mean of the above over 0..T, and (R + r n(T)) / T
//! ```
//!
//! F is the number of records in the main file, u the updates per transaction, φ the fill of the
//! filter, and p = φ^k its rate; the other costs are in [`Costs`]. As long as n ≈ ut and only h n
//! changes, each transaction costs h u more than the one before it, and the best interval is that
//! of the square-root law, T = √(2R / (h u)).
//!
//! Skew is not modelled: with skew, fewer records change, and those are read more often.

use crate::math::{Bits, Items, Probes, fill, standard, whole};

/// The operations on the file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// F, the number of records of the main file; at least 1.
    pub records: Items,
    /// u, the share of transactions that update the record they read, above 0 and at most 1.
    pub updates: f64,
}

/// Costs, all in one unit of time; the command uses microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// S, a search of the differential file.
    pub search: f64,
    /// M, a read of the main file.
    pub main: f64,
    /// c, one probe of the filter.
    pub probe: f64,
    /// h, the cost that one record in the differential file adds to every transaction: longer
    /// searches, larger backups, a longer recovery.
    pub held: f64,
    /// R, the fixed cost of a reorganisation, however many records it moves.
    pub reorganisation: f64,
    /// r, moving one record in it.
    pub moved: f64,
}

/// A filter of the differential file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filtering {
    /// Its size.
    pub bits: Bits,
    /// Its number of hash functions.
    pub probes: Probes,
}

/// A choice of filter and interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The filter; `None` for no filter.
    pub filter: Option<Filtering>,
    /// T, transactions from one reorganisation to the next.
    pub interval: f64,
}

/// The cost of a plan per transaction, as means over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Searches of the differential file that the filter avoids, between 0 and 1.
    pub searches_avoided: f64,
    /// Unnecessary searches in spite of the filter (false positives), p (1 − α).
    pub searches_unnecessary: f64,
    /// Time that the filter saves.
    pub saved: f64,
    /// Time that its probes take.
    pub paid: f64,
    /// Time of reorganisations.
    pub reorganising: f64,
    /// Total time: reads, searches, filter, held records, reorganisations.
    pub all: f64,
    /// Records in the differential file at the end of the interval, its maximum.
    pub records_max: Items,
}

/// Number of points of an interval at which the cost is sampled.
const MOMENTS: u32 = 64;

impl Operation {
    /// n after `transactions`. Each update is equally likely to be of any record.
    pub fn differential_records(&self, transactions: f64) -> f64 {
        super::distinct(self.records.get(), self.updates * transactions)
    }

    /// The transactions after which 99 % of the records are in the differential file. It has then
    /// replaced the main file, so no interval is longer.
    pub fn longest_interval(&self) -> f64 {
        100_f64.ln() * self.records.get() as f64 / self.updates
    }

    /// The cost of `plan`.
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

    /// The cost of one transaction, `transactions` transactions after a reorganisation.
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

    /// The interval of the lowest cost with this filter; `None` if no reorganisation before
    /// [`Operation::longest_interval`] pays.
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

    /// T = √(2R / (h u)), the square-root law; `None` if holding records costs nothing.
    pub fn square_root_interval(&self, costs: &Costs) -> Option<f64> {
        let growth = costs.held * self.updates;
        (growth > 0.0).then(|| (2.0 * costs.reorganisation / growth).sqrt())
    }

    /// The cheapest choice with a filter of `bits` bits or, with `None`, without a filter. The
    /// interval is optimised unless `fixed` gives it.
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

    /// Compares filters of 1 to 32 bits per record of the differential file, up to `limit`.
    ///
    /// Recommends the smallest filter whose cost exceeds the lowest by at most `worth` (a share;
    /// 0.01 is 1 %), or no filter if that is not cheaper than none.
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

/// Number of grid steps that are compared before the minimum is searched.
const STEPS: u32 = 100;

/// The best number for 32 bits per key is 22; more are never cheaper.
const PROBES_MAX: u32 = 24;

/// The minimum of a curve that falls and then rises between `from` and `to`, by ternary search.
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

/// The sizes to compare, in whole words.
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
    /// Its rate with `records` records, and the mean number of probes until a clear bit is found.
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

/// A plan and its cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// Filter and interval.
    pub plan: Plan,
    /// Whether the interval is given or optimal. If not, reorganising never pays, and the plan has
    /// the longest interval, after which the differential file holds nearly all records.
    pub reorganisation_pays: bool,
    /// The cost of the plan.
    pub cost: Cost,
}

/// Filters of several sizes, each with its best number of hash functions and its best interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The choice without a filter.
    pub unfiltered: Choice,
    /// The choices with a filter, the smallest first.
    pub choices: Vec<Choice>,
    /// The recommended choice; `None` if no filter pays.
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
    fn best_interval_follows_the_square_root_law() {
        let law = OPERATION.square_root_interval(&COSTS).unwrap();
        assert_close(law, 1e6, 1e-9);
        assert_close(OPERATION.best_interval(&COSTS, None).unwrap(), law, 0.01);
        let with_headroom = filter(1 << 30, 7);
        assert_close(
            OPERATION.best_interval(&COSTS, with_headroom).unwrap(),
            law,
            0.02,
        );
    }

    #[test]
    fn overfull_filter_shortens_the_best_interval() {
        let with_headroom = OPERATION.best_interval(&COSTS, filter(1 << 22, 4)).unwrap();
        let crowded = OPERATION.best_interval(&COSTS, filter(1 << 17, 4)).unwrap();
        assert!(crowded < 0.8 * with_headroom, "{crowded} {with_headroom}");
    }

    /// Right after a reorganisation, nothing is modified and the filter is empty: a lookup takes
    /// one probe and avoids one search.
    #[test]
    fn cost_of_a_fresh_file_equals_the_sum_by_hand() {
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
    fn filter_saves_the_cost_difference_of_both_plans() {
        for (bits, probes, interval) in [(1 << 20, 3, 1e5), (1 << 14, 1, 1e6), (1 << 24, 8, 1e7)] {
            let plan = |filter| OPERATION.cost(&COSTS, Plan { filter, interval });
            let (with, without) = (plan(filter(bits, probes)), plan(None));
            assert_close(without.all - with.all, with.saved - with.paid, 1e-6);
        }
    }

    #[test]
    fn no_filter_is_advised_if_search_is_cheaper_than_probe() {
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
    fn advised_sizes_are_within_the_limit() {
        let limit = Some(Bits::new(100_000));
        let advice = OPERATION.advise(&COSTS, None, limit, 0.01);
        let bits = |choice: &Choice| choice.plan.filter.unwrap().bits.get();
        assert_eq!(advice.choices.iter().map(bits).max(), Some(99_968));
    }
}

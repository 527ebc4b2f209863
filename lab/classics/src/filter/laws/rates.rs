//! Compares measured with computed rates, for filters of counters and tables of codes.

use super::{Roomy, growth};
use crate::filter::laws_of_filters::rates::{Measured, RATES, predicted};
use crate::filter::laws_of_filters::stage;
use crate::filter::{
    CounterWidth, Counting, Growing, Growth, Kind, MinimalIncrease, RecurringMinimum, Spectral,
};
use crate::math::{Items, Rate};

/// Counters answer *maybe* exactly if bits would, so their rate is that of a partitioned filter.
///
/// A million keys at every rate take half a minute, since each of four filters writes to about ten
/// random places per key. `LSM_SIEVE_LAW_ITEMS=1000000` runs this, or more. By default, only the
/// highest rate, and the lowest rate of the smallest filter, are tested with a million keys.
#[test]
fn measured_rates_of_counters_are_the_predicted_ones() {
    let most = most_items();
    let sizes = [10, 1_000, 100_000, 1_000_000, 10_000_000];
    let mut seen = Seen::default();
    for rate in RATES {
        for items in sizes.into_iter().filter(|&items| items <= most) {
            COUNTERS
                .iter()
                .for_each(|measure| seen.add(items, rate, *measure));
        }
    }
    if most < 1_000_000 {
        COUNTERS
            .iter()
            .for_each(|measure| seen.add(1_000_000, 0.1, *measure));
        seen.add(1_000_000, 1e-4, COUNTERS[0]);
    }
    println!("{}", seen.json("rates of counters"));
}

/// The most keys for the filters of counters: `LSM_SIEVE_LAW_ITEMS`, or 100,000.
pub(super) fn most_items() -> u64 {
    let asked = std::env::var("LSM_SIEVE_LAW_ITEMS");
    asked.map_or(100_000, |most| most.parse().unwrap())
}

type Measure = fn(Items, Rate) -> Measured;

const COUNTERS: [Measure; 4] = [
    |n, p| Measured::of(n.get(), || Counting::with_rate(n, p).unwrap()),
    |n, p| Measured::of(n.get(), || Spectral::with_rate(n, p, EIGHT).unwrap()),
    |n, p| Measured::of(n.get(), || MinimalIncrease::with_rate(n, p, EIGHT).unwrap()),
    |n, p| {
        Measured::of(n.get(), || {
            RecurringMinimum::with_rate(n, p, EIGHT).unwrap()
        })
    },
];

const EIGHT: CounterWidth = CounterWidth::Eight;

/// All measurements of one law.
#[derive(Default)]
struct Seen {
    cases: usize,
    trials: usize,
    hits: usize,
    expected: f64,
}

impl Seen {
    fn add(&mut self, items: u64, rate: f64, measure: Measure) {
        let predicted = predicted(&stage(Kind::Partitioned, items, rate), Items::new(items));
        let measured = measure(Items::new(items), Rate::new(rate).unwrap());
        measured.assert_rate(predicted, &format!("{items} keys at {rate}"));
        self.cases += 1;
        self.trials += measured.trials;
        self.hits += measured.hits;
        self.expected += measured.trials as f64 * predicted;
    }

    fn json(&self, law: &str) -> String {
        let Self {
            cases,
            trials,
            hits,
            expected,
        } = self;
        format!(
            "{{\"law\": \"{law}\", \"seed\": 0, \"cases\": {cases}, \"look_ups\": {trials}, \
             \"false_positives\": {hits}, \"expected\": {expected:.1}}}"
        )
    }
}

/// For filters whose rate depends on their actual fill: the measured rate is the one that the
/// filter computes.
#[test]
fn measured_rates_are_the_ones_that_filters_claim() {
    for rate in RATES {
        for items in [1_000, 10_000] {
            let rate = Rate::new(rate).unwrap();
            let growth = Growth { rate, ..growth() };
            let codes = Measured::of(items, || Roomy::with_rate(items, rate));
            let spectral = || Growing::<Spectral>::spectral(growth, EIGHT).unwrap();
            let counting = || Growing::counting(growth).unwrap();
            let grown = [Measured::of(items, spectral), Measured::of(items, counting)];
            for measured in [codes].into_iter().chain(grown) {
                assert!(measured.claimed <= rate.get());
                measured.assert_rate(measured.claimed, &format!("{items} keys at {rate}"));
            }
        }
    }
}

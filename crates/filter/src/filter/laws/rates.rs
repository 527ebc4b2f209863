//! The measured false-positive rate is the computed one.

use super::subjects::{KINDS, predicted};
use super::{Subject, insert_all, stage};
use crate::filter::naive::{hashes, imprint};
use crate::filter::{Scalable, ScalableOptions};
use crate::math::{Items, Rate};

/// 99.9 % of a normal distribution are within this many standard deviations.
const SIGMAS: f64 = 3.29;

/// Asserts that `hits` among `trials` agree with `rate`, in both directions.
pub fn assert_binomial(hits: usize, trials: usize, rate: f64, what: &str) {
    let (hits, trials) = (hits as f64, trials as f64);
    let slack = SIGMAS * (trials * rate * (1.0 - rate)).sqrt() + 1.0;
    let off = (hits - trials * rate).abs();
    assert!(off <= slack, "{what}: {} instead of {rate}", hits / trials);
}

/// The results of many small filters instead of one, because the rate of a single filter depends on
/// its keys.
pub struct Measured {
    pub hits: usize,
    pub trials: usize,
    /// The mean of the rates that the filters computed for themselves.
    pub claimed: f64,
}

impl Measured {
    pub fn of<F: Subject>(items: u64, make: impl Fn() -> F) -> Self {
        let asked = usize::try_from(items / 10).unwrap();
        let filters = (INSERTIONS / items).max(1);
        let (mut hits, mut claimed) = (0, 0.0);
        for seed in 0..filters {
            let mut filter = make();
            let mut keys = hashes(seed + (items << 32));
            insert_all(&mut filter, keys.by_ref().take(10 * asked));
            hits += keys
                .take(asked)
                .filter(|&hash| filter.may_contain(hash))
                .count();
            claimed += filter.predicted_rate() / filters as f64;
        }
        Self {
            hits,
            trials: asked * usize::try_from(filters).unwrap(),
            claimed,
        }
    }

    pub fn assert_rate(&self, rate: f64, what: &str) {
        assert_binomial(self.hits, self.trials, rate, what);
    }
}

/// The insertions of one measurement, in as many filters as that allows.
const INSERTIONS: u64 = 500_000;

pub const RATES: [f64; 4] = [1e-1, 1e-2, 1e-3, 1e-4];

#[test]
fn measured_rates_are_the_predicted_ones() {
    for kind in KINDS {
        for rate in RATES {
            for items in [10, 1_000, 100_000, 1_000_000] {
                let measured = Measured::of(items, || stage(kind, items, rate));
                let predicted = predicted(stage(kind, items, rate).shape(), Items::new(items));
                // Sizes are computed to second order, which is exact to a few tenths of a percent.
                assert!(predicted <= rate * 1.005, "{kind:?}: {predicted}");
                let what = format!("{kind:?}, {items} keys at {rate}");
                measured.assert_rate(predicted, &what);
            }
        }
    }
}

#[test]
fn keys_and_rate_are_estimated_from_bits() {
    for kind in KINDS {
        let filter = stage(kind, 100_000, 0.01);
        insert_all(&filter, hashes(1).take(100_000));
        let estimate = filter.estimated_items().get() as f64;
        assert!(
            (estimate / 100_000.0 - 1.0).abs() < 0.01,
            "{kind:?}: {estimate}"
        );
        let rates = filter.observed_rate() / filter.predicted_rate();
        assert!((rates - 1.0).abs() < 0.05, "{kind:?}: {rates}");
        let capacity = filter.capacity(Rate::ONE_PERCENT).get() as f64;
        assert!(
            (capacity / 100_000.0 - 1.0).abs() < 0.01,
            "{kind:?}: {capacity}"
        );
    }
}

/// A thousandfold growth, ten stages: all of them together keep the one rate that was requested.
#[test]
fn growth_keeps_the_compound_rate() {
    const TRIALS: usize = 400_000;
    for kind in KINDS {
        let options = ScalableOptions {
            kind,
            ..ScalableOptions::default()
        };
        let filter = Scalable::new(imprint(1), options);
        insert_all(&filter, hashes(1).take(1_000_000));
        let asked: Vec<_> = hashes(2).take(TRIALS).collect();
        let mut answers = vec![false; TRIALS];
        filter.contains_many(&asked, &mut answers);
        let hits = answers.iter().filter(|&&maybe| maybe).count();

        assert!(filter.predicted_rate() <= 0.01);
        assert_binomial(hits, TRIALS, filter.predicted_rate(), &format!("{kind:?}"));
        assert_eq!(filter.stages(), 10);
        assert!(
            hashes(1)
                .take(1_000_000)
                .all(|hash| filter.may_contain(hash))
        );
    }
}

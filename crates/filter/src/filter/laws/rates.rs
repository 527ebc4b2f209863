//! The measured false-positive rate is the computed one.

use super::{KINDS, Subject, insert_all, stage};
use crate::filter::naive::{hashes, imprint};
use crate::filter::{Kind, Scalable, ScalableOptions, Shape, Stage};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate, grandi};

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

/// The exact rate if it is affordable, otherwise the rate by which filters are sized.
pub fn predicted(stage: &Stage, items: Items) -> f64 {
    let Shape {
        kind, bits, probes, ..
    } = stage.shape();
    match kind {
        Kind::Standard if items.get() <= 1_000 => grandi::standard(bits, probes, items),
        Kind::Classic if items.get() <= 1_000 => grandi::classic(bits, probes, items),
        _ => stage.layout().rate(items),
    }
}

pub const RATES: [f64; 4] = [1e-1, 1e-2, 1e-3, 1e-4];

#[test]
fn measured_rates_are_the_predicted_ones() {
    for kind in KINDS {
        for rate in RATES {
            for items in [10, 1_000, 100_000, 1_000_000] {
                let measured = Measured::of(items, || stage(kind, items, rate));
                let predicted = predicted(&stage(kind, items, rate), Items::new(items));
                // Sizes are computed to second order, which is exact to a few tenths of a percent.
                assert!(predicted <= rate * 1.005, "{kind:?}: {predicted}");
                let what = format!("{kind:?}, {items} keys at {rate}");
                measured.assert_rate(predicted, &what);
            }
        }
    }
}

/// Filters of 128 bits against the exact rates of Grandi's analysis, computed by rational
/// arithmetic independently of this crate. The textbook's formula is off by up to a tenth here.
#[test]
fn tiny_filters_keep_their_exact_rates() {
    use Kind::{Classic, Partitioned, Standard};
    const FILTERS: u64 = 100_000;
    const ASKED: usize = 5;
    for (kind, k, keys, exact) in [
        (Standard, 1, 16, 0.117_936_155),
        (Standard, 4, 16, 0.024_657_967),
        (Standard, 8, 16, 0.027_356_165),
        (Standard, 16, 16, 0.109_785_653),
        (Standard, 4, 8, 0.002_473_757),
        (Classic, 1, 16, 0.117_936_155),
        (Classic, 4, 16, 0.023_779_056),
        (Classic, 8, 16, 0.027_461_731),
        (Classic, 16, 16, 0.128_772_339),
        (Classic, 4, 8, 0.002_175_301),
        (Partitioned, 1, 16, 0.117_936_155),
        (Partitioned, 2, 16, 0.049_610_804),
    ] {
        let shape = Shape {
            kind,
            bits: Bits::new(128),
            probes: Probes::new(k),
            groups: 0,
        };
        let hits = (0..FILTERS).map(|seed| {
            let filter = Stage::new(shape).unwrap();
            let mut keys_and_strangers = hashes(seed);
            insert_all(&filter, keys_and_strangers.by_ref().take(keys));
            let strangers = keys_and_strangers.take(ASKED);
            strangers.filter(|&hash| filter.may_contain(hash)).count()
        });
        let trials = usize::try_from(FILTERS).unwrap() * ASKED;
        let what = format!("{kind:?}, {k} probes, {keys} keys");
        assert_binomial(hits.sum(), trials, exact, &what);
    }
}

/// Double hashing answers *maybe* to 0.5 % here: with 89 keys and slices of 128 bits, one pair of
/// positions in 184 is taken, and two keys that share a pair share all 21 probes. One multiplier
/// per probe has no such floor and gives the theoretical 5e-7.
#[test]
fn small_slices_keep_a_strict_rate() {
    let shape = Shape {
        kind: Kind::Partitioned,
        bits: Bits::new(128 * 21),
        probes: Probes::new(21),
        groups: 0,
    };
    let mut hits = 0;
    for seed in 0..50 {
        let filter = Stage::new(shape).unwrap();
        let mut keys = hashes(seed);
        insert_all(&filter, keys.by_ref().take(89));
        hits += keys
            .take(40_000)
            .filter(|&hash| filter.may_contain(hash))
            .count();
    }
    // One is expected in two million; double hashing gave ten thousand.
    assert!(hits <= 8, "{hits} in 2,000,000");
}

/// The floor of double hashing, a + i b in slices of m bits: n/m² of all keys share a and b with
/// some member and are answered *maybe*, however many slices there are.
#[test]
fn double_hashing_would_have_a_floor() {
    const SLICE: u64 = 128;
    const KEYS: usize = 89;
    const ASKED: usize = 2_000;
    let pair = |hash: KeyHash| (hash.get() % SLICE, (hash.get() >> 32) % SLICE);
    let bits = |hash| {
        let (a, b) = pair(hash);
        (0..21).map(move |i| ((a + i * b) % SLICE) as usize)
    };
    let mut hits = 0;
    for seed in 0..100 {
        let mut slices = [[false; SLICE as usize]; 21];
        let mut keys = hashes(seed);
        for hash in keys.by_ref().take(KEYS) {
            bits(hash)
                .zip(&mut slices)
                .for_each(|(bit, slice)| slice[bit] = true);
        }
        let maybe = |&hash: &KeyHash| bits(hash).zip(&slices).all(|(bit, slice)| slice[bit]);
        hits += keys.take(ASKED).filter(maybe).count();
    }
    let floor = KEYS as f64 / (SLICE * SLICE) as f64;
    assert!(hits as f64 > 0.9 * floor * (100 * ASKED) as f64, "{hits}");
}

#[test]
fn the_bits_tell_how_many_keys_and_at_what_rate() {
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

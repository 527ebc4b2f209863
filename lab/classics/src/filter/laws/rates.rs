//! Compares measured with computed rates, for filters of counters and tables of codes.

use super::{Roomy, growth};
use crate::filter::laws_of_filters::rates::{Measured, RATES, assert_binomial};
use crate::filter::laws_of_filters::{insert_all, stage};
use crate::filter::naive::hashes;
use crate::filter::subjects::predicted;
use crate::filter::{
    CounterWidth, Counting, Growing, Growth, Kind, MinimalIncrease, RecurringMinimum, Shape,
    Spectral, Stage,
};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate};

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
        let predicted = predicted(
            stage(Kind::Partitioned, items, rate).shape(),
            Items::new(items),
        );
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
fn measured_rates_equal_the_rates_computed_by_filters() {
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
fn double_hashing_has_a_floor_of_its_rate() {
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

//! Compares growth from a single key with the theory: a million-fold for stages of bits, and a
//! hundred thousand-fold, or as far as `LSM_SIEVE_LAW_ITEMS` says, for stages of counters.
//!
//! ```text
//! stages    ⌈log2(1 + g)⌉                                         Almeida et al. 2007, Figure 3
//! space     its bits over those of a filter made for all keys     Figure 2, at g
//! probes    ⌈log2 1/P_i⌉ in stage i                               §3
//! rate      P, of all stages together                             equation (1)
//! ```
//!
//! `cargo test --lib laws::growth -- --nocapture` prints the table.

use super::rates::most_items;
use crate::filter::laws_of_filters::rates::assert_binomial;
use crate::filter::naive::{hashes, imprint};
use crate::filter::subjects::KINDS;
use crate::filter::{
    Countable, CounterWidth, Growing, Growth, Kind, MinimalIncrease, Scalable, ScalableOptions,
    Spectral, Stage,
};
use crate::hash::KeyHash;
use crate::math::growth::{self, Tightening};
use crate::math::ladder::Ladder;
use crate::math::{Bits, Items, Rate, blocked};
use std::f64::consts::LN_2;

const PROMISED: Rate = Rate::ONE_PERCENT;
/// The default of the filters, and one that works for any growth.
const TIGHTENINGS: [Tightening; 2] = [Tightening::Geometric(0.85), Tightening::Polynomial];
const ASKED: usize = 400_000;

/// A filter that has grown from a first stage for one key.
struct Grown {
    name: String,
    kind: Kind,
    tightening: Tightening,
    keys: u64,
    /// Its stages, as bits.
    stages: Vec<Stage>,
    /// Its size, and that of a filter made for all its keys.
    sizes: (Bits, Bits),
    predicted: f64,
    /// False positives among [`ASKED`] absent keys.
    hits: usize,
}

impl Grown {
    fn assert_theory(&self) {
        let name = &self.name;
        println!("{}", self.row());
        assert_eq!(
            self.stages.len(),
            self.ladder().stages(self.keys as f64) as usize,
            "{name}"
        );
        assert_eq!(self.stages.len(), self.keys.ilog2() as usize + 1, "{name}");
        let space = self.space() / self.space_in_theory();
        assert!((space - 1.0).abs() < 0.01, "{name}: {space} of the theory");
        self.assert_probes();
        assert!(self.predicted <= PROMISED.get(), "{name}");
        // Compared with the rate of the actual bits: stages of few keys deviate from the mean.
        let observed = growth::compound(self.stages.iter().map(Stage::observed_rate));
        assert!(observed <= PROMISED.get(), "{name}: {observed}");
        assert_binomial(self.hits, ASKED, observed, name);
    }

    fn space(&self) -> f64 {
        self.sizes.0.get() as f64 / self.sizes.1.get() as f64
    }

    /// The paper's formula, except for blocked stages, which need more bits for a stricter rate.
    fn space_in_theory(&self) -> f64 {
        if self.kind != Kind::Blocked {
            return self.ladder().space(self.keys as f64);
        }
        let stages = (0..).zip(&self.stages);
        let grown =
            stages.map(|(index, _)| f64::from(index).exp2() * line_bits(self.rate_of(index)));
        grown.sum::<f64>() / (self.keys as f64 * line_bits(PROMISED))
    }

    /// The model with real numbers of slices, for filters that are sized to the bit.
    fn ladder(&self) -> Ladder {
        Ladder {
            promised: PROMISED,
            tightening: self.tightening,
            growth: 2.0,
            first_slice: 1.0 / LN_2,
            whole_slices: false,
        }
    }

    fn rate_of(&self, stage: u32) -> Rate {
        self.tightening.rate(PROMISED, stage)
    }

    fn assert_probes(&self) {
        for (index, stage) in (0..).zip(&self.stages) {
            let (rate, probes) = (self.rate_of(index), stage.shape().probes);
            let theory = growth::stage_probes(rate).get();
            let allowed = match self.kind {
                Kind::Partitioned => theory..=theory,
                // If the bits are not divided into slices, rounding down can be cheaper.
                Kind::Standard | Kind::Classic => theory - 1..=theory,
                // The fewest bits decide; a stage of a line or two has unused bits.
                _ => match blocked::size(Items::new(1 << index), rate) {
                    Some((pattern, _)) => pattern.probes().get()..=pattern.probes().get(),
                    None => panic!("no blocked stage at {rate}"),
                },
            };
            let name = &self.name;
            assert!(
                allowed.contains(&probes.get()),
                "{name}, stage {index}: {probes}"
            );
        }
    }

    fn row(&self) -> String {
        let probes: u32 = self.stages.iter().map(|s| s.shape().probes.get()).sum();
        format!(
            "{:<28} grown {:>9}-fold: {} stages, {probes:>3} probes, {:.1} bits per key, {:.3} times \
             the right size ({:.3} in theory), rate {:.4} % ({:.4} % predicted)",
            self.name,
            self.keys,
            self.stages.len(),
            self.sizes.0.get() as f64 / self.keys as f64,
            self.space(),
            self.space_in_theory(),
            self.hits as f64 / ASKED as f64 * 100.0,
            self.predicted * 100.0,
        )
    }
}

/// Bits per key of a blocked stage of many keys.
fn line_bits(rate: Rate) -> f64 {
    const MANY: u64 = 1_000_000;
    let (_, lines) = blocked::size(Items::new(MANY), rate).unwrap();
    (lines * 512) as f64 / MANY as f64
}

fn strangers_taken(maybe: impl Fn(KeyHash) -> bool) -> usize {
    hashes(2).take(ASKED).filter(|&hash| maybe(hash)).count()
}

#[test]
fn filter_grown_a_million_fold_follows_the_theory() {
    const KEYS: usize = 1_000_000;
    let shapes = KINDS
        .into_iter()
        .flat_map(|kind| TIGHTENINGS.map(|how| (kind, how)));
    for (kind, tightening) in shapes {
        let options = ScalableOptions {
            kind,
            rate: PROMISED,
            first: Items::new(1),
            second: None,
            growth: 2,
            tightening,
            budget: None,
        };
        let filter = Scalable::new(imprint(1), options);
        hashes(1)
            .take(KEYS)
            .for_each(|hash| _ = filter.insert(hash));
        assert!(hashes(1).take(KEYS).all(|hash| filter.may_contain(hash)));
        let right = Stage::with_rate(kind, Items::new(KEYS as u64), PROMISED).unwrap();
        let grown = Grown {
            name: format!("{kind:?}, {tightening:?}"),
            kind,
            tightening,
            keys: KEYS as u64,
            predicted: filter.predicted_rate(),
            sizes: (filter.size(), right.size()),
            hits: strangers_taken(|hash| filter.may_contain(hash)),
            stages: filter.to_chain().into_stages(),
        };
        grown.assert_theory();
    }
}

#[test]
fn growing_counters_follow_the_theory() {
    let from_one = Growth {
        rate: PROMISED,
        first: Items::new(1),
        factor: 2,
        tightening: TIGHTENINGS[0],
    };
    let width = CounterWidth::Eight;
    let counting = Growing::counting(from_one).unwrap();
    grow("Growing<Counting>", counting, |stage| {
        stage.to_stage().unwrap()
    });
    let spectral = Growing::<Spectral>::spectral(from_one, width).unwrap();
    grow("Growing<Spectral>", spectral, |stage| {
        stage.to_stage().unwrap()
    });
    let minimal = Growing::<MinimalIncrease>::spectral(from_one, width).unwrap();
    grow("Growing<MinimalIncrease>", minimal, |stage| {
        stage.to_stage().unwrap()
    });
}

/// The counters above zero are the bits of partitioned stages, so the theory of these applies.
fn grow<S: Countable>(name: &str, mut filter: Growing<S>, bits: impl Fn(&S) -> Stage) {
    let items = Items::new(most_items());
    let keys = || hashes(1).take(usize::try_from(items.get()).unwrap());
    keys().for_each(|hash| _ = filter.insert(hash));
    assert!(keys().all(|hash| filter.may_contain(hash)));
    let right = filter.stages()[0].following(items, PROMISED).unwrap();
    let grown = Grown {
        name: name.to_owned(),
        kind: Kind::Partitioned,
        tightening: TIGHTENINGS[0],
        keys: items.get(),
        predicted: filter.predicted_rate(),
        sizes: (filter.size(), right.size()),
        hits: strangers_taken(|hash| filter.may_contain(hash)),
        stages: filter.stages().iter().map(bits).collect(),
    };
    grown.assert_theory();
}

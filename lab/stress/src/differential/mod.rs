//! Cases on a [`DifferentialStore`].
//!
//! The model knows the values, and which generation has a record of which key. So `is_modified` is
//! checked exactly, and so is a load, which goes beneath modified records.

mod model;
mod session;
mod step;

use std::path::Path;

use lsm_sieve::Bits;
use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_differential::{DifferentialOptions, DifferentialStore, FilterChoice};
use lsm_sieve_filter::math::Probes;
use serde::{Deserialize, Serialize};

use lsm_sieve_stress::case::{Failure, Target};
use lsm_sieve_stress::check::{Tally, Violation};
use lsm_sieve_stress::keys::{KeySettings, KeySpace};
use lsm_sieve_stress::option_strings::{self, OptionStrings};
use lsm_sieve_stress::settings::FilterSettings;
use lsm_sieve_stress::step_cursor::StepCursor;
use model::Model;
use session::Session;
use step::Step;

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Differential {
    keys: KeySettings,
    #[serde(rename = "front")]
    filters: FilterSettings,
    engine: OptionStrings,
    /// Bits and probes of a fixed filter; none for the scalable one.
    fixed: Option<(u64, u32)>,
    ask_main: bool,
    batch_bytes: usize,
}

/// Settings and steps.
pub(crate) fn draw(random: &mut Random, steps: usize) -> (Differential, Vec<Step>) {
    const FIXED: [(u64, u32); 4] = [(64, 1), (128, 2), (16_384, 6), (1 << 20, 64)];
    let target = Differential {
        keys: KeySettings::draw(random),
        filters: FilterSettings::draw(random),
        engine: option_strings::draw_alike(random),
        fixed: random.one_in(2).then(|| *random.pick(&FIXED)),
        ask_main: random.one_in(2),
        batch_bytes: *random.pick(&[0, 64, 1_000, 1 << 16]),
    };
    let other_interval = 50 << random.below(5);
    let keys = target.keys.count;
    let steps = (0..steps).map(|_| Step::draw(random, keys, other_interval));
    let steps = steps.collect();
    (target, steps)
}

impl Target for Differential {
    type Step = Step;

    fn run(
        &self,
        steps: &[Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let keys = KeySpace::new(&self.keys);
        let mut lifetime = Lifetime {
            target: self,
            home,
            model: Model::new(keys.len()),
            keys: &keys,
            tally,
            cursor: StepCursor::new(steps),
        };
        while lifetime.open_and_do(watch)? {}
        Ok(())
    }

    fn simpler(&self) -> Vec<Self> {
        let mut simpler = vec![];
        if self.filters != FilterSettings::default() {
            simpler.push(Self {
                filters: FilterSettings::default(),
                ..self.clone()
            });
        }
        if self.fixed.is_some() {
            simpler.push(Self {
                fixed: None,
                ..self.clone()
            });
        }
        for at in 0..self.engine.len() {
            let mut less = self.clone();
            less.engine.remove(at);
            simpler.push(less);
        }
        simpler
    }
}

impl Differential {
    fn open(&self, path: &Path) -> Result<DifferentialStore, Violation> {
        let options = DifferentialOptions {
            filters: self.filters.options().map_err(Violation::other)?,
            filter: match self.fixed {
                None => FilterChoice::Scalable,
                Some((bits, probes)) => FilterChoice::Fixed {
                    bits: Bits::new(bits),
                    probes: Probes::new(probes),
                },
            },
            ask_main: self.ask_main,
            batch_bytes: self.batch_bytes,
            ..DifferentialOptions::default()
        };
        Ok(DifferentialStore::open(
            &option_strings::parse(&self.engine)?,
            &options,
            path,
        )?)
    }
}

/// A store from its creation to its end.
struct Lifetime<'a> {
    target: &'a Differential,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    tally: &'a mut Tally,
    cursor: StepCursor<'a, Step>,
}

impl Lifetime<'_> {
    /// Opens the store and carries out steps until it is to be reopened, or until the end. Returns
    /// whether there are more steps.
    fn open_and_do(&mut self, watch: &mut impl Watch) -> Result<bool, Failure> {
        let store = self.target.open(&self.home.join("store"));
        let store = self.cursor.at(store)?;
        self.tally.opened += 1;
        let more = self.work(&store, watch)?;
        self.cursor.at(store.close())?;
        Ok(more)
    }

    fn work(&mut self, store: &DifferentialStore, watch: &mut impl Watch) -> Result<bool, Failure> {
        let cursor = &mut self.cursor;
        let mut session = Session {
            target: self.target,
            store,
            keys: self.keys,
            model: &mut self.model,
            tally: self.tally,
            home: self.home,
            moment: None,
        };
        cursor.at(session.agree())?;
        while let Some(step) = cursor.step() {
            cursor.at(session.apply(step))?;
            cursor.advance(watch)?;
            if *step == Step::Reopen {
                return Ok(true);
            }
        }
        cursor.at(session.agree())?;
        Ok(false)
    }
}

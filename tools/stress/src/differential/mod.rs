//! Cases on a [`DifferentialStore`].
//!
//! The model knows the values, and which generation has a record of which key. So `is_modified` is
//! checked exactly, and so is a load, which goes beneath modified records.

mod model;
mod session;
mod step;

use std::path::Path;

use lsm_sieve::Bits;
use lsm_sieve::differential::{DifferentialOptions, DifferentialStore, FilterChoice};
use lsm_sieve::math::Probes;
use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::random::Random;
use serde::{Deserialize, Serialize};

use super::case::{Failure, Subject};
use super::course::Course;
use super::keys::{KeySettings, KeySpace};
use super::settings::FrontSettings;
use super::texts::{self, Texts};
use super::verdict::{Tally, Violation};
use model::Model;
use session::Session;
use step::Step;

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Differential {
    keys: KeySettings,
    front: FrontSettings,
    engine: Texts,
    /// Bits and probes of a fixed filter; none for the scalable one.
    fixed: Option<(u64, u32)>,
    ask_main: bool,
    batch_bytes: usize,
}

/// Settings and steps.
pub(super) fn draw(random: &mut Random, steps: usize) -> (Differential, Vec<Step>) {
    const FIXED: [(u64, u32); 4] = [(64, 1), (128, 2), (16_384, 6), (1 << 20, 64)];
    let subject = Differential {
        keys: KeySettings::draw(random),
        front: FrontSettings::draw(random),
        engine: texts::draw_alike(random),
        fixed: random.one_in(2).then(|| *random.pick(&FIXED)),
        ask_main: random.one_in(2),
        batch_bytes: *random.pick(&[0, 64, 1_000, 1 << 16]),
    };
    let calm = 50 << random.below(5);
    let keys = subject.keys.count;
    let steps = (0..steps).map(|_| Step::draw(random, keys, calm));
    let steps = steps.collect();
    (subject, steps)
}

impl Subject for Differential {
    type Step = Step;

    fn run(
        &self,
        steps: &[Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let keys = KeySpace::new(&self.keys);
        let mut life = Life {
            subject: self,
            home,
            model: Model::new(keys.len()),
            keys: &keys,
            tally,
            course: Course::new(steps),
        };
        while life.open_and_do(watch)? {}
        Ok(())
    }

    fn simpler(&self) -> Vec<Self> {
        let mut simpler = vec![];
        if self.front != FrontSettings::default() {
            simpler.push(Self {
                front: FrontSettings::default(),
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
            front: self.front.options().map_err(Violation::other)?,
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
            &texts::parse(&self.engine)?,
            &options,
            path,
        )?)
    }
}

/// A store from its creation to its end.
struct Life<'a> {
    subject: &'a Differential,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    tally: &'a mut Tally,
    course: Course<'a, Step>,
}

impl Life<'_> {
    /// Opens the store and carries out steps until it is to be reopened, or until the end. Returns
    /// whether there are more steps.
    fn open_and_do(&mut self, watch: &mut impl Watch) -> Result<bool, Failure> {
        let store = self.subject.open(&self.home.join("store"));
        let store = self.course.at(store)?;
        self.tally.opened += 1;
        let more = self.work(&store, watch)?;
        self.course.at(store.close())?;
        Ok(more)
    }

    fn work(&mut self, store: &DifferentialStore, watch: &mut impl Watch) -> Result<bool, Failure> {
        let course = &mut self.course;
        let mut session = Session {
            subject: self.subject,
            store,
            keys: self.keys,
            model: &mut self.model,
            tally: self.tally,
            home: self.home,
            moment: None,
        };
        course.at(session.agree())?;
        while let Some(step) = course.step() {
            course.at(session.apply(step))?;
            course.advance(watch)?;
            if *step == Step::Reopen {
                return Ok(true);
            }
        }
        course.at(session.agree())?;
        Ok(false)
    }
}

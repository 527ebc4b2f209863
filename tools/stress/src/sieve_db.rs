//! Cases on a [`SieveDb`].

use std::path::Path;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::random::Random;
use serde::{Deserialize, Serialize};

use super::case::{Failure, Subject};
use super::closed;
use super::course::Course;
use super::ground::Ground;
use super::keys::KeySpace;
use super::model::Model;
use super::script::Script;
use super::session::Session;
use super::settings::{FrontSettings, Settings};
use super::step::{Closed, Step};
use super::verdict::{Tally, Violation};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Sieve(pub(super) Settings);

/// Settings and steps.
pub(super) fn draw(random: &mut Random, steps: usize) -> (Sieve, Vec<Step>) {
    let settings = Settings::draw(random);
    let steps = Script::new(random, settings.keys.count).draw(steps);
    (Sieve(settings), steps)
}

impl Subject for Sieve {
    type Step = Step;

    fn run(
        &self,
        steps: &[Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let keys = KeySpace::new(&self.0.keys);
        let mut life = Life {
            settings: &self.0,
            home,
            model: Model::new(keys.len()),
            keys: &keys,
            front: self.0.front.clone(),
            read_only_filters: false,
            tally,
            course: Course::new(steps),
        };
        life.live(watch)
    }

    fn simpler(&self) -> Vec<Self> {
        self.0.simpler().into_iter().map(Self).collect()
    }
}

/// A database from its creation to its end.
struct Life<'a> {
    settings: &'a Settings,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    front: FrontSettings,
    read_only_filters: bool,
    tally: &'a mut Tally,
    course: Course<'a, Step>,
}

impl<'a> Life<'a> {
    fn live(&mut self, watch: &mut impl Watch) -> Result<(), Failure> {
        while let Some(closed) = self.open_and_do(watch)? {
            let path = self.home.join("db");
            let front = self.course.at(self.front())?;
            let mut files = closed::Closed {
                path: &path,
                settings: self.settings,
                front: &front,
                keys: self.keys,
                model: &mut self.model,
                tally: self.tally,
            };
            let mut mishaps = closed.mishaps.iter();
            let suffered = mishaps.try_for_each(|mishap| files.suffer(mishap));
            self.course.at(suffered)?;
            self.front = closed.front.clone().unwrap_or_else(|| self.front.clone());
            self.read_only_filters = closed.read_only_filters;
            self.course.advance(watch)?;
        }
        Ok(())
    }

    /// Opens the database and carries out steps until it is to be closed, or until the end.
    fn open_and_do(&mut self, watch: &mut impl Watch) -> Result<Option<&'a Closed>, Failure> {
        let db = self.course.at(self.open())?;
        self.tally.opened += 1;
        let course = &mut self.course;
        let ground = Ground::new(&db, self.settings, self.keys);
        let mut session = Session::new(
            ground,
            &mut self.model,
            self.tally,
            self.home,
            self.read_only_filters,
        );
        course.at(session.agree())?;
        while let Some(step) = course.step() {
            if let Step::Reopen(closed) = step {
                return Ok(Some(closed));
            }
            course.at(session.apply(step))?;
            course.advance(watch)?;
        }
        course.at(session.agree())?;
        course.at(session.verify())?;
        Ok(None)
    }

    fn open(&self) -> Result<SieveDb, Violation> {
        let front = self.front()?.read_only_filters(self.read_only_filters);
        closed::open(self.settings, &front, &self.home.join("db"), &self.model)
    }

    fn front(&self) -> Result<SieveOptions, Violation> {
        self.front.options().map_err(Violation::other)
    }
}

//! Cases on a [`SieveDb`].

use std::path::Path;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::random::Random;
use serde::{Deserialize, Serialize};

use super::case::{Failure, Target};
use super::check::{Tally, Violation};
use super::checker::Checker;
use super::closed_db;
use super::keys::KeySpace;
use super::model::Model;
use super::session::Session;
use super::settings::{FilterSettings, Settings};
use super::step::{Reopening, Step};
use super::step_cursor::StepCursor;
use super::step_generator::StepGenerator;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sieve(pub Settings);

/// Settings and steps.
pub fn draw(random: &mut Random, steps: usize) -> (Sieve, Vec<Step>) {
    let settings = Settings::draw(random);
    let steps = StepGenerator::new(random, settings.keys.count).draw(steps);
    (Sieve(settings), steps)
}

impl Target for Sieve {
    type Step = Step;

    fn run(
        &self,
        steps: &[Step],
        home: &Path,
        tally: &mut Tally,
        watch: &mut impl Watch,
    ) -> Result<(), Failure> {
        let keys = KeySpace::new(&self.0.keys);
        let mut lifetime = Lifetime {
            settings: &self.0,
            home,
            model: Model::new(keys.len()),
            keys: &keys,
            filters: self.0.filters.clone(),
            read_only_filters: false,
            tally,
            cursor: StepCursor::new(steps),
        };
        lifetime.run(watch)
    }

    fn simpler(&self) -> Vec<Self> {
        self.0.simpler().into_iter().map(Self).collect()
    }
}

/// A database from its creation to its end.
struct Lifetime<'a> {
    settings: &'a Settings,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    filters: FilterSettings,
    read_only_filters: bool,
    tally: &'a mut Tally,
    cursor: StepCursor<'a, Step>,
}

impl<'a> Lifetime<'a> {
    fn run(&mut self, watch: &mut impl Watch) -> Result<(), Failure> {
        while let Some(reopening) = self.open_and_do(watch)? {
            let path = self.home.join("db");
            let sieve = self.cursor.at(self.sieve())?;
            let mut files = closed_db::ClosedDb {
                path: &path,
                settings: self.settings,
                sieve: &sieve,
                keys: self.keys,
                model: &mut self.model,
                tally: self.tally,
            };
            let mut events = reopening.events.iter();
            let applied = events.try_for_each(|event| files.apply(event));
            self.cursor.at(applied)?;
            self.filters = (reopening.filters.clone()).unwrap_or_else(|| self.filters.clone());
            self.read_only_filters = reopening.read_only_filters;
            self.cursor.advance(watch)?;
        }
        Ok(())
    }

    /// Opens the database and carries out steps until it is to be reopening, or until the end.
    fn open_and_do(&mut self, watch: &mut impl Watch) -> Result<Option<&'a Reopening>, Failure> {
        let db = self.cursor.at(self.open())?;
        self.tally.opened += 1;
        let cursor = &mut self.cursor;
        let checker = Checker::new(&db, self.settings, self.keys);
        let mut session = Session::new(
            checker,
            &mut self.model,
            self.tally,
            self.home,
            self.read_only_filters,
        );
        cursor.at(session.agree())?;
        while let Some(step) = cursor.step() {
            if let Step::Reopen(reopening) = step {
                return Ok(Some(reopening));
            }
            cursor.at(session.apply(step))?;
            cursor.advance(watch)?;
        }
        cursor.at(session.agree())?;
        cursor.at(session.verify())?;
        Ok(None)
    }

    fn open(&self) -> Result<SieveDb, Violation> {
        let sieve = self.sieve()?.read_only_filters(self.read_only_filters);
        closed_db::open(self.settings, &sieve, &self.home.join("db"), &self.model)
    }

    fn sieve(&self) -> Result<SieveOptions, Violation> {
        self.filters.options().map_err(Violation::other)
    }
}

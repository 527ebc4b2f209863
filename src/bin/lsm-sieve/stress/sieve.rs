//! Cases on a [`SieveDb`](lsm_sieve::SieveDb).

use std::path::Path;

use lsm_sieve::workload::Watch;
use lsm_sieve::workload::random::Random;
use serde::{Deserialize, Serialize};

use super::case::{Failure, Subject};
use super::closed;
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

/// Steps between two looks at the watch.
const PATCH: u64 = 256;

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
            frozen: false,
            tally,
            done: 0,
        };
        life.live(steps, watch)
    }

    fn simpler(&self) -> Vec<Self> {
        self.0.simpler().into_iter().map(Self).collect()
    }
}

/// A database from its making to its end.
struct Life<'a> {
    settings: &'a Settings,
    home: &'a Path,
    keys: &'a KeySpace,
    model: Model,
    front: FrontSettings,
    frozen: bool,
    tally: &'a mut Tally,
    /// Steps done.
    done: usize,
}

impl Life<'_> {
    fn live(&mut self, steps: &[Step], watch: &mut impl Watch) -> Result<(), Failure> {
        while let Some(closed) = self.open_and_do(steps, watch)? {
            let path = self.home.join("db");
            let mut files = closed::Closed {
                path: &path,
                settings: self.settings,
                keys: self.keys,
                model: &mut self.model,
                tally: self.tally,
            };
            let suffered = closed
                .mishaps
                .iter()
                .try_for_each(|mishap| files.suffer(mishap));
            suffered.map_err(Failure::at(self.done))?;
            self.front = closed.front.clone().unwrap_or_else(|| self.front.clone());
            self.frozen = closed.frozen;
            self.done += 1;
        }
        Ok(())
    }

    /// Opens the database and does steps until it is to be closed, or until the end.
    fn open_and_do<'s>(
        &mut self,
        steps: &'s [Step],
        watch: &mut impl Watch,
    ) -> Result<Option<&'s Closed>, Failure> {
        let front = self.front.options().map_err(Violation::other);
        let path = self.home.join("db");
        let opened = front.and_then(|front| {
            closed::open(
                self.settings,
                &front.frozen(self.frozen),
                &path,
                &self.model,
            )
        });
        let db = opened.map_err(Failure::at(self.done))?;
        self.tally.opened += 1;
        let ground = Ground::new(&db, self.settings, self.keys);
        let done = &mut self.done;
        let mut session = Session::new(ground, &mut self.model, self.tally, self.home, self.frozen);
        session.agree().map_err(Failure::at(*done))?;
        for step in &steps[*done..] {
            if let Step::Reopen(closed) = step {
                return Ok(Some(closed));
            }
            session.apply(step).map_err(Failure::at(*done))?;
            *done += 1;
            if (*done as u64).is_multiple_of(PATCH) {
                watch.advance(PATCH)?;
            }
        }
        session.agree().map_err(Failure::at(*done))?;
        session.verify().map_err(Failure::at(*done))?;
        Ok(None)
    }
}

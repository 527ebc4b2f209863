//! The work during which faults happen.
//!
//! It never gives up: a failed step is recorded, and a database that does not open is opened again
//! at the next step. Each step is reported as done or failed, so that the check of the folder knows
//! what must be in it.

use std::path::{Path, PathBuf};

use lsm_sieve::{Items, SieveOptions};
use rocksdb::{LogLevel, Options};

use super::target::{Store, Target};
use super::workload::{KEYS_READ, Step, key, update, version};
use crate::support::history::Failed;
use crate::support::history::model::Model;
use crate::support::model_db::always_filtered;

/// Explicit flushes only, and no thread that wakes up by the clock.
pub(super) fn engine() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_keep_log_file_num(1);
    options.set_log_level(LogLevel::Fatal);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.set_max_background_jobs(2);
    options
}

pub(super) fn sieve() -> SieveOptions {
    always_filtered().expected_keys(Items::new(100))
}

/// A target and the work on it.
pub(super) struct Worker<R> {
    target: Target,
    path: PathBuf,
    store: Option<Store>,
    model: Model,
    report: R,
}

impl<R: FnMut(&str)> Worker<R> {
    pub(super) fn new(target: Target, path: &Path, report: R) -> Self {
        Self {
            target,
            path: path.to_owned(),
            store: None,
            model: Model::empty(),
            report,
        }
    }

    /// Carries out all steps, as far as possible.
    pub(super) fn run(mut self) {
        for (number, step) in self.target.steps().into_iter().enumerate() {
            match self.carry_out(number, step) {
                Ok(()) => {
                    self.model.apply(step.writes(number));
                    (self.report)(&format!("done {number}"));
                }
                Err(error) => {
                    self.model.may_apply(step.writes(number));
                    (self.report)(&format!("failed {number} {error}"));
                }
            }
        }
        drop(self.store.take());
        (self.report)("end");
    }

    fn carry_out(&mut self, number: usize, step: Step) -> Result<(), Failed> {
        if matches!(step, Step::Reopen) {
            drop(self.store.take());
        }
        let store = match self.store.take() {
            Some(store) => store,
            None => Store::open(self.target, &self.path)?,
        };
        let store = self.store.insert(store);
        let padding = self.target.padding();
        let updates = || step.writes(number).map(|write| update(write, padding));
        match (step, &*store) {
            (Step::Write { synced, .. }, store) => store.write(updates(), synced)?,
            (Step::Delete { .. }, store) => store.write(updates(), false)?,
            (Step::Flush, store) => store.flush()?,
            (Step::Read, store) => read(store, &self.model, &mut self.report),
            (Step::Own(step), store) => store.carry_out(self.target, step)?,
            (Step::Reopen, _) => {}
        }
        Ok(())
    }
}

/// Reads every key. A read may fail, but returns no impossible value.
fn read(store: &Store, model: &Model, report: &mut impl FnMut(&str)) {
    for index in 0..KEYS_READ {
        for found in store.reads(&key(index)) {
            let found = found.as_deref().and_then(version);
            if !model.allows(0, index, found) {
                let possible = model.possible(0, index);
                report(&format!("LOST key {index}: {found:?}, not of {possible:?}"));
            }
        }
    }
}

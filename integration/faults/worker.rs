//! The work during which faults happen.
//!
//! It never gives up: a failed step is recorded, and a database that does not open is opened again
//! at the next step. Each step is reported as done or failed, so that the check of the folder knows
//! what must be in it.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::differential::{
    Batch, DifferentialOptions, DifferentialStore, OpenDifferentialError,
};
use lsm_sieve::{Items, SieveDb, SieveOptions};
use rocksdb::{LogLevel, Options, WriteBatch, WriteOptions};

use super::model::Model;
use super::workload::{KEYS_READ, Step, Target, key, spanned, steps, value, version};
use crate::support::model_db::always_filtered;

pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// The wait for maintenance: with a permanent fault it never ends.
const PATIENCE: Duration = Duration::from_millis(300);

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

/// The open target.
enum Store {
    SieveDb(SieveDb),
    Differential(Box<DifferentialStore>),
}

impl Store {
    fn open(target: Target, path: &Path) -> Result<Self, Failed> {
        Ok(match target {
            Target::SieveDb => Self::SieveDb(SieveDb::open(&engine(), &sieve(), path)?),
            Target::Differential | Target::Moves => {
                Self::Differential(Box::new(open_differential(target, path)?))
            }
        })
    }

    /// One batch: puts of these values, or deletes.
    fn write(
        &self,
        updates: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
        synced: bool,
    ) -> Result<(), Failed> {
        match self {
            Self::SieveDb(db) => {
                let mut batch = WriteBatch::default();
                updates.for_each(|(key, value)| match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                });
                let mut how = WriteOptions::default();
                how.set_sync(synced);
                db.write_opt(batch, &how)?;
            }
            Self::Differential(store) => {
                let mut batch = Batch::default();
                updates.for_each(|(key, value)| match value {
                    Some(value) => batch.put(key, value),
                    None => batch.delete(key),
                });
                store.write(&batch)?;
                if synced {
                    store
                        .db()
                        .with_engine_untracked(|engine| engine.flush_wal(true))?;
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Failed> {
        match self {
            Self::SieveDb(db) => Ok(db.flush()?),
            Self::Differential(store) => Ok(store.flush()?),
        }
    }

    /// The values of a key, by every way to read it that does not fail.
    fn reads(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let reads: Vec<Option<Option<Vec<u8>>>> = match self {
            Self::SieveDb(db) => {
                let many = db.multi_get([key]).into_iter().map(Result::ok);
                many.chain([db.get(key).ok()]).collect()
            }
            Self::Differential(store) => {
                let many = store.multi_get([key]).into_iter().map(Result::ok);
                many.chain([store.get(key).ok()]).collect()
            }
        };
        reads.into_iter().flatten().collect()
    }
}

/// Small batches, so that a reorganisation needs many.
pub(super) fn open_differential(
    target: Target,
    path: &Path,
) -> Result<DifferentialStore, OpenDifferentialError> {
    let mut engine = engine();
    if target == Target::Moves {
        // A log ends with its memtable, and is synced when four of them are flushed.
        engine.set_write_buffer_size(64 << 10);
        engine.set_min_write_buffer_number_to_merge(4);
        engine.set_max_write_buffer_number(16);
    }
    let options = DifferentialOptions {
        filters: sieve(),
        batch_bytes: 512,
        ..DifferentialOptions::default()
    };
    DifferentialStore::open(&engine, &options, path)
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
            model: Model::empty(KEYS_READ),
            report,
        }
    }

    /// Carries out all steps, as far as possible.
    pub(super) fn run(mut self) {
        for (number, step) in steps(self.target).into_iter().enumerate() {
            match self.carry_out(number, step) {
                Ok(()) => {
                    self.model.done(number, step);
                    (self.report)(&format!("done {number}"));
                }
                Err(error) => {
                    self.model.may_be_done(number, step);
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
        let updates = || {
            let version = step.outcome(number);
            let value = version.map(|version| value(version, padding));
            step.keys().map(move |index| (key(index), value.clone()))
        };
        match (step, &*store) {
            (Step::Write { synced, .. }, store) => store.write(updates(), synced)?,
            (Step::Delete { .. }, store) => store.write(updates(), false)?,
            (Step::Flush, store) => store.flush()?,
            (Step::Read, store) => read(store, &self.model, &mut self.report),
            (Step::Compact, Store::SieveDb(db)) => {
                db.compact_range(None::<&[u8]>, None::<&[u8]>);
            }
            (Step::Consolidate, Store::SieveDb(db)) => db.consolidate()?,
            (Step::Settle, Store::SieveDb(db)) => _ = db.wait_for_maintenance(PATIENCE),
            (Step::Freeze, Store::Differential(store)) => store.freeze()?,
            (Step::MoveSome, Store::Differential(store)) => {
                let most = if self.target == Target::Moves { 40 } else { 1 };
                store.reorganize(|progress| match progress.moved {
                    moved if moved < most => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                })?;
            }
            (Step::MoveAll, Store::Differential(store)) => {
                store.reorganize(|_| ControlFlow::Continue(()))?;
            }
            (Step::LoadBeneath { first }, Store::Differential(store)) => {
                let older = value(0, padding);
                store.load(spanned(first, 3).map(|index| (key(index), &older)))?;
            }
            (Step::Reopen, _) => {}
            (step, _) => return Err(format!("{:?} knows no {step:?}", self.target).into()),
        }
        Ok(())
    }
}

/// Reads every key. A read may fail, but returns no impossible value.
fn read(store: &Store, model: &Model, report: &mut impl FnMut(&str)) {
    for index in 0..KEYS_READ {
        for found in store.reads(&key(index)) {
            if !model.allows(index, found.as_deref()) {
                let found = found.as_deref().and_then(version);
                let possible = model.possible(index);
                report(&format!("LOST key {index}: {found:?}, not of {possible:?}"));
            }
        }
    }
}

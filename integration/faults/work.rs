//! The work that faults befall: a fixed list of steps, and what each key may hold after them.
//!
//! The work never gives up: a step that fails is noted, a database that does not open is opened
//! again at the next step. Each step is reported as done or failed, so that whoever looks at the
//! folder afterwards knows what must be in it.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::differential::{
    Batch, DifferentialOptions, DifferentialStore, OpenDifferentialError,
};
use lsm_sieve::{Items, SieveDb, SieveOptions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::{LogLevel, Options, WriteBatch, WriteOptions};

use super::judge::Truth;

pub(super) type Failed = Box<dyn Error + Send + Sync>;

/// Keys that are asked for; the last ones are never written.
pub(super) const ASKED: u32 = 300;

/// Upkeep is waited for so long: with a fault that stays, it never comes to its end.
const PATIENCE: Duration = Duration::from_millis(300);

pub(super) fn key(index: u32) -> Vec<u8> {
    format!("key-{index:05}").into_bytes()
}

/// The version, and bytes that do not compress.
pub(super) fn value(version: u32, length: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(version.into());
    let mut bytes = version.to_le_bytes().to_vec();
    bytes.extend((0..length).map(|_| random.random::<u8>()));
    bytes
}

fn version(value: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*value.first_chunk()?))
}

/// Explicit flushes alone, and no thread that wakes up by the clock.
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
    SieveOptions::default().expected_keys(Items::new(100))
}

/// What is worked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// A database behind its front.
    Front,
    /// A differential store.
    Differential,
}

/// One step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Put every third key of some, synced or not.
    Write {
        first: u32,
        synced: bool,
    },
    /// Delete every seventh key of some.
    Delete {
        first: u32,
    },
    Flush,
    Read,
    Reopen,
    /// Of a front.
    Compact,
    Consolidate,
    Settle,
    /// Of a differential store: the second stops after a batch.
    Freeze,
    MoveSome,
    MoveAll,
}

/// How many keys a writing step spans.
const SPAN: u32 = 60;

impl Step {
    /// The keys that a step writes; none for a step that does not.
    pub(super) fn keys(self) -> impl Iterator<Item = u32> {
        let (first, stride) = match self {
            Self::Write { first, .. } => (first, 3),
            Self::Delete { first } => (first, 7),
            _ => (ASKED, 1),
        };
        (first..(first + SPAN).min(ASKED)).step_by(stride)
    }

    /// What its keys hold afterwards, when it is the step of this number.
    pub(super) fn outcome(self, number: usize) -> Option<u32> {
        matches!(self, Self::Write { .. }).then(|| u32::try_from(number).unwrap())
    }
}

/// All that is done, in its order. Each writing step is one batch.
pub(super) fn steps(subject: Subject) -> Vec<Step> {
    use Step::{
        Compact, Consolidate, Delete, Flush, Freeze, MoveAll, MoveSome, Read, Reopen, Settle, Write,
    };
    let write = |first| Write {
        first,
        synced: first % 2 == 0,
    };
    let delete = |first| Delete { first };
    match subject {
        Subject::Front => [
            [write(0), write(1), Flush, write(50), Flush],
            [write(2), Flush, Settle, Read, Compact],
            [delete(3), write(90), Flush, Consolidate, Read],
            [write(100), Reopen, Read, write(151), Flush],
            [delete(90), Settle, Flush, Compact, Settle],
            [write(20), Read, Reopen, Consolidate, Read],
        ]
        .concat(),
        Subject::Differential => [
            [write(0), write(1), Flush, write(50), MoveAll],
            [write(2), delete(3), Freeze, write(91), Read],
            [MoveSome, write(100), delete(90), Read, Reopen],
            [delete(20), MoveSome, Flush, write(151), Read],
            [MoveAll, delete(100), Freeze, write(40), MoveSome],
            [write(41), MoveAll, Read, Reopen, Read],
        ]
        .concat(),
    }
}

/// What the database holds before the first writing step and after each.
pub(super) fn states(subject: Subject) -> Vec<Truth> {
    let mut states = vec![Truth::new()];
    for (number, step) in steps(subject).into_iter().enumerate() {
        let mut next = states[states.len() - 1].clone();
        for index in step.keys() {
            match step.outcome(number) {
                Some(version) => _ = next.insert(key(index), value(version, 60)),
                None => _ = next.remove(&key(index)),
            }
        }
        states.push(next);
    }
    states
}

/// The versions that each key may hold; `None` is "no value".
#[derive(Clone, Debug)]
pub(super) struct Model(Vec<Vec<Option<u32>>>);

impl Model {
    /// Of an empty database, of so many keys.
    pub(super) fn empty(keys: u32) -> Self {
        Self(vec![vec![None]; keys as usize])
    }

    /// A write of these keys was acknowledged.
    pub(super) fn set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize] = vec![version]);
    }

    /// A write of these keys may have happened.
    pub(super) fn may_set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize].push(version));
    }

    /// Whether this may be what a key holds.
    pub(super) fn allows(&self, key: u32, held: Option<&[u8]>) -> bool {
        self.0[key as usize].contains(&held.and_then(version))
    }

    /// What a key may hold.
    pub(super) fn possible(&self, key: u32) -> &[Option<u32>] {
        &self.0[key as usize]
    }

    /// The first key that holds what it cannot.
    pub(super) fn wrong(&self, truth: &Truth) -> Option<u32> {
        let held = |index| truth.get(&key(index)).map(Vec::as_slice);
        (0..)
            .zip(&self.0)
            .map(|(key, _)| key)
            .find(|&key| !self.allows(key, held(key)))
    }
}

/// A subject that is open.
enum Store {
    Front(SieveDb),
    Differential(Box<DifferentialStore>),
}

impl Store {
    fn open(subject: Subject, path: &Path) -> Result<Self, Failed> {
        Ok(match subject {
            Subject::Front => Self::Front(SieveDb::open(&engine(), &sieve(), path)?),
            Subject::Differential => Self::Differential(Box::new(open_differential(path)?)),
        })
    }

    /// One batch: puts of this version, or deletes.
    fn write(
        &self,
        keys: impl Iterator<Item = u32>,
        version: Option<u32>,
        synced: bool,
    ) -> Result<(), Failed> {
        let updates = keys.map(|index| (key(index), version.map(|version| value(version, 60))));
        match self {
            Self::Front(db) => {
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
                    store.front().with_engine(|engine| engine.flush_wal(true))?;
                }
            }
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Failed> {
        match self {
            Self::Front(db) => Ok(db.flush()?),
            Self::Differential(store) => Ok(store.flush()?),
        }
    }

    /// The values of a key, by every way to read it that does not fail.
    fn reads(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let reads: Vec<Option<Option<Vec<u8>>>> = match self {
            Self::Front(db) => {
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

/// Small batches, so that a reorganisation takes many.
pub(super) fn open_differential(path: &Path) -> Result<DifferentialStore, OpenDifferentialError> {
    let options = DifferentialOptions {
        front: sieve(),
        batch_bytes: 512,
        ..DifferentialOptions::default()
    };
    DifferentialStore::open(&engine(), &options, path)
}

/// A subject that is worked on.
pub(super) struct Work<R> {
    subject: Subject,
    path: PathBuf,
    store: Option<Store>,
    model: Model,
    report: R,
}

impl<R: FnMut(&str)> Work<R> {
    pub(super) fn new(subject: Subject, path: &Path, report: R) -> Self {
        Self {
            subject,
            path: path.to_owned(),
            store: None,
            model: Model::empty(ASKED),
            report,
        }
    }

    /// Carries all steps out, as far as they can be.
    pub(super) fn run(mut self) {
        for (number, step) in steps(self.subject).into_iter().enumerate() {
            match self.carry_out(number, step) {
                Ok(()) => {
                    self.model.set(step.keys(), step.outcome(number));
                    (self.report)(&format!("done {number}"));
                }
                Err(error) => {
                    self.model.may_set(step.keys(), step.outcome(number));
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
            None => Store::open(self.subject, &self.path)?,
        };
        let store = self.store.insert(store);
        match (step, &*store) {
            (Step::Write { synced, .. }, store) => {
                store.write(step.keys(), step.outcome(number), synced)?;
            }
            (Step::Delete { .. }, store) => store.write(step.keys(), None, false)?,
            (Step::Flush, store) => store.flush()?,
            (Step::Read, store) => read(store, &self.model, &mut self.report),
            (Step::Compact, Store::Front(db)) => {
                db.compact_range(None::<&[u8]>, None::<&[u8]>);
            }
            (Step::Consolidate, Store::Front(db)) => db.consolidate()?,
            (Step::Settle, Store::Front(db)) => db.wait_until_known(PATIENCE),
            (Step::Freeze, Store::Differential(store)) => store.freeze()?,
            (Step::MoveSome, Store::Differential(store)) => {
                store.reorganize(|_| ControlFlow::Break(()))?;
            }
            (Step::MoveAll, Store::Differential(store)) => {
                store.reorganize(|_| ControlFlow::Continue(()))?;
            }
            (Step::Reopen, _) => {}
            (step, _) => return Err(format!("{:?} knows no {step:?}", self.subject).into()),
        }
        Ok(())
    }
}

/// Reads every key. A read may fail, but not say what cannot be.
fn read(store: &Store, model: &Model, report: &mut impl FnMut(&str)) {
    for index in 0..ASKED {
        for found in store.reads(&key(index)) {
            if !model.allows(index, found.as_deref()) {
                let found = found.as_deref().and_then(version);
                let possible = model.possible(index);
                report(&format!("LOST key {index}: {found:?}, not of {possible:?}"));
            }
        }
    }
}

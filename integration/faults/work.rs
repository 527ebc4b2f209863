//! The work that faults befall: a fixed list of steps, and what each key may hold after them.
//!
//! The work never gives up: a step that fails is noted, a database that does not open is opened
//! again at the next step. Each step is reported as done or failed, so that whoever looks at the
//! folder afterwards knows what must be in it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    Compact,
    Consolidate,
    Settle,
    Read,
    Reopen,
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

/// All that is done, in its order.
pub(super) fn steps() -> Vec<Step> {
    use Step::{Compact, Consolidate, Delete, Flush, Read, Reopen, Settle, Write};
    let write = |first| Write {
        first,
        synced: first % 2 == 0,
    };
    [
        [write(0), write(1), Flush, write(50), Flush],
        [write(2), Flush, Settle, Read, Compact],
        [Delete { first: 3 }, write(90), Flush, Consolidate, Read],
        [write(100), Reopen, Read, write(151), Flush],
        [Delete { first: 90 }, Settle, Flush, Compact, Settle],
        [write(20), Read, Reopen, Consolidate, Read],
    ]
    .concat()
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

/// A database that is worked on.
pub(super) struct Work<R> {
    path: PathBuf,
    db: Option<SieveDb>,
    model: Model,
    report: R,
}

impl<R: FnMut(&str)> Work<R> {
    pub(super) fn new(path: &Path, report: R) -> Self {
        Self {
            path: path.to_owned(),
            db: None,
            model: Model::empty(ASKED),
            report,
        }
    }

    /// Carries all steps out, as far as they can be.
    pub(super) fn run(mut self) {
        for (number, step) in steps().into_iter().enumerate() {
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
        drop(self.db.take());
        (self.report)("end");
    }

    fn carry_out(&mut self, number: usize, step: Step) -> Result<(), Failed> {
        if matches!(step, Step::Reopen) {
            drop(self.db.take());
        }
        let db = match self.db.take() {
            Some(db) => db,
            None => SieveDb::open(&engine(), &sieve(), &self.path)?,
        };
        let db = self.db.insert(db);
        match step {
            Step::Write { synced, .. } => {
                let mut batch = WriteBatch::default();
                let number = u32::try_from(number)?;
                step.keys()
                    .for_each(|index| batch.put(key(index), value(number, 60)));
                let mut how = WriteOptions::default();
                how.set_sync(synced);
                db.write_opt(batch, &how)?;
            }
            Step::Delete { .. } => {
                let mut batch = WriteBatch::default();
                step.keys().for_each(|index| batch.delete(key(index)));
                db.write(batch)?;
            }
            Step::Flush => db.flush()?,
            Step::Compact => db.compact_range(None::<&[u8]>, None::<&[u8]>),
            Step::Consolidate => db.consolidate()?,
            Step::Settle => db.wait_until_known(PATIENCE),
            Step::Read => read(db, &self.model, &mut self.report),
            Step::Reopen => {}
        }
        Ok(())
    }
}

/// Reads every key, one by one and all at once. A read may fail, but not say what cannot be.
fn read(db: &SieveDb, model: &Model, report: &mut impl FnMut(&str)) {
    let keys: Vec<Vec<u8>> = (0..ASKED).map(key).collect();
    let many = db.multi_get(&keys);
    for ((index, key), many) in (0..).zip(&keys).zip(many) {
        for (how, found) in [("get", db.get(key)), ("multi_get", many)] {
            let Ok(found) = found else { continue };
            if !model.allows(index, found.as_deref()) {
                let answer = db.answer(key);
                let engine = db.get_unfiltered(key);
                report(&format!(
                    "LOST key {index} by {how}: {found:?}, {answer:?}, engine {engine:?}, \
                     expected one of {:?}",
                    model.possible(index)
                ));
            }
        }
    }
}

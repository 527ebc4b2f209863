//! What the faults happen to: a [`DifferentialStore`].

use std::ops::ControlFlow;
use std::path::Path;

use lsm_sieve_differential::{
    Batch, DifferentialOptions, DifferentialStore, OpenDifferentialError,
};
use rocksdb::DB;

use super::worker::{engine, sieve};
use super::workload::{Step, key, spanned, value};
use crate::support::history::Failed;
use crate::support::history::check::{CheckError, Entries, Tally};

/// What the steps work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A differential store.
    Differential,
    /// A differential store whose logs end every few records, while those are moved.
    Moves,
}

/// The steps of this kind of target alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnStep {
    Freeze,
    /// Reorganise, and stop after a batch.
    MoveSome,
    MoveAll,
    /// Load every third key of a span into the main file. All of them have newer records.
    LoadBeneath {
        first: u32,
    },
}

impl Target {
    /// Its name in the recorded figures and on the command line of a child.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Differential => "Differential",
            Self::Moves => "Moves",
        }
    }

    /// The target of a name.
    pub(super) fn labelled(label: &str) -> Option<Self> {
        let mut all = [Self::Differential, Self::Moves].into_iter();
        all.find(|target| target.label() == label)
    }

    /// Bytes of a value beyond its version.
    pub(super) fn padding(self) -> usize {
        match self {
            Self::Differential => 60,
            Self::Moves => 4_000,
        }
    }

    /// Whether its power is cut where one log depends on another.
    pub(super) fn is_cut_across_logs(self) -> bool {
        self == Self::Moves
    }

    /// Whether it is responsible for what RocksDB loses.
    pub(super) fn answers_for_its_data(self) -> bool {
        true
    }

    /// All steps, in order. Each writing step is one batch.
    pub(super) fn steps(self) -> Vec<Step> {
        use OwnStep::{Freeze, LoadBeneath, MoveAll, MoveSome};
        use Step::{Delete, Flush, Read, Reopen};
        let write = |first| Step::Write {
            first,
            synced: first % 2 == 0,
        };
        let again = |first| Step::Write {
            first,
            synced: true,
        };
        let delete = |first| Delete { first };
        let [freeze, some, all] = [Freeze, MoveSome, MoveAll].map(Step::Own);
        let beneath = Step::Own(LoadBeneath { first: 0 });
        match self {
            Self::Differential => [
                [write(0), write(1), Flush, write(50), all],
                [write(2), delete(3), freeze, write(91), Read],
                [some, write(100), delete(90), Read, Reopen],
                [delete(20), some, Flush, write(151), Read],
                [all, delete(100), freeze, write(40), some],
                [write(41), all, Read, Reopen, Read],
            ]
            .concat(),
            // Each write is made durable before anything else is written, except for the same keys
            // again. Then RocksDB keeps an earlier state, whichever logs it loses, and a cut takes
            // only moves.
            Self::Moves => [
                [write(0), write(60), write(120), write(2), all],
                [Reopen, delete(60), Flush, write(0), write(60)],
                [write(120), write(180), write(2), write(62), all],
                [Reopen, write(0), write(60), some, write(120)],
                [beneath, Read, Read, freeze, write(1)],
                [write(1), Read, Read, again(1), all],
                [write(0), write(60), some, write(120), beneath],
                [Read, freeze, write(61), write(61), Read],
            ]
            .concat(),
        }
    }
}

/// The open target.
pub(super) struct Store(DifferentialStore);

impl Store {
    pub(super) fn open(target: Target, path: &Path) -> Result<Self, Failed> {
        Ok(Self(open(target, path)?))
    }

    /// One batch: puts of these values, or deletes.
    pub(super) fn write(
        &self,
        updates: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
        synced: bool,
    ) -> Result<(), Failed> {
        let mut batch = Batch::default();
        updates.for_each(|(key, value)| match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        });
        self.0.write(&batch)?;
        if synced {
            let db = self.0.db();
            db.with_engine_untracked(|engine| engine.flush_wal(true))?;
        }
        Ok(())
    }

    pub(super) fn flush(&self) -> Result<(), Failed> {
        Ok(self.0.flush()?)
    }

    pub(super) fn carry_out(&self, target: Target, step: OwnStep) -> Result<(), Failed> {
        match step {
            OwnStep::Freeze => self.0.freeze()?,
            OwnStep::MoveSome => {
                let most = if target == Target::Moves { 40 } else { 1 };
                self.0.reorganize(|progress| match progress.moved {
                    moved if moved < most => ControlFlow::Continue(()),
                    _ => ControlFlow::Break(()),
                })?;
            }
            OwnStep::MoveAll => _ = self.0.reorganize(|_| ControlFlow::Continue(()))?,
            OwnStep::LoadBeneath { first } => {
                let older = value(0, target.padding());
                let keys = spanned(first, 3);
                self.0.load(keys.map(|index| (key(index), &older)))?;
            }
        }
        Ok(())
    }

    /// The values of a key, by every way to read it that does not fail.
    pub(super) fn reads(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let many = self.0.multi_get([key]).into_iter().map(Result::ok);
        many.chain([self.0.get(key).ok()]).flatten().collect()
    }
}

/// Small batches, so that a reorganisation needs many.
fn open(target: Target, path: &Path) -> Result<DifferentialStore, OpenDifferentialError> {
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

/// Checks a store, and returns its content.
pub(super) fn check(
    target: Target,
    path: &Path,
    read: impl Iterator<Item = Vec<u8>>,
) -> Result<(Entries, Tally), CheckError> {
    check_store(target, path, read).map_err(|error| match plain(path) {
        Err(engine) => CheckError::Engine(engine),
        Ok(()) => CheckError::Wrong(error),
    })
}

/// Whether RocksDB opens the folder.
fn plain(path: &Path) -> Result<(), rocksdb::Error> {
    let names = DB::list_cf(&engine(), path)?;
    DB::open_cf(&engine(), path, names).map(drop)
}

/// The truth is a scan, which checks no filter. It is the same after all
/// records were moved to the main file.
fn check_store(
    target: Target,
    path: &Path,
    read: impl Iterator<Item = Vec<u8>>,
) -> Result<(Entries, Tally), Failed> {
    let store = open(target, path)?;
    let scan = || store.scan::<&[u8]>(..).collect::<Result<Entries, _>>();
    let truth = scan()?;
    let keys: Vec<Vec<u8>> = read.collect();
    let mut tally = Tally::default();
    for moved in [false, true] {
        if moved {
            store.reorganize(|_| ControlFlow::Continue(()))?;
        }
        for (key, many) in keys.iter().zip(store.multi_get(&keys)) {
            let held = truth.get(key);
            let unmodified = !store.may_be_modified(key);
            let right = store.get(key)?.as_ref() == held
                && store.get_unfiltered(key)?.as_ref() == held
                && many?.as_ref() == held
                && !(unmodified && store.is_modified(key)?);
            if !right {
                return Err(format!("LOST {}, moved: {moved}", key.escape_ascii()).into());
            }
            tally += Tally {
                keys: 1,
                present: u64::from(held.is_some()),
                absent: u64::from(unmodified),
                ..Tally::default()
            };
        }
        if scan()? != truth {
            return Err("LOST by a reorganisation".into());
        }
    }
    Ok((truth, tally))
}

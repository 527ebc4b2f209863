//! Power cuts under a whole database: RocksDB's files and ours lose their unsynced changes.
//!
//! ```text
//!   child: open, write, flush, compact, ..   strace: every write, rename and sync
//!                                               |
//!   simulated disk: the same, to a random moment <-/   power cut
//!     -> a folder of all synced changes, and a random part of the others
//!          plain RocksDB: the truth         with filters: must say the same
//! ```
//!
//! What is left must be an earlier state, no older than the last synced write. RocksDB guarantees
//! that for itself. A store on top of it that moves records must guarantee it too.
//!
//! No file system has to lose anything, and nothing is compiled into RocksDB: the log of calls says
//! what the disk was told, hence what it may have lost. (Power cuts within the filter folder alone,
//! a hundred times as many, are in the library's own tests.)
//!
//! `LSM_SIEVE_DATABASE_IMAGES=20000` makes a long run. `LSM_SIEVE_SEED=n` repeats its draw.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};

use super::simulated_disk::{SimulatedDisk, Survival};
use super::strace_log::{self, FileOp};
use super::target::{self, Target};
use super::workload::{self, KEYS_READ, Step, key, version};
use crate::support::environment::number_from;
use crate::support::history::Failed;
use crate::support::history::check::{CheckError, Entries, Tally};
use crate::support::requirements::skip;

/// Images of an ordinary run.
const IMAGES: u64 = 100;

/// Images of one recording.
const IMAGES_A_RECORD: u64 = 1_000;

#[derive(Debug, Default)]
struct Totals {
    images: u64,
    operations: u64,
    /// Unsynced changes, over all images.
    unsynced: u64,
    /// Folders that RocksDB does not open.
    refused: u64,
    /// Keys denied by the filters that survived the cut, before maintenance built any.
    tally: Tally,
}

fn survival(target: Target, random: &mut StdRng) -> Survival {
    let sectors = [1, 512, 4096];
    // RocksDB itself may then keep a write and lose an older one, if neither was synced.
    if target.is_cut_across_logs() && random.random_bool(0.8) {
        let file_by_file = random.random_bool(0.3);
        return if file_by_file {
            Survival::Files(0.5)
        } else {
            Survival::Newest
        };
    }
    match random.random_range(0..6) {
        0 => Survival::Nothing,
        1 => Survival::All,
        2 => Survival::Some(0.95, 512),
        _ => Survival::Some(0.5, sectors[random.random_range(0..sectors.len())]),
    }
}

/// The recorded run of a child, to be cut.
struct Recording {
    target: Target,
    home: tempfile::TempDir,
    operations: Vec<FileOp>,
    /// The content after each step.
    states: Vec<Entries>,
    steps: Vec<Step>,
}

impl Recording {
    /// `None` without strace.
    fn new(target: Target) -> Result<Option<Self>, Failed> {
        let home = tempfile::tempdir()?;
        let operations = strace_log::record(target, home.path())?;
        Ok(operations.map(|operations| Self {
            target,
            home,
            operations,
            states: workload::states(target),
            steps: target.steps(),
        }))
    }

    /// The moments that show whether a log survives the records of another log that it depends on,
    /// or whether the manifest survives the log records that it depends on: when the newest of
    /// several logs ends or is synced, and after each sync of the manifest.
    fn crossings(&self) -> Vec<(usize, Survival)> {
        let mut crossings = Vec::new();
        if !self.target.is_cut_across_logs() {
            return crossings;
        }
        let mut disk = SimulatedDisk::new(self.home.path());
        for (moment, operation) in self.operations.iter().enumerate() {
            let (syncs, file) = match operation {
                FileOp::Sync(file) => (true, disk.path(*file)),
                FileOp::Open { path, create, .. } if *create => (false, Some(path.as_path())),
                _ => (false, None),
            };
            let is = |kind: fn(&Path) -> bool| file.is_some_and(kind);
            let (is_log, is_list) = (is(strace_log::is_log), is(strace_log::is_list) && syncs);
            if is_log && disk.count_unsynced_logs() > 1 {
                crossings.push((moment, Survival::Newest));
            }
            disk.apply(operation);
            if is_list && disk.count_unsynced_logs() > 0 {
                crossings.push((moment + 1, Survival::Nothing));
            }
        }
        crossings
    }

    /// Whether this is an earlier state, and none from before the last synced write.
    fn admits(&self, truth: &Entries, synced: usize) -> bool {
        self.states[synced..].contains(truth)
    }

    /// The keys in which a folder differs from the nearest of those states.
    fn difference(&self, truth: &Entries, synced: usize) -> String {
        let differing = |state: &Entries| -> Vec<String> {
            let versions = (0..KEYS_READ).map(|index| {
                let of = |held: &Entries| held.get(&key(index)).and_then(|value| version(value));
                (index, of(truth), of(state))
            });
            let differ = versions.filter(|(_, found, expected)| found != expected);
            differ
                .map(|(index, found, expected)| format!("{index}: {found:?}, not {expected:?}"))
                .collect()
        };
        let states = self.states[synced..].iter().zip(synced..);
        let differing = states.map(|(state, step)| (differing(state), step));
        let nearest = differing.min_by_key(|(keys, _)| keys.len());
        nearest.map_or_else(String::new, |(keys, step)| {
            format!("state {step} but for {}", keys.join(", "))
        })
    }
}

impl Totals {
    /// Cuts the power of a recorded run at each crossing, and at random moments.
    fn cut(
        &mut self,
        recording: &Recording,
        images: u64,
        random: &mut StdRng,
    ) -> Result<(), Failed> {
        let operations = &recording.operations;
        let after_steps: Vec<usize> = (1..=operations.len())
            .filter(|&end| matches!(operations[end - 1], FileOp::Done(_)))
            .collect();
        let mut moments = recording.crossings();
        moments.extend((0..images).map(|_| {
            let moment = match after_steps.choose(random) {
                // Such a state lasts as long as nothing is written.
                Some(&end) if random.random_bool(0.5) => end,
                _ => random.random_range(0..=operations.len()),
            };
            (moment, survival(recording.target, random))
        }));
        moments.sort_by_key(|&(moment, _)| moment);
        let mut disk = SimulatedDisk::new(recording.home.path());
        let (mut done, mut synced) = (0, 0);
        for (moment, survival) in moments {
            for operation in &operations[done..moment] {
                disk.apply(operation);
                if let FileOp::Done(step) = operation
                    && matches!(recording.steps[*step], Step::Write { synced: true, .. })
                {
                    synced = step + 1;
                }
            }
            done = moment;
            self.unsynced += disk.unsynced() as u64;
            let checked = self.check(recording, &disk, survival, synced, random);
            checked.map_err(|error| format!("after {moment} operations, {survival:?}: {error}"))?;
            self.images += 1;
        }
        Ok(())
    }

    fn check(
        &mut self,
        recording: &Recording,
        disk: &SimulatedDisk,
        survival: Survival,
        synced: usize,
        random: &mut StdRng,
    ) -> Result<(), Failed> {
        let image = tempfile::tempdir()?;
        disk.image(survival, random, image.path())?;
        let database = image.path().join("database");
        if !database.exists() {
            return Ok(());
        }
        match target::check(recording.target, &database, (0..KEYS_READ).map(key)) {
            Ok((truth, _)) if !recording.admits(&truth, synced) => {
                let difference = recording.difference(&truth, synced);
                Err(format!("LOST: no state from {synced}; {difference}").into())
            }
            Ok((_, tally)) => {
                self.tally += tally;
                Ok(())
            }
            Err(CheckError::Engine(error)) => {
                println!("refused by RocksDB: {error}");
                self.refused += 1;
                Ok(())
            }
            Err(CheckError::Wrong(error)) => Err(error),
        }
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            r#""images":{},"deeds":{},"changes_at_stake":{},"refused_by_rocksdb":{},"answers":{},"present":{},"absent":{},"lost":0"#,
            self.images,
            self.operations,
            self.unsynced,
            self.refused,
            self.tally.keys,
            self.tally.present,
            self.tally.absent
        )
    }
}

/// Cuts the power under this target as often as the environment says.
pub(super) fn cut_all(target: Target) {
    let images = number_from("LSM_SIEVE_DATABASE_IMAGES").unwrap_or(IMAGES);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{images} images, LSM_SIEVE_SEED={seed}");
    let (began, mut totals) = (Instant::now(), Totals::default());
    let mut random = StdRng::seed_from_u64(seed);
    while totals.images < images {
        let Some(recording) = Recording::new(target).unwrap() else {
            skip("there is no strace here, or it may not attach");
            return;
        };
        totals.operations += recording.operations.len() as u64;
        let now = (images - totals.images).min(IMAGES_A_RECORD);
        let cut = totals.cut(&recording, now, &mut random);
        cut.unwrap_or_else(|error| panic!("LSM_SIEVE_SEED={seed}: {error}"));
    }
    let of_a = target.label();
    let seconds = began.elapsed().as_secs_f64();
    println!(
        r#"{{"part":"power loss","of_a":"{of_a}","seed":{seed},{totals},"seconds":{seconds:.1}}}"#
    );
    assert!(
        totals.unsynced > totals.images,
        "{totals:?}: nothing was at stake"
    );
    assert!(totals.refused * 10 < totals.images, "{totals:?}");
    assert!(
        totals.tally.present > 0 && totals.tally.absent > 0,
        "{totals:?}"
    );
}

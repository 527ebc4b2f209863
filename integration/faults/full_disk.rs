//! A disk that is filled, freed and filled again: no acknowledged write is lost, and writes resume.
//!
//! ```text
//!   open, write       must succeed: there is room
//!   ballast           all but some KiB of the disk
//!   write, delete, flush, consolidate       may fail
//!   read              may fail, but returns no impossible value
//!   close before or after the ballast is removed
//! ```
//!
//! The disk is a small one in memory, mounted by the child. RocksDB makes a writer wait while there
//! is no space, so the ballast is removed if a child waits long.
//!
//! `LSM_SIEVE_FULL_CYCLES=5000` makes a long run. `LSM_SIEVE_SEED=n` repeats its draw.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::SieveDb;
use lsm_sieve_format::disk::{Disk as _, RealDisk};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::Options;

use super::target::{check_database, truth};
use super::worker::{self, sieve};
use super::workload::{key, value, version};
use crate::support::environment::number_from;
use crate::support::history::Failed;
use crate::support::history::check::Tally;
use crate::support::history::model::{Change, Model};
use crate::support::requirements::skip;

/// Cycles of an ordinary run.
const CYCLES: u64 = 40;

/// Cycles on one disk.
const CYCLES_A_DISK: u64 = 10;

/// Disks at once: RocksDB mostly waits, by the clock, for free space.
const LANES: u64 = 4;

/// Keys that are written. As many again are never written.
const KEYS: u32 = 200;

/// After this long without progress the ballast is removed.
const PATIENCE: Duration = Duration::from_secs(3);

const CHILD: &str = "LSM_SIEVE_FULL_CHILD";
const MOUNT: &str = r#"mount -t tmpfs -o size="$3" tmpfs "$1" && exec "$2" --exact faults::full_disk::child --nocapture"#;

#[test]
fn disk_that_fills_and_empties_loses_no_key() {
    let cycles = number_from("LSM_SIEVE_FULL_CYCLES").unwrap_or(CYCLES);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{cycles} cycles, LSM_SIEVE_SEED={seed}");
    assert!(cycles > 0, "no cycle shows nothing");
    let began = Instant::now();
    let mut random = StdRng::seed_from_u64(seed);
    let disks: Vec<(u64, u64)> = (0..cycles.div_ceil(CYCLES_A_DISK))
        .map(|_| (random.random(), random.random_range(8..=64)))
        .collect();
    let (queue, counts) = (Mutex::new(disks.iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(&(seed, mebibytes)) = { queue.lock().unwrap().next() } {
                    let Some(said) = run_child(seed, mebibytes) else {
                        return;
                    };
                    let numbers = said.split(' ').map(|number| number.parse().unwrap());
                    counts.lock().unwrap().push(numbers.collect::<Vec<u64>>());
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    if counts.is_empty() {
        return;
    }
    let sums: [u64; 6] = std::array::from_fn(|at| counts.iter().map(|count| count[at]).sum());
    let [refused, resumed, waited, answers, present, absent] = sums;
    println!(
        r#"{{"part":"disk full","seed":{seed},"cycles":{},"disks":{},"operations_refused":{refused},"writes_resumed":{resumed},"waited":{waited},"answers":{answers},"present":{present},"absent":{absent},"lost":0,"seconds":{:.1}}}"#,
        counts.len() as u64 * CYCLES_A_DISK,
        counts.len(),
        began.elapsed().as_secs_f64()
    );
    assert_eq!(counts.len(), disks.len(), "not every disk was mounted");
    assert!(refused > 0 && resumed > 0 && present > 0 && absent > 0);
}

/// The counts of a child; `None`, with a message, if it may not mount.
fn run_child(seed: u64, mebibytes: u64) -> Option<String> {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"])
        .args([home.path(), &std::env::current_exe().unwrap()])
        .arg(format!("{mebibytes}m"))
        .env(CHILD, format!("{seed} {}", home.path().display()))
        .output();
    let Ok(output) = output else {
        skip("there is no `unshare` here");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !said.contains("@begun") {
        skip(format!(
            "mounting in a namespace is not allowed here: {stderr}"
        ));
        return None;
    }
    let ended_well = output.status.success();
    assert!(ended_well, "seed {seed}, {mebibytes} MiB\n{said}\n{stderr}");
    let counted = said.lines().find_map(|line| line.split_once("@counted "));
    Some(counted.expect("a child counts").1.to_owned())
}

/// The child half. Does nothing unless its parent started it.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    println!("@begun");
    let (seed, mount) = task.split_once(' ').unwrap();
    let (seed, mount) = (seed.parse().unwrap(), Path::new(mount));
    let (progress, seen) = channel();
    let ballast = mount.join("ballast");
    let watch = thread::spawn(move || watch(&seen, &ballast));
    let tally = {
        let mut disk = SmallDisk::new(mount, seed, progress);
        for cycle in 0..CYCLES_A_DISK {
            let done = disk.cycle();
            done.unwrap_or_else(|error| panic!("cycle {cycle}: {error}"));
        }
        let tally = disk.end().unwrap();
        print!("@counted {} {}", disk.refused, disk.resumed);
        tally
    };
    let (
        waited,
        Tally {
            keys,
            present,
            absent,
            ..
        },
    ) = (watch.join().unwrap(), tally);
    println!(" {waited} {keys} {present} {absent}");
}

/// Removes the ballast whenever there is no progress. Returns how often.
fn watch(progress: &Receiver<()>, ballast: &Path) -> u64 {
    let mut waited = 0;
    loop {
        match progress.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return waited,
            Err(RecvTimeoutError::Timeout) if ballast.exists() => {
                waited += 1;
                RealDisk.remove(ballast).unwrap();
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// A database on a small disk.
struct SmallDisk {
    database: PathBuf,
    ballast: PathBuf,
    random: StdRng,
    model: Model,
    version: u64,
    progress: Sender<()>,
    /// Operations that failed.
    refused: u64,
    /// Writes that succeeded after space was freed.
    resumed: u64,
}

/// Small memtables, so that SSTs fail to fit as often as the log.
fn engine() -> Options {
    let mut options = worker::engine();
    options.set_write_buffer_size(128 << 10);
    options
}

impl SmallDisk {
    fn new(mount: &Path, seed: u64, progress: Sender<()>) -> Self {
        Self {
            database: mount.join("database"),
            ballast: mount.join("ballast"),
            random: StdRng::seed_from_u64(seed),
            model: Model::empty(),
            version: 0,
            progress,
            refused: 0,
            resumed: 0,
        }
    }

    fn cycle(&mut self) -> Result<(), Failed> {
        let db = SieveDb::open(&engine(), &sieve(), &self.database)?;
        for _ in 0..self.random.random_range(1..40) {
            self.write(&db)?;
            self.resumed += 1;
        }
        self.fill()?;
        let mut failures = 0;
        while failures < 4 && self.random.random_bool(0.995) {
            let done = match self.random.random_range(0..40) {
                0..3 => db.flush().map_err(Failed::from),
                3 => db.filters().consolidate().map_err(Failed::from),
                _ => self.write(&db),
            };
            failures += u64::from(done.is_err());
            self.progress.send(())?;
        }
        self.refused += failures;
        self.read(&db)?;
        if self.random.random_bool(0.5) {
            drop(db);
            self.free();
        } else {
            self.free();
            self.read(&db)?;
        }
        self.progress.send(())?;
        Ok(())
    }

    /// Puts or deletes a key, and records the possible outcomes.
    fn write(&mut self, db: &SieveDb) -> Result<(), Failed> {
        let index = self.random.random_range(0..KEYS);
        self.version += 1;
        let length = self.random.random_range(100..6_000);
        let put = self.random.random_bool(0.8).then_some(self.version);
        let done = match put {
            Some(version) => db.put(key(index), value(version, length)),
            None => db.delete(key(index)),
        };
        let write = [(0, index, put.map_or(Change::Remove, Change::Set))];
        match &done {
            Ok(()) => self.model.apply(write),
            Err(_) => self.model.may_apply(write),
        }
        Ok(done?)
    }

    /// Fills the disk except for some KiB.
    fn fill(&mut self) -> Result<(), Failed> {
        let mut file = File::create_new(&self.ballast)?;
        while file.write_all(&[1; 64 << 10]).is_ok() {}
        let spare = self.random.random_range(0..400) << 10;
        let length = file.metadata()?.len();
        Ok(file.set_len(length.saturating_sub(spare))?)
    }

    fn free(&self) {
        // The watcher may have removed it.
        _ = RealDisk.remove(&self.ballast);
    }

    /// Reads may fail, but return no impossible value.
    fn read(&self, db: &SieveDb) -> Result<(), Failed> {
        for index in 0..KEYS * 2 {
            if let Ok(found) = db.get(key(index))
                && let found = found.as_deref().and_then(version)
                && !self.model.allows(0, index, found)
            {
                let (answer, possible) = (
                    db.filters().answer(key(index)),
                    self.model.possible(0, index),
                );
                return Err(format!("LOST key {index}: {answer:?}, not of {possible:?}").into());
            }
        }
        Ok(())
    }

    /// Checks the final content.
    fn end(&self) -> Result<Tally, Failed> {
        let truth = truth(&self.database)?;
        let entries = truth.values().next().ok_or("no family")?;
        let held = |index| version(entries.get(&key(index))?);
        self.model.check(0, 0..KEYS * 2, held)?;
        let read: Vec<_> = (0..KEYS * 2).map(key).collect();
        check_database(&self.database, &truth, &read)
    }
}

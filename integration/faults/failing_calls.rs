//! Every system call fails in its turn, once and for ever, with every error.
//!
//! After SQLite's loops over the n-th fault. A run without faults counts the calls of each thread.
//! Then "the n-th call of this name" fails in a run of its own, for every n that any thread
//! reaches. During the fault a read may fail but must not lose a key. Afterwards, without faults,
//! the database opens and agrees with a plain RocksDB without the plugin.
//!
//! `LSM_SIEVE_CALLS=1000000` tries all faults. Fewer are drawn at random, but no call is drawn
//! twice before every call was drawn once. `LSM_SIEVE_SEED=n` repeats the draw.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;

use super::strace::{self, ChildRun};
use super::target::{self, Target};
use super::workload::{KEYS_READ, key, version};
use crate::support::environment::number_from;
use crate::support::history::Failed;
use crate::support::history::check::{CheckError, Tally};
use crate::support::requirements::skip;

/// Runs of an ordinary test.
const RUNS: u64 = 40;

/// Runs at once.
const LANES: usize = 2;

const CALLS: [&str; 16] = [
    "openat",
    "read",
    "pread64",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "ftruncate",
    "fallocate",
    "mkdir",
    "close",
    "getdents64",
    "fcntl",
    "statx",
];

const ERRORS: [&str; 7] = [
    "EIO", "ENOSPC", "EDQUOT", "EACCES", "EMFILE", "EROFS", "EINTR",
];

/// The n-th call of this name fails, in every thread that makes that many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) call: &'static str,
    pub(super) error: &'static str,
    pub(super) nth: u64,
    for_ever: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            call,
            error,
            nth,
            for_ever,
        } = self;
        let rest = if *for_ever { "+" } else { "" };
        write!(f, "{call}:error={error}:when={nth}{rest}")
    }
}

/// The calls of one run, by name and thread.
pub(super) type Calls = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// Counts the calls in a log of strace. Each line begins with the thread.
pub(super) fn count(log: &str, wanted: impl Fn(&str) -> bool) -> Calls {
    let mut calls = Calls::new();
    for line in log.lines().filter(|line| wanted(line)) {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let name = rest.trim_start().split('(').next().unwrap_or_default();
        if let Some(call) = CALLS.iter().find(|call| **call == name) {
            let threads = calls.entry(call).or_default();
            *threads.entry(thread.to_owned()).or_default() += 1;
        }
    }
    calls
}

pub(super) fn run_traced(
    target: Target,
    home: &Path,
    inject: Option<&Fault>,
) -> Result<Option<(ChildRun, String)>, Failed> {
    let log = home.join("calls");
    let mut arguments = vec![
        "-o".to_owned(),
        log.display().to_string(),
        "-e".to_owned(),
        format!("trace={}", CALLS.join(",")),
    ];
    arguments.extend(inject.into_iter().flat_map(|fault| {
        let inject = format!("inject={fault}");
        ["-e".to_owned(), inject]
    }));
    let Some(child_run) = strace::run_child(target, &home.join("database"), &arguments)? else {
        return Ok(None);
    };
    Ok(Some((child_run, fs::read_to_string(log)?)))
}

/// The outcomes of all faults.
#[derive(Debug, Default)]
pub(super) struct Totals {
    runs: u64,
    /// Calls that failed.
    pub(super) calls_failed: u64,
    pub(super) failed_steps: u64,
    /// Runs that waited without end. They were killed and checked.
    stuck: Vec<String>,
    /// Folders that RocksDB itself no longer opens, and why.
    refused: Vec<String>,
    /// Folders in which RocksDB itself lost acknowledged writes.
    pub(super) engine_lost: Vec<String>,
    tally: Tally,
    pub(super) violations: Vec<String>,
}

impl Totals {
    /// The outcome of one fault.
    fn of(target: Target, fault: Fault, child_run: &ChildRun, log: &str, database: &Path) -> Self {
        let mut totals = Self {
            runs: 1,
            calls_failed: log.matches("(INJECTED)").count() as u64,
            failed_steps: child_run.failed,
            ..Self::default()
        };
        totals
            .stuck
            .extend(child_run.stuck.then(|| fault.to_string()));
        if child_run.crashed() {
            let (panics, stderr) = (&child_run.panics, &child_run.stderr);
            let status = child_run.status;
            totals
                .violations
                .push(format!("{fault}: {status}, {panics:?}, {stderr}"));
        }
        let lost = child_run
            .lost
            .first()
            .map(|lost| format!("{fault}: {lost}"));
        totals.violations.extend(lost);
        totals.check(target, fault, child_run, database);
        totals
    }

    fn check(&mut self, target: Target, fault: Fault, child_run: &ChildRun, database: &Path) {
        match target::check(target, database, (0..KEYS_READ).map(key)) {
            Ok((truth, tally)) => {
                self.tally += tally;
                let held = |index| version(truth.get(&key(index))?);
                let checked = child_run.model.check(0, 0..KEYS_READ, held);
                let lost = checked.err().map(|error| format!("{fault}: {error}"));
                self.engine_lost.extend(lost);
            }
            Err(CheckError::Engine(error)) => self.refused.push(format!("{fault}: {error}")),
            Err(CheckError::Wrong(error)) => self.violations.push(format!("{fault}: {error}")),
        }
    }

    /// Adds other outcomes, and prints what was found.
    fn add(&mut self, more: Self) {
        self.runs += more.runs;
        self.calls_failed += more.calls_failed;
        self.failed_steps += more.failed_steps;
        self.tally += more.tally;
        for (what, all, new) in [
            ("stuck", &mut self.stuck, more.stuck),
            ("refused by RocksDB", &mut self.refused, more.refused),
            ("lost by RocksDB", &mut self.engine_lost, more.engine_lost),
            ("violated", &mut self.violations, more.violations),
        ] {
            new.iter().for_each(|found| println!("{what}: {found}"));
            all.extend(new);
        }
        if self.runs.is_multiple_of(500) {
            println!("{} runs", self.runs);
        }
    }
}

/// All faults that these calls can meet. An interruption that never ends is left out: an
/// interrupted caller tries again.
pub(super) fn faults(calls: &Calls) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (&call, threads) in calls {
        let most = threads.values().copied().max().unwrap_or(0);
        for nth in 1..=most {
            for error in ERRORS {
                let lasts = [false, true].into_iter();
                let lasts = lasts.filter(|&for_ever| !for_ever || error != "EINTR");
                faults.extend(lasts.map(|for_ever| Fault {
                    call,
                    error,
                    nth,
                    for_ever,
                }));
            }
        }
    }
    faults
}

/// Draws this many faults, as evenly over the calls as possible.
fn draw(mut faults: Vec<Fault>, runs: usize, seed: u64) -> Vec<Fault> {
    faults.shuffle(&mut StdRng::seed_from_u64(seed));
    let mut turns: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, Fault)> = faults
        .into_iter()
        .map(|fault| {
            let turn = turns.entry((fault.call, fault.nth)).or_default();
            *turn += 1;
            (*turn, fault)
        })
        .collect();
    ranked.sort_by_key(|(turn, _)| *turn);
    ranked.truncate(runs);
    ranked.into_iter().map(|(_, fault)| fault).collect()
}

fn run(target: Target, fault: Fault, totals: &Mutex<Totals>) -> Result<(), Failed> {
    let home = tempfile::tempdir()?;
    let (child_run, log) =
        run_traced(target, home.path(), Some(&fault))?.ok_or("strace is gone")?;
    let part = Totals::of(
        target,
        fault,
        &child_run,
        &log,
        &home.path().join("database"),
    );
    let mut totals = totals.lock().map_err(|_| "another lane panicked")?;
    totals.add(part);
    Ok(())
}

/// Injects each of these faults, in a run of its own.
pub(super) fn inject_all(target: Target, faults: Vec<Fault>) -> Totals {
    let queue = Mutex::new(faults.into_iter());
    let totals = Mutex::new(Totals::default());
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                while let Some(fault) = { queue.lock().unwrap().next() } {
                    run(target, fault, &totals).unwrap_or_else(|error| panic!("{fault}: {error}"));
                }
            });
        }
    });
    totals.into_inner().unwrap()
}

/// Makes calls fail under this target, as many as the environment says.
pub(super) fn try_all(target: Target) {
    let (began, home) = (Instant::now(), tempfile::tempdir().unwrap());
    let Some((child_run, log)) = run_traced(target, home.path(), None).unwrap() else {
        skip("there is no strace here, or it may not attach");
        return;
    };
    assert!(
        child_run.ended && child_run.failed == 0 && !child_run.crashed(),
        "{child_run:?}"
    );
    let calls = count(&log, |line| !line.contains(" resumed>"));
    let made: u64 = calls.values().flat_map(BTreeMap::values).sum();
    let faults = faults(&calls);
    let all = faults.len();
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    let runs = number_from("LSM_SIEVE_CALLS").unwrap_or(RUNS);
    let runs = usize::try_from(runs).unwrap_or(all).min(all);
    println!("{runs} of {all} faults, LSM_SIEVE_SEED={seed}");
    let faults = draw(faults, runs, seed);
    let tried: BTreeSet<_> = faults.iter().map(|fault| (fault.call, fault.nth)).collect();
    let totals = inject_all(target, faults);
    println!(
        r#"{{"part":"system calls","of_a":"{}","seed":{seed},"runs":{},"of":{all},"calls_made":{made},"calls_tried":{},"calls_failed":{},"steps_failed":{},"stuck":{},"refused_by_rocksdb":{},"lost_by_rocksdb":{},"answers":{},"absent":{},"violations":{},"seconds":{:.1}}}"#,
        target.label(),
        totals.runs,
        tried.len(),
        totals.calls_failed,
        totals.failed_steps,
        totals.stuck.len(),
        totals.refused.len(),
        totals.engine_lost.len(),
        totals.tally.keys,
        totals.tally.absent,
        totals.violations.len(),
        began.elapsed().as_secs_f64()
    );
    let lost_data = target.answers_for_its_data() && !totals.engine_lost.is_empty();
    assert!(
        totals.violations.is_empty() && !lost_data,
        "LSM_SIEVE_SEED={seed}"
    );
    assert!(
        totals.calls_failed > 0 && totals.failed_steps > 0,
        "no call failed"
    );
    assert!(totals.tally.absent > 0, "nothing was ruled out");
}

//! Kill -9 at any moment, many times over: no key is lost.
//!
//! ```text
//!   parent                       child (this binary, run again)
//!   start ------------------->   open, write, flush, compact, ingest, consolidate, close, open ..
//!   read acknowledgements <---   one line a step
//!   SIGKILL ----------------->   (dead)
//!   perhaps start the next on the same folder, unchecked: kills nest
//!   copy the folder, check the copy; the original goes on as it was left
//! ```
//!
//! The kill follows the work: it comes some microseconds after a random number of lines, or soon
//! after the start, or while the child closes. The steps of a child are fixed by its seed, so the
//! parent knows what every acknowledged step wrote.
//!
//! `LSM_SIEVE_KILLS=100000` makes a long run. `LSM_SIEVE_SEED=n` repeats the seeds of another run.
//! Scheduling does not depend on the seed: a repetition repeats the work, not the moment of the
//! kill.

mod filter_check;
mod injected_losses;
mod model;
mod random_options;
mod worker;
mod workload;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::environment::number_from;
use filter_check::{Tally, Truth};
use model::Model;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use random_options::RandomOptions;
use worker::{Failed, Task};
use workload::{WRITERS, Workload};

/// Kills of an ordinary run.
const KILLS: u64 = 500;

/// Folders in use at once.
const LANES: u64 = 2;

/// Kills before a fresh folder.
const KILLS_A_FOLDER: u64 = 25;

/// A child that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    let Some(task) = std::env::var(Task::VARIABLE)
        .ok()
        .and_then(|text| Task::from_text(&text))
    else {
        return;
    };
    if let Err(error) = worker::run(&task) {
        worker::report(&format!("failed {error}"));
        std::process::exit(1);
    }
}

#[test]
fn kill_9_loses_no_key() {
    let kills = number_from("LSM_SIEVE_KILLS").unwrap_or(KILLS);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{kills} kills, LSM_SIEVE_SEED={seed}");
    let left = AtomicU64::new(kills);
    let results: Vec<Result<Totals, Failed>> = thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let left = &left;
                scope.spawn(move || run_lane(seed, lane, left))
            })
            .collect();
        lanes.into_iter().map(|lane| lane.join().unwrap()).collect()
    });
    let mut totals = Totals::default();
    for result in results {
        match result {
            Ok(part) => totals.add(&part),
            Err(error) => panic!("LSM_SIEVE_SEED={seed}: {error}"),
        }
    }
    println!("{totals:#?}");
    println!(
        r#"{{"part":"kills","of_a":"front","seed":{seed},"kills":{},"keys_checked":{},"absent_checked":{},"folders":{},"lost":0}}"#,
        totals.kills, totals.tally.keys, totals.tally.absent, totals.folders
    );
    let crashes = totals.crashes.len() as u64;
    assert!(totals.kills + crashes >= kills);
    assert!(crashes <= 1 + kills / 1_000, "{totals:?}");
    assert!(totals.tally.absent > totals.tally.keys / 20, "{totals:?}");
}

/// What was done, and when the kills came.
#[derive(Debug, Default)]
struct Totals {
    kills: u64,
    /// Children that crashed in RocksDB alone.
    crashes: Vec<String>,
    folders: u64,
    checks: u64,
    tally: Tally,
    stages: BTreeMap<String, u64>,
    steps: BTreeMap<&'static str, u64>,
    maintenance: BTreeMap<String, u64>,
}

impl Totals {
    fn add(&mut self, more: &Self) {
        self.kills += more.kills;
        self.crashes.extend_from_slice(&more.crashes);
        self.folders += more.folders;
        self.checks += more.checks;
        self.tally += more.tally;
        for (name, count) in &more.stages {
            *self.stages.entry(name.clone()).or_default() += count;
        }
        for (name, count) in &more.steps {
            *self.steps.entry(name).or_default() += count;
        }
        for (name, count) in &more.maintenance {
            *self.maintenance.entry(name.clone()).or_default() += count;
        }
    }
}

fn run_lane(seed: u64, lane: u64, left: &AtomicU64) -> Result<Totals, Failed> {
    let mut totals = Totals::default();
    let mut random = StdRng::seed_from_u64(seed ^ (lane << 60));
    while left.load(Ordering::Relaxed) > 0 {
        let seed = random.random();
        let home = tempfile::tempdir()?;
        let mut folder = Folder::new(seed, home.path());
        if let Err(error) = folder.run(left, &mut totals) {
            let kept = home.keep();
            let setup = &folder.setup;
            return Err(format!(
                "{error}\n  folder seed {seed}, {setup:?}\n  history {:#?}\n  kept in {}",
                folder.history,
                kept.display()
            )
            .into());
        }
        totals.folders += 1;
    }
    Ok(totals)
}

/// One database and all that happened to it.
struct Folder {
    setup: RandomOptions,
    random: StdRng,
    database: PathBuf,
    copy: PathBuf,
    model: Model,
    history: Vec<ChildRun>,
    /// Some child created the whole database.
    exists: bool,
}

impl Folder {
    fn new(seed: u64, home: &Path) -> Self {
        Self {
            setup: RandomOptions::new(seed),
            random: StdRng::seed_from_u64(seed),
            database: home.join("database"),
            copy: home.join("copy"),
            model: Model::empty(),
            history: Vec::new(),
            exists: false,
        }
    }

    fn run(&mut self, left: &AtomicU64, totals: &mut Totals) -> Result<(), Failed> {
        let mut killed = 0;
        while killed < KILLS_A_FOLDER {
            for _ in 0..self.random.random_range(1..=3) {
                killed += 1;
                self.run_and_kill(totals)?;
                let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    left.checked_sub(1)
                });
                if more.is_err() {
                    break;
                }
            }
            self.check(totals)?;
            if left.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        Ok(())
    }

    fn run_and_kill(&mut self, totals: &mut Totals) -> Result<(), Failed> {
        let task = Task {
            setup: self.setup.seed,
            seed: self.random.random(),
            plain: self.random.random_bool(0.08),
            path: self.database.clone(),
        };
        let child_run = run_child(&task, Kill::draw(&mut self.random))?;
        self.exists |= child_run.opened;
        if child_run.crashed {
            totals.crashes.push(format!("{child_run:?}"));
        } else {
            totals.kills += 1;
        }
        *totals.stages.entry(child_run.stage.clone()).or_default() += 1;
        if !task.plain {
            *totals
                .maintenance
                .entry(child_run.maintenance.clone())
                .or_default() += 1;
        }
        for (writer, &done) in (0..WRITERS).zip(&child_run.done) {
            let mut workload = Workload::new(task.seed, writer);
            for step in workload.by_ref().take(done as usize) {
                self.model.apply(&step);
            }
            if let Some(step) = workload.next() {
                self.model.may_apply(&step);
                if child_run.stage == "opened" {
                    *totals.steps.entry(step.name()).or_default() += 1;
                }
            }
        }
        self.history.push(child_run);
        Ok(())
    }

    /// Checks a copy, so that the original stays as the kill left it.
    fn check(&mut self, totals: &mut Totals) -> Result<(), Failed> {
        if !self.exists {
            return Ok(());
        }
        if self.copy.exists() {
            std::fs::remove_dir_all(&self.copy)?;
        }
        copy_folder(&self.database, &self.copy)?;
        let truth = Truth::read(&self.setup, &self.copy)?;
        truth.check_model(&self.setup, &self.model)?;
        self.model.settle(|family, key| truth.held(family, key));
        if self.random.random_bool(0.2) {
            filter_check::damage(&self.copy, self.random.random())?;
        }
        let sieve = self.setup.sieve(self.random.random());
        totals.tally += filter_check::check(&self.setup, &sieve, &self.copy, &truth)?;
        totals.checks += 1;
        Ok(())
    }
}

/// When to kill a child.
#[derive(Clone, Copy, Debug)]
struct Kill {
    /// After this many lines,
    lines: u64,
    /// or at the line that announces the close,
    at_close: bool,
    /// and this much later.
    later: Duration,
}

impl Kill {
    fn draw(random: &mut StdRng) -> Self {
        let (lines, at_close, micros) = match random.random_range(0..10) {
            0 => (0, false, 40_000),
            1 | 2 => (1, false, 40_000),
            3 => (u64::MAX, true, 30_000),
            _ => (1 << random.random_range(2..13), false, 5_000),
        };
        Self {
            lines: lines.saturating_add(random.random_range(0..=lines / 2)),
            at_close,
            later: Duration::from_micros(random.random_range(0..micros)),
        }
    }
}

/// What one child did.
#[derive(Debug)]
struct ChildRun {
    #[expect(dead_code, reason = "printed when a check fails")]
    task: Task,
    #[expect(dead_code, reason = "printed when a check fails")]
    kill: Kill,
    lines: u64,
    opened: bool,
    /// The last of open, opened, close, closed.
    stage: String,
    /// The last maintenance call.
    maintenance: String,
    /// The steps that each writer reported as done.
    done: [u64; WRITERS as usize],
    /// It crashed by itself. Without the plugin that is a bug of RocksDB, and counts as a kill.
    crashed: bool,
}

impl ChildRun {
    fn note(&mut self, line: &str) -> Result<(), Failed> {
        // The test runner may have printed the start of the line.
        let Some((_, line)) = line.split_once('@') else {
            return Ok(());
        };
        self.lines += 1;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            ["done", writer, done] => self.done[writer.parse::<usize>()?] = done.parse()?,
            ["maintenance", what @ ..] => self.maintenance = what.join(" "),
            ["failed", ..] => return Err(line.into()),
            [stage] => {
                self.opened |= *stage == "opened";
                (*stage).clone_into(&mut self.stage);
            }
            _ => return Err(format!("a child said {line:?}").into()),
        }
        Ok(())
    }
}

/// Starts a child, kills it, and returns what it printed.
fn run_child(task: &Task, kill: Kill) -> Result<ChildRun, Failed> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(Task::VARIABLE, task.to_text())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut child_run = ChildRun {
        task: task.clone(),
        kill,
        lines: 0,
        opened: false,
        stage: "start".to_owned(),
        maintenance: "nothing".to_owned(),
        done: [0; WRITERS as usize],
        crashed: false,
    };
    let outcome = watch(&mut child, kill, &mut child_run);
    // It may have ended by itself, after printing the reason.
    child.kill()?;
    let status = child.wait()?;
    let rest = outcome?;
    for line in rest {
        child_run.note(&line)?;
    }
    child_run.crashed = status.signal().is_some_and(|signal| signal != 9);
    let alone = child_run.crashed && task.plain;
    if status.signal() != Some(9) && !alone {
        return Err(
            format!("a child was not killed but ended with {status}: {child_run:?}").into(),
        );
    }
    Ok(child_run)
}

/// Reads the lines of a child until it is to be killed. Returns the rest of its lines.
fn watch(
    child: &mut Child,
    kill: Kill,
    child_run: &mut ChildRun,
) -> Result<Receiver<String>, Failed> {
    let output = child.stdout.take().ok_or("a child without output")?;
    let (send, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    while child_run.lines < kill.lines && !(kill.at_close && child_run.stage == "close") {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => child_run.note(&line)?,
            Err(RecvTimeoutError::Timeout) => return Err(format!("hangs: {child_run:?}").into()),
            Err(RecvTimeoutError::Disconnected) => return Ok(lines),
        }
    }
    let deadline = Instant::now() + kill.later;
    while let Some(left) = deadline.checked_duration_since(Instant::now()) {
        match lines.recv_timeout(left) {
            Ok(line) => child_run.note(&line)?,
            Err(_) => break,
        }
    }
    Ok(lines)
}

/// Copies a database whose process is dead. SSTs never change, so they are hard links.
fn copy_folder(from: &Path, to: &Path) -> Result<(), Failed> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&source, &target)?;
        } else if source.extension().is_some_and(|ending| ending == "sst") {
            std::fs::hard_link(source, target)?;
        } else {
            std::fs::copy(source, target)?;
        }
    }
    Ok(())
}

//! Kill -9 at any moment, many times over.
//!
//! ```text
//!   parent                       child (this binary, run again)
//!   start ------------------->   open, work, close, open ..
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

#![expect(clippy::print_stdout, reason = "long runs say what they found")]

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::Failed;
use super::child::{command, reports};
use super::world::{Task, WRITERS, World};
use crate::support::environment::number_from;

/// Folders in use at once.
const LANES: u64 = 2;

/// Kills before a fresh folder.
const KILLS_A_FOLDER: u64 = 25;

/// A child that prints nothing for this long hangs.
const SILENCE: Duration = Duration::from_secs(60);

type Counts = BTreeMap<String, u64>;

/// What was done, and when the kills came.
#[derive(Debug, Default)]
pub(crate) struct Totals<F> {
    pub(crate) seed: u64,
    /// Kills that were asked for.
    pub(crate) asked: u64,
    pub(crate) kills: u64,
    /// Children that crashed in RocksDB alone.
    pub(crate) crashes: Vec<String>,
    pub(crate) folders: u64,
    pub(crate) checks: u64,
    pub(crate) found: F,
    /// The last of open, opened, close, closed.
    pub(crate) stages: Counts,
    /// The steps that were next.
    pub(crate) steps: Counts,
    /// The last maintenance calls.
    pub(crate) maintenance: Counts,
}

/// Kills children as often as the environment says, or this often.
pub(crate) fn kill_all<W: World>(kills: u64) -> Totals<W::Found> {
    let kills = number_from("LSM_SIEVE_KILLS").unwrap_or(kills);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{kills} kills, LSM_SIEVE_SEED={seed}");
    let totals = Mutex::new(Totals {
        seed,
        asked: kills,
        ..Totals::default()
    });
    let left = AtomicU64::new(kills);
    thread::scope(|scope| {
        for lane in 0..LANES {
            let (totals, left) = (&totals, &left);
            scope.spawn(move || {
                let random = StdRng::seed_from_u64(seed ^ (lane << 60));
                let done = run_lane::<W>(random, left, totals);
                done.unwrap_or_else(|error| panic!("LSM_SIEVE_SEED={seed}: {error}"));
            });
        }
    });
    let totals = totals.into_inner().expect("a lane panics by itself");
    println!("{totals:#?}");
    totals
}

fn run_lane<W: World>(
    mut random: StdRng,
    left: &AtomicU64,
    totals: &Mutex<Totals<W::Found>>,
) -> Result<(), Failed> {
    while left.load(Ordering::Relaxed) > 0 {
        let home = tempfile::tempdir()?;
        let mut folder = Folder::<W>::new(random.random(), home.path());
        if let Err(error) = folder.run(left, totals) {
            let (seed, settings) = (folder.seed, folder.world.settings());
            let (history, kept) = (&folder.history, home.keep());
            return Err(format!(
                "{error}\n  folder seed {seed}, {settings}\n  history {history:#?}\n  kept in {}",
                kept.display()
            )
            .into());
        }
        let mut totals = totals.lock().map_err(|_| "another lane panicked")?;
        totals.folders += 1;
    }
    Ok(())
}

/// One world and all that happened to it.
struct Folder<W> {
    seed: u64,
    world: W,
    random: StdRng,
    database: PathBuf,
    copy: PathBuf,
    history: Vec<ChildRun>,
    /// Some child created the whole database.
    complete: bool,
}

impl<W: World> Folder<W> {
    fn new(seed: u64, home: &Path) -> Self {
        Self {
            seed,
            world: W::new(seed),
            random: StdRng::seed_from_u64(seed),
            database: home.join("database"),
            copy: home.join("copy"),
            history: Vec::new(),
            complete: false,
        }
    }

    fn run(&mut self, left: &AtomicU64, totals: &Mutex<Totals<W::Found>>) -> Result<(), Failed> {
        let mut killed = 0;
        while killed < KILLS_A_FOLDER && left.load(Ordering::Relaxed) > 0 {
            for _ in 0..self.random.random_range(1..=3) {
                killed += 1;
                self.run_and_kill(totals)?;
                let one_less = |left: u64| left.checked_sub(1);
                let more = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
                if more.is_err() {
                    break;
                }
            }
            self.check(totals)?;
        }
        self.world.end(&self.database)
    }

    fn run_and_kill(&mut self, totals: &Mutex<Totals<W::Found>>) -> Result<(), Failed> {
        let task = Task {
            folder: self.seed,
            seed: self.random.random(),
            plain: self.random.random_bool(W::PLAIN),
            path: self.database.clone(),
        };
        let seed = task.seed;
        let run = ChildRun::of(W::CHILD, task, Kill::draw(&mut self.random))?;
        self.complete |= run.opened;
        let mut next = Vec::new();
        for (writer, &done) in (0..WRITERS).zip(&run.done) {
            let mut steps = W::steps(seed, writer);
            let acknowledged = steps.by_ref().take(done as usize);
            acknowledged.for_each(|step| self.world.done(&step));
            if let Some(step) = steps.next().filter(|_| run.stage == "opened") {
                self.world.may_be_done(&step);
                next.push(W::name(&step));
            }
        }
        let mut totals = totals.lock().map_err(|_| "another lane panicked")?;
        totals.note(&run, &next);
        self.history.push(run);
        Ok(())
    }

    /// Checks a copy, so that the original stays as the kill left it.
    fn check(&mut self, totals: &Mutex<Totals<W::Found>>) -> Result<(), Failed> {
        if !self.database.exists() {
            return Ok(());
        }
        copy_folder(&self.database, &self.copy)?;
        let (copy, random) = (&self.copy, &mut self.random);
        let found = self.world.check(copy, self.complete, random)?;
        std::fs::remove_dir_all(copy)?;
        let mut totals = totals.lock().map_err(|_| "another lane panicked")?;
        totals.found += found;
        totals.checks += 1;
        Ok(())
    }
}

impl<F> Totals<F> {
    fn note(&mut self, run: &ChildRun, next: &[&str]) {
        if run.crashed {
            self.crashes.push(format!("{run:?}"));
        } else {
            self.kills += 1;
        }
        *self.stages.entry(run.stage.clone()).or_default() += 1;
        if !run.task.plain {
            let calls = self.maintenance.entry(run.maintenance.clone());
            *calls.or_default() += 1;
        }
        for &step in next {
            *self.steps.entry(step.to_owned()).or_default() += 1;
        }
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
    task: Task,
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
    /// Starts a child, kills it, and notes what it reported.
    fn of(test: &str, task: Task, kill: Kill) -> Result<Self, Failed> {
        let mut child = command(test)?
            .env(Task::VARIABLE, task.to_text())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut run = Self {
            task,
            kill,
            lines: 0,
            opened: false,
            stage: "start".to_owned(),
            maintenance: "nothing".to_owned(),
            done: [0; WRITERS as usize],
            crashed: false,
        };
        let rest = run.watch(&mut child);
        // It may have ended by itself, after printing the reason.
        child.kill()?;
        let status = child.wait()?;
        for line in rest? {
            run.note(&line)?;
        }
        run.crashed = status.signal().is_some_and(|signal| signal != 9);
        let alone = run.crashed && run.task.plain;
        if status.signal() != Some(9) && !alone {
            let what = format!("a child was not killed but ended with {status}: {run:?}");
            return Err(what.into());
        }
        Ok(run)
    }

    /// Reads the lines of a child until it is to be killed. Returns the rest of its lines.
    fn watch(&mut self, child: &mut Child) -> Result<Receiver<String>, Failed> {
        let kill = self.kill;
        let lines = reports(child.stdout.take().ok_or("a child without output")?);
        while self.lines < kill.lines && !(kill.at_close && self.stage == "close") {
            match lines.recv_timeout(SILENCE) {
                Ok(line) => self.note(&line)?,
                Err(RecvTimeoutError::Timeout) => return Err(format!("hangs: {self:?}").into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(lines),
            }
        }
        let deadline = Instant::now() + kill.later;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match lines.recv_timeout(left) {
                Ok(line) => self.note(&line)?,
                Err(_) => break,
            }
        }
        Ok(lines)
    }

    fn note(&mut self, line: &str) -> Result<(), Failed> {
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

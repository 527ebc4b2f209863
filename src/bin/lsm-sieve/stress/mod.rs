//! `stress`: random operations on random settings, each answer held against a model.
//!
//! ```text
//!   seed --> case: settings and steps --> database --> answers
//!                                    \--> model ----> the same?   no: shrink, print, exit code 1
//! ```
//!
//! A case is one seed. It makes a database of its own, does its steps, and is gone; the next seed
//! is the next case. What fails is shortened and printed as text that `--replay` runs again.

mod case;
mod closed;
mod crowd;
mod differential;
mod ground;
mod keys;
mod model;
mod report;
mod script;
mod session;
mod settings;
mod shrink;
mod sieve;
mod step;
mod verdict;
mod watchdog;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lsm_sieve::workload::{Interrupted, Watch};

use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;
use case::{Case, Failure};
use report::{Finding, Report};
use verdict::Tally;
use watchdog::{Pulse, Watchdog};

const AFTER_HELP: &str = "Examples:
  lsm-sieve stress
  lsm-sieve stress --seconds 600 --db /dev/shm --json
  lsm-sieve stress --seed 42 --ops 1
  lsm-sieve stress --replay failed.case

A case that fails is shortened and printed; keep its lines in a file for --replay. Folders in memory
are fastest.";

/// Do random operations on random settings, and hold every answer against a model.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The seed of the first case; the next case has the next seed. Random if left out.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stop after the case in which so many operations are reached.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        conflicts_with = "seconds"
    )]
    ops: u64,
    /// Stop after the case in which so many seconds are over, instead.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// From 2 on: so many threads share each database, half of them writers, and are judged by the
    /// versions before and after each read.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// The folder for the databases, which are removed.
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Run the case in this file instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "ops", "seconds", "threads"])]
    replay: Option<PathBuf>,
    /// Stop shortening a failing case after so many seconds.
    #[arg(long, value_name = "S", default_value_t = 60)]
    shrink_seconds: u64,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let home = home(arguments.db.as_deref())?;
    match &arguments.replay {
        Some(file) => replay(file, home.path(), output),
        None => stress(arguments, home.path(), output),
    }
}

/// A folder that is removed at the end.
fn home(parent: Option<&Path>) -> Result<tempfile::TempDir, Stop> {
    let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
    let made = tempfile::Builder::new()
        .prefix("lsm-sieve-stress-")
        .tempdir_in(&parent);
    made.map_err(|error| {
        Stop::input(format!(
            "cannot make a folder in {}: {error}; name another with --db",
            parent.display()
        ))
    })
}

fn stress(arguments: &Arguments, home: &Path, output: Output) -> Result<(), Stop> {
    let first = match arguments.seed {
        Some(seed) => seed,
        // Below 2^53, so that every reader of JSON keeps it whole.
        None => getrandom::u64()? >> 11,
    };
    let begun = Instant::now();
    let dog = Watchdog::start(first);
    let mut report = Report::new(first);
    let mut watch = Watched {
        progress: Progress::unbounded("stress: steps"),
        pulse: dog.pulse("a case"),
    };
    let over = |tally: &Tally| match arguments.seconds {
        Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
        None => tally.operations >= arguments.ops,
    };
    for seed in (0..).map(|case: u64| first.wrapping_add(case)) {
        tracing::info!(seed, "case");
        report.cases += 1;
        report.finding = if arguments.threads > 1 {
            watch.advance(1)?;
            share(seed, arguments.threads.into(), home, &dog, &mut report)
        } else {
            let limit = Duration::from_secs(arguments.shrink_seconds);
            model(seed, home, limit, &mut report, &mut watch)?
        };
        if report.finding.is_some() || over(&report.tally) {
            break;
        }
    }
    drop(watch);
    drop(dog);
    report.print(begun.elapsed(), output)
}

/// Runs the case of a seed, and shortens it if it fails.
fn model(
    seed: u64,
    home: &Path,
    limit: Duration,
    report: &mut Report,
    watch: &mut impl Watch,
) -> Result<Option<Finding>, Interrupted> {
    let case = Case::draw(seed);
    match case.run(home, &mut report.tally, watch) {
        Ok(()) => Ok(None),
        Err(Failure::Interrupted) => Err(Interrupted),
        Err(Failure::Violation { step, violation }) => {
            let first = violation.what.clone();
            let shrunk = shrink::shrink(&case, step, violation, home, limit, watch);
            Ok(Some(Finding {
                seed: Some(seed),
                first,
                again: shrunk.again,
                violation: shrunk.violation,
                case: shrunk.case.text(),
            }))
        }
    }
}

/// Runs the crowd of a seed.
fn share(
    seed: u64,
    threads: usize,
    home: &Path,
    dog: &Watchdog,
    report: &mut Report,
) -> Option<Finding> {
    match crowd::run(seed, threads, home, dog) {
        Ok((tally, certain)) => {
            report.tally += tally;
            report.certain += certain;
            None
        }
        Err(violation) => Some(Finding {
            seed: Some(seed),
            first: violation.what.clone(),
            again: false,
            violation,
            case: format!("# {threads} threads on {:?}\n", crowd::settings(seed)),
        }),
    }
}

/// Shows how far a case is, and that it gets on.
struct Watched {
    progress: Progress,
    pulse: Pulse,
}

impl Watch for Watched {
    fn advance(&mut self, steps: u64) -> Result<(), Interrupted> {
        self.pulse.beat();
        self.progress.advance(steps)
    }
}

fn replay(file: &Path, home: &Path, output: Output) -> Result<(), Stop> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Stop::input(format!(
            "cannot read {}: {error}; name a case file",
            file.display()
        ))
    })?;
    let case = Case::parse(&text)
        .map_err(|error| Stop::input(format!("{} is no case: {error}", file.display())))?;
    let begun = Instant::now();
    let mut report = Report::of_file();
    let mut progress = Progress::unbounded("replaying");
    match case.run(home, &mut report.tally, &mut progress) {
        Ok(()) => {}
        Err(Failure::Interrupted) => return Err(Interrupted.into()),
        Err(Failure::Violation { violation, .. }) => {
            report.finding = Some(Finding {
                seed: None,
                first: violation.what.clone(),
                again: true,
                violation,
                case: case.text(),
            });
        }
    }
    drop(progress);
    report.print(begun.elapsed(), output)
}

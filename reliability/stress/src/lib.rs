//! The command `lsm-sieve-stress`: random operations on random settings, each answer compared with a model.
//!
//! ```text
//!   seed --> case: settings and steps --> database --> answers
//!                                    \--> model ----> the same?   no: shrink, print, exit code 1
//! ```
//!
//! A case is one seed. It creates a database, carries out its steps, and removes it. The next seed
//! is the next case. A failing case is shrunk and printed as text that `--replay` runs again.
//!
//! The command of another kind of store brings a [`Case`] of its own.

#[doc(hidden)]
pub mod case;
#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod checker;
#[doc(hidden)]
pub mod closed_db;
#[doc(hidden)]
pub mod concurrent;
#[doc(hidden)]
pub mod front_case;
#[doc(hidden)]
pub mod keys;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod option_strings;
#[doc(hidden)]
pub mod report;
#[doc(hidden)]
pub mod secondary;
#[doc(hidden)]
pub mod session;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod shrink;
#[doc(hidden)]
pub mod sieve_db;
#[doc(hidden)]
pub mod step;
#[doc(hidden)]
pub mod step_cursor;
#[doc(hidden)]
pub mod step_generator;
#[doc(hidden)]
pub mod watchdog;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use lsm_sieve_cli::workload::{Interrupted, Watch};
use lsm_sieve_cli::{outcome, output, progress};

use case::{Case, Failure};
use outcome::Stop;
use output::Output;
use progress::Progress;
use report::{Finding, Report};
use watchdog::{Heartbeat, Watchdog};

const AFTER_HELP: &str = "Examples:
  lsm-sieve-stress
  lsm-sieve-stress --seconds 600 --db /dev/shm --json
  lsm-sieve-stress --seed 42 --ops 1
  lsm-sieve-stress --replay failed.case

A case that fails is shortened and printed; keep its lines in a file for --replay. Folders in memory
are fastest.";

/// Do random operations on random settings, and compare every answer with a model.
#[derive(Parser)]
#[command(version, after_help = AFTER_HELP)]
struct Arguments {
    /// The seed of the first case; the next case has the next seed. Random if left out.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Stop after the case in which this many operations are reached.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1_000_000,
        conflicts_with = "seconds"
    )]
    ops: u64,
    /// Stop after the case in which this many seconds have passed, instead.
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// From 2 on: this many threads share each database, half of them writers, and reads are judged
    /// by the versions before and after them.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// The folder for the databases, which are removed.
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// Run the case in this file instead.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "ops", "seconds", "threads"])]
    replay: Option<PathBuf>,
    /// Stop shrinking a failing case after this many seconds.
    #[arg(long, value_name = "S", default_value_t = 60)]
    shrink_seconds: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command over cases of this type. `name` is the command's.
pub fn main<C: Case>(name: &str) -> ExitCode {
    match run::<C>(name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => stop.report(),
    }
}

fn run<C: Case>(name: &str) -> Result<(), Stop> {
    let arguments = Arguments::try_parse().or_else(|error| outcome::usage(&error, name))?;
    output::log_to_stderr();
    progress::handle_interrupts()?;
    let output = Output::new(arguments.json);
    let home = home(arguments.db.as_deref())?;
    match &arguments.replay {
        Some(file) => replay::<C>(&arguments, file, home.path(), output),
        None => stress::<C>(&arguments, home.path(), output),
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

fn stress<C: Case>(arguments: &Arguments, home: &Path, output: Output) -> Result<(), Stop> {
    let first = match arguments.seed {
        Some(seed) => seed,
        // Below 2^53, so that every JSON parser reads it exactly.
        None => getrandom::u64()? >> 11,
    };
    let begun = Instant::now();
    let over = |report: &Report| match arguments.seconds {
        Some(seconds) => begun.elapsed() >= Duration::from_secs(seconds),
        None => report.tally.operations >= arguments.ops,
    };
    let mut report = Report::new(Some(first));
    let mut run = Run::new(arguments, home, "stress: steps");
    for seed in (0..).map(|case: u64| first.wrapping_add(case)) {
        tracing::info!(seed, "case");
        let case = C::draw(seed, arguments.threads.into());
        run.try_case(&case, Some(seed), &mut report)?;
        if report.finding.is_some() || over(&report) {
            break;
        }
    }
    drop(run);
    report.print(begun.elapsed(), output)
}

fn replay<C: Case>(
    arguments: &Arguments,
    file: &Path,
    home: &Path,
    output: Output,
) -> Result<(), Stop> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Stop::input(format!("cannot read {file}: {error}; name a case file"))
    })?;
    let case = C::parse(&text)
        .map_err(|error| Stop::input(format!("{} is no case: {error}", file.display())))?;
    let begun = Instant::now();
    let mut report = Report::new(None);
    let mut run = Run::new(arguments, home, "replaying");
    run.try_case(&case, None, &mut report)?;
    drop(run);
    report.print(begun.elapsed(), output)
}

/// The parameters that all cases of a run share.
struct Run<'a> {
    home: &'a Path,
    shrink: Duration,
    watch: Watched,
    _dog: Watchdog,
}

impl<'a> Run<'a> {
    fn new(arguments: &Arguments, home: &'a Path, what: &'static str) -> Self {
        Self {
            home,
            shrink: Duration::from_secs(arguments.shrink_seconds),
            watch: Watched {
                progress: Progress::unbounded(what),
                heartbeat: Heartbeat::of("a case"),
            },
            _dog: Watchdog::start(),
        }
    }

    /// Runs a case, and shrinks it if it fails. A full disk is no finding.
    fn try_case(
        &mut self,
        case: &impl Case,
        seed: Option<u64>,
        report: &mut Report,
    ) -> Result<(), Stop> {
        report.cases += 1;
        let (step, violation) = match case.run(self.home, &mut report.tally, &mut self.watch) {
            Ok(()) => return Ok(()),
            Err(Failure::Interrupted) => return Err(Interrupted.into()),
            Err(Failure::Violation { step, violation }) => (step, violation),
        };
        if violation.is_a_full_disk() {
            return Err(Stop::input(format!(
                "{}; free some space, or name a folder on a larger disk with --db",
                violation.what
            )));
        }
        let first = violation.what.clone();
        let watch = &mut self.watch;
        let shrunk = case.shrunk(step, violation, self.home, self.shrink, watch);
        report.finding = Some(Finding::new(seed, first, shrunk));
        Ok(())
    }
}

/// Shows the progress of a case, and that it is alive.
struct Watched {
    progress: Progress,
    heartbeat: Heartbeat,
}

impl Watch for Watched {
    fn advance(&mut self, steps: u64) -> Result<(), Interrupted> {
        self.heartbeat.beat();
        self.progress.advance(steps)
    }
}

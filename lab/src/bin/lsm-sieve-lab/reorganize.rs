//! `reorganize`: moves the records of a store's differential file into its main file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use lsm_sieve::{Items, Rate};
use lsm_sieve_cli::workload::report::{Tabular, number};
use lsm_sieve_cli::workload::store::column_families;
use lsm_sieve_differential::{DifferentialOptions, DifferentialStore, Reorganized, Trigger};
use rocksdb::Options;
use serde::Serialize;

use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab reorganize /var/lib/service/students
  lsm-sieve-lab reorganize /var/lib/service/students --if-due records=100000
  lsm-sieve-lab reorganize /var/lib/service/students --if-due rate=0.05 --json

Ctrl-C stops after the current batch; the next call continues from there. The store is opened with
default settings. If it usually has another hash or other rates, its filters are rebuilt when it is
next opened with those.";

/// Move the records of a store's differential file into its main file.
///
/// The command opens the store, so no other process may have it open.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder of the store.
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// Move only if a limit is reached: bytes=N or records=N in the differential file, or rate=P,
    /// the share of reads of unmodified records that search the differential file unnecessarily.
    #[arg(long, value_name = "WHEN", value_parser = trigger)]
    if_due: Option<Trigger>,
}

fn trigger(text: &str) -> Result<Trigger, String> {
    let (what, most) = text
        .split_once('=')
        .ok_or("must be bytes=N, records=N or rate=P")?;
    let whole = || most.parse::<u64>().map_err(|error| error.to_string());
    match what {
        "bytes" => Ok(Trigger::Bytes(whole()?)),
        "records" => Ok(Trigger::Records(Items::new(whole()?))),
        "rate" => {
            let rate = most.parse().map_err(|_| "a rate is a number")?;
            let rate = Rate::new(rate).map_err(|error| error.to_string())?;
            Ok(Trigger::FilterRate(rate))
        }
        other => Err(format!("{other:?} is not one of bytes, records and rate")),
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let store = open(&arguments.path)?;
    if let Some(trigger) = arguments.if_due
        && !is_due(&store, trigger)?
    {
        return output.print(&Report::not_due());
    }
    let begun = Instant::now();
    let done = reorganize(&store)?;
    let seconds = begun.elapsed().as_secs_f64();
    store.close()?;
    output.conclude(&Report::of(done, seconds), finished(done))
}

fn finished(done: Reorganized) -> Result<(), Stop> {
    if done.finished {
        return Ok(());
    }
    Err(Stop::input(format!(
        "stopped after {} records, which remain moved; the next call goes on where this one stopped",
        number(done.records)
    )))
}

/// Opens an existing store; creates none.
fn open(path: &Path) -> Result<DifferentialStore, Stop> {
    // Otherwise an empty database would be turned into a store.
    if !column_families(path)?.iter().any(|name| name == "main") {
        return Err(Stop::input(format!(
            "{} is not a differential store: it has no main file; name another folder",
            path.display()
        )));
    }
    let options = DifferentialOptions::default();
    Ok(DifferentialStore::open(
        &Options::default(),
        &options,
        path,
    )?)
}

/// Waits until coverage is complete, since the rate of the filters counts, and checks the trigger.
fn is_due(store: &DifferentialStore, trigger: Trigger) -> Result<bool, Stop> {
    engine::cover(store.db(), &mut Progress::unbounded("covering"))?;
    Ok(store.is_due(trigger)?)
}

fn reorganize(store: &DifferentialStore) -> Result<Reorganized, Stop> {
    let records = store.extent()?.records;
    let mut progress = Progress::new("moving records", records.get());
    let mut shown = 0;
    let done = store.reorganize(|batch| {
        let more = batch.moved - shown;
        shown = batch.moved;
        progress.pass(more)
    })?;
    Ok(done)
}

#[derive(Serialize)]
struct Report {
    /// Whether the limit was reached, or no limit was given.
    due: bool,
    /// Whether all records that the differential file held at the start are in the main file.
    finished: bool,
    records_moved: u64,
    generations_dropped: u64,
    seconds: f64,
}

impl Report {
    const fn not_due() -> Self {
        Self {
            due: false,
            finished: false,
            records_moved: 0,
            generations_dropped: 0,
            seconds: 0.0,
        }
    }

    const fn of(done: Reorganized, seconds: f64) -> Self {
        Self {
            due: true,
            finished: done.finished,
            records_moved: done.records,
            generations_dropped: done.generations,
            seconds,
        }
    }
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        vec!["reorganisation".to_owned(), String::new()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let state = match (self.due, self.finished) {
            (false, _) => "not due",
            (true, false) => "stopped",
            (true, true) => "finished",
        };
        let row = |label: &str, value: String| vec![label.to_owned(), value];
        vec![
            row("state", state.to_owned()),
            row("records moved", number(self.records_moved)),
            row("generations dropped", number(self.generations_dropped)),
            row("seconds", format!("{:.3}", self.seconds)),
        ]
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "state",
                "not due: below the limit of --if-due; stopped: the next run goes on from there",
            ),
            (
                "records moved",
                "from the differential file into the main file",
            ),
            (
                "generations dropped",
                "differential files that were emptied and removed",
            ),
            ("seconds", "of the reorganisation"),
        ]
    }
}

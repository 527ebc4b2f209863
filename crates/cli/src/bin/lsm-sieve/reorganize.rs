//! `reorganize`: moves what the differential file of a store holds into its main file.

use std::path::{Path, PathBuf};
use std::time::Instant;

use lsm_sieve::differential::{DifferentialOptions, DifferentialStore, Reorganized, Trigger};
use lsm_sieve::{Items, Rate};
use lsm_sieve_cli::workload::report::{Tabular, number};
use lsm_sieve_cli::workload::store::column_families;
use rocksdb::Options;
use serde::Serialize;

use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve reorganize /var/lib/service/students
  lsm-sieve reorganize /var/lib/service/students --if-due records=100000
  lsm-sieve reorganize /var/lib/service/students --if-due rate=0.05 --json

Ctrl-C stops after the batch that is being moved; the next call goes on from there. The store is
opened with default settings: one with a hash or rates of its own makes its filters anew when it is
opened with these again.";

/// Move the differential file of a store into its main file.
///
/// Opens the store, so no other process may have it open.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder of the store.
    #[arg(value_name = "DIR")]
    path: PathBuf,
    /// Move only if the differential file has so many bytes or records, or so large a share of the
    /// reads of unmodified records would search it in vain: bytes=N, records=N or rate=P.
    #[arg(long, value_name = "WHEN", value_parser = trigger)]
    if_due: Option<Trigger>,
}

fn trigger(text: &str) -> Result<Trigger, String> {
    let (what, most) = text
        .split_once('=')
        .ok_or("say bytes=N, records=N or rate=P")?;
    let whole = || most.parse::<u64>().map_err(|error| error.to_string());
    match what {
        "bytes" => Ok(Trigger::Bytes(whole()?)),
        "records" => Ok(Trigger::Records(Items::new(whole()?))),
        "rate" => {
            let rate = most.parse().map_err(|_| "a rate is a number")?;
            let rate = Rate::new(rate).map_err(|error| error.to_string())?;
            Ok(Trigger::FilterRate(rate))
        }
        other => Err(format!("{other:?} is none of bytes, records and rate")),
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
        "stopped after {} records, which stay moved; the next call goes on where this one stopped",
        number(done.records)
    )))
}

/// Opens a store that is there; makes none of anything else.
fn open(path: &Path) -> Result<DifferentialStore, Stop> {
    // An empty database could become a store, which nobody asked for.
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

/// Asks filters that know every record.
fn is_due(store: &DifferentialStore, trigger: Trigger) -> Result<bool, Stop> {
    engine::cover(store.front(), &mut Progress::unbounded("covering"))?;
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
    /// Whether it was time, or asked for in any case.
    due: bool,
    /// Whether all records are in the main file that were there at the start.
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
}

//! The work of a replay: a real trace through the filters, every lookup checked against the engine.
//!
//! The trace is read to its end before any database is opened, so that a defect in it is found
//! while there is nothing to clean up. Then it is replayed three times, each time over a new
//! database: counted with the filters, timed with the filters, timed without them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::{FilterSize, SieveDb, SieveOptions};
use lsm_sieve_filter::math::Rate;
use rocksdb::Options;

use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::outcome::{Stop, lost};
use crate::output::Output;
use crate::progress::Progress;
use crate::weight::weight;
use crate::workload::Watch as _;
use crate::workload::operation::Mode;
use crate::workload::replay::{self, Counts};
use crate::workload::report::ReplayReport;
use crate::workload::store::{Plain, Store, WithFilters};
use crate::workload::trace::{Format, Trace, TraceError};

/// Ids between two checks for Ctrl-C while the trace is read for the first time.
const SURVEY_IDS: u64 = 1 << 16;

/// The arguments of every replay.
#[derive(clap::Args)]
pub struct TraceArguments {
    /// The trace file.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace: how its bytes are read as ids.
    #[arg(long)]
    format: Format,
    /// Replay the first N ids only.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Keep the database of the counted replay in DIR: a new folder, or the database of an earlier
    /// replay, to which the ids are added.
    #[arg(long, value_name = "DIR")]
    db: Option<PathBuf>,
    /// False-positive rate of the filters.
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = engine::parse_front_rate)]
    rate: Rate,
}

impl TraceArguments {
    /// Reads the ids from the beginning of the trace.
    fn ids(&self) -> Result<impl Iterator<Item = Result<u64, TraceError>>, TraceError> {
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Trace::open(&self.trace, self.format)?.take(limit.unwrap_or(usize::MAX)))
    }
}

/// What a trace is replayed on.
pub trait Subject {
    /// A store with filters.
    type Store: WithFilters;

    /// The meaning of an id.
    fn mode(&self) -> Mode;

    /// Refuses an old database that no such replay created. It may leave that to [`Subject::open`].
    fn check(&self, path: &Path) -> Result<(), Stop>;

    /// Opens the store.
    fn open(
        &self,
        options: &Options,
        filters: &SieveOptions,
        path: &Path,
    ) -> Result<Self::Store, Stop>;

    /// The database of a store.
    fn db(store: &Self::Store) -> &SieveDb;

    /// The column family whose filters are weighed.
    fn family(&self, store: &Self::Store) -> String;
}

/// Replays a trace and prints the report.
pub fn run(subject: &impl Subject, arguments: &TraceArguments, output: Output) -> Result<(), Stop> {
    can_be_read_again(&arguments.trace)?;
    let home = match &arguments.db {
        Some(path) => home(subject, path)?,
        None => DatabaseFolder::temporary()?,
    };
    let replay = Replay {
        subject,
        arguments,
        mode: subject.mode(),
        ids: survey(arguments)?,
    };
    let (counts, bits_per_key) = replay.count(home.path())?;
    let report = ReplayReport {
        mode: replay.mode.name(),
        counts,
        observed_rate: counts.observed_rate(),
        promised_rate: arguments.rate.get(),
        bits_per_key,
        seconds: replay.time_sieve()?.as_secs_f64(),
        seconds_unfiltered: replay.time_plain()?.as_secs_f64(),
    };
    home.keep();
    output.conclude(&report, lost(&counts))
}

fn home(subject: &impl Subject, path: &Path) -> Result<DatabaseFolder, Stop> {
    let home = DatabaseFolder::at(path)?;
    if let DatabaseFolder::Old(path) = &home {
        subject.check(path)?;
    }
    Ok(home)
}

/// Refuses a pipe or a device. A missing file and a folder are reported when the trace is opened.
fn can_be_read_again(trace: &Path) -> Result<(), Stop> {
    match trace.metadata() {
        Ok(found) if !found.is_file() && !found.is_dir() => Err(Stop::input(format!(
            "{} is no regular file, and it is read more than once; write it to a file first",
            trace.display()
        ))),
        _ => Ok(()),
    }
}

/// Reads the trace to its end and returns the number of its ids.
fn survey(arguments: &TraceArguments) -> Result<u64, Stop> {
    let mut progress = Progress::unbounded("reading the trace");
    let mut ids = 0_u64;
    for id in arguments.ids()? {
        id?;
        ids += 1;
        if ids.is_multiple_of(SURVEY_IDS) {
            progress.advance(SURVEY_IDS)?;
        }
    }
    Ok(ids)
}

/// A trace that has been read to its end without an error, and how to replay it.
struct Replay<'a, S> {
    subject: &'a S,
    arguments: &'a TraceArguments,
    mode: Mode,
    ids: u64,
}

impl<S: Subject> Replay<'_, S> {
    /// Replays and counts over a store in `path`. Also returns the bits per key of the filters.
    fn count(&self, path: &Path) -> Result<(Counts, f64), Stop> {
        let mut store = self.sieve(path)?;
        let counts = self.counted(&mut store)?;
        let weight = weight(S::db(&store), &self.subject.family(&store))?;
        Ok((counts, weight.bits_per_key()))
    }

    fn counted(&self, store: &mut S::Store) -> Result<Counts, Stop> {
        self.prepare(store)?;
        // Lookups before coverage is complete would count as false positives.
        engine::cover(S::db(store), &mut Progress::unbounded("covering"))?;
        let mut progress = Progress::new("counting, with the filters", self.ids);
        let counts = replay::count(self.arguments.ids()?, self.mode, store, &mut progress)?;
        store.flush()?;
        engine::cover(S::db(store), &mut Progress::unbounded("covering"))?;
        Ok(counts)
    }

    fn time_sieve(&self) -> Result<Duration, Stop> {
        let home = DatabaseFolder::temporary()?;
        self.time("timing, with the filters", &mut self.sieve(home.path())?)
    }

    fn time_plain(&self) -> Result<Duration, Stop> {
        let home = DatabaseFolder::temporary()?;
        let mut store = Plain::open(&self.options(), home.path(), self.mode.spaces())?;
        self.time("timing, without the filters", &mut store)
    }

    fn time<T: Store>(&self, what: &'static str, store: &mut T) -> Result<Duration, Stop> {
        self.prepare(store)?;
        let mut progress = Progress::new(what, self.ids);
        let ids = self.arguments.ids()?;
        let (spent, _) = replay::time(ids, self.mode, store, &mut progress)?;
        Ok(spent.wall)
    }

    fn prepare<T: Store>(&self, store: &mut T) -> Result<(), Stop> {
        if let Mode::Differential(_) = self.mode {
            let mut progress = Progress::new("loading the main file", self.ids);
            replay::load_main(self.arguments.ids()?, store, &mut progress)?;
        }
        Ok(())
    }

    fn sieve(&self, path: &Path) -> Result<S::Store, Stop> {
        let size = FilterSize::rate(self.arguments.rate.get())?;
        let filters = SieveOptions::default().filter_size(size);
        self.subject.open(&self.options(), &filters, path)
    }

    fn options(&self) -> Options {
        const NATIVE_BITS_PER_KEY: f64 = 10.0;
        let setting = Setting {
            keys: self.ids,
            shape: Shape::Leveled,
            native: Native::Bloom,
            bits_per_key: NATIVE_BITS_PER_KEY,
            blocks: Blocks::Cached,
        };
        setting.options()
    }
}

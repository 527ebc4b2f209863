//! `replay`: replays a real trace through the filters and checks every lookup against the engine.
//!
//! The trace is read to its end before any database is opened, so that a defect in it is found
//! while there is nothing to clean up. Then it is replayed three times, each time over a new
//! database: counted with the filters, timed with the filters, timed without them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::{FilterSize, SieveDb, SieveOptions};
use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_cli::workload::operation::{Mode, Updates};
use lsm_sieve_cli::workload::replay::{self, Counts};
use lsm_sieve_cli::workload::report::ReplayReport;
use lsm_sieve_cli::workload::store::{
    Differential, Plain, Sieve, Store, WithFilters, column_families,
};
use lsm_sieve_cli::workload::trace::{Format, Trace, TraceError};
use lsm_sieve_filter::math::Rate;

use crate::database_folder::DatabaseFolder;
use crate::demo::lost;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::inspect;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve replay --trace vault.gz --format u64be --mode upsert
  lsm-sieve replay --trace pages.lis.zst --format lis --mode differential --limit 100000 --json

Plain, gzip, xz and zstd files are recognized by their first bytes.";

/// Ids between two checks for Ctrl-C while the trace is read for the first time.
const SURVEY_IDS: u64 = 1 << 16;

/// Replay a trace on RocksDB with and without lsm-sieve, and count false negatives.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The trace file.
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace: how its bytes are read as ids.
    #[arg(long)]
    format: Format,
    /// Meaning of an id.
    #[arg(long)]
    mode: ModeName,
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
    /// Seed of the choice of ids and accesses that are updates (differential).
    #[arg(long, value_name = "SEED", default_value_t = Updates::default().seed)]
    seed: u64,
    /// Share of the accesses to an updatable id that are updates (differential).
    #[arg(long, value_name = "SHARE", default_value_t = Updates::default().of_accesses, value_parser = share)]
    updates: f64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeName {
    /// Each id is looked up, and inserted if it is absent.
    Upsert,
    /// All ids exist in a main file; 7 in 30 are updated, and the updates go to a differential
    /// file.
    Differential,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is between 0 and 1".to_owned()),
    }
}

impl Arguments {
    fn mode(&self) -> Mode {
        match self.mode {
            ModeName::Upsert => Mode::Upsert,
            ModeName::Differential => Mode::Differential(Updates {
                of_accesses: self.updates,
                seed: self.seed,
                ..Updates::default()
            }),
        }
    }

    /// For upserts, refuses a database that no replay of upserts created. A differential store
    /// checks this itself when it opens.
    fn home(&self, path: &Path) -> Result<DatabaseFolder, Stop> {
        let home = DatabaseFolder::at(path)?;
        if let (DatabaseFolder::Old(path), ModeName::Upsert) = (&home, self.mode)
            && column_families(path)?.len() > 1
        {
            return Err(Stop::input(format!(
                "{} has several column families, so no replay of upserts created it: name another \
                 folder",
                path.display()
            )));
        }
        Ok(home)
    }

    /// Reads the ids from the beginning of the trace.
    fn ids(&self) -> Result<impl Iterator<Item = Result<u64, TraceError>>, TraceError> {
        let limit = self.limit.and_then(|limit| usize::try_from(limit).ok());
        Ok(Trace::open(&self.trace, self.format)?.take(limit.unwrap_or(usize::MAX)))
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    can_be_read_again(&arguments.trace)?;
    let home = match &arguments.db {
        Some(path) => arguments.home(path)?,
        None => DatabaseFolder::temporary()?,
    };
    let replay = Replay {
        arguments,
        mode: arguments.mode(),
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
fn survey(arguments: &Arguments) -> Result<u64, Stop> {
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
struct Replay<'a> {
    arguments: &'a Arguments,
    mode: Mode,
    ids: u64,
}

impl Replay<'_> {
    /// Replays and counts over a database in `path`: a `SieveDb` or, for a differential replay, a
    /// differential store. Also returns the bits per key of the filters.
    fn count(&self, path: &Path) -> Result<(Counts, f64), Stop> {
        match self.mode {
            Mode::Upsert => {
                let mut store = self.sieve(path)?;
                let counts = self.counted(&mut store, Sieve::db)?;
                let weight = inspect::weight(store.db(), self.mode.filtered_space().name())?;
                Ok((counts, weight.bits_per_key()))
            }
            Mode::Differential(_) => {
                let mut store = self.differential(path)?;
                let counts = self.counted(&mut store, |store| store.store().db())?;
                let store = store.store();
                let weight = inspect::weight(store.db(), &store.family())?;
                Ok((counts, weight.bits_per_key()))
            }
        }
    }

    fn counted<S: WithFilters>(
        &self,
        store: &mut S,
        front: impl Fn(&S) -> &SieveDb,
    ) -> Result<Counts, Stop> {
        self.prepare(store)?;
        // Lookups before coverage is complete would count as false positives.
        engine::cover(front(store), &mut Progress::unbounded("covering"))?;
        let mut progress = Progress::new("counting, with the filters", self.ids);
        let counts = replay::count(self.arguments.ids()?, self.mode, store, &mut progress)?;
        store.flush()?;
        engine::cover(front(store), &mut Progress::unbounded("covering"))?;
        Ok(counts)
    }

    fn time_sieve(&self) -> Result<Duration, Stop> {
        const WHAT: &str = "timing, with the filters";
        let home = DatabaseFolder::temporary()?;
        match self.mode {
            Mode::Upsert => self.time(WHAT, &mut self.sieve(home.path())?),
            Mode::Differential(_) => self.time(WHAT, &mut self.differential(home.path())?),
        }
    }

    fn time_plain(&self) -> Result<Duration, Stop> {
        let home = DatabaseFolder::temporary()?;
        let mut store = Plain::open(&self.options(), home.path(), self.mode.spaces())?;
        self.time("timing, without the filters", &mut store)
    }

    fn time<S: Store>(&self, what: &'static str, store: &mut S) -> Result<Duration, Stop> {
        self.prepare(store)?;
        let mut progress = Progress::new(what, self.ids);
        let ids = self.arguments.ids()?;
        let (spent, _) = replay::time(ids, self.mode, store, &mut progress)?;
        Ok(spent.wall)
    }

    fn prepare<S: Store>(&self, store: &mut S) -> Result<(), Stop> {
        if let Mode::Differential(_) = self.mode {
            let mut progress = Progress::new("loading the main file", self.ids);
            replay::load_main(self.arguments.ids()?, store, &mut progress)?;
        }
        Ok(())
    }

    fn sieve(&self, path: &Path) -> Result<Sieve, Stop> {
        let spaces = self.mode.spaces();
        Ok(Sieve::open(
            &self.options(),
            &self.filters()?,
            path,
            spaces,
        )?)
    }

    fn differential(&self, path: &Path) -> Result<Differential, Stop> {
        Ok(Differential::open(&self.options(), &self.filters()?, path)?)
    }

    fn filters(&self) -> Result<SieveOptions, Stop> {
        let size = FilterSize::rate(self.arguments.rate.get())?;
        Ok(SieveOptions::default().filter_size(size))
    }

    fn options(&self) -> rocksdb::Options {
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

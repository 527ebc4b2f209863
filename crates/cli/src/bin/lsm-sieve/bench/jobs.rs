//! `bench jobs`: the time of whole jobs, with and without the filters.

use std::path::PathBuf;

use clap::ValueEnum as _;
use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::workload::jobs::Job;
use lsm_sieve_cli::workload::operation::{Mode, Updates};
use lsm_sieve_cli::workload::replay;
use lsm_sieve_cli::workload::report::{JobReport, JobsReport};
use lsm_sieve_cli::workload::stopwatch::Spent;
use lsm_sieve_cli::workload::store::{
    Differential, Plain, PlainTransactions, Sieve, SieveTransactions, Space, Store,
};
use lsm_sieve_cli::workload::trace::{Format, Trace, TraceError};
use rocksdb::Options;
use rocksdb::properties::PropName;

use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::inspect;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve bench jobs --json
  lsm-sieve bench jobs --keys 2000000 --rounds 3 --job load-0 --job hits
  lsm-sieve bench jobs --trace vault.gz:u64be --job vault-upsert

Jobs:
  load-0, load-50, load-95   a bulk load with a unique key: get, and put if absent; the number is the
                             percentage of duplicates
  create                     the same in optimistic transactions, half of them duplicates
  blocks                     execution of blocks: reads, 35% of them of empty slots, batches of writes
  hits, writes               reads of present keys alone, writes of new keys alone
  FILE-upsert                a trace: each id is looked up, and inserted if it is absent
  FILE-differential          a trace: 7 ids in 30 are updated, in a differential file

Each round does a job on RocksDB alone and on RocksDB with lsm-sieve, in new databases, and the order
alternates. Ratios are seconds without filters over seconds with them: above 1 the job is faster with
filters. `ratio` is the median of the rounds.";

/// RocksDB's own filter, as usually set.
const NATIVE_BITS_PER_KEY: f64 = 10.0;
const MEMTABLE_BYTES: usize = 16 << 20;

/// Do whole jobs on a RocksDB with its own filter, and on one with lsm-sieve.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Steps of each job that is no trace, and records of its database.
    #[arg(long, value_name = "N", default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..=engine::KEYS_MAX))]
    keys: u64,
    /// Number of paired runs of each job.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Do only this job. May be given several times.
    #[arg(long = "job", value_name = "JOB")]
    jobs: Vec<String>,
    /// Also replay this trace in both ways. May be given several times.
    #[arg(long = "trace", value_name = "FILE:FORMAT", value_parser = trace_file)]
    traces: Vec<TraceFile>,
}

#[derive(Clone)]
struct TraceFile {
    path: PathBuf,
    format: Format,
}

fn trace_file(text: &str) -> Result<TraceFile, String> {
    let (path, format) = text.rsplit_once(':').unwrap_or((text, ""));
    let format = Format::from_str(format, false).map_err(|_| {
        let formats = Format::value_variants()
            .iter()
            .filter_map(Format::to_possible_value);
        let names: Vec<String> = formats.map(|format| format.get_name().to_owned()).collect();
        format!("name its format after a colon: one of {}", names.join(", "))
    })?;
    Ok(TraceFile {
        path: path.into(),
        format,
    })
}

impl TraceFile {
    /// The name of the file before its first point.
    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').next().unwrap_or_default().to_owned()
    }

    fn ids(&self) -> Result<Trace, TraceError> {
        Trace::open(&self.path, self.format)
    }
}

/// A job that can be done again and again.
enum Task<'a> {
    Made(Job),
    Trace(&'a TraceFile, Mode),
}

/// One run of a job.
struct Run {
    spent: Spent,
    /// How many lookups found their key, if that is counted.
    found: Option<u64>,
    /// Of all filters; 0 without any of ours.
    bits_per_key: f64,
}

/// A store that a job is done on.
trait Subject: Store {
    /// Waits until nothing runs in the background.
    fn settle(&self) -> Result<(), Stop>;

    /// Bits per key of lsm-sieve's filters.
    fn bits_per_key(&self) -> Result<f64, Stop> {
        Ok(0.0)
    }
}

impl Subject for Plain {
    fn settle(&self) -> Result<(), Stop> {
        let property = |name: &PropName| self.engine().property_int_value(name);
        engine::settle(property, &mut Progress::unbounded("settling"))
    }
}

impl Subject for PlainTransactions {
    fn settle(&self) -> Result<(), Stop> {
        Ok(())
    }
}

impl Subject for Sieve {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        Ok(inspect::weight(self.db(), Space::Default.name())?.bits_per_key())
    }
}

impl Subject for SieveTransactions {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        Ok(inspect::weight(self.db(), Space::Default.name())?.bits_per_key())
    }
}

impl Subject for Differential {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.store().db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        let store = self.store();
        Ok(inspect::weight(store.db(), &store.family())?.bits_per_key())
    }
}

fn settle(db: &SieveDb) -> Result<(), Stop> {
    let mut progress = Progress::unbounded("settling");
    engine::settle(|name| db.property_int_value(name), &mut progress)?;
    engine::cover(db, &mut progress)
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let (mut reports, mut outcome) = (Vec::new(), Ok(()));
    for task in arguments.tasks()? {
        let (mut native, mut sieve) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            if round % 2 == 0 {
                native.push(task.on_native(arguments.keys)?);
                sieve.push(task.on_sieve(arguments.keys)?);
            } else {
                sieve.push(task.on_sieve(arguments.keys)?);
                native.push(task.on_native(arguments.keys)?);
            }
        }
        let is_same = |(native, sieve): (&Run, &Run)| native.found == sieve.found;
        if !native.iter().zip(&sieve).all(is_same) {
            let job = task.name();
            outcome = Err(Stop::Finding(format!(
                "{job} found other keys with filters than without: do not use these filters, and \
                 report this"
            )));
        }
        let bits_per_key = sieve.last().map_or(0.0, |run: &Run| run.bits_per_key);
        let pairs = native
            .iter()
            .zip(&sieve)
            .map(|(native, sieve)| (native.spent, sieve.spent));
        reports.push(JobReport::new(
            task.name(),
            &pairs.collect::<Vec<_>>(),
            bits_per_key,
        ));
    }
    output.conclude(&JobsReport(reports), outcome)
}

impl Arguments {
    /// The jobs that are asked for.
    fn tasks(&self) -> Result<Vec<Task<'_>>, Stop> {
        let made = Job::ALL.into_iter().map(Task::Made);
        let modes = [Mode::Upsert, Mode::Differential(Updates::default())];
        let traced = |mode| move |trace| Task::Trace(trace, mode);
        let traces = modes
            .into_iter()
            .flat_map(|mode| self.traces.iter().map(traced(mode)));
        let all: Vec<Task<'_>> = made.chain(traces).collect();
        let unknown = |job: &&String| all.iter().all(|task| task.name() != **job);
        if let Some(job) = self.jobs.iter().find(unknown) {
            let names: Vec<String> = all.iter().map(Task::name).collect();
            return Err(Stop::input(format!(
                "there is no job {job}: name one of {}",
                names.join(", ")
            )));
        }
        let mut tasks = all;
        if !self.jobs.is_empty() {
            tasks.retain(|task| self.jobs.contains(&task.name()));
        }
        // A defect in a trace is found before anything is measured.
        for trace in &self.traces {
            trace.ids()?.try_for_each(|id| id.map(drop))?;
        }
        Ok(tasks)
    }
}

impl Task<'_> {
    fn name(&self) -> String {
        match self {
            Self::Made(job) => job.name(),
            Self::Trace(trace, mode) => format!("{}-{}", trace.name(), mode.name()),
        }
    }

    fn on_native(&self, keys: u64) -> Result<Run, Stop> {
        let home = DatabaseFolder::temporary()?;
        let (options, path) = (options(keys), home.path());
        match self {
            Self::Made(Job::Create) => self.on(PlainTransactions::open(&options, path)?, keys),
            Self::Made(_) => self.on(Plain::open(&options, path, &[Space::Default])?, keys),
            Self::Trace(_, mode) => self.on(Plain::open(&options, path, mode.spaces())?, keys),
        }
    }

    fn on_sieve(&self, keys: u64) -> Result<Run, Stop> {
        let home = DatabaseFolder::temporary()?;
        let (options, path, filters) = (options(keys), home.path(), SieveOptions::default());
        let sieve = || Sieve::open(&options, &filters, path, &[Space::Default]);
        match self {
            Self::Made(Job::Create) => {
                self.on(SieveTransactions::open(&options, &filters, path)?, keys)
            }
            Self::Made(_) | Self::Trace(_, Mode::Upsert) => self.on(sieve()?, keys),
            Self::Trace(_, Mode::Differential(_)) => {
                self.on(Differential::open(&options, &filters, path)?, keys)
            }
        }
    }

    /// Does the job on a new store.
    fn on<S: Subject>(&self, mut store: S, keys: u64) -> Result<Run, Stop> {
        let mut progress = Progress::new("preparing", keys);
        match self {
            Self::Made(job) => job.prepare(keys, &mut store, &mut progress)?,
            Self::Trace(trace, Mode::Differential(_)) => {
                replay::load_main(trace.ids()?, &mut store, &mut progress)?;
            }
            Self::Trace(_, Mode::Upsert) => {}
        }
        store.settle()?;
        let mut progress = Progress::new("running", keys);
        let (spent, found) = match self {
            Self::Made(job) => {
                let (spent, found) = job.run(keys, &mut store, &mut progress)?;
                (spent, Some(found))
            }
            Self::Trace(trace, mode) => {
                let spent = replay::time(trace.ids()?, *mode, &mut store, &mut progress)?;
                (spent, None)
            }
        };
        // Filters of memtables do not count.
        store.flush()?;
        store.settle()?;
        let bits_per_key = store.bits_per_key()?;
        Ok(Run {
            spent,
            found,
            bits_per_key,
        })
    }
}

/// Small memtables and RocksDB's default levels; all blocks are cached.
fn options(keys: u64) -> Options {
    let setting = Setting {
        keys,
        shape: Shape::Leveled,
        native: Native::Bloom,
        bits_per_key: NATIVE_BITS_PER_KEY,
        blocks: Blocks::Cached,
    };
    let mut options = setting.options();
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options
}

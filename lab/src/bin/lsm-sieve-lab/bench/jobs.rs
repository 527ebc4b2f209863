//! `bench jobs`: the time of whole jobs, with and without the filters.

use std::path::PathBuf;

use clap::ValueEnum as _;
use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::workload::operation::{Mode, Updates};
use lsm_sieve_cli::workload::replay;
use lsm_sieve_cli::workload::stopwatch::{Background, Spent};
use lsm_sieve_cli::workload::store::{Plain, Sieve, Space, Store};
use lsm_sieve_cli::workload::trace::{Format, Trace, TraceError};
use lsm_sieve_lab::workload::jobs::Job;
use lsm_sieve_lab::workload::report::{JobReport, JobsReport};
use lsm_sieve_lab::workload::store::{Differential, PlainTransactions, SieveTransactions};
use rocksdb::properties::PropName;

use crate::bench::{options, setting};
use crate::database_folder::DatabaseFolder;
use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;
use crate::weight::weight;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab bench jobs --json
  lsm-sieve-lab bench jobs --keys 2000000 --rounds 3 --job load-0 --job hits
  lsm-sieve-lab bench jobs --trace vault.gz:u64be --job vault-upsert

Jobs:
  load-0, load-50, load-95   a bulk load with a unique key: get, and put if absent; the number is the
                             percentage of duplicates
  create                     the same in optimistic transactions, half of them duplicates
  ledger                     execution of a ledger's blocks: reads, 35% of them of empty slots, and batches
                             of writes
  hits, writes               reads of present keys alone, writes of new keys alone
  FILE-upsert                a trace: each id is looked up, and inserted if it is absent
  FILE-differential          a trace: 7 ids in 30 are updated, in a differential file; RocksDB alone has
                             two column families and reads the newer one first

Each round does a job on RocksDB alone, with its Bloom filters of 10 bits per key, and on RocksDB with
lsm-sieve's defaults, in new databases; the order alternates. Memtables take 16 MiB, levels are
RocksDB's default, nothing is compressed or synced, and all blocks are cached. Ratios are seconds
without filters over seconds with them: above 1 the job is faster with filters.";

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
enum Workload<'a> {
    Synthetic(Job),
    /// With the number of ids.
    Trace(&'a TraceFile, Mode, u64),
}

/// One run of a job.
struct Run {
    spent: Spent,
    /// How many lookups found their key.
    found: u64,
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
        settle_engine(|name| self.engine().property_int_value(name))
    }
}

impl Subject for PlainTransactions {
    fn settle(&self) -> Result<(), Stop> {
        settle_engine(|name| self.engine().property_int_value(name))
    }
}

impl Subject for Sieve {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        bits_per_key(self.db(), Space::Default.name())
    }
}

impl Subject for SieveTransactions {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        bits_per_key(self.db(), Space::Default.name())
    }
}

impl Subject for Differential {
    fn settle(&self) -> Result<(), Stop> {
        settle(self.store().db())
    }

    fn bits_per_key(&self) -> Result<f64, Stop> {
        bits_per_key(self.store().db(), &self.store().family())
    }
}

fn settle_engine(
    property: impl Fn(&PropName) -> Result<Option<u64>, rocksdb::Error>,
) -> Result<(), Stop> {
    engine::settle(property, &mut Progress::unbounded("settling"))
}

fn settle(db: &SieveDb) -> Result<(), Stop> {
    settle_engine(|name| db.property_int_value(name))?;
    engine::cover(db, &mut Progress::unbounded("covering"))
}

fn bits_per_key(db: &SieveDb, cf: &str) -> Result<f64, Stop> {
    Ok(weight(db, cf)?.bits_per_key())
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let (mut reports, mut outcome) = (Vec::new(), Ok(()));
    for workload in arguments.workloads()? {
        let keys = workload.keys(arguments.keys);
        setting(keys).check_room()?;
        let (mut native, mut sieve) = (Vec::new(), Vec::new());
        for round in 0..arguments.rounds {
            if round % 2 == 0 {
                native.push(workload.on_native(keys)?);
                sieve.push(workload.on_sieve(keys)?);
            } else {
                sieve.push(workload.on_sieve(keys)?);
                native.push(workload.on_native(keys)?);
            }
        }
        let is_same = |(native, sieve): (&Run, &Run)| native.found == sieve.found;
        if !native.iter().zip(&sieve).all(is_same) {
            let job = workload.name();
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
            workload.name(),
            &pairs.collect::<Vec<_>>(),
            bits_per_key,
        ));
    }
    output.conclude(&JobsReport(reports), outcome)
}

impl Arguments {
    /// The jobs that are asked for.
    fn workloads(&self) -> Result<Vec<Workload<'_>>, Stop> {
        let mut all: Vec<Workload<'_>> = Job::ALL.map(Workload::Synthetic).into();
        for trace in &self.traces {
            // A defect in a trace is found before anything is measured.
            let ids = trace.ids()?.try_fold(0, |ids, id| id.map(|_| ids + 1))?;
            for mode in [Mode::Upsert, Mode::Differential(Updates::default())] {
                all.push(Workload::Trace(trace, mode, ids));
            }
        }
        let unknown = |job: &&String| all.iter().all(|workload| workload.name() != **job);
        if let Some(job) = self.jobs.iter().find(unknown) {
            let names: Vec<String> = all.iter().map(Workload::name).collect();
            return Err(Stop::input(format!(
                "there is no job {job}: name one of {}",
                names.join(", ")
            )));
        }
        if !self.jobs.is_empty() {
            all.retain(|workload| self.jobs.contains(&workload.name()));
        }
        Ok(all)
    }
}

impl Workload<'_> {
    fn name(&self) -> String {
        match self {
            Self::Synthetic(job) => job.name(),
            Self::Trace(trace, mode, _) => format!("{}-{}", trace.name(), mode.name()),
        }
    }

    /// Its steps, and the records that its database has room for.
    const fn keys(&self, synthetic: u64) -> u64 {
        match self {
            Self::Synthetic(_) => synthetic,
            Self::Trace(_, _, ids) => *ids,
        }
    }

    fn on_native(&self, keys: u64) -> Result<Run, Stop> {
        let home = DatabaseFolder::temporary()?;
        let (options, path) = (options(keys), home.path());
        match self {
            Self::Synthetic(Job::Create) => self.on(PlainTransactions::open(&options, path)?, keys),
            Self::Synthetic(_) => self.on(Plain::open(&options, path, &[Space::Default])?, keys),
            Self::Trace(_, mode, _) => self.on(Plain::open(&options, path, mode.spaces())?, keys),
        }
    }

    fn on_sieve(&self, keys: u64) -> Result<Run, Stop> {
        let home = DatabaseFolder::temporary()?;
        let (options, path, filters) = (options(keys), home.path(), SieveOptions::default());
        let sieve = || Sieve::open(&options, &filters, path, &[Space::Default]);
        match self {
            Self::Synthetic(Job::Create) => {
                self.on(SieveTransactions::open(&options, &filters, path)?, keys)
            }
            Self::Synthetic(_) | Self::Trace(_, Mode::Upsert, _) => self.on(sieve()?, keys),
            Self::Trace(_, Mode::Differential(_), _) => {
                self.on(Differential::open(&options, &filters, path)?, keys)
            }
        }
    }

    /// Does the job on a new store.
    fn on<S: Subject>(&self, mut store: S, keys: u64) -> Result<Run, Stop> {
        let mut progress = Progress::new("preparing", keys);
        match self {
            Self::Synthetic(job) => job.prepare(keys, &mut store, &mut progress)?,
            Self::Trace(trace, Mode::Differential(_), _) => {
                replay::load_main(trace.ids()?, &mut store, &mut progress)?;
            }
            Self::Trace(_, Mode::Upsert, _) => {}
        }
        store.settle()?;
        let mut progress = Progress::new("running", keys);
        let background = Background::start();
        let (mut spent, found) = match self {
            Self::Synthetic(job) => job.run(keys, &mut store, &mut progress)?,
            Self::Trace(trace, mode, _) => {
                replay::time(trace.ids()?, *mode, &mut store, &mut progress)?
            }
        };
        // What the job leaves to be done counts.
        store.flush()?;
        store.settle()?;
        spent.cpu += background.spent();
        let bits_per_key = store.bits_per_key()?;
        Ok(Run {
            spent,
            found,
            bits_per_key,
        })
    }
}

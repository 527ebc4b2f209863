//! `demo`: shows the gain on a database of its own, in under a minute.

use lsm_sieve::{FilterSize, SieveOptions};
use lsm_sieve_cli::workload::miss::{self, Plan};
use lsm_sieve_cli::workload::report::DemoReport;
use lsm_sieve_cli::workload::store::{Plain, Sieve, Space};
use lsm_sieve_filter::math::Rate;

use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::outcome::{Stop, lost};
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve demo
  lsm-sieve demo --keys 100000 --json";

/// Lookups per round, of each kind.
const LOOKUPS: usize = 100_000;
const ROUNDS: usize = 5;
const RUNS: u64 = 4;
/// The usual setting of RocksDB's filter.
const NATIVE_BITS_PER_KEY: f64 = 10.0;

/// Load a new database with and without lsm-sieve, and look up keys, half of them absent.
///
/// Works in a temporary folder and removes it.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of keys to load into two temporary databases; each key takes less than half a
    /// kilobyte of disk.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=engine::KEYS_MAX))]
    keys: u64,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let report = measure(arguments.keys)?;
    output.conclude(&report, lost(&report.counts))
}

fn measure(keys: u64) -> Result<DemoReport, Stop> {
    let plan = Plan {
        keys,
        runs: RUNS,
        rounds: ROUNDS,
        lookups: LOOKUPS,
        seed: 1,
    };
    let rate = Rate::ONE_PERCENT;
    let setting = Setting {
        keys,
        shape: Shape::Runs(RUNS),
        native: Native::Bloom,
        bits_per_key: NATIVE_BITS_PER_KEY,
        blocks: Blocks::Cached,
    };
    setting.check_room()?;
    let (native_home, sieve_home) = (DatabaseFolder::temporary()?, DatabaseFolder::temporary()?);
    let front = SieveOptions::default().filter_size(FilterSize::rate(rate.get())?);
    let mut native = Plain::open(&setting.options(), native_home.path(), &[Space::Default])?;
    let mut sieve = Sieve::open(
        &setting.options(),
        &front,
        sieve_home.path(),
        &[Space::Default],
    )?;
    miss::fill(
        &plan,
        &mut native,
        &mut sieve,
        &mut Progress::new("loading both", keys),
    )?;
    engine::cover(sieve.db(), &mut Progress::unbounded("covering"))?;
    let mut rounds = Progress::new("looking up", ROUNDS as u64 + 1);
    let figures = miss::measure(&plan, &[0.5], &native, &sieve, &mut rounds)?;
    let (half, miss) = (figures.mixes[0].one_ns, figures.miss.one_ns);
    Ok(DemoReport {
        keys,
        counts: figures.counts,
        observed_rate: figures.counts.observed_rate(),
        promised_rate: rate.get(),
        native_ns: half.native,
        sieve_ns: half.sieve,
        ratio: half.speedup(),
        native_miss_ns: miss.native,
        sieve_miss_ns: miss.sieve,
        ratio_miss: miss.speedup(),
    })
}

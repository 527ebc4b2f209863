//! `gremillion`: transactions on a differential file in front of a main file.

use std::path::Path;
use std::time::Instant;

use lsm_sieve::{FilterSize, SieveOptions};
use lsm_sieve_cli::weight::weight;
use lsm_sieve_cli::workload::gremillion::{self, Access, Scale, Script};
use lsm_sieve_cli::workload::report::ReplayReport;
use lsm_sieve_cli::workload::store::{Plain, Sieve, Space, Store};
use lsm_sieve_filter::math::Rate;

use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::outcome::{Stop, lost};
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve gremillion
  lsm-sieve gremillion --transactions 1000000 --json";

/// The main file, and the differential file in front of it.
const SPACES: [Space; 2] = [Space::Main, Space::Differential];

/// Run Gremillion's transactions: each reads a record, from the differential file if it was updated
/// and else from the main file; some then update it.
///
/// Of 100,000 transactions 30,000 records are read and 7,000 updated. Works in a temporary folder and
/// removes it. `lsm-sieve-lab gremillion` compares the rates of 1982.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of transactions.
    #[arg(long, value_name = "N", default_value_t = gremillion::TRANSACTIONS, value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    transactions: u64,
    /// Determines the transactions.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// False-positive rate of the filters.
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = engine::parse_front_rate)]
    rate: Rate,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let scale = Scale::of(arguments.transactions);
    let universe = Access::Uniform.universe(&scale);
    let script = Script::draw(Access::Uniform, universe, &scale, arguments.seed);
    let setting = Setting {
        keys: universe,
        shape: Shape::Runs(1),
        native: Native::Bloom,
        bits_per_key: 10.0,
        blocks: Blocks::Cached,
    };
    setting.check_room()?;
    let filters = SieveOptions::default()
        .filter_size(FilterSize::rate(arguments.rate.get())?)
        .exclude_cfs([Space::Main.name()]);
    let open = |home: &Path| Sieve::open(&setting.options(), &filters, home, &SPACES);

    let home = DatabaseFolder::temporary()?;
    let mut store = filled(universe, open(home.path())?)?;
    let mut progress = Progress::new("counting", arguments.transactions);
    let counts = gremillion::count(&script, &mut store, &mut progress)?;
    let bits_per_key = weight(store.db(), Space::Differential.name())?.summary_bits_per_key;

    let home = DatabaseFolder::temporary()?;
    let filtered = timed(universe, &script, open(home.path())?)?;
    let home = DatabaseFolder::temporary()?;
    let plain = Plain::open(&setting.options(), home.path(), &SPACES)?;
    let report = ReplayReport {
        mode: "gremillion",
        counts,
        observed_rate: counts.observed_rate(),
        promised_rate: arguments.rate.get(),
        bits_per_key,
        seconds: filtered,
        seconds_unfiltered: timed(universe, &script, plain)?,
    };
    output.conclude(&report, lost(&counts))
}

fn filled<S: Store>(universe: u64, mut store: S) -> Result<S, Stop> {
    let mut progress = Progress::new("writing the main file", universe);
    gremillion::fill(universe, &mut store, &mut progress)?;
    Ok(store)
}

/// Seconds that the transactions take.
fn timed<S: Store>(universe: u64, script: &Script, store: S) -> Result<f64, Stop> {
    let mut store = filled(universe, store)?;
    let mut progress = Progress::new("timing", script.transactions().len() as u64);
    let start = Instant::now();
    gremillion::run(script, &mut store, &mut progress)?;
    Ok(start.elapsed().as_secs_f64())
}

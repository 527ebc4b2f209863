//! `bench busy`: lookups of absent keys beside writers that never pause.

use std::time::Duration;

use lsm_sieve::SieveOptions;
use lsm_sieve_cli::workload::store::{Plain, Sieve, Space};
use lsm_sieve_lab::workload::busy::{self, Load, Sample, Shared};
use lsm_sieve_lab::workload::report::BusyReport;

use crate::bench::setting;
use crate::database_folder::DatabaseFolder;
use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab bench busy --json
  lsm-sieve-lab bench busy --keys 10000000 --writers 2

Writes new keys at full speed, first to RocksDB alone with its Bloom filters of 10 bits per key, then
to RocksDB with lsm-sieve's defaults, each in a new database. Beside the writers, a thread looks up
absent keys, as many a second on both. Memtables take 16 MiB, levels are RocksDB's default, nothing
is compressed or synced, and all blocks are cached. With TMPDIR on a disk, the second run also pays for
what the system has not yet written of the first.";

/// Write at full speed, and look up absent keys beside.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of keys to write.
    #[arg(long, value_name = "N", default_value_t = 50_000_000, value_parser = clap::value_parser!(u64).range(1..=engine::KEYS_MAX))]
    keys: u64,
    /// Number of threads that write.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    writers: u64,
    /// Lookups of absent keys in each second, or 0 for as many as possible.
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    lookups: u64,
    /// Seconds between two rows of the result.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    setting(arguments.keys).check_room()?;
    let load = Load {
        keys: arguments.keys,
        writers: arguments.writers,
        lookups_per_second: (arguments.lookups > 0).then_some(arguments.lookups),
        interval: Duration::from_secs(arguments.every),
    };
    let options = super::options(arguments.keys);
    let spaces = [Space::Default];
    let (native, native_time) = {
        let home = DatabaseFolder::temporary()?;
        let store = Plain::open(&options, home.path(), &spaces)?;
        sampled(store.engine(), load)?
    };
    let (sieve, sieve_time) = {
        let home = DatabaseFolder::temporary()?;
        let store = Sieve::open(&options, &SieveOptions::default(), home.path(), &spaces)?;
        sampled(store.db(), load)?
    };
    let report = BusyReport::new(load, (&native, native_time), (&sieve, sieve_time));
    output.conclude(&report, Ok(()))
}

fn sampled(store: &impl Shared, load: Load) -> Result<(Vec<Sample>, Duration), Stop> {
    let (samples, spent, found) = busy::run(store, load, &mut Progress::new("writing", load.keys))?;
    if found > 0 {
        return Err(Stop::Finding(format!(
            "{found} lookups found a key that was never written: report this"
        )));
    }
    Ok((samples, spent))
}

//! `replay`: replays a real trace on a differential store and checks every lookup against the
//! engine. `lsm-sieve replay` replays one on a database.

use std::path::Path;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::replaying::{self, Subject};
use lsm_sieve_cli::workload::operation::{Mode, Updates};
use lsm_sieve_lab::workload::store::Differential;
use rocksdb::Options;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab replay --trace pages.lis.zst --format lis --limit 100000 --json

All ids exist in a main file; 7 in 30 are updated, and the updates go to a differential file.
Plain, gzip, xz and zstd files are recognized by their first bytes.";

/// Replay a trace on a differential store and on RocksDB alone, and count false negatives.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    replay: replaying::TraceArguments,
    /// Seed of the choice of ids and accesses that are updates.
    #[arg(long, value_name = "SEED", default_value_t = Updates::default().seed)]
    seed: u64,
    /// Share of the accesses to an updatable id that are updates.
    #[arg(long, value_name = "SHARE", default_value_t = Updates::default().of_accesses, value_parser = share)]
    updates: f64,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is between 0 and 1".to_owned()),
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let updates = Updates {
        of_accesses: arguments.updates,
        seed: arguments.seed,
        ..Updates::default()
    };
    replaying::run(&DifferentialFile(updates), &arguments.replay, output)
}

/// A differential store, which takes these updates.
struct DifferentialFile(Updates);

impl Subject for DifferentialFile {
    type Store = Differential;

    fn mode(&self) -> Mode {
        Mode::Differential(self.0)
    }

    /// The store itself refuses another database when it opens.
    fn check(&self, _: &Path) -> Result<(), Stop> {
        Ok(())
    }

    fn open(
        &self,
        options: &Options,
        filters: &SieveOptions,
        path: &Path,
    ) -> Result<Differential, Stop> {
        Ok(Differential::open(options, filters, path)?)
    }

    fn db(store: &Differential) -> &SieveDb {
        store.store().db()
    }

    fn family(&self, store: &Differential) -> String {
        store.store().family()
    }
}

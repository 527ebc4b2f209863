//! `replay`: replays a real trace through the filters and checks every lookup against the engine.

use std::path::Path;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::replaying::{self, Subject};
use lsm_sieve_cli::workload::operation::Mode;
use lsm_sieve_cli::workload::store::{Sieve, column_families};
use rocksdb::Options;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve replay --trace vault.gz --format u64be --mode upsert
  lsm-sieve replay --trace pages.lis.zst --format lis --limit 100000 --json

Plain, gzip, xz and zstd files are recognized by their first bytes.";

/// Replay a trace on RocksDB with and without lsm-sieve, and count false negatives.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    replay: replaying::TraceArguments,
    /// Meaning of an id.
    #[arg(long, default_value = "upsert")]
    mode: ModeName,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ModeName {
    /// Each id is looked up, and inserted if it is absent.
    Upsert,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    replaying::run(&arguments.mode, &arguments.replay, output)
}

impl Subject for ModeName {
    type Store = Sieve;

    fn mode(&self) -> Mode {
        match self {
            Self::Upsert => Mode::Upsert,
        }
    }

    /// Refuses a database that no replay of upserts created.
    fn check(&self, path: &Path) -> Result<(), Stop> {
        if column_families(path)?.len() > 1 {
            return Err(Stop::input(format!(
                "{} has several column families, so no replay of upserts created it: name another \
                 folder",
                path.display()
            )));
        }
        Ok(())
    }

    fn open(&self, options: &Options, filters: &SieveOptions, path: &Path) -> Result<Sieve, Stop> {
        Ok(Sieve::open(options, filters, path, self.mode().spaces())?)
    }

    fn db(store: &Sieve) -> &SieveDb {
        store.db()
    }

    fn family(&self, _: &Sieve) -> String {
        self.mode().filtered_space().name().to_owned()
    }
}

//! `bench`: compares RocksDB with and without the filters, in one process.

pub(crate) mod jobs;
pub(crate) mod miss;

const AFTER_HELP: &str = "Examples:
  lsm-sieve bench jobs --keys 2000000 --rounds 3
  lsm-sieve bench miss --keys 4000000 --runs 8";

/// Measure what the filters gain or cost: for whole jobs, or for one kind of lookup.
#[derive(clap::Subcommand)]
#[command(arg_required_else_help = false, after_help = AFTER_HELP)]
pub(crate) enum Benchmark {
    Jobs(jobs::Arguments),
    Miss(miss::Arguments),
}

//! `bench`: compares RocksDB with and without the filters, in one process.

pub(crate) mod busy;
pub(crate) mod jobs;
pub(crate) mod miss;
pub(crate) mod prefix;

use rocksdb::Options;

use crate::engine::{Blocks, Native, Setting, Shape};

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab bench jobs --keys 2000000 --rounds 3
  lsm-sieve-lab bench miss --keys 4000000 --runs 8
  lsm-sieve-lab bench prefix --runs 8
  lsm-sieve-lab bench busy --keys 50000000";

/// Measure what the filters gain or cost: for whole jobs, for one kind of lookup, for prefixes,
/// or beside writers that never pause.
#[derive(clap::Subcommand)]
#[command(arg_required_else_help = false, after_help = AFTER_HELP)]
pub(crate) enum Benchmark {
    Busy(busy::Arguments),
    Jobs(jobs::Arguments),
    Miss(miss::Arguments),
    Prefix(prefix::Arguments),
}

/// RocksDB's own filter, as usually set.
const NATIVE_BITS_PER_KEY: f64 = 10.0;
const MEMTABLE_BYTES: usize = 16 << 20;

/// The database of a whole job.
fn setting(keys: u64) -> Setting {
    Setting {
        keys,
        shape: Shape::Leveled,
        native: Native::Bloom,
        bits_per_key: NATIVE_BITS_PER_KEY,
        blocks: Blocks::Cached,
    }
}

/// Its options.
fn options(keys: u64) -> Options {
    let mut options = setting(keys).options();
    options.set_write_buffer_size(MEMTABLE_BYTES);
    options
}

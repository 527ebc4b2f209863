//! The differential store: compared with its model, under kill -9, with many threads, and what it
//! refuses.

mod concurrency;
mod counters;
mod crash;
mod damage;
mod full_disk;
mod interrupted_reorganization;
mod model;
mod random_operations;
mod refusals;
mod truncated_log;

use std::path::Path;

use lsm_sieve::Bits;
use lsm_sieve_differential::{
    DifferentialOptions, DifferentialStore, FilterChoice, OpenDifferentialError,
};
use lsm_sieve_filter::math::Probes;
use rocksdb::Options;

/// A filter so small that nearly every probe says *maybe*.
const TINY: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(128),
    probes: Probes::new(2),
};

/// A filter that denies most absent keys, for the number of records of these tests.
const FIXED: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(16_384),
    probes: Probes::new(6),
};

/// Small memtables, so that flushes and compactions come early.
fn engine() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(64 << 10);
    options
}

/// Small batches, so that a reorganisation needs many.
fn with_filter(filter: FilterChoice) -> DifferentialOptions {
    DifferentialOptions {
        filter,
        batch_bytes: 4 << 10,
        // One of two ways to read the main file for each filter: the others read past its filters.
        ask_main: filter == FilterChoice::Scalable,
        ..DifferentialOptions::default()
    }
}

fn open(path: &Path, filter: FilterChoice) -> Result<DifferentialStore, OpenDifferentialError> {
    DifferentialStore::open(&engine(), &with_filter(filter), path)
}

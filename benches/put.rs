//! What a put costs with filters, compared with RocksDB alone: without a log, into one memtable that
//! has 200,000 keys already, so that the memtable and the filter are warm.
//!
//! The two databases take turns, round by round. Prints one line of JSON: nanoseconds a put as lower
//! quartiles over the rounds, since what disturbs a round only lengthens it. Run with `cargo bench
//! --bench put`; `-- 100000` for another number of puts a round.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;
#[path = "common/database.rs"]
mod database;

use std::time::{Duration, Instant};

use common::{key, keys_asked_for};
use database::options;
use lsm_sieve::{RocksDb, SieveDb, SieveOptions};
use rocksdb::{Error, WriteOptions};

const ROUNDS: u64 = 24;

/// Keys of the memtable before the first round.
const WARM: u64 = 200_000;

/// More than all puts take.
const MEMTABLE: usize = 1 << 30;

/// Nanoseconds a put of keys with the ids from `first` on.
fn ns_each(db: &RocksDb, first: u64, count: u64, options: &WriteOptions) -> Result<f64, Error> {
    let keys: Vec<_> = (first..first + count).map(key).collect();
    let start = Instant::now();
    for key in keys {
        db.put_opt(key, [b'v'; 100], options)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}

fn lower_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 4]
}

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let puts = keys_asked_for(20_000) as u64;
    let mut options = options();
    options.set_write_buffer_size(MEMTABLE);
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let home = tempfile::tempdir()?;
    let native = RocksDb::open(&options, home.path().join("native"))?;
    let filtered = SieveDb::open(
        &options,
        &SieveOptions::default(),
        home.path().join("filtered"),
    )?;
    let databases: [&RocksDb; 2] = [&native, &filtered];
    for db in databases {
        ns_each(db, 0, WARM, &unlogged)?;
    }
    assert!(
        filtered
            .filters()
            .wait_for_maintenance(Duration::from_secs(60))
    );
    let mut ns = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let first = WARM + round * puts;
        // Who begins would always find the caches as the other left them.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            ns[which].push(ns_each(databases[which], first, puts, &unlogged)?);
        }
    }
    let [native, filtered] = ns.map(lower_quartile);
    println!(
        "{{\"puts\":{puts},\"native_ns\":{native:.0},\"filtered_ns\":{filtered:.0},\"more_ns\":{:.0}}}",
        filtered - native
    );
    Ok(())
}

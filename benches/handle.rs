//! Reads and writes by `rocksdb`'s own type, behind whose C handle the filters are, compared with
//! RocksDB alone with a Bloom filter of 10 bits per key. All is cached; no compaction runs.
//!
//! ```text
//! native   rocksdb's database            get_pinned of an absent, of a present key; put
//! handle   rocksdb's database, filtered  the same calls
//! get      SieveDb                       its own get_pinned
//! ```
//!
//! Prints one line of JSON for each number of sorted runs: nanoseconds per call as medians over
//! the rounds, in which the contestants take turns; `ratio_miss` is native through handle, the
//! others handle through native. Run with `cargo bench --bench handle`; `-- 1000000` for another
//! number of keys.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;
#[path = "common/database.rs"]
mod database;

use std::hint::black_box;
use std::time::Instant;

use common::{key, keys_asked_for, median};
use database::options;
use lsm_sieve::{RocksDb, SieveDb, SieveOptions};
use rocksdb::{Error, IteratorMode};

const ROUNDS: u64 = 9;
const LOOKUPS: u64 = 50_000;

/// Too few to fill a memtable, so that nothing is flushed meanwhile.
const WRITES: u64 = 20_000;

/// The first id of absent keys, and that of keys that the measured writes bring.
const ABSENT: u64 = 1 << 40;
const WRITTEN: u64 = 1 << 41;

fn fill(db: &RocksDb, keys: u64, runs: u64) -> Result<(), Error> {
    for run in 0..runs {
        for id in (run..keys).step_by(runs as usize) {
            db.put(key(id), [b'v'; 100])?;
        }
        db.flush()?;
    }
    let count = db.iterator(IteratorMode::Start).count();
    assert_eq!(count as u64, keys, "every key is read");
    Ok(())
}

/// Nanoseconds per key with an id from `first` on, each `step` further.
fn ns_each(first: u64, count: u64, step: u64, mut work: impl FnMut(&[u8; 16])) -> f64 {
    let keys: Vec<_> = (0..count).map(|at| key(first + at * step)).collect();
    let start = Instant::now();
    keys.iter().for_each(&mut work);
    start.elapsed().as_nanos() as f64 / count as f64
}

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = keys_asked_for(1_000_000) as u64;
    for runs in [1, 4, 8] {
        let folder = tempfile::tempdir()?;
        let native = RocksDb::open(&options(), folder.path().join("native"))?;
        let sieve = SieveOptions::default();
        let db = SieveDb::open(&options(), &sieve, folder.path().join("filtered"))?;
        let handle: &RocksDb = &db;
        fill(&native, keys, runs)?;
        fill(handle, keys, runs)?;
        db.filters().consolidate()?;

        let get = |db: &RocksDb, key: &[u8; 16]| _ = black_box(db.get_pinned(key));
        let put = |db: &RocksDb, key: &[u8; 16]| db.put(key, [b'v'; 100]).expect("a put");
        let mut times = [(); 7].map(|()| Vec::new());
        for round in 0..ROUNDS {
            // Each of its own, or one would warm the caches for the next.
            let absent = |of: u64| ABSENT + (3 * round + of) * LOOKUPS;
            let (there, step) = (round, keys / LOOKUPS);
            let written = WRITTEN + round * WRITES;
            let measure = |which: usize| match which {
                0 => ns_each(absent(0), LOOKUPS, 1, |key| get(&native, key)),
                1 => ns_each(absent(1), LOOKUPS, 1, |key| get(handle, key)),
                2 => ns_each(absent(2), LOOKUPS, 1, |key| {
                    _ = black_box(db.get_pinned(key))
                }),
                3 => ns_each(there, LOOKUPS, step, |key| get(&native, key)),
                4 => ns_each(there, LOOKUPS, step, |key| get(handle, key)),
                5 => ns_each(written, WRITES, 1, |key| put(&native, key)),
                _ => ns_each(written, WRITES, 1, |key| put(handle, key)),
            };
            // The first of two finds cooler caches than the second, so they change places.
            let order = match round % 2 {
                0 => [0, 1, 2, 3, 4, 5, 6],
                _ => [2, 1, 0, 4, 3, 6, 5],
            };
            for which in order {
                times[which].push(measure(which));
            }
        }
        let [
            native_miss,
            handle_miss,
            get_miss,
            native_hit,
            handle_hit,
            native_put,
            handle_put,
        ] = times.map(median);
        let line = serde_json::json!({
            "runs": runs,
            "native_miss_ns": native_miss,
            "handle_miss_ns": handle_miss,
            "get_miss_ns": get_miss,
            "native_hit_ns": native_hit,
            "handle_hit_ns": handle_hit,
            "ratio_miss": native_miss / handle_miss,
            "ratio_hit": handle_hit / native_hit,
            "ratio_fill": handle_put / native_put,
        });
        println!("{line}");
    }
    Ok(())
}

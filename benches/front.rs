//! Where the time of a miss goes: the hash, one cache line of a filter, all filters, the whole
//! `get`. And what the filters add to a lookup of a key in a memtable.
//!
//! Run with `cargo bench --bench front`; `-- 1000000` for another number of keys.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{key, keys_asked_for, median};
use lsm_sieve::{Items, Rate, SieveDb, SieveOptions};
use lsm_sieve_filter::filter::{Kind, Stage};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};

const ROUNDS: usize = 9;
const LOOKUPS: usize = 400_000;

/// Sorted runs.
const RUNS: u64 = 8;

/// Number of keys in the memtable.
const RECENT: u64 = 50_000;

/// Nanoseconds per absent key, as the median over the rounds.
fn median_ns(work: impl FnMut(&[[u8; 16]])) -> f64 {
    median_ns_of(|at| (1 << 40) + at, work)
}

/// Nanoseconds per key, for keys with these ids, as the median over the rounds.
fn median_ns_of(id: impl Fn(u64) -> u64, mut work: impl FnMut(&[[u8; 16]])) -> f64 {
    let times = (0..ROUNDS as u64).map(|round| {
        let first = round * LOOKUPS as u64;
        let ids = (first..first + LOOKUPS as u64).map(&id);
        let keys: Vec<[u8; 16]> = ids.map(key).collect();
        let start = Instant::now();
        work(&keys);
        start.elapsed().as_nanos() as f64 / LOOKUPS as f64
    });
    median(times.collect())
}

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn report(what: &str, ns: f64) {
    println!("{what:<44} {ns:>7.1} ns");
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = keys_asked_for(4_000_000) as u64;
    let folder = tempfile::tempdir()?;
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_disable_auto_compactions(true);
    let db = SieveDb::open(&options, &SieveOptions::default(), folder.path())?;
    for run in 0..RUNS {
        for id in run * keys / RUNS..(run + 1) * keys / RUNS {
            db.put(key(id), b"value")?;
        }
        db.flush()?;
    }
    db.filters().consolidate()?;

    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([1; 16]));
    let stage = Stage::with_rate(Kind::Blocked, Items::new(keys), Rate::new(0.0075)?)?;
    (0..keys).for_each(|id| _ = stage.insert(hasher.hash(&key(id))));

    report(
        "hash",
        median_ns(|keys| keys.iter().for_each(|key| _ = black_box(hasher.hash(key)))),
    );
    report(
        "hash and one stage of the right size",
        median_ns(|keys| {
            keys.iter()
                .for_each(|key| _ = black_box(stage.may_contain(hasher.hash(key))));
        }),
    );
    report(
        "answer: the front",
        median_ns(|keys| {
            keys.iter()
                .for_each(|key| _ = black_box(db.filters().answer(key)))
        }),
    );
    report(
        "get_pinned: the filters, then the engine",
        median_ns(|keys| {
            keys.iter()
                .for_each(|key| _ = black_box(db.get_pinned(key)))
        }),
    );
    let family = db.cf_handle("default").ok_or("there is a default family")?;
    report(
        "get_pinned_cf: the same by a cf handle",
        median_ns(|keys| {
            keys.iter()
                .for_each(|key| _ = black_box(db.get_pinned_cf(&family, key)))
        }),
    );
    report(
        "multi_get of 64, per key",
        median_ns(|keys| {
            for batch in keys.chunks(64) {
                black_box(db.multi_get(batch));
            }
        }),
    );

    (keys..keys + RECENT).try_for_each(|id| db.put(key(id), b"value"))?;
    let recent = |at: u64| keys + at % RECENT;
    report(
        "a key in a memtable: get_unfiltered",
        median_ns_of(recent, |keys| {
            keys.iter()
                .for_each(|key| _ = black_box(db.get_unfiltered(key)))
        }),
    );
    report(
        "a key in a memtable: get",
        median_ns_of(recent, |keys| {
            keys.iter().for_each(|key| _ = black_box(db.get(key)))
        }),
    );
    Ok(())
}

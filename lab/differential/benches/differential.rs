//! The cost of a differential file for reads of the main file, and the cost of a reorganisation.
//!
//! N records in the main file, N/10 others in the differential file; reads check its filter first.
//!
//! Run with `cargo bench --bench differential`; `-- 10000000` for another N.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
#[path = "../../../benches/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{key, keys_asked_for, median};
use lsm_sieve_differential::{DifferentialOptions, DifferentialStore};
use rocksdb::Options;

const ROUNDS: usize = 15;
const READS: usize = 40_000;
const VALUE: [u8; 100] = [0x5a; 100];

type Read<'a> = dyn Fn(&[u8; 16]) -> bool + 'a;
type Failed = Box<dyn std::error::Error>;

fn main() -> Result<(), Failed> {
    let keys = keys_asked_for(200_000) as u64;
    reads(keys)?;
    [keys / 40, keys / 20, keys / 10]
        .into_iter()
        .try_for_each(|records| reorganisation(keys, records))
}

fn engine() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options
}

fn open(path: &Path, ask_main: bool) -> Result<DifferentialStore, Failed> {
    let options = DifferentialOptions {
        ask_main,
        ..DifferentialOptions::default()
    };
    Ok(DifferentialStore::open(&engine(), &options, path)?)
}

/// A store with `keys` records in its main file.
fn loaded(path: &Path, keys: u64) -> Result<DifferentialStore, Failed> {
    let store = open(path, true)?;
    store.load((0..keys).map(|id| (key(id), VALUE)))?;
    Ok(store)
}

fn update(store: &DifferentialStore, ids: impl Iterator<Item = u64>) -> Result<(), Failed> {
    for id in ids {
        store.put(key(id), VALUE)?;
    }
    Ok(())
}

/// Flushes all memtables, compacts the SSTs, and consolidates the filters.
fn settle(store: &DifferentialStore) -> Result<(), Failed> {
    let db = store.db();
    for name in ["main", &store.family()] {
        let family = db.cf_handle(name).ok_or("no such family")?;
        db.flush_cf(&family)?;
        db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
    }
    Ok(db.filters().consolidate()?)
}

/// Reads of unmodified records, through the store and of its main column family alone: both with
/// the filters of the main column family, and both without.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn reads(keys: u64) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let store = loaded(folder.path(), keys)?;
    update(&store, (0..keys).step_by(10))?;
    settle(&store)?;
    store.close()?;
    println!(
        "{keys} records in the main file, {} in the differential file",
        keys / 10
    );
    for ask_main in [true, false] {
        let store = open(folder.path(), ask_main)?;
        let db = store.db();
        if !db.filters().wait_until_complete(Duration::from_secs(600)) {
            return Err("the filters do not come to rest".into());
        }
        let main = db.cf_handle("main").ok_or("no main file")?;
        let through_store = |key: &[u8; 16]| store.get(key).is_ok_and(|value| value.is_some());
        let main_alone = |key: &[u8; 16]| {
            let value = if ask_main {
                db.get_cf(&main, key)
            } else {
                db.get_unfiltered_cf(&main, key)
            };
            value.is_ok_and(|value| value.is_some())
        };
        println!(
            "main file {} its front:",
            if ask_main { "behind" } else { "past" }
        );
        compare(keys, &through_store, &main_alone);
        println!("  {:?}", store.stats());
    }
    Ok(())
}

/// Times both in turn. Each round has its own keys, and the order alternates.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn compare(keys: u64, through_store: &Read, main_alone: &Read) {
    let [mut store_ns, mut main_ns] = [const { Vec::new() }; 2];
    for round in 0..ROUNDS {
        let asked: Vec<[u8; 16]> = unmodified(keys).skip(round * READS).take(READS).collect();
        // Loads the blocks into the cache, for both.
        ns_a_read(&asked, main_alone);
        if round % 2 == 0 {
            main_ns.push(ns_a_read(&asked, main_alone));
        }
        store_ns.push(ns_a_read(&asked, through_store));
        if round % 2 == 1 {
            main_ns.push(ns_a_read(&asked, main_alone));
        }
    }
    let pairs = store_ns.iter().zip(&main_ns);
    let ratio = median(pairs.map(|(store, main)| store / main).collect());
    println!(
        "  unmodified, through the store {:>8.0} ns",
        median(store_ns)
    );
    println!(
        "  main file alone               {:>8.0} ns",
        median(main_ns)
    );
    println!("  ratio, median of {ROUNDS} pairs   {ratio:>8.3}");
}

/// Keys that are only in the main file, in an order that defeats caches.
fn unmodified(keys: u64) -> impl Iterator<Item = [u8; 16]> {
    let ids = (1_u64..).map(move |at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % keys);
    ids.filter(|id| !id.is_multiple_of(10)).map(key)
}

/// Nanoseconds per read. Every read must find its record.
fn ns_a_read(keys: &[[u8; 16]], read: &Read) -> f64 {
    let start = Instant::now();
    let found = black_box(keys.iter().filter(|key| read(key)).count());
    let ns = start.elapsed().as_nanos() as f64;
    assert_eq!(found, keys.len(), "a record was lost");
    ns / keys.len() as f64
}

/// Time and memory of moving a differential file of this size.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn reorganisation(keys: u64, records: u64) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let store = loaded(folder.path(), keys)?;
    update(&store, (0..records).map(|at| at * (keys / records)))?;
    store.flush()?;
    let before = resident_bytes()?;
    let mut most = before;
    let start = Instant::now();
    let done = store.reorganize(|_| {
        most = most.max(resident_bytes().unwrap_or(0));
        ControlFlow::Continue(())
    })?;
    let took = start.elapsed();
    assert_eq!((done.records, done.finished), (records, true));
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "moving {records:>9} records: {:>7.3} s, {:>6.2} us each, {:>6.1} MiB more memory at most",
        took.as_secs_f64(),
        each(took, records),
        mib(most - before),
    );
    Ok(())
}

fn each(took: Duration, records: u64) -> f64 {
    took.as_secs_f64() * 1e6 / records as f64
}

/// Resident memory of the process, from Linux.
fn resident_bytes() -> Result<u64, Failed> {
    const KIB: u64 = 1024;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.ok_or("no VmRSS")?.trim().parse::<u64>()? * KIB)
}

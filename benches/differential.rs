//! What the differential file costs whoever reads past it, and what it costs to move it.
//!
//! N records in the main file, N/10 others in the differential one, read behind its filter.
//!
//! Run with `cargo bench --bench differential`; `-- 10000000` for another N.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use common::{keys_asked_for, median};
use lsm_sieve::SieveDb;
use lsm_sieve::differential::{DifferentialOptions, DifferentialStore};
use rocksdb::Options;

const ROUNDS: u64 = 15;
const READS: u64 = 40_000;
const VALUE: [u8; 100] = [0x5a; 100];

type Failed = Box<dyn std::error::Error>;

/// Keys in no order that a cache could follow.
fn key(id: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&id.to_be_bytes());
    bytes
}

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

/// A store with `keys` records in its main file.
fn loaded(path: &std::path::Path, keys: u64) -> Result<DifferentialStore, Failed> {
    let store = DifferentialStore::open(&engine(), &DifferentialOptions::default(), path)?;
    store.load((0..keys).map(|id| (key(id), VALUE)))?;
    Ok(store)
}

fn update(store: &DifferentialStore, ids: impl Iterator<Item = u64>) -> Result<(), Failed> {
    for id in ids {
        store.put(key(id), VALUE)?;
    }
    Ok(())
}

/// All memtables to tables, those compacted, and the filters made of one piece.
fn settle(db: &SieveDb) -> Result<(), Failed> {
    for name in ["main", "differential-1"] {
        let family = db.cf_handle(name).ok_or("no such family")?;
        db.flush_cf(&family)?;
        db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
    }
    Ok(db.consolidate()?)
}

/// The same reads of unmodified records through the store and of its main family alone; each pair
/// of rounds over other keys, first one of the two, then the other.
#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn reads(keys: u64) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let store = loaded(folder.path(), keys)?;
    // Every tenth record is updated, the others are not.
    update(&store, (0..keys).step_by(10))?;
    let db = store.front();
    settle(db)?;
    let main = db.cf_handle("main").ok_or("no main file")?;
    let through_store = |key: &[u8; 16]| store.get(key).is_ok_and(|value| value.is_some());
    let main_alone = |key: &[u8; 16]| db.get_cf(&main, key).is_ok_and(|value| value.is_some());
    let (mut store_ns, mut main_ns, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let unmodified = |at: u64| {
            (round * READS + at).wrapping_mul(0x9e37_79b9) % (keys / 10) * 10 + 1 + at % 9
        };
        let asked: Vec<[u8; 16]> = (0..READS).map(|at| key(unmodified(at))).collect();
        // Both find the blocks in the cache that the first look brought there.
        ns_a_read(&asked, main_alone);
        let (first, second) = if round % 2 == 0 {
            let main = ns_a_read(&asked, main_alone);
            (ns_a_read(&asked, through_store), main)
        } else {
            let store = ns_a_read(&asked, through_store);
            (store, ns_a_read(&asked, main_alone))
        };
        store_ns.push(first);
        main_ns.push(second);
        ratios.push(first / second);
    }
    println!(
        "{keys} records in the main file, {} in the differential file",
        keys / 10
    );
    println!(
        "unmodified, through the store  {:>8.0} ns",
        median(store_ns)
    );
    println!("unmodified, main file alone    {:>8.0} ns", median(main_ns));
    println!("ratio, median of {ROUNDS} pairs    {:>8.3}", median(ratios));
    println!("{:?}", store.stats());
    Ok(())
}

/// Nanoseconds a read, all of which must find their record.
fn ns_a_read(keys: &[[u8; 16]], read: impl Fn(&[u8; 16]) -> bool) -> f64 {
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

/// Memory of the process that is in use, as Linux says.
fn resident_bytes() -> Result<u64, Failed> {
    const KIB: u64 = 1024;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.ok_or("no VmRSS")?.trim().parse::<u64>()? * KIB)
}

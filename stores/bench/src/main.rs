//! Embedded stores alone and behind a filter: `cargo run --release -- <store> [keys]`
//!
//! Prints one line of JSON. Times are nanoseconds per operation: medians of rounds that take turns.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsm_sieve_fjall::FjallKeyspace;
use lsm_sieve_redb::RedbTable;
use lsm_sieve_stores::FilterOptions;
use lsm_sieve_stores::kv::{FilteredStore, Recovery};
use lsm_sieve_stores::laws::TestStore;
use lsm_sieve_stores_bench::heed::LmdbTable;
use lsm_sieve_stores_bench::sled::SledTree;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Keys of a batch while a store is loaded.
const BATCH: u64 = 10_000;

/// Lookups of a round, warm and with the page cache dropped.
const WARM: u64 = 100_000;
const COLD: u64 = 5_000;

const ROUNDS: usize = 5;

const LIMIT: Duration = Duration::from_secs(600);

fn main() -> Result<(), AnyError> {
    let mut arguments = std::env::args().skip(1);
    let store = arguments.next().unwrap_or_default();
    let keys: u64 = arguments
        .next()
        .map_or(Ok(2_000_000), |keys| keys.parse())?;
    match &*store {
        "redb" => bench(&store, keys, |folder| {
            std::fs::create_dir_all(folder)?;
            let builder = redb::Database::builder()
                .set_cache_size(64 << 20)
                .create(folder.join("t"))?;
            Ok(RedbTable::new(Arc::new(builder), "table"))
        }),
        "fjall" => bench(&store, keys, |folder| {
            let db = fjall::Database::builder(folder).open()?;
            Ok(FjallKeyspace::open(
                &db,
                "keys",
                fjall::KeyspaceCreateOptions::default,
            )?)
        }),
        "lmdb" => bench(&store, keys, |folder| {
            Ok(LmdbTable::open(folder, 8 << 30, true)?)
        }),
        "sled" => bench(&store, keys, |folder| {
            let db = sled::Config::new().path(folder).cache_capacity(64 << 20);
            Ok(SledTree::open(&db.open()?)?)
        }),
        _ => Err("usage: lsm-sieve-stores-bench redb|fjall|lmdb|sled [keys]".into()),
    }
}

/// A key of 16 bytes, in random order.
fn key(number: u64) -> [u8; 16] {
    let mut word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^= word >> 31;
    word = word.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word ^= word >> 27;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&word.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

fn bench<S: TestStore>(
    name: &str,
    keys: u64,
    open: impl Fn(&Path) -> Result<S, AnyError>,
) -> Result<(), AnyError> {
    let home = tempfile::tempdir()?;
    let behind = || {
        let store = open(&home.path().join("behind"))?;
        let (folder, options) = (home.path().join("filter"), FilterOptions::default());
        let filtered = FilteredStore::open(store, &folder, &options, Recovery::Journal)?;
        Ok::<_, AnyError>(filtered)
    };
    let filtered = behind()?;
    let [write_alone, write_behind] = load(keys, &open(&home.path().join("alone"))?, &filtered)?;
    assert!(filtered.wait_until_complete(LIMIT));
    filtered.consolidate()?;
    let absent = |number: u64| key(keys + 1 + number * 7_919);
    let present = |number: u64| key(number * 7_919 % keys);
    let [absent_alone, absent_behind] = compare(&filtered, WARM, &absent, || Ok(()))?;
    let [present_alone, present_behind] = compare(&filtered, WARM, &present, || Ok(()))?;
    let bits_per_key = filtered.health().memory.summary.get() as f64 / keys as f64;

    drop(filtered);
    let began = Instant::now();
    let filtered = behind()?;
    assert!(filtered.wait_until_complete(LIMIT));
    let reopen_ms = began.elapsed().as_secs_f64() * 1e3;
    // Other keys than before, whose pages no cache of the store has.
    let colder = |number: u64| absent((1 << 30) + number);
    let [cold_alone, cold_behind] = compare(&filtered, COLD, &colder, drop_page_cache)?;
    println!(
        "{{\"store\":\"{name}\",\"keys\":{keys},\"bits_per_key\":{bits_per_key:.1},\
         \"write_alone\":{write_alone:.0},\"write_behind\":{write_behind:.0},\
         \"absent_alone\":{absent_alone:.0},\"absent_behind\":{absent_behind:.1},\
         \"present_alone\":{present_alone:.0},\"present_behind\":{present_behind:.0},\
         \"cold_absent_alone\":{cold_alone:.0},\"cold_absent_behind\":{cold_behind:.0},\
         \"reopen_ms\":{reopen_ms:.1}}}"
    );
    Ok(())
}

/// Loads both stores, a batch in turn; returns the medians of their times per key.
fn load<S: TestStore>(
    keys: u64,
    alone: &S,
    behind: &FilteredStore<S>,
) -> Result<[f64; 2], AnyError> {
    let mut times = [Vec::new(), Vec::new()];
    for first in (0..keys).step_by(BATCH as usize) {
        let batch = || {
            let numbers = first..(first + BATCH).min(keys);
            let entries: Vec<_> = numbers.map(|number| (key(number).to_vec(), true)).collect();
            S::batch(&entries)
        };
        let (one, other) = (batch(), batch());
        times[0].push(ns(BATCH, || Ok(alone.commit(one, &[])?))?);
        times[1].push(ns(BATCH, || Ok(behind.commit(other)?))?);
    }
    Ok(times.map(median))
}

/// Looks keys up in the store itself and behind the filter, other keys each time, in changing
/// order; returns the medians of the times per lookup.
fn compare<S: TestStore>(
    filtered: &FilteredStore<S>,
    lookups: u64,
    key: &dyn Fn(u64) -> [u8; 16],
    before: impl Fn() -> Result<(), AnyError>,
) -> Result<[f64; 2], AnyError> {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..2 * ROUNDS {
        let is_behind = round % 2 == round / 2 % 2;
        before()?;
        let first = round as u64 * lookups;
        let time = ns(lookups, || {
            for number in first..first + lookups {
                let key = key(number);
                match is_behind {
                    true => _ = black_box(filtered.get(&key)?),
                    false => _ = black_box(filtered.store().get(&key)?),
                }
            }
            Ok(())
        })?;
        times[usize::from(is_behind)].push(time);
    }
    Ok(times.map(median))
}

/// Nanoseconds per operation.
fn ns(count: u64, act: impl FnOnce() -> Result<(), AnyError>) -> Result<f64, AnyError> {
    let began = Instant::now();
    act()?;
    Ok(began.elapsed().as_nanos() as f64 / count as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Needs to be root.
fn drop_page_cache() -> Result<(), AnyError> {
    let status = std::process::Command::new("sh")
        .args(["-c", "sync; echo 3 > /proc/sys/vm/drop_caches"])
        .status()?;
    if status.success() {
        Ok(())
    } else {
        Err("the page cache cannot be dropped".into())
    }
}

//! Embedded stores alone and behind a filter: `cargo run --release -- <store> [keys]`
//!
//! Prints one line of JSON. Times are nanoseconds per operation: medians of rounds that take turns.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsm_sieve::FilterOptions;
use lsm_sieve::kv::{FilteredStore, Recovery};
use lsm_sieve::laws::TestStore;
use lsm_sieve_engines_bench::heed::LmdbTable;
use lsm_sieve_engines_bench::sled::SledTree;
use lsm_sieve_fjall::FjallKeyspace;
use lsm_sieve_redb::RedbTable;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Keys of a batch while a store is loaded.
const BATCH: u64 = 10_000;

/// Lookups of a round, warm and with the page cache dropped.
const WARM: u64 = 300_000;
const COLD: u64 = 3_000;

const ROUNDS: usize = 5;

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
        _ => Err("usage: lsm-sieve-engines-bench redb|fjall|lmdb|sled [keys]".into()),
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
    let (alone, behind) = (home.path().join("alone"), home.path().join("behind"));
    let options = FilterOptions::default();
    let store = open(&alone)?;
    let filtered = FilteredStore::open(
        open(&behind)?,
        &home.path().join("filter"),
        &options,
        Recovery::Journal,
    )?;
    let (mut write_alone, mut write_behind) = (Vec::new(), Vec::new());
    for first in (0..keys).step_by(BATCH as usize) {
        let entries = || (first..(first + BATCH).min(keys)).map(|n| (key(n).to_vec(), true));
        let batch = || S::batch(&entries().collect::<Vec<_>>());
        let (one, other) = (batch(), batch());
        write_alone.push(ns(BATCH, || Ok(store.commit(one, &[])?))?);
        write_behind.push(ns(BATCH, || Ok(filtered.commit(other)?))?);
    }
    assert!(filtered.wait_until_complete(Duration::from_secs(600)));
    filtered.consolidate()?;

    let absent = |n: u64| key(keys + 1 + n * 7_919);
    let present = |n: u64| key(n * 7_919 % keys);
    let mut figures = vec![
        ("write_alone", median(write_alone)),
        ("write_behind", median(write_behind)),
    ];
    for (kind, key, is_there) in [
        ("absent", &absent as &dyn Fn(u64) -> [u8; 16], false),
        ("present", &present, true),
    ] {
        let (mut one, mut other) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS as u64 {
            let numbers = || round * WARM..(round + 1) * WARM;
            let alone = || {
                ns(WARM, || {
                    for number in numbers() {
                        assert_eq!(black_box(store.get(&key(number))?).is_some(), is_there);
                    }
                    Ok(())
                })
            };
            let behind = || {
                ns(WARM, || {
                    for number in numbers() {
                        assert_eq!(black_box(filtered.get(&key(number))?).is_some(), is_there);
                    }
                    Ok(())
                })
            };
            // In turn, so that neither always comes first.
            if round % 2 == 0 {
                one.push(alone()?);
                other.push(behind()?);
            } else {
                other.push(behind()?);
                one.push(alone()?);
            }
        }
        figures.push((
            if is_there {
                "present_alone"
            } else {
                "absent_alone"
            },
            median(one),
        ));
        figures.push((
            if is_there {
                "present_behind"
            } else {
                "absent_behind"
            },
            median(other),
        ));
        let _ = kind;
    }
    // Opened again, so that the stores' own caches are empty as well.
    drop((store, filtered));
    let store = open(&alone)?;
    let began = Instant::now();
    let filtered = FilteredStore::open(
        open(&behind)?,
        &home.path().join("filter"),
        &options,
        Recovery::Journal,
    )?;
    assert!(filtered.wait_until_complete(Duration::from_secs(600)));
    figures.push(("reopen_ns", began.elapsed().as_nanos() as f64));
    drop_page_cache()?;
    figures.push((
        "cold_absent_alone",
        ns(COLD, || {
            for number in 0..COLD {
                assert!(store.get(&absent((1 << 30) + number))?.is_none());
            }
            Ok(())
        })?,
    ));
    drop_page_cache()?;
    figures.push((
        "cold_absent_behind",
        ns(COLD, || {
            for number in 0..COLD {
                assert!(filtered.get(&absent((1 << 30) + number))?.is_none());
            }
            Ok(())
        })?,
    ));
    let health = filtered.health();
    figures.push(("bits_per_key", health.memory.get() as f64 / keys as f64));
    let figures = figures
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value:.1}"));
    let figures: Vec<_> = figures.collect();
    println!(
        "{{\"store\":\"{name}\",\"keys\":{keys},{}}}",
        figures.join(",")
    );
    Ok(())
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

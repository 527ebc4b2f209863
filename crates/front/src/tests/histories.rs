//! Random histories of a store, each read held against a model.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::memory_lsm::{Entries, Store, Stored};
use crate::math::{Bits, Items};
use crate::options::FrontOptions;

const KEYS: u32 = 400;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn small() -> FrontOptions {
    FrontOptions {
        expected_keys: Some(Items::new(50)),
        audit: Some(50),
        ..FrontOptions::default()
    }
}

/// The settings that change what maintenance does.
fn settings() -> [FrontOptions; 5] {
    let with = |change: fn(&mut FrontOptions)| {
        let mut options = small();
        change(&mut options);
        options
    };
    [
        small(),
        small().at_rest(),
        with(|options| options.segment_rate = None),
        with(|options| options.filters_last_level = false).at_rest(),
        with(|options| options.memory_budget = Some(Bits::from_bytes(20 << 10)).into()),
    ]
}

/// Holds every key against the model, and the filters against both.
fn check(store: &Store, model: &BTreeMap<u32, u32>) {
    for number in 0..2 * KEYS {
        let value = model.get(&number).map(|value| value.to_be_bytes().to_vec());
        assert_eq!(store.get(&key(number)), value, "{number}");
        assert!(
            value.is_none() || !store.rules_out(&key(number)),
            "{number}"
        );
    }
}

fn step(store: &Store, model: &mut BTreeMap<u32, u32>, random: &mut SmallRng) {
    let number = random.random_range(0..KEYS);
    match random.random_range(0..100) {
        0..70 => {
            let value: u32 = random.random();
            store.put(&key(number), &value.to_be_bytes());
            model.insert(number, value);
        }
        70..85 => {
            store.delete(&key(number));
            model.remove(&number);
        }
        85..91 => store.flush(),
        91..92 => store.compact(),
        92..93 => store.move_oldest_to_last_level(),
        93..95 => {
            let value: u32 = random.random();
            let count = random.random_range(1..20);
            let keys = number..(number + count).min(KEYS);
            let entry = |number: u32| (key(number).to_vec(), value.to_be_bytes().to_vec());
            // As RocksDB: what is in the memtable is older than an ingested file.
            store.flush();
            store.ingest(&keys.clone().map(entry).collect::<Vec<_>>());
            model.extend(keys.map(|number| (number, value)));
        }
        95..97 => _ = store.consolidate(),
        _ => check(store, model),
    }
}

#[test]
fn random_histories_with_crashes_match_their_model() {
    for (nth, options) in settings().into_iter().enumerate() {
        let mut random = SmallRng::seed_from_u64(nth as u64);
        let mut model = BTreeMap::new();
        let mut store = Store::open(Stored::new(), &options);
        for _ in 0..12 {
            for _ in 0..200 {
                step(&store, &mut model, &mut random);
            }
            check(&store, &model);
            let (stored, log) = match random.random_bool(0.5) {
                true => (store.close(), Entries::new()),
                false => store.crash(random.random()),
            };
            store = Store::open(stored, &options);
            for (key, value) in log {
                match value {
                    Some(value) => store.put(&key, &value),
                    None => store.delete(&key),
                }
            }
            check(&store, &model);
        }
    }
}

/// A suite that only shows that nothing is lost would pass without any filter.
#[test]
fn absent_keys_are_ruled_out_and_stay_so_after_a_reopen() {
    let options = small();
    let store = Store::open(Stored::new(), &options);
    let numbers = 0..2_000_u32;
    for number in numbers.clone() {
        store.put(&key(number), b"value");
        if number % 300 == 0 {
            store.flush();
        }
    }
    let ruled_out = |store: &Store| {
        let absent = 10_000..20_000;
        absent
            .filter(|&number| store.rules_out(&key(number)))
            .count()
    };
    assert!(store.consolidate());
    assert!(store.is_complete());
    assert!(ruled_out(&store) > 9_800);
    let store = Store::open(store.close(), &options);
    store.settle();
    assert!(store.is_complete());
    assert!(ruled_out(&store) > 9_800);
    assert!(numbers.clone().all(|number| !store.rules_out(&key(number))));
}

/// Writes these keys; `written` is how many are written.
pub(super) fn write_beside_maintenance(
    store: &Store,
    keys: impl Iterator<Item = Vec<u8>>,
    written: &AtomicU32,
) {
    for (number, key) in (0..).zip(keys) {
        store.put(&key, b"value");
        written.store(number + 1, Ordering::Release);
        match number % 1_000 {
            0 => store.flush(),
            500 => store.compact(),
            700 => _ = store.consolidate(),
            _ => {}
        }
    }
}

/// Each reader knows a number below which every key was written.
#[test]
fn readers_find_every_key_that_was_written_beside_maintenance() {
    const WRITTEN: u32 = 20_000;
    let store = Store::open(Stored::new(), &small());
    let (done, written) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for seed in 0..2 {
            let (store, done, written) = (&store, &done, &written);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed);
                while !done.load(Ordering::Acquire) {
                    let below = written.load(Ordering::Acquire);
                    if below > 0 {
                        let number = random.random_range(0..below);
                        assert!(store.get(&key(number)).is_some(), "{number} of {below}");
                    }
                    let absent = random.random_range(WRITTEN..u32::MAX);
                    assert!(store.get(&key(absent)).is_none());
                }
            });
        }
        let keys = (0..WRITTEN).map(|number| key(number).to_vec());
        write_beside_maintenance(&store, keys, &written);
        done.store(true, Ordering::Release);
    });
}

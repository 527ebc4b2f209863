//! The static first stage of a summary filter at rest: where its keys come from.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::memory_lsm::{Scan, Store, Stored};
use crate::math::{Bits, Items};
use crate::options::FrontOptions;

/// Hashes that are in memory at once while a stage is built in parts.
const AT_ONCE: u64 = 100;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn options(hashes_at_once: Option<u64>) -> FrontOptions {
    FrontOptions {
        expected_keys: Some(Items::new(2_000)),
        build_memory: hashes_at_once.map(|hashes| Bits::from_bytes(8 * hashes)),
        ..FrontOptions::default().at_rest()
    }
}

/// Keys in two segments, and in a memtable.
fn filled(hashes_at_once: Option<u64>) -> Store {
    fill(Store::open_without_thread(
        Stored::new(),
        &options(hashes_at_once),
    ))
}

fn fill(store: Store) -> Store {
    store.look();
    for numbers in [0..300, 300..600] {
        write(&store, numbers);
        store.flush();
    }
    write(&store, 600..1_000);
    store
}

fn write(store: &Store, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.put(&key(number), b"value"));
}

/// Whether the summary filter is one static stage of exactly these keys.
fn has_static_stage_of(store: &Store, keys: u32) -> bool {
    let summary = store.cf_filter().view().summary;
    let is_static = summary.begins_static() && summary.stages() == 1;
    let denied = (0..keys).find(|&number| store.rules_out(&key(number)));
    assert_eq!(denied, None);
    let others = (5_000..6_000).filter(|&number| store.rules_out(&key(number)));
    is_static && summary.items() == Items::new(keys.into()) && others.count() > 990
}

#[test]
fn each_segment_is_read_once_for_all_parts() {
    let store = filled(Some(AT_ONCE));
    let (before, segments) = (store.scans(), store.segments().len() as u64);
    assert!(store.consolidate());
    assert_eq!(store.scans() - before, segments);
    assert!(has_static_stage_of(&store, 1_000));
}

/// As on a disk that is full.
#[test]
fn all_parts_are_built_from_memory_where_no_file_can_be_created() {
    let store = fill(Store::open_in(
        "/no such folder",
        Stored::new(),
        &options(Some(AT_ONCE)),
    ));
    let (before, segments) = (store.scans(), store.segments().len() as u64);
    assert!(store.consolidate());
    assert_eq!(store.scans() - before, segments);
    assert!(has_static_stage_of(&store, 1_000));
}

/// The log of keys has them.
#[test]
fn deleted_keys_are_in_no_static_stage() {
    for hashes_at_once in [None, Some(AT_ONCE)] {
        let store = Store::open_without_thread(Stored::new(), &options(hashes_at_once));
        store.look();
        write(&store, 0..300);
        (200..300).for_each(|number| store.delete(&key(number)));
        store.flush();
        assert!(store.consolidate());
        assert!(has_static_stage_of(&store, 200), "{hashes_at_once:?}");
    }
}

#[test]
fn stage_that_cannot_be_built_leaves_the_old_summary() {
    let store = filled(Some(AT_ONCE));
    store.set_next_scans([Scan::FailsAfter(10)]);
    assert!(!store.consolidate());
    write(&store, 1_000..1_100);
    let denied = (0..1_100).find(|&number| store.rules_out(&key(number)));
    assert_eq!(denied, None);
    assert!(store.consolidate());
    assert!(has_static_stage_of(&store, 1_100));
}

/// Otherwise the first key would cause a growing summary filter, and the next pause a static one.
#[test]
fn stage_beside_a_static_one_is_no_reason_to_rebuild() {
    let store = Store::open_without_thread(Stored::new(), &options(None));
    store.look();
    write(&store, 0..70_000);
    store.flush();
    assert!(store.consolidate());
    assert!(store.cf_filter().key_log().is_whole());
    let before = store.cf_filter().view().summary;
    assert!(before.begins_static());
    write(&store, 70_000..70_100);
    store.look();
    assert!(Arc::ptr_eq(&before, &store.cf_filter().view().summary));
    assert_eq!(before.stages(), 2);
}

/// If it is built from a log that begins with it, the log would lack the keys of a static stage.
#[test]
fn growing_summary_that_the_budget_makes_smaller_is_not_static() {
    for filters_last_level in [false, true] {
        let options = FrontOptions {
            filters_last_level,
            memory_budget: Some(Bits::new(8_000_000)).into(),
            ..FrontOptions::default().at_rest()
        };
        let is_static = |options: FrontOptions| {
            let fitting = options.fitting(Items::new(1_000_000), Bits::new(0));
            fitting.summary.at_rest.is_some()
        };
        assert!(is_static(options.clone()) && !is_static(options.growing()));
    }
}

/// Keys of [`overlapping`].
const KEYS: u32 = 20_000;

/// A store of overlapping segments, whose static stage is built from this many hashes at a time.
fn overlapping(at_once: u64) -> Store {
    let options = FrontOptions {
        build_memory: Some(Bits::from_bytes(8 * at_once)),
        ..super::default_options()
    };
    let store = Store::open(Stored::new(), &options);
    for segment in 0..3 {
        let keys = (0..KEYS).filter(|key| key % 3 == segment || key % 10 == 0);
        keys.for_each(|number| store.put(&key(number), b"value"));
        store.flush();
    }
    store
}

#[track_caller]
fn assert_no_key_is_denied(store: &Store, keys: u32) {
    let denied: Vec<u32> = (0..keys)
        .filter(|&number| store.rules_out(&key(number)))
        .collect();
    assert!(
        denied.is_empty(),
        "{} keys, {:?}",
        denied.len(),
        denied.first()
    );
    assert!((0..keys).all(|number| store.get(&key(number)).is_some()));
}

#[test]
fn stage_that_is_built_in_parts_has_all_keys_once() {
    for at_once in [1 << 20, 7_000, 300] {
        let store = overlapping(at_once);
        assert!(store.consolidate());
        let summary = store.cf_filter().view().summary;
        assert!(summary.begins_static() && summary.stages() == 1);
        assert_eq!(summary.items(), Items::new(KEYS.into()), "{at_once}");
        assert_no_key_is_denied(&store, KEYS);
        let absent = KEYS..2 * KEYS;
        let passing = absent
            .filter(|&number| !store.rules_out(&key(number)))
            .count();
        assert!(passing < 200, "{passing} of {KEYS}");
    }
}

/// The parts before it have none of its keys.
#[test]
fn segment_that_is_ingested_between_two_parts_is_read_whole() {
    // Fewer than fit into memory.
    const SEGMENTS: u32 = 12;
    const KEYS_OF_EACH: u32 = 300;
    let store = overlapping(400);
    thread::scope(|scope| {
        let ingestions = scope.spawn(|| {
            for number in 0..SEGMENTS {
                let first = KEYS + number * KEYS_OF_EACH;
                let keys = first..first + KEYS_OF_EACH;
                let entries = keys.map(|number| (key(number).to_vec(), b"value".to_vec()));
                store.ingest(&entries.collect::<Vec<_>>());
                thread::sleep(Duration::from_millis(30));
            }
        });
        // Some builds are overtaken.
        while !ingestions.is_finished() {
            store.consolidate();
        }
    });
    assert!(store.filters.wait_until_complete(Duration::from_secs(20)));
    assert_no_key_is_denied(&store, KEYS + SEGMENTS * KEYS_OF_EACH);
}

/// There is room for a few keys more than the first part predicts. Keys that memtables feed anyway
/// must not use it.
#[test]
fn keys_that_are_written_and_flushed_meanwhile_do_not_use_the_room_of_the_stage() {
    let store = overlapping(1_000);
    let failed = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in KEYS..4 * KEYS {
                store.put(&key(number), b"value");
                if number % 5_000 == 0 {
                    store.flush();
                }
            }
        });
        let mut failed = Vec::new();
        while !writer.is_finished() {
            failed.extend(store.consolidation_failure());
        }
        failed
    });
    let crowded = failed.iter().filter(|error| error.contains("keys came"));
    assert_eq!(crowded.count(), 0, "{failed:?}");
    assert_no_key_is_denied(&store, 4 * KEYS);
}

#[test]
fn keys_of_segments_that_are_compacted_between_two_parts_are_found() {
    let store = overlapping(400);
    thread::scope(|scope| {
        let compactions = scope.spawn(|| {
            for round in 0..8_u32 {
                let more = (0..KEYS).filter(|key| key % 7 == round % 7);
                more.for_each(|number| store.put(&key(number), b"newer"));
                store.flush();
                store.compact();
            }
        });
        while !compactions.is_finished() {
            store.consolidate();
        }
    });
    assert!(store.consolidate());
    store.settle();
    assert_no_key_is_denied(&store, KEYS);
}

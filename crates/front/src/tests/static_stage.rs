//! The static first stage of a summary filter at rest: where its keys come from.

use std::sync::Arc;

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

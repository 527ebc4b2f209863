//! What happens between a stopped reorganisation and its resumption.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::ops::ControlFlow;

use lsm_sieve_differential::{DifferentialOptions, DifferentialStore, FilterChoice};
use rocksdb::{BlockBasedOptions, SliceTransform};

use super::{engine, open, with_filter};

const KEYS: u32 = 2_000;

fn key(i: u32) -> Vec<u8> {
    format!("{:04}-{i}", i % 100).into_bytes()
}

fn stop_after_a_batch(store: &DifferentialStore) {
    let done = store.reorganize(|_| ControlFlow::Break(())).unwrap();
    assert!(!done.finished && done.records > 0, "{done:?}");
}

fn finish(store: &DifferentialStore) {
    assert!(
        store
            .reorganize(|_| ControlFlow::Continue(()))
            .unwrap()
            .finished
    );
}

/// If a record that was already moved is then loaded over, an update would be lost, or a delete
/// undone, once its generation is dropped.
#[test]
fn records_loaded_during_a_reorganisation_stay_older() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    for i in 0..KEYS {
        if i % 3 == 0 {
            store.delete(key(i)).unwrap();
        } else {
            store.put(key(i), b"new").unwrap();
        }
    }
    stop_after_a_batch(&store);
    store.load((0..KEYS).map(|i| (key(i), b"old"))).unwrap();
    let newest = || {
        for i in 0..KEYS {
            let expected = (i % 3 != 0).then(|| b"new".to_vec());
            assert_eq!(store.get(key(i)).unwrap(), expected, "key {i}");
        }
    };
    newest();
    finish(&store);
    newest();
    assert_eq!(store.extent().unwrap().records.get(), 0);
}

/// An empty batch has a dozen bytes. If these were enough to make a batch full, nothing was moved,
/// and the generation was dropped as if all of it had been.
#[test]
fn batches_of_any_size_move_every_record() {
    for batch_bytes in [0, 1, 12, 13, 64] {
        let home = tempfile::tempdir().unwrap();
        let options = DifferentialOptions {
            batch_bytes,
            ..with_filter(FilterChoice::Scalable)
        };
        let store = DifferentialStore::open(&engine(), &options, home.path()).unwrap();
        store.load((0..90).map(|i| (key(i), b"old"))).unwrap();
        (0..60).for_each(|i| store.put(key(i), b"new").unwrap());
        (60..80).for_each(|i| store.delete(key(i)).unwrap());
        let done = store.reorganize(|_| ControlFlow::Continue(())).unwrap();
        assert_eq!((done.finished, done.records), (true, 80), "{batch_bytes}");
        for i in 0..90 {
            let expected = match i {
                0..60 => Some(b"new".to_vec()),
                60..80 => None,
                _ => Some(b"old".to_vec()),
            };
            assert_eq!(store.get(key(i)).unwrap(), expected, "{batch_bytes}");
        }
    }
}

/// With a prefix extractor of the user, a plain seek ends at the first prefix that does not exist.
#[test]
fn prefix_extractor_hides_no_record_from_a_resumed_reorganisation() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = engine();
    settings.set_disable_auto_compactions(true);
    settings.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
    settings.set_memtable_prefix_bloom_ratio(0.1);
    let mut table = BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    settings.set_block_based_table_factory(&table);
    let options = with_filter(FilterChoice::Scalable);
    let store = DifferentialStore::open(&settings, &options, home.path()).unwrap();
    for part in 0..10 {
        for i in (0..KEYS).filter(|i| i % 10 == part) {
            store.put(key(i), b"new").unwrap();
        }
        store.flush().unwrap();
    }
    stop_after_a_batch(&store);
    let from = key(55);
    let seen = store.snapshot().scan(from.as_slice()..).count();
    let above = (0..KEYS).filter(|&i| key(i) >= from).count();
    assert_eq!(seen, above, "a scan from within");
    finish(&store);
    for i in 0..KEYS {
        assert!(store.get(key(i)).unwrap().is_some(), "key {i} is lost");
    }
}

//! Readers and writers while records move: no reader ever sees an older version after a newer one.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use lsm_sieve::SieveOptions;
use lsm_sieve_differential::{
    Batch, DifferentialOptions, DifferentialStore, FilterChoice, Snapshot,
};

use super::model::key;
use super::{FIXED, TINY, engine, open, with_filter};

const WRITERS: u64 = 2;
const READERS: u64 = 3;
const KEYS: u64 = 64;
/// Generations that are moved during the reads and writes.
const MOVES: u64 = 12;

#[test]
fn scan_ignores_concurrent_writes_and_moves() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    let before: Vec<_> = (0..KEYS)
        .map(|index| (key(index), b"old".to_vec()))
        .collect();
    store.load(before[..32].iter().cloned()).unwrap();
    before[16..]
        .iter()
        .for_each(|(key, value)| store.put(key, value).unwrap());
    let mut scan = store.scan::<&[u8]>(..);
    let mut seen = vec![scan.next().unwrap().unwrap()];
    for (key, _) in before.iter().step_by(2) {
        store.delete(key).unwrap();
    }
    for index in KEYS / 2..2 * KEYS {
        store.put(key(index), b"new").unwrap();
    }
    store.reorganize(|_| ControlFlow::Continue(())).unwrap();
    store.flush().unwrap();
    seen.extend(scan.by_ref().map(Result::unwrap));
    assert_eq!(seen, before);
    assert_ne!(
        store
            .scan::<&[u8]>(..)
            .map(Result::unwrap)
            .collect::<Vec<_>>(),
        before
    );
}

#[test]
fn versions_never_go_back_while_records_move() {
    check_versions_never_go_back(FilterChoice::Scalable);
}

#[test]
fn versions_never_go_back_with_a_fixed_filter() {
    check_versions_never_go_back(FIXED);
}

#[test]
fn versions_never_go_back_with_a_tiny_filter() {
    check_versions_never_go_back(TINY);
}

/// Version v of a key is its number, or a delete if v is a multiple of three.
fn is_deleted(version: u64) -> bool {
    version.is_multiple_of(3)
}

/// For each key the last version that was begun and the last that was acknowledged.
struct Versions {
    begun: Vec<AtomicU64>,
    acknowledged: Vec<AtomicU64>,
    over: AtomicBool,
}

/// Ends the work of all threads when one is done, or panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn check_versions_never_go_back(filter: FilterChoice) {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), filter).unwrap();
    let none = || (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let versions = Versions {
        begun: none(),
        acknowledged: none(),
        over: AtomicBool::new(false),
    };
    let reads: u64 = thread::scope(|scope| {
        let (store, versions) = (&store, &versions);
        for writer in 0..WRITERS {
            scope.spawn(move || write(store, versions, writer));
        }
        let readers: Vec<_> = (0..READERS)
            .map(|reader| scope.spawn(move || read(store, versions, reader)))
            .collect();
        reorganize(store, versions);
        readers
            .into_iter()
            .map(|reader| reader.join().unwrap())
            .sum()
    });
    assert!(reads > KEYS * MOVES, "only {reads} reads");
    for index in 0..KEYS {
        let last = versions.acknowledged[index as usize].load(Ordering::SeqCst);
        let left = store.get(key(index)).unwrap();
        let expected = (!is_deleted(last)).then(|| last.to_le_bytes().to_vec());
        assert_eq!(left, expected, "key {index}");
    }
}

fn write(store: &DifferentialStore, versions: &Versions, writer: u64) {
    let _over = Over(&versions.over);
    for version in 1.. {
        for index in (writer..KEYS).step_by(WRITERS as usize) {
            if versions.over.load(Ordering::SeqCst) {
                return;
            }
            versions.begun[index as usize].store(version, Ordering::SeqCst);
            if is_deleted(version) {
                store.delete(key(index)).unwrap();
            } else {
                store.put(key(index), version.to_le_bytes()).unwrap();
            }
            versions.acknowledged[index as usize].store(version, Ordering::SeqCst);
        }
    }
}

/// Reads every key over and over. What it finds is no older than the version acknowledged before
/// the read, and no newer than the version begun before the read ended.
fn read(store: &DifferentialStore, versions: &Versions, reader: u64) -> u64 {
    let _over = Over(&versions.over);
    let mut reads = 0;
    while !versions.over.load(Ordering::SeqCst) {
        for at in 0..KEYS {
            let index = (at * (2 * reader + 1)) % KEYS;
            let oldest = versions.acknowledged[index as usize].load(Ordering::SeqCst);
            let found = match reader {
                0 => store.snapshot().get(key(index)).unwrap(),
                1 => store.multi_get([key(index)]).remove(0).unwrap(),
                _ => store.get(key(index)).unwrap(),
            };
            let newest = versions.begun[index as usize].load(Ordering::SeqCst);
            let possible = oldest..=newest;
            let right = match &found {
                None => possible.clone().any(is_deleted),
                Some(bytes) => {
                    let version = u64::from_le_bytes(bytes.as_slice().try_into().unwrap());
                    possible.contains(&version) && !is_deleted(version)
                }
            };
            assert!(
                right,
                "key {index}: {found:?}, not one of versions {possible:?}"
            );
            reads += 1;
        }
    }
    reads
}

fn reorganize(store: &DifferentialStore, versions: &Versions) {
    let _over = Over(&versions.over);
    let mut moved = 0;
    while moved < MOVES && !versions.over.load(Ordering::SeqCst) {
        let done = store.reorganize(|_| ControlFlow::Continue(())).unwrap();
        moved += done.generations;
    }
}

/// One batch gives every key the same version, so any two records of one snapshot agree.
#[test]
fn snapshots_and_checkpoints_see_whole_batches_while_records_move() {
    /// Checkpoints that are made meanwhile.
    const COPIES: u64 = 3;
    for filter in [FilterChoice::Scalable, FIXED] {
        let home = tempfile::tempdir().unwrap();
        let store = open(&home.path().join("store"), filter).unwrap();
        let (over, copies) = (AtomicBool::new(false), AtomicU64::new(0));
        let looks = thread::scope(|scope| {
            let (store, over, copies) = (&store, &over, &copies);
            scope.spawn(move || write_batches(store, over));
            let reader = scope.spawn(move || check_snapshots(store, over));
            let home = home.path();
            scope.spawn(move || {
                let _over = Over(over);
                while !over.load(Ordering::SeqCst) {
                    let copy = copies.load(Ordering::SeqCst);
                    check_checkpoint(store, &home.join(format!("copy-{copy}")), filter);
                    copies.store(copy + 1, Ordering::SeqCst);
                }
            });
            let _over = Over(over);
            let mut moved = 0;
            while (moved < MOVES || copies.load(Ordering::SeqCst) < COPIES)
                && !over.load(Ordering::SeqCst)
            {
                let done = store.reorganize(|_| ControlFlow::Continue(())).unwrap();
                moved += done.generations;
            }
            over.store(true, Ordering::SeqCst);
            reader.join().unwrap()
        });
        assert!(looks > MOVES, "only {looks} snapshots");
    }
}

/// A load gives two records one version. Then the first is written again, unchanged, and moved.
#[test]
fn snapshots_see_whole_loads_while_records_move() {
    const ROUNDS: u64 = 50;
    const READERS: u64 = 2;
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("store"), FilterChoice::Scalable).unwrap();
    let over = AtomicBool::new(false);
    let looks = AtomicU64::new(0);
    let look = || {
        let _over = Over(&over);
        while !over.load(Ordering::SeqCst) {
            let snapshot = store.snapshot();
            let [first, second] = [0, 1].map(|index| snapshot.get(key(index)).unwrap());
            assert_eq!(first, second, "a torn load");
            looks.fetch_add(1, Ordering::SeqCst);
        }
    };
    thread::scope(|scope| {
        let _over = Over(&over);
        (0..READERS).for_each(|_| _ = scope.spawn(look));
        for version in 0..ROUNDS {
            let records = [0, 1].map(|index| (key(index), version.to_le_bytes()));
            store.load(records).unwrap();
            // Reads that were under way have ended by then.
            let enough = looks.load(Ordering::SeqCst) + 2 * READERS;
            while looks.load(Ordering::SeqCst) < enough && !over.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            store.put(key(0), version.to_le_bytes()).unwrap();
            store.reorganize(|_| ControlFlow::Continue(())).unwrap();
        }
    });
}

/// If the record were visible before its key is in the filter, the next reader would go to the main
/// file, and an audit would report a false negative of a correct filter.
#[test]
fn visible_record_stays_visible_with_a_fixed_filter() {
    const RECORDS: u64 = 300;
    const NO_AUDIT: u32 = 0;
    const EVERY_ONE: u32 = 1;
    for audit in [NO_AUDIT, EVERY_ONE] {
        let home = tempfile::tempdir().unwrap();
        let options = DifferentialOptions {
            filters: SieveOptions::default().audit(audit),
            ..with_filter(FIXED)
        };
        let store = DifferentialStore::open(&engine(), &options, home.path()).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| write_each(&store, RECORDS));
            for key in (0..RECORDS).map(key) {
                let mut seen = false;
                while !seen {
                    let written = writer.is_finished();
                    let there = store.get_unfiltered(&key).unwrap().is_some();
                    seen = store.get(&key).unwrap().is_some();
                    assert!(seen || !there && !written, "{}", key.escape_ascii());
                }
            }
        });
        let denied = (RECORDS..2 * RECORDS).filter(|&index| !store.may_be_modified(key(index)));
        assert!(denied.count() > 0, "the filter was refuted");
    }
}

/// Writes this many records, alone and in batches of one in turn.
fn write_each(store: &DifferentialStore, records: u64) {
    for index in 0..records {
        if index.is_multiple_of(2) {
            store.put(key(index), b"new").unwrap();
        } else {
            let mut batch = Batch::default();
            batch.put(key(index), b"new");
            store.write(&batch).unwrap();
        }
    }
}

fn write_batches(store: &DifferentialStore, over: &AtomicBool) {
    let _over = Over(over);
    for version in 1_u64.. {
        if over.load(Ordering::SeqCst) {
            return;
        }
        let mut batch = Batch::default();
        for index in 0..KEYS {
            if is_deleted(version) {
                batch.delete(key(index));
            } else {
                batch.put(key(index), version.to_le_bytes());
            }
        }
        store.write(&batch).unwrap();
    }
}

fn check_snapshots(store: &DifferentialStore, over: &AtomicBool) -> u64 {
    let _over = Over(over);
    let mut looks = 0;
    while !over.load(Ordering::SeqCst) {
        let snapshot = store.snapshot();
        let scanned = versions_in(&snapshot);
        let keys: Vec<Vec<u8>> = (0..KEYS).map(key).collect();
        let many = snapshot.multi_get(&keys);
        let read: Vec<_> = many.into_iter().filter_map(Result::unwrap).collect();
        assert_eq!(scanned, read);
        looks += 1;
    }
    looks
}

fn check_checkpoint(store: &DifferentialStore, path: &Path, filter: FilterChoice) {
    store.checkpoint(path).unwrap();
    versions_in(&open(path, filter).unwrap().snapshot());
}

/// The versions of all records: all or none exist, and all are the same.
fn versions_in(snapshot: &Snapshot<'_>) -> Vec<Vec<u8>> {
    let records = snapshot.scan::<&[u8]>(..).map(|record| record.unwrap().1);
    let versions: Vec<_> = records.collect();
    let whole = versions.is_empty() || versions.len() as u64 == KEYS;
    let alike = versions.iter().all(|version| *version == versions[0]);
    assert!(whole && alike, "a torn batch: {versions:?}");
    versions
}

//! A consolidation reads RocksDB's memtables while they are written, sealed, flushed, and freed. It
//! flushes none.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rocksdb::{
    DEFAULT_COLUMN_FAMILY_NAME, FlushOptions, MemtableFactory, Options, WriteBatch, WriteOptions,
};

use super::blocked_flush::BlockedFlush;
use crate::engine::RocksEngine;
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::hooks::JustOpened as _;
use crate::math::{Bits, Items};
use crate::{Isolation, RocksDb, SieveDb, SieveOptions, hooks};
use lsm_sieve_front::cf_filter::lookup::answer;
use lsm_sieve_front::cf_filter::{CfFilter, FirstSummary};
use lsm_sieve_front::engine::Engine as _;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::segment::Registry;

const LIMIT: Duration = Duration::from_secs(60);

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options
}

fn open(options: &Options, home: &std::path::Path) -> SieveDb {
    let db = SieveDb::open(options, &SieveOptions::default(), home).unwrap();
    assert!(db.filters().wait_until_complete(LIMIT));
    db
}

fn key(number: u32) -> [u8; 8] {
    // Spread, so that a memtable takes them everywhere.
    u64::from(number)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .to_be_bytes()
}

#[track_caller]
fn assert_no_key_is_denied(db: &SieveDb, keys: std::ops::Range<u32>) {
    let denied = keys.filter(|&number| db.filters().answer(key(number)).is_absent());
    assert_eq!(denied.count(), 0);
}

fn write(db: &SieveDb, keys: std::ops::Range<u32>) {
    keys.for_each(|number| db.put(key(number), "value").unwrap());
}

/// Its keys are in no SST, and in a memtable that takes no more keys.
#[test]
fn keys_of_memtables_whose_flush_is_under_way_are_read() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    let held = BlockedFlush::flushes_of(&mut options);
    let db = open(&options, home.path());
    let held = held;
    write(&db, 0..1_000);
    BlockedFlush::write(&db);
    let mut begin = FlushOptions::default();
    begin.set_wait(false);
    db.flush_opt(&begin).unwrap();
    held.wait();
    write(&db, 1_000..2_000);
    let before = db.cf_filters().all()[0].view().summary;
    db.filters().consolidate().unwrap();
    assert!(!Arc::ptr_eq(
        &before,
        &db.cf_filters().all()[0].view().summary
    ));
    assert_no_key_is_denied(&db, 0..2_000);
    assert!(!db.filters().answer(BlockedFlush::KEY).is_absent());
    held.release_flush();
    db.flush().unwrap();
    assert_no_key_is_denied(&db, 0..2_000);
}

/// They may become SSTs that a log of keys that begins now does not have.
#[test]
fn entries_of_memtables_whose_flush_is_under_way_are_counted() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    let held = BlockedFlush::flushes_of(&mut options);
    let db = open(&options, home.path());
    let held = held;
    write(&db, 0..100);
    BlockedFlush::write(&db);
    let mut begin = FlushOptions::default();
    begin.set_wait(false);
    db.flush_opt(&begin).unwrap();
    held.wait();
    write(&db, 100..110);
    let engine = RocksEngine::new(Arc::clone(&db.filters().engine), false);
    let cf_filter = db.cf_filters().all().remove(0);
    let counted = engine.entries_in_memtables(cf_filter.key_space());
    assert_eq!(counted.unwrap(), 112);
    held.release_flush();
    db.flush().unwrap();
    let counted = engine.entries_in_memtables(cf_filter.key_space());
    assert_eq!(counted.unwrap(), 0);
}

/// RocksDB keeps one for as long as somebody reads it.
#[test]
fn memtables_that_were_read_are_freed_when_they_are_flushed() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&options(), home.path());
    let size = || db.property_int_value("rocksdb.size-all-mem-tables");
    let empty = size().unwrap().unwrap();
    write(&db, 0..50_000);
    db.filters().consolidate().unwrap();
    let filled = size().unwrap().unwrap();
    assert!(filled > empty + (1 << 20), "{empty} and {filled}");
    db.flush().unwrap();
    let left = size().unwrap().unwrap();
    assert!(left < empty + (1 << 18), "{empty}, {filled} and {left}");
}

/// Also if RocksDB flushes all families together.
#[test]
fn consolidations_make_no_sst() {
    for atomic_flush in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        options.set_atomic_flush(atomic_flush);
        let db = open(&options, home.path());
        db.create_cf("other", &Options::default()).unwrap();
        let other = db.cf_handle("other").unwrap();
        write(&db, 0..1_000);
        (0..1_000).for_each(|number| db.put_cf(&other, key(number), "value").unwrap());
        for _ in 0..3 {
            db.filters().consolidate().unwrap();
        }
        assert!(db.live_files().unwrap().is_empty());
        let entries = |cf| db.property_int_value_cf(cf, "rocksdb.num-entries-active-mem-table");
        let default = db.cf_handle("default").unwrap();
        assert_eq!(entries(&default), Ok(Some(1_000)));
        assert_eq!(entries(&other), Ok(Some(1_000)));
        assert_no_key_is_denied(&db, 0..1_000);
        let denied = |&number: &u32| db.filters().answer_cf(&other, key(number)).is_absent();
        assert_eq!((0..1_000).filter(denied).count(), 0);
    }
}

/// A change of options that makes another way to write.
type Way = (&'static str, fn(&mut Options));

/// All of them; with small memtables, which are flushed and freed while they are read.
const WAYS: [Way; 7] = [
    ("as by default", |_| ()),
    ("unordered", |options| options.set_unordered_write(true)),
    ("pipelined", |options| {
        options.set_enable_pipelined_write(true)
    }),
    ("one writer at a time", |options| {
        options.set_allow_concurrent_memtable_write(false);
    }),
    ("into vectors", |options| {
        options.set_allow_concurrent_memtable_write(false);
        options.set_memtable_factory(MemtableFactory::Vector);
    }),
    ("into vectors, beside one another", |options| {
        options.set_memtable_factory(MemtableFactory::Vector);
    }),
    ("flushed in pairs", |options| {
        options.set_max_write_buffer_number(6);
        options.set_min_write_buffer_number_to_merge(2);
    }),
];

/// The writers go on: each key that was written before a consolidation, during it or after it is
/// found at once and at the end.
#[test]
fn keys_that_come_beside_consolidations_are_found() {
    const WRITERS: u32 = 2;
    const ROUNDS: usize = 12;
    for (way, change) in WAYS {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        options.set_write_buffer_size(256 << 10);
        change(&mut options);
        let db = open(&options, home.path());
        let (is_over, written) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    while !is_over.load(Ordering::Acquire) {
                        let first = written.fetch_add(16, Ordering::AcqRel);
                        let mut batch = WriteBatch::default();
                        (first..first + 16).for_each(|n| batch.put(key(n), "value"));
                        db.write(batch).unwrap();
                        assert_no_key_is_denied(&db, first..first + 16);
                    }
                });
            }
            for _ in 0..ROUNDS {
                db.filters().consolidate().unwrap();
            }
            is_over.store(true, Ordering::Release);
        });
        let keys = written.into_inner();
        assert_no_key_is_denied(&db, 0..keys);
        let absent = (keys..keys + 1_000).filter(|&n| db.filters().answer(key(n)).is_absent());
        assert!(absent.count() > 900, "{way}");
    }
}

/// RocksDB then keeps flushed memtables. They kept a summary filter of gigabytes alive.
#[test]
fn memtables_that_are_kept_for_transactions_hold_no_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = SieveOptions::default().transactions(Isolation::Optimistic);
    let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
    write(&db, 0..100);
    db.flush().unwrap();
    let summary = Arc::downgrade(&db.cf_filters().all()[0].view().summary);
    db.filters().consolidate().unwrap();
    assert!(db.filters().wait_for_maintenance(LIMIT));
    assert_eq!(summary.strong_count(), 0, "the summary of before");
    assert_no_key_is_denied(&db, 0..100);
}

/// Deletions are no keys that a lookup finds.
#[test]
fn deletions_in_memtables_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&options(), home.path());
    write(&db, 0..500);
    (500..1_000).for_each(|number| db.delete(key(number)).unwrap());
    db.filters().consolidate().unwrap();
    let keys = db.cf_filters().all()[0].view().summary.items().get();
    assert_eq!(keys, 500);
}

/// A reader may see the key before its memtable has it; the filters must say *maybe* by then.
#[test]
fn filters_hear_of_an_unordered_write_first() {
    for unordered in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        options.set_unordered_write(unordered);
        let db = open(&options, home.path());
        let cf_filter = db.cf_filters().all().remove(0);
        let insertion = cf_filter.intake().begin_insertion(b"key");
        assert_eq!(!answer(&*cf_filter, b"key").is_absent(), unordered);
        cf_filter.intake().end_insertion(insertion, b"key");
        assert!(!answer(&*cf_filter, b"key").is_absent());
    }
}

/// A vector kept the keys of a batch from its readers until the batch ended. A key that was added to
/// the old filter alone was then in neither.
#[test]
fn each_key_of_a_batch_is_read_before_the_next_is_inserted() {
    for is_vector in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        // Such writes insert concurrently, also when there is one.
        options.set_unordered_write(true);
        if is_vector {
            options.set_memtable_factory(MemtableFactory::Vector);
        }
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([5; 16]));
        let summary = FrontOptions::default().summary(Items::new(10), Bits::new(0));
        let summary = Scalable::new(hasher.imprint().for_summary(), summary);
        let cf_filter = CfFilter::new(
            DEFAULT_COLUMN_FAMILY_NAME,
            hasher,
            Arc::new(Registry::new(hasher)),
            Arc::default(),
            &FrontOptions::default(),
            FirstSummary::covering_none(summary),
        );
        hooks::install(&options, cf_filter, &hooks::WATCHED);
        let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let engine = RocksDb::open_cf_with_opts(&options, home.path(), cfs).unwrap();
        let (engine, read) = (Rc::new(engine), Rc::new(Cell::new(0)));
        let (reader, seen) = (Rc::clone(&engine), Rc::clone(&read));
        hooks::before_each_key(move |_| {
            let cf = reader.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
            seen.set(0);
            let count = &mut |_: &[u8], _: bool| {
                seen.set(seen.get() + 1);
                true
            };
            hooks::memtable_keys(&cf, count).unwrap();
        });
        let mut batch = WriteBatch::default();
        (0..5).for_each(|number| batch.put(key(number), "value"));
        let handle = engine.handle().unwrap();
        hooks::write(&engine, &handle, &batch, &WriteOptions::default()).unwrap();
        assert_eq!(read.get(), 4, "before the last");
        hooks::before_each_key(|_| ());
    }
}

//! Reads beside flushes, compactions, listings and consolidations lose no key.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{Items, SieveDb, SieveOptions};

use crate::support::model_db::{
    Model, absent_key, always_filtered, cover, fill, key, options, settle,
};

fn roomy() -> SieveOptions {
    always_filtered().expected_keys(Items::new(20_000))
}

/// How many of this many absent keys the filters cannot deny.
fn passed(db: &SieveDb, keys: u64) -> usize {
    (0..keys)
        .filter(|&i| !db.filters().answer(absent_key(i)).is_absent())
        .count()
}

fn no_key_is_lost(db: &SieveDb, model: &Model) {
    for (key, value) in model {
        assert!(!db.filters().answer(key).is_absent(), "{key:?} is lost");
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
    }
}

/// Keys of memtables that were flushed, that were not, and that are written before and after a
/// consolidation.
#[test]
fn keys_of_every_memtable_are_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &roomy(), home.path()).unwrap();
    let mut model = Model::new();
    cover(&db);
    for round in 0..40_u64 {
        fill(&db, &mut model, round * 100..round * 100 + 50);
        match round % 4 {
            0 => settle(&db),
            1 => {
                settle(&db);
                db.flush().unwrap();
            }
            2 => db.flush().unwrap(),
            _ => db.filters().consolidate().unwrap(),
        }
        fill(&db, &mut model, round * 100 + 50..(round + 1) * 100);
        no_key_is_lost(&db, &model);
    }
    settle(&db);
    no_key_is_lost(&db, &model);
    assert!(passed(&db, 4_000) < 4_000 / 5);
}

#[test]
fn keys_of_a_memtable_that_is_never_flushed_are_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &roomy(), home.path()).unwrap();
    let mut model = Model::new();
    cover(&db);
    for i in 0..200 {
        fill(&db, &mut model, i..i + 1);
        settle(&db);
        assert!(!db.filters().answer(key(i)).is_absent());
    }
    no_key_is_lost(&db, &model);
}

/// SSTs are compacted and listed again while a memtable holds keys that are in none of them.
#[test]
fn keys_of_a_memtable_are_found_after_a_compaction() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &roomy(), home.path()).unwrap();
    for run in 0..4 {
        for i in 0..100 {
            db.put(format!("table {:03}", i * 4 + run), b"old").unwrap();
        }
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let written: Vec<String> = (0..400).map(|i| format!("memtable {i:03}")).collect();
    for key in &written {
        db.put(key, b"new").unwrap();
    }
    db.compact_range(Some("table 000"), Some("table 399"));
    cover(&db);
    settle(&db);
    let cfs = db.filters().inspect().unwrap().cfs;
    assert_eq!(cfs[0].segments.len(), 1, "the memtable was flushed too");
    for key in &written {
        assert!(!db.filters().answer(key).is_absent(), "{key} is lost");
    }
}

/// A writer finds each of its keys at once, while the filters are replaced.
#[test]
fn writers_read_their_own_keys_while_ssts_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &roomy(), home.path()).unwrap();
    cover(&db);
    settle(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..60_000 {
                db.put(key(i), b"mine").unwrap();
                assert!(!db.filters().answer(key(i)).is_absent(), "key {i} is lost");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) && !writer.is_finished() {
            db.flush().unwrap();
            settle(&db);
            db.filters().consolidate().unwrap();
        }
    });
    for i in 0..60_000 {
        assert!(!db.filters().answer(key(i)).is_absent(), "key {i} is lost");
    }
}

/// Keys move from a memtable to an SST while maintenance lists the SSTs.
#[test]
fn keys_flushed_while_ssts_are_listed_are_found() {
    const ROUNDS: u64 = 100;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &roomy().audit(0), home.path()).unwrap();
    cover(&db);
    for round in 0..ROUNDS {
        db.put(key(round), b"mine").unwrap();
        db.flush().unwrap();
        for i in 0..=round {
            assert!(!db.filters().answer(key(i)).is_absent(), "key {i} is lost");
        }
    }
}

//! Audits find a filter that says *absent* for a key that is there. From then on no read is lost.
//!
//! The false negatives are injected on disk, with right checksums: a summary or segment filter
//! without its keys, as a fault of memory or of this crate would leave it. One negative in 16 is
//! audited, so 16 reads of a key are expected until one is. The tests allow 8 times as many.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{Answer, Items, RocksDb, SieveDb, SieveOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, ReadOptions};

use crate::support::binding::options_by_text;
use crate::support::damage::without_keys;
use crate::support::database_files::{sidecars, stamps, summaries};
use crate::support::model_db::{
    Model, absent_key, always_filtered, check_reads, check_settled, cover, fill, key, options,
    settle, sieve,
};

const KEYS: u64 = 500;
const ONE_IN: u32 = 16;
const READS: u64 = 8 * ONE_IN as u64;

/// The summary has room for all keys, so that maintenance does not replace the faulty one.
fn audited() -> SieveOptions {
    let room = Items::new(2 * KEYS);
    always_filtered().expected_keys(room).audit(ONE_IN)
}

fn open(path: &Path) -> SieveDb {
    SieveDb::open(&options(), &audited(), path).unwrap()
}

pub(super) fn filters(path: &Path) -> PathBuf {
    path.join("sieve")
}

/// A closed database of one SST, and its model.
fn write(path: &Path) -> Model {
    let db = open(path);
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    model
}

/// Checks a database in which a false negative was found: every read is right, no answer is
/// *absent* and no filter is stored. After a reopen it has new filters, which are right.
fn recovers_from_false_negative(db: SieveDb, path: &Path, model: &Model) {
    let false_negative = db
        .filters()
        .false_negative()
        .expect("an audit refuted a filter");
    assert_eq!(false_negative.cf, DEFAULT_COLUMN_FAMILY_NAME);
    assert!(false_negative.noted, "the folder says so");
    assert_eq!(
        db.filters().inspect().unwrap().false_negative.as_ref(),
        Some(false_negative)
    );
    assert_eq!(db.filters().stats().false_negatives, 1);
    check_reads(&db, model);
    assert_eq!(db.filters().answer(absent_key(1)), Answer::Maybe);
    assert!(db.filters().consolidate().is_err());
    assert!(
        !db.filters()
            .wait_until_complete(std::time::Duration::from_secs(1))
    );
    db.create_cf("later", &options()).unwrap();
    let later = db.cf_handle("later").unwrap();
    assert_eq!(db.filters().answer_cf(&later, b"x"), Answer::Maybe);
    drop(later);
    db.put(b"written later", b"1").unwrap();
    db.flush().unwrap();
    settle(&db);
    let before = stamps(&filters(path), ".sieve");
    db.drop_cf("later").unwrap();
    drop(db);
    assert_eq!(
        stamps(&filters(path), ".sieve"),
        before,
        "nothing is stored"
    );
    let mut model = model.clone();
    model.insert(b"written later".to_vec(), b"1".to_vec());
    let db = open(path);
    check_reads(&db, &model);
    check_settled(&db, &model);
    assert_eq!(db.filters().false_negative(), None);
    assert_eq!(db.filters().stats().false_negatives, 0);
    assert_eq!(db.filters().inspect().unwrap().distrusted_runs, 1);
    drop(db);
    let db = SieveDb::builder(path)
        .options(&options())
        .filters(&audited())
        .read_only(false)
        .open()
        .unwrap();
    assert_eq!(db.filters().inspect().unwrap().distrusted_runs, 1);
}

/// Reads one key until it is found. Returns the number of reads before that, which were undetected
/// false negatives.
fn reads_until_found(read: impl Fn(&[u8]) -> bool) -> u64 {
    let key = key(7);
    (1..=READS).find(|_| read(&key)).expect("no audit in time")
}

#[test]
fn summary_false_negative_is_found_by_every_kind_of_read() {
    type Read = fn(&SieveDb, &[u8]) -> bool;
    let reads: [(&str, Read); 6] = [
        ("get", |db, key| db.get(key).unwrap().is_some()),
        ("get_opt", |db, key| {
            let found = db.get_opt(key, &ReadOptions::default()).unwrap();
            found.is_some()
        }),
        ("get_pinned", |db, key| {
            db.get_pinned(key).unwrap().is_some()
        }),
        ("get_cf", |db, key| {
            let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
            db.get_cf(&cf, key).unwrap().is_some()
        }),
        ("multi_get", |db, key| {
            let answers = db.multi_get([&b"absent"[..], key, b"absent too"]);
            answers[1].as_ref().unwrap().is_some()
        }),
        ("answer", |db, key| !db.filters().answer(key).is_absent()),
    ];
    for (name, read) in reads {
        let home = tempfile::tempdir().unwrap();
        let model = write(home.path());
        without_keys(&summaries(&filters(home.path()))[0]);
        let db = open(home.path());
        settle(&db);
        assert!(db.filters().false_negative().is_none(), "{name}");
        let reads = reads_until_found(|key| read(&db, key));
        assert!(
            reads > 1 || db.filters().stats().audited > 0,
            "{name}: there was no false negative"
        );
        recovers_from_false_negative(db, home.path(), &model);
    }
}

/// The audit reads the key as of the latest time.
#[test]
fn summary_false_negative_of_a_key_with_a_timestamp_is_found() {
    let home = tempfile::tempdir().unwrap();
    let text = "comparator=leveldb.BytewiseComparator.u64ts";
    let stamped = options_by_text(&options(), text).unwrap();
    let open = || SieveDb::open(&stamped, &audited(), home.path()).unwrap();
    {
        let db = open();
        for i in 0..KEYS {
            db.put_with_ts(key(i), 5_u64.to_le_bytes(), b"value")
                .unwrap();
        }
        db.flush().unwrap();
        cover(&db);
        settle(&db);
    }
    without_keys(&summaries(&filters(home.path()))[0]);
    let db = open();
    settle(&db);
    let plain: &RocksDb = &db;
    let mut latest = ReadOptions::default();
    latest.set_timestamp(u64::MAX.to_le_bytes());
    reads_until_found(|key| plain.get_opt(key, &latest).unwrap().is_some());
    assert!(db.filters().false_negative().is_some());
}

/// Summary filter and segment filter deny the same key. The audit reads past both.
#[test]
fn false_negative_of_both_filters_is_found() {
    let home = tempfile::tempdir().unwrap();
    let model = write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    without_keys(&sidecars(&filters(home.path()))[0]);
    let db = open(home.path());
    settle(&db);
    reads_until_found(|key| db.get(key).unwrap().is_some());
    recovers_from_false_negative(db, home.path(), &model);
}

#[test]
fn without_audits_a_false_negative_stays() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    settle(&db);
    assert!((0..READS * 10).all(|_| db.get(key(7)).unwrap().is_none()));
    assert_eq!(
        (db.filters().stats().audited, db.filters().false_negative()),
        (0, None)
    );
}

/// With read-only filters no file is changed, not even by a false negative.
#[test]
fn read_only_filters_are_distrusted_in_memory_only() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    let before = stamps(&filters(home.path()), "");
    let db = SieveDb::open(&options(), &audited().read_only_filters(true), home.path()).unwrap();
    settle(&db);
    reads_until_found(|key| db.get(key).unwrap().is_some());
    assert!(!db.filters().false_negative().unwrap().noted);
    drop(db);
    assert_eq!(stamps(&filters(home.path()), ""), before);
}

/// Audits race with writers, flushes and new summary filters. None of these is a false negative.
#[test]
fn key_written_during_an_audit_is_no_false_negative() {
    const ROUNDS: u64 = 30_000;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(1), home.path()).unwrap();
    cover(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut i = reader;
                while !done.load(Ordering::Acquire) {
                    let wanted = [key(i % ROUNDS), key((i + 1) % ROUNDS)];
                    db.get(&wanted[0]).unwrap();
                    db.multi_get(&wanted);
                    i += 3;
                }
            });
        }
        for i in 0..ROUNDS {
            db.put(key(i), b"here").unwrap();
            if i % 3 == 0 {
                db.delete(key(i)).unwrap();
            }
            match i % 3_000 {
                0 => db.flush().unwrap(),
                // Fails once a false negative was found, which is asserted below.
                1_500 => drop(db.filters().consolidate()),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
    let stats = db.filters().stats();
    assert!(stats.audited > 1_000, "{stats:?}");
    assert_eq!(
        (stats.false_negatives, db.filters().false_negative()),
        (0, None)
    );
}

/// With unordered writes a key may be visible before its memtable has it. That is no false
/// negative.
#[test]
fn unordered_writes_are_no_false_negatives() {
    const ROUNDS: u64 = 10_000;
    const KEPT: u64 = 2;
    let home = tempfile::tempdir().unwrap();
    let mut engine = options();
    engine.set_unordered_write(true);
    let db = SieveDb::open(&engine, &sieve().audit(1), home.path()).unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        let key = key(round % KEPT);
                        db.put(&key, b"value").unwrap();
                        db.delete(&key).unwrap();
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            scope.spawn(|| {
                for round in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    db.get(key(round % KEPT)).unwrap();
                }
            });
        }
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_eq!(db.filters().false_negative(), None);
}

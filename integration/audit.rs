//! A filter that lies is found out by the audits, and nothing is lost from then on.
//!
//! The lies are planted on disk, all checksums right: a summary or a table's filter without its
//! keys, as a fault of memory or of this crate would leave them. Sampling is by 1 in 16 and the
//! expected number of reads of a key until one is audited is 16; 8 times that must do.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod lies;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::differential::{DifferentialOptions, DifferentialStore};
use lsm_sieve::{Answer, Items, SieveDb, SieveOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, ReadOptions};

use crate::copy::{sidecars, stamps, summaries};
use crate::twin::{
    Model, absent_key, agree, cover, fill, key, options, settle, sieve, strict, whole,
};
use crate::verification::without_keys;

const KEYS: u64 = 500;
const ONE_IN: u32 = 16;
const READS: u64 = 8 * ONE_IN as u64;

/// With room for all keys: upkeep puts no summary of its own in the place of the one that lies.
fn audited() -> SieveOptions {
    let room = Items::new(2 * KEYS);
    strict().expected_keys(room).audit(ONE_IN)
}

fn open(path: &Path) -> SieveDb {
    SieveDb::open(&options(), &audited(), path).unwrap()
}

fn filters(path: &Path) -> PathBuf {
    path.join("sieve")
}

/// A closed database of one table, and its model.
fn write(path: &Path) -> Model {
    let db = open(path);
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    model
}

/// What must hold of a database whose filters were refuted: every read is right, nothing is ruled
/// out and nothing stored; and after a reopen it has new filters, which are right.
fn is_cured(db: SieveDb, path: &Path, model: &Model) {
    let refutation = db.refutation().expect("an audit refuted a filter");
    assert_eq!(refutation.family, DEFAULT_COLUMN_FAMILY_NAME);
    assert!(refutation.noted, "the folder says so");
    assert_eq!(db.inspect().unwrap().refutation, Some(refutation));
    assert_eq!(db.stats().refuted, 1);
    agree(&db, model);
    assert_eq!(db.answer(absent_key(1)), Answer::Maybe);
    assert!(db.consolidate().is_err());
    assert!(!db.wait_until_covered(std::time::Duration::from_secs(1)));
    db.create_cf("later", &options()).unwrap();
    let later = db.cf_handle("later").unwrap();
    assert_eq!(db.answer_cf(&later, b"x"), Answer::Maybe);
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
    agree(&db, &model);
    whole(&db, &model);
    assert_eq!(db.refutation(), None);
    assert_eq!(db.stats().refuted, 0);
    assert_eq!(db.inspect().unwrap().refuted_runs, 1);
    drop(db);
    let db = SieveDb::open_for_read_only(&options(), &audited(), path, false).unwrap();
    assert_eq!(db.inspect().unwrap().refuted_runs, 1);
}

/// Reads of one key until it is found; the reads before were lies that nobody noticed.
fn reads_until_found(read: impl Fn(&[u8]) -> bool) -> u64 {
    let key = key(7);
    (1..=READS).find(|_| read(&key)).expect("no audit in time")
}

#[test]
fn a_summary_that_lost_its_keys_is_refuted_by_every_kind_of_read() {
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
        ("answer", |db, key| !db.answer(key).is_absent()),
    ];
    for (name, read) in reads {
        let home = tempfile::tempdir().unwrap();
        let model = write(home.path());
        without_keys(&summaries(&filters(home.path()))[0]);
        let db = open(home.path());
        settle(&db);
        assert!(db.refutation().is_none(), "{name}");
        let reads = reads_until_found(|key| read(&db, key));
        assert!(
            reads > 1 || db.stats().audited > 0,
            "{name}: it did not lie"
        );
        is_cured(db, home.path(), &model);
    }
}

/// The table's filter has a part in the front's second look and is asked by RocksDB as well: an
/// audit that went through it would believe it.
#[test]
fn a_table_filter_that_lost_its_keys_is_refuted() {
    let home = tempfile::tempdir().unwrap();
    let model = write(home.path());
    without_keys(&sidecars(&filters(home.path()))[0]);
    let db = open(home.path());
    settle(&db);
    reads_until_found(|key| db.get(key).unwrap().is_some());
    is_cured(db, home.path(), &model);
}

/// Both layers deny the same key, and the audit asks neither.
#[test]
fn filters_that_agree_on_a_lie_are_refuted() {
    let home = tempfile::tempdir().unwrap();
    let model = write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    without_keys(&sidecars(&filters(home.path()))[0]);
    let db = open(home.path());
    settle(&db);
    reads_until_found(|key| db.get(key).unwrap().is_some());
    is_cured(db, home.path(), &model);
}

/// Here a lie is no missing record but an old one: the main file's.
#[test]
fn a_differential_file_whose_filter_lost_its_keys_is_refuted() {
    let home = tempfile::tempdir().unwrap();
    let settings = DifferentialOptions {
        front: audited(),
        ..DifferentialOptions::default()
    };
    let open = || DifferentialStore::open(&options(), &settings, home.path()).unwrap();
    let keys = || (4..4 + KEYS).map(key);
    let family = {
        let store = open();
        store.load(keys().map(|key| (key, b"old"))).unwrap();
        keys().for_each(|key| store.put(key, b"new").unwrap());
        store.flush().unwrap();
        cover(store.front());
        settle(store.front());
        store.family()
    };
    let summary = format!("summary-{:08x}.sieve", crc32fast::hash(family.as_bytes()));
    without_keys(&filters(home.path()).join(summary));
    for many in [false, true] {
        let read = |store: &DifferentialStore, key: &[u8]| {
            let value = match many {
                false => store.get(key),
                true => store.multi_get([key]).swap_remove(0),
            };
            value.unwrap().unwrap()
        };
        let store = open();
        settle(store.front());
        if !many {
            let refuted = reads_until_found(|key| read(&store, key) == b"new");
            assert!(refuted > 0);
            assert_eq!(store.front().refutation().unwrap().family, family);
        }
        assert!(keys().all(|key| read(&store, &key) == b"new"));
    }
    let store = open();
    cover(store.front());
    assert!(keys().all(|key| store.get(key).unwrap().unwrap() == b"new"));
    assert_eq!(store.front().refutation(), None);
}

#[test]
fn without_audits_a_lie_stays() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    settle(&db);
    assert!((0..READS * 10).all(|_| db.get(key(7)).unwrap().is_none()));
    assert_eq!((db.stats().audited, db.refutation()), (0, None));
}

/// A frozen front changes no file, not even for this.
#[test]
fn a_frozen_front_is_refuted_in_memory_alone() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    without_keys(&summaries(&filters(home.path()))[0]);
    let before = stamps(&filters(home.path()), "");
    let db = SieveDb::open(&options(), &audited().frozen(true), home.path()).unwrap();
    settle(&db);
    reads_until_found(|key| db.get(key).unwrap().is_some());
    assert!(!db.refutation().unwrap().noted);
    drop(db);
    assert_eq!(stamps(&filters(home.path()), ""), before);
}

/// Audits race with writers, flushes and new summaries; none of them is a lie.
#[test]
fn a_key_that_is_written_during_an_audit_refutes_nothing() {
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
                // Fails once something is refuted, which is told below.
                1_500 => drop(db.consolidate()),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
    let stats = db.stats();
    assert!(stats.audited > 1_000, "{stats:?}");
    assert_eq!((stats.refuted, db.refutation()), (0, None));
}

/// With unordered writes a key may be seen before its memtable has taken it, and no filter lied.
#[test]
fn writers_without_order_refute_nothing() {
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
    assert_eq!(db.refutation(), None);
}

//! Snapshots read through the filters, and find what was deleted after them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;

use lsm_sieve::{Isolation, SieveDb};
use rocksdb::{
    AsColumnFamilyRef, DBAccess, DEFAULT_COLUMN_FAMILY_NAME, ReadOptions, SnapshotWithThreadMode,
};

use crate::support::model_db::{
    KEYS, Model, absent_key, cover, fill, key, open, options, sieve, verify_finds_every_key,
};
use crate::support::reads::{self, Handle, Read};

/// An iterator skips a deleted key, but an older snapshot still sees it: a consolidation must keep
/// it.
#[test]
fn snapshot_older_than_a_consolidation_reads_deleted_keys() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let mut then = ReadOptions::default();
    then.set_snapshot(&snapshot);
    for i in 0..KEYS {
        match i % 3 {
            0 => db.delete(key(i)).unwrap(),
            1 => db.put(key(i), b"newer").unwrap(),
            _ => {}
        }
    }
    let as_then = |stage: &str| {
        for (key, value) in &model {
            let found = [db.get_opt(key, &then), snapshot.get(key)];
            let found = found.map(Result::unwrap);
            assert_eq!(found, [Some(value.clone()), Some(value.clone())], "{stage}");
        }
    };
    as_then("in the memtable");
    db.filters().consolidate().unwrap();
    as_then("consolidated");
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    db.filters().consolidate().unwrap();
    as_then("compacted and consolidated");
    for i in (0..KEYS).step_by(3) {
        assert_eq!(db.get(key(i)).unwrap(), None);
    }
    verify_finds_every_key(&db);
}

/// Whether every read of a snapshot, by code written for any of `rocksdb`'s databases, finds a key.
fn found_in<D: DBAccess, C: AsColumnFamilyRef>(db: &D, cf: &C, key: &[u8]) -> Vec<bool> {
    let snapshot = SnapshotWithThreadMode::new(db);
    let reads = reads::of_snapshot().into_iter();
    let values = reads.flat_map(|read| read.values(&snapshot, cf, &[key], &ReadOptions::default));
    values.map(|value| value.unwrap().is_some()).collect()
}

#[test]
fn snapshot_reads_use_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve()
        .audit(0)
        .adaptive_hits(false)
        .transactions(Isolation::Optimistic);
    let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..KEYS);
    db.flush().unwrap();
    cover(&db);
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let absent = (0..)
        .map(absent_key)
        .find(|key| db.filters().answer(key).is_absent());
    let transaction = db.transaction().unwrap();
    for (key, is_there) in [(key(1), true), (absent.unwrap(), false)] {
        let before = db.filters().stats();
        assert_eq!(found_in(&*db, &cf, &key), [is_there; 12]);
        assert_eq!(found_in(&transaction, &cf, &key), [is_there; 12]);
        let after = db.filters().stats();
        let expected = if is_there { (0, 24) } else { (24, 0) };
        let denied = after.absent - before.absent;
        assert_eq!(
            (denied, after.engine_reads() - before.engine_reads()),
            expected
        );
    }
}

const OTHER: &str = "other";

/// What a snapshot has of a column family: the values of all keys that exist then or later.
type Then = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Checks that these reads, with options that carry the snapshot, return what it has.
fn read_as_then<'db, On>(
    (on, db): (&On, &'db SieveDb),
    reads: Vec<Read<On, Handle<'db>>>,
    then: &Then,
    at: &dyn Fn() -> ReadOptions,
    stage: &str,
) {
    let keys: Vec<_> = then.keys().collect();
    for read in reads.iter().filter(|read| read.takes_options()) {
        let name = if read.names_a_cf() {
            OTHER
        } else {
            DEFAULT_COLUMN_FAMILY_NAME
        };
        let values = read.values(on, &db.cf_handle(name).unwrap(), &keys, at);
        for ((key, expected), value) in then.iter().zip(values) {
            let key = key.escape_ascii();
            assert_eq!(&value.unwrap(), expected, "{stage}: {} of {key}", read.name);
        }
    }
}

/// Changes half of the keys of both column families, and adds as many.
fn change(db: &SieveDb) {
    for name in [DEFAULT_COLUMN_FAMILY_NAME, OTHER] {
        let cf = db.cf_handle(name).unwrap();
        for i in 0..KEYS {
            match i % 6 {
                0 => db.delete_cf(&cf, key(i)).unwrap(),
                1 => db.put_cf(&cf, key(i), "newer").unwrap(),
                2 => db.merge_cf(&cf, key(i), "+").unwrap(),
                _ => {}
            }
            db.put_cf(&cf, absent_key(i), "new").unwrap();
        }
        db.delete_range_cf(&cf, key(KEYS - 100), key(KEYS)).unwrap();
    }
}

/// Only reads of a snapshot itself were tried, and `get_opt`. A key that was deleted since must be
/// found, and one that was put since must not.
#[test]
fn each_read_with_options_at_a_snapshot_returns_its_values_whatever_changed_since() {
    let home = tempfile::tempdir().unwrap();
    let builder = SieveDb::builder(home.path())
        .options(&options())
        .cfs([OTHER]);
    let sieve = sieve().transactions(Isolation::Optimistic);
    let db = builder.filters(&sieve).open().unwrap();
    let mut then = Then::new();
    for i in 0..KEYS {
        for name in [DEFAULT_COLUMN_FAMILY_NAME, OTHER] {
            let cf = db.cf_handle(name).unwrap();
            db.put_cf(&cf, key(i), i.to_string()).unwrap();
            if i == KEYS / 2 {
                db.flush_cf(&cf).unwrap();
            }
        }
        then.insert(key(i), Some(i.to_string().into_bytes()));
        then.insert(absent_key(i), None);
        then.insert(absent_key(KEYS + i), None);
    }
    cover(&db);
    let (snapshot, transaction) = (db.snapshot(), db.transaction().unwrap());
    let at = || {
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        options
    };
    let as_then = |stage: &str| {
        read_as_then((&db, &db), reads::of_db(), &then, &at, stage);
        read_as_then((&*db, &db), reads::of_handle(), &then, &at, stage);
        read_as_then((&*db, &db), reads::by_trait(), &then, &at, stage);
        read_as_then((&snapshot, &db), reads::of_snapshot(), &then, &at, stage);
        read_as_then(
            (&transaction, &db),
            reads::of_transaction(),
            &then,
            &at,
            stage,
        );
        let other = db.cf_handle(OTHER).unwrap();
        for (key, value) in &then {
            let may = db.key_may_exist_opt(key, &at());
            let may = may && db.key_may_exist_cf_opt(&other, key, &at());
            assert!(may || value.is_none(), "{stage}: {}", key.escape_ascii());
        }
    };
    as_then("before the change");
    change(&db);
    as_then("in memtables");
    for name in [DEFAULT_COLUMN_FAMILY_NAME, OTHER] {
        db.flush_cf(&db.cf_handle(name).unwrap()).unwrap();
    }
    as_then("flushed");
    db.filters().consolidate().unwrap();
    as_then("consolidated");
    for name in [DEFAULT_COLUMN_FAMILY_NAME, OTHER] {
        let cf = db.cf_handle(name).unwrap();
        db.compact_range_cf::<&[u8], &[u8]>(&cf, None, None);
    }
    as_then("compacted");
    cover(&db);
    db.filters().consolidate().unwrap();
    as_then("compacted and consolidated");
    // The present is another.
    assert_eq!(db.get(key(6)).unwrap(), None);
    assert_eq!(db.get(absent_key(6)).unwrap(), Some(b"new".to_vec()));
    verify_finds_every_key(&db);
}

//! Comparators of the user's: which column families can have filters, and that order plays no part
//! where it is not known.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::cmp::Ordering;
use std::collections::BTreeMap;

use lsm_sieve::{OpenError, RocksDb, SieveDb, SieveOptions};
use rocksdb::{DBWithThreadMode, Options, ReadOptions, SliceTransform, ThreadMode};

use crate::support::model_db::{
    absent_key, cover, key, options, settle, sieve, verify_finds_every_key,
};

const NAME: &str = "from-the-end";

/// Compares bytes from the last to the first: keys of one prefix are no neighbours, and the smallest
/// key in this order may be any in that of bytes.
fn from_the_end(a: &[u8], b: &[u8]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

fn ordered() -> Options {
    let mut options = options();
    options.set_comparator(NAME, Box::new(from_the_end));
    options
}

fn promised() -> SieveOptions {
    sieve().comparator_is_injective(NAME)
}

#[test]
fn a_comparator_that_promises_nothing_is_refused_and_the_promise_is_named() {
    let home = tempfile::tempdir().unwrap();
    for settings in [sieve(), sieve().comparator_is_injective("another")] {
        let error = SieveDb::open(&ordered(), &settings, home.path().join("db")).unwrap_err();
        assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
        let remedy = format!("comparator_is_injective({NAME:?})");
        assert!(error.to_string().contains(&remedy), "{error}");
        assert!(!home.path().join("db").exists(), "it left something behind");
    }
    // Of a column family that is created later, too.
    let db = SieveDb::open(&options(), &promised(), home.path().join("db")).unwrap();
    db.create_cf("ordered", &ordered()).unwrap();
    let mut other = options();
    other.set_comparator("another", Box::new(from_the_end));
    let error = db.create_cf("another", &other).unwrap_err();
    assert!(
        error.to_string().contains("comparator_is_injective"),
        "{error}"
    );
}

/// It compares as `memcmp` does, in a class of its own.
#[test]
fn the_comparators_of_myrocks_are_taken() {
    for (name, compare) in [
        (
            "RocksDB_SE_v3.10",
            <[u8]>::cmp as fn(&[u8], &[u8]) -> Ordering,
        ),
        ("rev:RocksDB_SE_v3.10", |a, b| b.cmp(a)),
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        options.set_comparator(name, Box::new(compare));
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        let mut model = Model::new();
        put(&db, &mut model, 0..300);
        cover(&db);
        check(&db, &model);
    }
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn put<T: ThreadMode>(db: &DBWithThreadMode<T>, model: &mut Model, numbers: std::ops::Range<u64>) {
    for i in numbers {
        let value = format!("value {i}").into_bytes();
        db.put(key(i), &value).unwrap();
        model.insert(key(i), value);
    }
}

fn check(db: &SieveDb, model: &Model) {
    let plain: &RocksDb = db;
    for (key, value) in model {
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
        assert_eq!(plain.get(key).unwrap().as_ref(), Some(value));
        let mut found = plain.raw_iterator();
        found.seek(key);
        assert_eq!(found.key(), Some(&**key));
    }
    let many = db.multi_get(model.keys());
    assert!(
        many.into_iter()
            .zip(model.values())
            .all(|(found, value)| found.unwrap().as_ref() == Some(value))
    );
    assert!((0..300).all(|i| db.get(absent_key(i)).unwrap().is_none()));
}

#[test]
fn keys_in_an_order_of_the_users_are_found() {
    let home = tempfile::tempdir().unwrap();
    let mut options = ordered();
    options.set_write_buffer_size(64 << 10);
    options.set_level_zero_file_num_compaction_trigger(3);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &promised(), home.path()).unwrap();
        for first in [0, 200, 400] {
            put(&db, &mut model, first..first + 200);
            db.filters().consolidate().unwrap();
            check(&db, &model);
            db.flush().unwrap();
            check(&db, &model);
        }
        for i in 100..150 {
            db.delete(key(i)).unwrap();
            model.remove(&key(i));
        }
        db.compact_range::<&[u8], &[u8]>(None, None);
        db.filters().consolidate().unwrap();
        check(&db, &model);
        verify_finds_every_key(&db);
    }
    let db = SieveDb::open(&options, &promised(), home.path()).unwrap();
    check(&db, &model);
    cover(&db);
    settle(&db);
    let denied = (0..300).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
    assert!(denied.count() > 280);
    verify_finds_every_key(&db);
}

/// SSTs that no filter covers are checked by their key ranges, if keys are ordered by their bytes.
#[test]
fn key_ranges_in_an_order_of_the_users_leave_no_key_out() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let plain = rocksdb::DB::open(&ordered(), home.path()).unwrap();
        for first in [10, 110, 210] {
            put(&plain, &mut model, first..first + 100);
            plain.flush().unwrap();
        }
    }
    let reading = promised().read_only_filters(true);
    let db = SieveDb::open(&ordered(), &reading, home.path()).unwrap();
    settle(&db);
    check(&db, &model);
}

/// Between two bounds lie keys of other prefixes.
#[test]
fn bounds_in_an_order_of_the_users_say_nothing_of_prefixes() {
    let home = tempfile::tempdir().unwrap();
    let mut options = ordered();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(1));
    let db = SieveDb::open(&options, &promised(), home.path()).unwrap();
    db.put("z2", "value").unwrap();
    cover(&db);
    assert!(
        !db.filters().prefix_may_exist("a1"),
        "the extractor's prefix is denied"
    );
    let mut bounded = ReadOptions::default();
    bounded.set_total_order_seek(true);
    bounded.set_iterate_lower_bound("a1");
    bounded.set_iterate_upper_bound("a3");
    let plain: &RocksDb = &db;
    let mut found = plain.raw_iterator_opt(bounded);
    found.seek_to_first();
    assert_eq!(found.key(), Some(&b"z2"[..]));
    found.seek_to_last();
    assert_eq!(found.key(), Some(&b"z2"[..]));
    found.seek("a1");
    assert_eq!(found.key(), Some(&b"z2"[..]));
    // The engine cannot look for a prefix: it would have to read every key.
    let error = db.prefix_exists("z").unwrap_err();
    assert!(error.to_string().contains("comparator"), "{error}");
    assert!(!db.prefix_exists("a").unwrap());
}

#[test]
fn prefixes_need_an_order_by_bytes() {
    let home = tempfile::tempdir().unwrap();
    let settings = promised().prefixes("default", [lsm_sieve::Prefix::fixed(2)]);
    let error = SieveDb::open(&ordered(), &settings, home.path()).unwrap_err();
    assert!(matches!(error, OpenError::Settings { .. }), "{error}");
    assert!(error.to_string().contains("prefixes"), "{error}");
}

/// A comparator of the user's with timestamps: the promise is about the keys without them.
#[test]
fn timestamps_in_an_order_of_the_users_are_left_out() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    let without = |key: &[u8]| key[..key.len() - 8].to_vec();
    options.set_comparator_with_ts(
        "stamped",
        8,
        Box::new(move |a, b| {
            let by_key = from_the_end(&without(a), &without(b));
            by_key.then_with(|| b[b.len() - 8..].cmp(&a[a.len() - 8..]))
        }),
        Box::new(|a, b| a.cmp(b)),
        Box::new(move |a, a_has_time, b, b_has_time| {
            let key = |key: &[u8], has_time: bool| match has_time {
                true => key[..key.len() - 8].to_vec(),
                false => key.to_vec(),
            };
            from_the_end(&key(a, a_has_time), &key(b, b_has_time))
        }),
    );
    let settings = sieve().comparator_is_injective("stamped");
    let db = SieveDb::open(&options, &settings, home.path()).unwrap();
    let plain: &RocksDb = &db;
    let at = |time: u64| {
        let mut options = ReadOptions::default();
        options.set_timestamp(time.to_be_bytes());
        options
    };
    for i in 0..200 {
        plain
            .put_with_ts(key(i), (i + 1).to_be_bytes(), b"value")
            .unwrap();
        if i == 100 {
            db.flush().unwrap();
        }
    }
    for _ in 0..2 {
        for i in 0..200 {
            assert!(plain.get_opt(key(i), &at(i + 1)).unwrap().is_some());
            assert!(plain.get_opt(key(i), &at(i)).unwrap().is_none());
            assert!(plain.get_opt(absent_key(i), &at(300)).unwrap().is_none());
        }
        cover(&db);
        let denied = (0..200).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
        assert!(denied.count() > 180);
        db.filters().consolidate().unwrap();
        verify_finds_every_key(&db);
    }
}

/// RocksDB refuses another comparator than the one that a database has; its filters stay.
#[test]
fn another_comparator_is_refused_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = SieveDb::open(&ordered(), &promised(), home.path()).unwrap();
        put(&db, &mut model, 0..100);
        db.flush().unwrap();
    }
    assert!(SieveDb::open(&options(), &sieve(), home.path()).is_err());
    let mut other = options();
    other.set_comparator("another", Box::new(from_the_end));
    let settings = sieve().comparator_is_injective("another");
    assert!(SieveDb::open(&other, &settings, home.path()).is_err());
    let db = SieveDb::open(&ordered(), &promised(), home.path()).unwrap();
    check(&db, &model);
}

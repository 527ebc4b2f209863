//! Column families whose keys have timestamps: each version is found at its time, and what never had
//! one is absent at any time.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::path::Path;

use lsm_sieve::{OpenError, RocksDb, SieveDb, SieveOptions};
use rocksdb::{DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, Options, ReadOptions, ThreadMode};

use crate::support::binding::options_by_text;
use crate::support::model_db::{
    Dice, absent_key, cover, key, options, report, settle, sieve, verify_finds_every_key,
};

const FORWARD: &str = "comparator=leveldb.BytewiseComparator.u64ts";
const REVERSE: &str = "comparator=rocksdb.ReverseBytewiseComparator.u64ts";
const LATEST: u64 = u64::MAX;
const NUMBERS: u64 = 300;

/// Memtables that are flushed within a test, and SSTs that are compacted.
fn stamped(text: &str) -> Options {
    let mut options = options();
    options.set_write_buffer_size(64 << 10);
    options.set_target_file_size_base(16 << 10);
    options.set_level_zero_file_num_compaction_trigger(3);
    options_by_text(&options, text).unwrap()
}

fn at(time: u64) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_timestamp(time.to_le_bytes());
    options
}

/// What every key was at every time.
#[derive(Default)]
struct History {
    versions: BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>,
    now: u64,
}

impl History {
    fn put<T: ThreadMode>(&mut self, db: &DBWithThreadMode<T>, key: Vec<u8>) {
        self.now += 1;
        let value = format!("at {}", self.now).into_bytes();
        db.put_with_ts(&key, self.now.to_le_bytes(), &value)
            .unwrap();
        self.record(key, Some(value));
    }

    fn delete(&mut self, db: &RocksDb, key: Vec<u8>) {
        self.now += 1;
        db.delete_with_ts(&key, self.now.to_le_bytes()).unwrap();
        self.record(key, None);
    }

    fn record(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.versions
            .entry(key)
            .or_default()
            .insert(self.now, value);
    }

    fn of(&self, key: &[u8], time: u64) -> Option<Vec<u8>> {
        let versions = self.versions.get(key)?;
        versions.range(..=time).next_back()?.1.clone()
    }

    /// Every way to read finds each key of the numbers as it was at this time.
    fn check_at(&self, db: &SieveDb, time: u64) {
        let plain: &RocksDb = db;
        let cf = plain.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
        let present = (0..NUMBERS).map(key);
        let keys: Vec<_> = present.chain((0..NUMBERS).map(absent_key)).collect();
        let expected: Vec<_> = keys.iter().map(|key| self.of(key, time)).collect();
        let many = plain.multi_get_opt(&keys, &at(time));
        let batched = plain.batched_multi_get_cf_opt(&cf, &keys, false, &at(time));
        for (place, key) in keys.iter().enumerate() {
            let expected = &expected[place];
            let told = || format!("{} at {time}", String::from_utf8_lossy(key));
            assert_eq!(
                &plain.get_opt(key, &at(time)).unwrap(),
                expected,
                "{}",
                told()
            );
            let pinned = db.get_pinned_cf_opt(&cf, key, &at(time)).unwrap();
            assert_eq!(pinned.as_deref(), expected.as_deref(), "{}", told());
            assert_eq!(many[place].as_ref().unwrap(), expected, "{}", told());
            let batched = batched[place].as_ref().unwrap();
            assert_eq!(batched.as_deref(), expected.as_deref(), "{}", told());
            let may_exist = plain.key_may_exist_opt(key, &at(time));
            assert!(may_exist || expected.is_none(), "{}", told());
        }
    }

    fn check(&self, db: &SieveDb, dice: &mut Dice) {
        self.check_at(db, LATEST);
        self.check_at(db, dice.below(self.now + 1));
        self.check_at(db, self.now);
    }
}

fn write_randomly(db: &SieveDb, history: &mut History, dice: &mut Dice, times: u64) {
    for _ in 0..times {
        let key = key(dice.below(NUMBERS));
        match dice.below(3) {
            0 => history.delete(db, key),
            _ => history.put(db, key),
        }
    }
}

/// Nearly all keys that never existed are denied.
fn denies(db: &SieveDb) {
    cover(db);
    settle(db);
    let before = db.filters().stats().absent;
    let plain: &RocksDb = db;
    let absent = |i| plain.get_opt(absent_key(i), &at(LATEST)).unwrap().is_none();
    assert!((0..NUMBERS).all(absent));
    let denied = db.filters().stats().absent - before;
    assert!(denied * 10 >= NUMBERS * 9, "{denied}");
}

#[test]
fn every_version_of_a_key_is_found_at_its_time() {
    let partitions = "block_based_table_factory={filter_policy=bloomfilter:10;\
                      index_type=kTwoLevelIndexSearch;partition_filters=true;\
                      metadata_block_size=256}";
    for comparator in [FORWARD, REVERSE] {
        for tables in ["", partitions] {
            let text = format!("{comparator};{tables}");
            println!("{text}");
            let home = tempfile::tempdir().unwrap();
            let options = stamped(text.trim_end_matches(';'));
            let mut history = History::default();
            let mut dice = Dice(64);
            {
                let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
                for _ in 0..3 {
                    write_randomly(&db, &mut history, &mut dice, 400);
                    history.check(&db, &mut dice);
                    // Beside a memtable that is not empty.
                    db.filters().consolidate().unwrap();
                    history.check(&db, &mut dice);
                    db.flush().unwrap();
                    history.check(&db, &mut dice);
                }
                db.compact_range::<&[u8], &[u8]>(None, None);
                history.check(&db, &mut dice);
                db.filters().consolidate().unwrap();
                history.check(&db, &mut dice);
                denies(&db);
                verify_finds_every_key(&db);
                write_randomly(&db, &mut history, &mut dice, 50);
            }
            let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
            history.check(&db, &mut dice);
            denies(&db);
            verify_finds_every_key(&db);
        }
    }
}

/// SSTs of an engine without the plugin are uncovered, and stay so beside filters that are only read.
/// The ends of their key ranges have timestamps.
#[test]
fn keys_of_ssts_that_no_filter_covers_are_found() {
    for comparator in [FORWARD, REVERSE] {
        let home = tempfile::tempdir().unwrap();
        let options = stamped(comparator);
        let mut history = History::default();
        {
            let plain = rocksdb::DB::open(&options, home.path()).unwrap();
            for first in [10, 110, 210] {
                (first..first + 80).for_each(|i| history.put(&plain, key(i)));
                plain.flush().unwrap();
            }
        }
        let reading = sieve().read_only_filters(true);
        let db = SieveDb::open(&options, &reading, home.path()).unwrap();
        settle(&db);
        history.check_at(&db, LATEST);
    }
}

/// Keys are stored without timestamps, which live in memtables alone.
#[test]
fn keys_are_found_if_only_memtables_have_timestamps() {
    let text = format!("{FORWARD};persist_user_defined_timestamps=false");
    let mut options = stamped(&text);
    options.set_allow_concurrent_memtable_write(false);
    let home = tempfile::tempdir().unwrap();
    let mut history = History::default();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        for first in [0, 100] {
            (first..first + 100).for_each(|i| history.put(&db, key(i)));
            history.check_at(&db, LATEST);
            db.flush().unwrap();
            history.check_at(&db, LATEST);
        }
        db.filters().consolidate().unwrap();
        (200..300).for_each(|i| history.put(&db, key(i)));
        history.check_at(&db, LATEST);
        verify_finds_every_key(&db);
    }
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    history.check_at(&db, LATEST);
    denies(&db);
    db.filters().consolidate().unwrap();
    history.check_at(&db, LATEST);
    verify_finds_every_key(&db);
}

/// RocksDB lets a database begin with timestamps if they are not stored.
#[test]
fn filters_of_keys_without_timestamps_serve_those_that_get_them() {
    let home = tempfile::tempdir().unwrap();
    {
        let db = SieveDb::open(&options(), &sieve(), home.path()).unwrap();
        (0..100).for_each(|i| db.put(key(i), b"old").unwrap());
        db.flush().unwrap();
        db.filters().consolidate().unwrap();
    }
    let text = format!("{FORWARD};persist_user_defined_timestamps=false");
    let mut options = stamped(&text);
    options.set_allow_concurrent_memtable_write(false);
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let plain: &RocksDb = &db;
    (100..200).for_each(|i| {
        plain
            .put_with_ts(key(i), 7_u64.to_le_bytes(), b"new")
            .unwrap()
    });
    let all_found = || {
        let value = |i| plain.get_opt(key(i), &at(LATEST)).unwrap();
        assert!((0..100).all(|i| value(i).as_deref() == Some(b"old")));
        assert!((100..200).all(|i| value(i).as_deref() == Some(b"new")));
    };
    all_found();
    db.filters().consolidate().unwrap();
    all_found();
    denies(&db);
}

/// The filters know no reason of RocksDB's.
#[test]
fn a_read_that_rocksdb_refuses_is_refused_for_an_absent_key_too() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&stamped(FORWARD), &sieve(), home.path()).unwrap();
    let plain: &RocksDb = &db;
    let mut history = History::default();
    (0..100).for_each(|i| history.put(plain, key(i)));
    cover(&db);
    let absent = absent_key(1);
    assert!(db.filters().answer(&absent).is_absent());
    let mut short = ReadOptions::default();
    short.set_timestamp(*b"1234");
    for (name, refused) in [("no time", ReadOptions::default()), ("a short one", short)] {
        assert!(plain.get_opt(&absent, &refused).is_err(), "{name}");
        let many = plain.multi_get_opt([&absent], &refused);
        assert!(many[0].is_err(), "{name}");
    }

    let cf = plain.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let kept_from = 50_u64.to_le_bytes();
    plain.increase_full_history_ts_low(&cf, kept_from).unwrap();
    // Only then do readers know.
    plain.flush().unwrap();
    cover(&db);
    let error = plain.get_opt(&absent, &at(49)).unwrap_err();
    assert!(error.to_string().contains("full_history_ts_low"), "{error}");
    assert!(plain.multi_get_opt([&absent], &at(49))[0].is_err());
    let before = db.filters().stats().absent;
    assert_eq!(plain.get_opt(&absent, &at(50)).unwrap(), None);
    assert_eq!(db.filters().stats().absent, before + 1);
}

/// RocksDB reads no key of a batch if it refuses one.
#[test]
fn a_batch_of_keys_with_and_without_timestamps_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let cfs = [
        (DEFAULT_COLUMN_FAMILY_NAME, options()),
        ("stamped", stamped(FORWARD)),
    ];
    let db = SieveDb::open_cf_with_opts(&options(), &sieve(), home.path(), cfs).unwrap();
    let plain: &RocksDb = &db;
    let stamped = plain.cf_handle("stamped").unwrap();
    let unstamped = plain.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    cover(&db);
    let absent = absent_key(1);
    assert!(db.filters().answer(&absent).is_absent());
    assert!(db.filters().answer_cf(&stamped, &absent).is_absent());
    for options in [ReadOptions::default, || at(1)] {
        for cfs in [[&stamped, &unstamped], [&unstamped, &stamped]] {
            let many = plain.multi_get_cf_opt(cfs.map(|cf| (cf, &absent)), &options());
            assert!(many.iter().all(Result::is_err), "{many:?}");
        }
    }
}

/// What a compaction leaves of a collapsed history is found.
#[test]
fn versions_left_by_a_collapsed_history_are_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&stamped(FORWARD), &sieve(), home.path()).unwrap();
    let mut history = History::default();
    let mut dice = Dice(7);
    write_randomly(&db, &mut history, &mut dice, 600);
    db.flush().unwrap();
    let low = history.now / 2;
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    db.increase_full_history_ts_low(&cf, low.to_le_bytes())
        .unwrap();
    db.compact_range::<&[u8], &[u8]>(None, None);
    db.filters().consolidate().unwrap();
    for time in [low, low + 100, LATEST] {
        history.check_at(&db, time);
    }
    denies(&db);
    verify_finds_every_key(&db);
}

/// An iterator between two bounds shows one time, and a prefix without keys had none at any.
#[test]
fn iterators_of_a_prefix_find_the_keys_of_their_time() {
    let home = tempfile::tempdir().unwrap();
    let prefixes = sieve().prefixes("default", [lsm_sieve::Prefix::until(b'/')]);
    let db = SieveDb::open(&stamped(FORWARD), &prefixes, home.path()).unwrap();
    let plain: &RocksDb = &db;
    for tenant in (0..100_u64).step_by(2) {
        let key = format!("{tenant:03}/order");
        plain
            .put_with_ts(key, (tenant + 1).to_le_bytes(), b"v")
            .unwrap();
        if tenant == 50 {
            db.flush().unwrap();
        }
    }
    cover(&db);
    let found = |tenant: u64, time| {
        let mut bounded = at(time);
        bounded.set_iterate_lower_bound(format!("{tenant:03}/"));
        bounded.set_iterate_upper_bound(format!("{tenant:03}0"));
        let mut iterator = plain.raw_iterator_opt(bounded);
        iterator.seek_to_first();
        iterator.status().unwrap();
        iterator.valid()
    };
    for round in 0..2 {
        for tenant in 0..100 {
            assert_eq!(found(tenant, LATEST), tenant % 2 == 0, "{tenant} {round}");
            assert!(!found(tenant, tenant), "{tenant} {round}");
            let exists = db.prefix_exists(format!("{tenant:03}/")).unwrap();
            assert_eq!(exists, tenant % 2 == 0);
        }
        db.filters().consolidate().unwrap();
    }
    assert!(!db.filters().prefix_may_exist("001/"));
    let mut untimed = ReadOptions::default();
    untimed.set_iterate_lower_bound("001/");
    untimed.set_iterate_upper_bound("0010");
    let mut refused = plain.raw_iterator_opt(untimed);
    refused.seek_to_first();
    assert!(refused.status().is_err());
}

#[test]
fn transactions_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let settings = SieveOptions::default().transactions(lsm_sieve::Isolation::Optimistic);
    let error = SieveDb::open(&stamped(FORWARD), &settings, home.path()).unwrap_err();
    assert!(matches!(error, OpenError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("timestamps"), "{error}");
}

/// Reads of the copy of a database at a time.
#[test]
fn a_reader_finds_each_version_at_its_time() {
    let home = tempfile::tempdir().unwrap();
    let options = stamped(FORWARD);
    let mut history = History::default();
    let mut dice = Dice(3);
    let path: &Path = home.path();
    {
        let db = SieveDb::open(&options, &sieve(), path).unwrap();
        write_randomly(&db, &mut history, &mut dice, 500);
        db.flush().unwrap();
        cover(&db);
        settle(&db);
    }
    let reader = SieveDb::builder(path).options(&options).filters(&sieve());
    let db = reader.read_only(false).open().unwrap();
    history.check(&db, &mut dice);
    assert!(report(&db).segments.iter().all(|segment| segment.covered));
    denies(&db);
}

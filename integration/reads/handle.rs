//! Reads through `rocksdb`'s own database, behind whose handle the filters are: each is answered as
//! the engine alone answers it, is counted as the database's own reads are, and finds every key.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use lsm_sieve::{RocksDb, SieveDb, SieveOptions};
use rocksdb::{
    AsColumnFamilyRef, DB, DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT,
    IngestExternalFileOptions, MemtableFactory, Options, ReadOptions, SingleThreaded,
    SliceTransform, SstFileWriter, ThreadMode,
};

use crate::support::model_db::{cover, options, settle};
use crate::support::reads::{self, NOWHERE};

const OTHER: &str = "other";

/// How each key came to be there, or not to be.
const KEYS: [(&str, Option<&str>); 8] = [
    ("put", Some("value")),
    ("put, in a memtable", Some("value")),
    ("merged", Some("operand")),
    ("ingested", Some("value")),
    ("overwritten", Some("newer")),
    ("deleted", None),
    ("deleted in a range", None),
    ("never written", None),
];

/// Writes all of them by the plain database.
fn write<T: ThreadMode>(
    db: &DBWithThreadMode<T>,
    cf: &impl AsColumnFamilyRef,
    folder: &std::path::Path,
) {
    for key in ["put", "overwritten", "deleted", "deleted in a range"] {
        db.put_cf(cf, key, "value").unwrap();
    }
    db.flush_cf(cf).unwrap();
    db.put_cf(cf, "overwritten", "newer").unwrap();
    db.delete_cf(cf, "deleted").unwrap();
    db.delete_range_cf(cf, "deleted in a", "deleted in b")
        .unwrap();
    db.flush_cf(cf).unwrap();
    db.merge_cf(cf, "merged", "operand").unwrap();
    db.put_cf(cf, "put, in a memtable", "value").unwrap();
    let file = folder.join("ingested.sst");
    let of_file = Options::default();
    let mut writer = SstFileWriter::create(&of_file);
    writer.open(&file).unwrap();
    writer.put("ingested", "value").unwrap();
    writer.finish().unwrap();
    let moved = IngestExternalFileOptions::default();
    db.ingest_external_file_cf_opts(cf, &moved, vec![file])
        .unwrap();
}

/// The answers of every read of a column family, twice each, with a key that does not exist between
/// the two.
fn all_reads<T: ThreadMode, C: AsColumnFamilyRef>(
    db: &DBWithThreadMode<T>,
    cf: &C,
    key: &str,
) -> Vec<Option<Vec<u8>>> {
    let snapshot = db.snapshot();
    let keys = [key.as_bytes(), NOWHERE, key.as_bytes()];
    let plain = || ReadOptions::default();
    let of_handle = reads::of_handle();
    let of_handle = of_handle.iter().filter(|read| read.names_a_cf());
    let of_snapshot = reads::of_snapshot();
    let of_snapshot = of_snapshot.iter().filter(|read| read.names_a_cf());
    let values = of_handle.map(|read| read.values(db, cf, &keys, &plain));
    let values = values.chain(of_snapshot.map(|read| read.values(&snapshot, cf, &keys, &plain)));
    values
        .flat_map(|values| values.into_iter().map(Result::unwrap).step_by(2))
        .collect()
}

fn every_key_is_found<T: ThreadMode, C: AsColumnFamilyRef>(db: &DBWithThreadMode<T>, cf: &C) {
    for (key, value) in KEYS {
        let value = value.map(|value| value.as_bytes().to_vec());
        for (read, found) in all_reads(db, cf, key).into_iter().enumerate() {
            assert_eq!(found, value, "{key}, read {read}");
        }
        let may = db.key_may_exist_cf(cf, key);
        assert!(may || value.is_none(), "{key}");
        let (may, found) = db.key_may_exist_cf_opt_value(cf, key, &ReadOptions::default());
        assert!(may || value.is_none(), "{key}");
        assert!(
            found.is_none_or(|found| Some(found.as_ref().to_vec()) == value),
            "{key}"
        );
    }
}

fn merging() -> Options {
    let mut options = options();
    options.create_missing_column_families(true);
    options
}

fn open(path: &std::path::Path) -> SieveDb {
    let sieve = SieveOptions::default().audit(0).adaptive_hits(false);
    let builder = SieveDb::builder(path).options(&merging()).filters(&sieve);
    builder.cfs([OTHER]).open().unwrap()
}

/// Keys that the filters deny.
fn absent(db: &SieveDb, cf: &impl AsColumnFamilyRef) -> Vec<String> {
    let keys = (0..40).map(|key| format!("never {key}"));
    let absent: Vec<_> = keys
        .filter(|key| db.filters().answer_cf(cf, key).is_absent())
        .collect();
    assert!(absent.len() > 20);
    absent
}

#[test]
fn every_read_of_the_plain_database_finds_every_key() {
    for name in [DEFAULT, OTHER] {
        let home = tempfile::tempdir().unwrap();
        let db = open(&home.path().join("db"));
        let plain: &RocksDb = &db;
        let cf = plain.cf_handle(name).unwrap();
        write(plain, &cf, home.path());
        // Before maintenance has listed the SSTs, and after.
        every_key_is_found(plain, &cf);
        cover(&db);
        settle(&db);
        every_key_is_found(plain, &cf);
        drop(cf);
        drop(db);
        let db = open(&home.path().join("db"));
        every_key_is_found(&*db, &db.cf_handle(name).unwrap());
    }
}

#[test]
fn reads_of_the_plain_database_are_answered_by_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let plain: &RocksDb = &db;
    for name in [DEFAULT, OTHER] {
        let cf = plain.cf_handle(name).unwrap();
        write(plain, &cf, home.path());
        cover(&db);
        settle(&db);
        for key in absent(&db, &cf) {
            let before = db.filters().stats();
            let reads = all_reads(plain, &cf, &key);
            assert!(reads.iter().all(Option::is_none));
            assert!(!plain.key_may_exist_cf(&cf, &key));
            let after = db.filters().stats();
            // Of those with several keys, the others are counted too.
            assert!(after.absent - before.absent > reads.len() as u64);
            assert_eq!(after.found, before.found);
        }
        let before = db.filters().stats();
        plain.get_cf(&cf, "put").unwrap().unwrap();
        let many = plain.multi_get_cf([(&cf, "put"), (&cf, "merged")]);
        assert!(many.into_iter().all(|found| found.unwrap().is_some()));
        assert_eq!(db.filters().stats().found, before.found + 3);
    }
    // Of two column families in one call.
    let cfs = [DEFAULT, OTHER].map(|name| plain.cf_handle(name).unwrap());
    let asked = cfs
        .iter()
        .flat_map(|cf| [(cf, "put"), (cf, "never written")]);
    let found = plain.multi_get_cf(asked).into_iter();
    let found: Vec<bool> = found.map(|found| found.unwrap().is_some()).collect();
    assert_eq!(found, [true, false, true, false]);
}

/// RocksDB refuses a timestamp in a column family without timestamps, also of a key that the
/// filters deny.
#[test]
fn a_read_that_rocksdb_refuses_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let plain: &RocksDb = &db;
    cover(&db);
    let cf = plain.cf_handle(OTHER).unwrap();
    let key = &absent(&db, &cf)[0];
    let options = || {
        let mut options = ReadOptions::default();
        options.set_timestamp(*b"12345678");
        options
    };
    assert!(plain.get_cf_opt(&cf, key, &options()).is_err());
    assert!(plain.get_opt(key, &options()).is_err());
    let many = plain.batched_multi_get_cf_opt(&cf, [key, key], false, &options());
    assert!(many.iter().all(Result::is_err));
}

#[test]
fn a_snapshot_of_the_plain_database_has_its_keys() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let plain: &RocksDb = &db;
    plain.put("deleted later", "value").unwrap();
    plain.flush().unwrap();
    let snapshot = plain.snapshot();
    plain.delete("deleted later").unwrap();
    plain.put("put later", "value").unwrap();
    plain.compact_range::<&[u8], &[u8]>(None, None);
    db.filters().consolidate().unwrap();
    cover(&db);
    settle(&db);
    assert!(snapshot.get("deleted later").unwrap().is_some());
    assert!(snapshot.get("put later").unwrap().is_none());
    assert!(plain.get("deleted later").unwrap().is_none());
    assert!(plain.get("put later").unwrap().is_some());
}

#[test]
fn a_family_that_the_plain_database_makes_has_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let plain: &RocksDb = &db;
    for round in 0..3 {
        plain.create_cf("made", &merging()).unwrap();
        let cf = plain.cf_handle("made").unwrap();
        write(plain, &cf, home.path());
        every_key_is_found(plain, &cf);
        cover(&db);
        settle(&db);
        every_key_is_found(plain, &cf);
        let key = &absent(&db, &cf)[0];
        assert!(plain.get_cf(&cf, key).unwrap().is_none());
        assert!(
            db.filters().stats_cf(&cf).unwrap().absent > 0,
            "round {round}"
        );
        plain.drop_cf("made").unwrap();
        // Of a column family that was dropped, the engine is asked.
        every_key_is_found(plain, &cf);
        assert!(db.filters().stats_cf(&cf).is_none());
    }
    let mut refused = merging();
    refused.set_memtable_factory(MemtableFactory::HashLinkList { bucket_count: 16 });
    let error = plain.create_cf("refused", &refused).unwrap_err();
    assert!(error.as_ref().contains("HashLinkList"), "{error}");
    assert!(plain.cf_handle("refused").is_none());
}

/// A program that knows only `rocksdb::DB`.
fn program(db: &DB, key: &str) -> bool {
    db.get(key).unwrap().is_some()
}

#[test]
fn a_single_threaded_database_has_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = SieveOptions::default().audit(0);
    let builder = || {
        SieveDb::builder(home.path().join("db"))
            .options(&merging())
            .filters(&sieve)
    };
    let mut db: SieveDb<SingleThreaded> = builder().cfs([OTHER]).open_as().unwrap();
    db.create_cf("made", &merging()).unwrap();
    for name in [OTHER, "made"] {
        let cf = db.cf_handle(name).unwrap();
        write(&*db, cf, home.path());
        every_key_is_found(&*db, cf);
        assert!(
            db.filters()
                .wait_until_complete(std::time::Duration::from_secs(60))
        );
        every_key_is_found(&*db, cf);
    }
    db.put("key", "value").unwrap();
    assert!(program(&db, "key") && !program(&db, "no key"));
    assert!(db.filters().stats().absent > 0);
    db.drop_cf("made").unwrap();
    drop(db);
    let db: SieveDb = builder().cfs([OTHER]).open().unwrap();
    every_key_is_found(&*db, &db.cf_handle(OTHER).unwrap());
    assert!(db.filters().verify(true).unwrap().lost.is_empty());
}

/// Whoever drops first: the database, its column families, or a thread that still reads.
#[test]
fn handles_are_dropped_in_any_order() {
    let home = tempfile::tempdir().unwrap();
    for round in 0..6 {
        let db = std::sync::Arc::new(open(home.path()));
        db.put(format!("{round}"), "value").unwrap();
        let threads = (0..4).map(|thread| {
            let db = std::sync::Arc::clone(&db);
            std::thread::spawn(move || {
                let plain: &RocksDb = &db;
                for key in 0..2_000 {
                    let found = plain.get(format!("{key}")).unwrap();
                    assert_eq!(found.is_some(), key <= round);
                }
                if thread % 2 == 0 {
                    plain.flush().unwrap();
                }
                drop(db);
            })
        });
        let threads: Vec<_> = threads.collect();
        drop(db);
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_database_with_ttl_is_read_and_extended() {
    let home = tempfile::tempdir().unwrap();
    let builder = SieveDb::builder(home.path()).options(&merging());
    let ttl = std::time::Duration::from_secs(3_600);
    let db = builder.ttl(ttl).open().unwrap();
    let plain: &RocksDb = &db;
    plain.create_cf("made", &merging()).unwrap();
    let cf = plain.cf_handle("made").unwrap();
    for name in ["a", "b"] {
        plain.put_cf(&cf, name, "value").unwrap();
        plain.flush_cf(&cf).unwrap();
        assert_eq!(plain.get_cf(&cf, name).unwrap().unwrap(), b"value");
    }
    cover(&db);
    settle(&db);
    assert_eq!(plain.get_cf(&cf, "a").unwrap().unwrap(), b"value");
    assert!(plain.get_cf(&cf, "c").unwrap().is_none());
    assert_eq!(
        plain.multi_get_cf([(&cf, "a")])[0]
            .as_ref()
            .unwrap()
            .as_deref(),
        Some(&b"value"[..])
    );
}

/// The filters' prefixes stay those of the open. RocksDB's iterators have others, once somebody has
/// changed them.
#[test]
fn prefix_is_found_after_its_extractor_was_changed() {
    let home = tempfile::tempdir().unwrap();
    let mut options = merging();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(3));
    let cfs = [DEFAULT, OTHER].map(|name| (name, options.clone()));
    let builder = SieveDb::builder(home.path()).options(&options);
    let db = builder.cfs_with_opts(cfs).open().unwrap();
    let other = db.cf_handle(OTHER).unwrap();
    for key in ["abcde1", "abd"] {
        db.put(key, "value").unwrap();
        db.put_cf(&other, key, "value").unwrap();
    }
    db.flush().unwrap();
    cover(&db);
    let all_are_found = |db: &SieveDb| {
        for start in ["abc", "abcd", "abcde", "abd"] {
            assert!(
                db.filters().prefix_may_exist(start)
                    && db.filters().prefix_may_exist_cf(&other, start)
            );
            assert!(db.prefix_exists(start).unwrap(), "{start}");
            assert!(db.prefix_exists_cf(&other, start).unwrap(), "{start}");
            let mut many = db.prefixes_exist(&["abe", start]);
            many.extend(db.prefixes_exist_cf(&other, &["abe", start]));
            let many: Vec<bool> = many.into_iter().map(Result::unwrap).collect();
            assert_eq!(many, [false, true, false, true], "{start}");
        }
    };
    all_are_found(&db);
    let longer = [("prefix_extractor", "rocksdb.CappedPrefix.5")];
    db.set_options(&longer).unwrap();
    all_are_found(&db);
    db.set_options_cf(&other, &longer).unwrap();
    all_are_found(&db);
}

//! Entries that the engine drops by itself: expired ones, and those of the oldest SSTs.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::thread::{self, sleep};
use std::time::Duration;

use lsm_sieve::{Isolation, OpenError, SieveDb, SieveOptions};
use rocksdb::{
    ColumnFamilyTtl, DBCompactionStyle, DEFAULT_COLUMN_FAMILY_NAME, FifoCompactOptions,
    IteratorMode, Options, WaitForCompactOptions, WriteBatch,
};

use crate::support::database_files::sidecars;
use crate::support::model_db::{
    Dice, Model, check_cf_reads, check_reads, check_settled, cover, fill, key, options, report,
    settle, sieve, verify_finds_every_key, write_randomly,
};

const DEFAULT: &str = DEFAULT_COLUMN_FAMILY_NAME;

/// Longer than a busy machine takes to write and compact some entries.
const TTL: Duration = Duration::from_secs(4);

/// Times are whole seconds, and an entry lives through the second in which it expires.
const LONG_ENOUGH: Duration = Duration::from_millis(5_200);

fn kinds_of_filters() -> [SieveOptions; 2] {
    [sieve(), sieve().speed_over_memory(true)]
}

fn compact(db: &SieveDb) {
    db.compact_range::<&[u8], &[u8]>(None, None);
}

/// The oldest SSTs are dropped with all their keys. The keys that are left are found.
#[test]
fn keys_left_after_fifo_compaction_are_found() {
    let mut oldest_first = FifoCompactOptions::default();
    oldest_first.set_max_table_files_size(250_000);
    let mut options = options();
    options.set_compaction_style(DBCompactionStyle::Fifo);
    options.set_fifo_compaction_options(&oldest_first);
    for settings in kinds_of_filters() {
        let home = tempfile::tempdir().unwrap();
        let (mut model, mut dice) = (Model::new(), Dice(5));
        let left = {
            let db = SieveDb::open(&options, &settings, home.path()).unwrap();
            for _ in 0..3 {
                for _ in 0..6 {
                    write_randomly(&db, DEFAULT, &mut model, &mut dice, 300);
                    db.flush().unwrap();
                    reads_as_a_scan_finds(&db);
                }
                db.filters().consolidate().unwrap();
                check_settled(&db, &scanned(&db));
            }
            reads_as_a_scan_finds(&db)
        };
        let written = model.len();
        assert!(left > 0 && left < written, "{left} of {written} are left");
        let db = SieveDb::open(&options, &settings, home.path()).unwrap();
        assert_eq!(reads_as_a_scan_finds(&db), left);
        cover(&db);
        settle(&db);
        verify_finds_every_key(&db);
        let tables = report(&db).segments.len();
        // One more may wait for a second listing that lacks its SST.
        let filters = sidecars(&home.path().join("sieve")).len();
        assert!(
            filters <= tables + 1,
            "{filters} filters of {tables} tables"
        );
    }
}

/// All keys that a scan finds. A scan checks no filter.
fn scanned(db: &SieveDb) -> Model {
    // So that no SST is dropped between one read and the next.
    db.wait_for_compact(&WaitForCompactOptions::default())
        .unwrap();
    let scan = db.iterator(IteratorMode::Start).map(Result::unwrap);
    scan.map(|(key, value)| (key.into(), value.into()))
        .collect()
}

/// Compares lookups with a scan. Returns the number of keys.
fn reads_as_a_scan_finds(db: &SieveDb) -> usize {
    let left = scanned(db);
    check_reads(db, &left);
    left.len()
}

/// Writes in every way that a TTL allows.
fn write(db: &SieveDb, model: &mut Model, numbers: std::ops::Range<u64>) {
    fill(db, model, numbers.clone());
    for number in numbers.step_by(10) {
        let (merged, deleted, batched) = (key(number), key(number + 1), key(number + 2));
        db.merge(&merged, b" and more").unwrap();
        model.get_mut(&merged).unwrap().extend(b" and more");
        db.delete(&deleted).unwrap();
        model.remove(&deleted);
        let mut batch = WriteBatch::default();
        batch.put(&batched, b"in a batch");
        db.write(batch).unwrap();
        model.insert(batched, b"in a batch".to_vec());
    }
}

#[test]
fn keys_left_after_ttl_expiry_are_found() {
    // In parallel: the threads mostly wait.
    thread::scope(|scope| {
        for settings in kinds_of_filters() {
            scope.spawn(move || write_and_expire(&settings));
        }
    });
}

fn write_and_expire(settings: &SieveOptions) {
    let home = tempfile::tempdir().unwrap();
    let open = || {
        SieveDb::builder(home.path())
            .options(&options())
            .filters(settings)
            .ttl(TTL)
            .open()
            .unwrap()
    };
    let mut model = Model::new();
    {
        let db = open();
        write(&db, &mut model, 10..400);
        check_reads(&db, &model);
        db.flush().unwrap();
        check_reads(&db, &model);
        sleep(LONG_ENOUGH);
        // Expired entries are visible until a compaction.
        check_reads(&db, &model);
        model.clear();
        write(&db, &mut model, 300..600);
        db.flush().unwrap();
        compact(&db);
        check_reads(&db, &model);
        assert_eq!(scanned(&db), model, "the others have expired");
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
        let expired = (10..300).filter(|&number| db.filters().answer(key(number)).is_absent());
        assert!(
            expired.count() > 250,
            "of those that expired few are ruled out"
        );
    }
    let db = open();
    check_reads(&db, &model);
    sleep(LONG_ENOUGH);
    model.clear();
    write(&db, &mut model, 700..710);
    db.flush().unwrap();
    compact(&db);
    check_settled(&db, &model);
}

/// RocksDB keeps seconds in 31 bits: a TTL of a hundred years would have expired at once, and half
/// a second would be no TTL.
#[test]
fn extreme_ttls_expire_neither_early_nor_never() {
    let home = tempfile::tempdir().unwrap();
    let (ages, half) = (
        Duration::from_secs((1 << 32) + 1),
        Duration::from_millis(500),
    );
    let families = [
        ("ages", options(), ColumnFamilyTtl::Duration(ages)),
        ("half", options(), ColumnFamilyTtl::Duration(half)),
    ];
    let db = SieveDb::builder(home.path())
        .options(&options())
        .filters(&sieve())
        .cfs_with_ttl(families)
        .ttl(ages)
        .open()
        .unwrap();
    let names = ["ages", "half", DEFAULT];
    for name in names {
        let family = db.cf_handle(name).unwrap();
        db.put_cf(&family, b"old", b"value").unwrap();
        db.flush_cf(&family).unwrap();
    }
    sleep(Duration::from_millis(2_200));
    for name in names {
        let family = db.cf_handle(name).unwrap();
        db.put_cf(&family, b"new", b"value").unwrap();
        db.flush_cf(&family).unwrap();
        db.compact_range_cf::<&[u8], &[u8]>(&family, None, None);
        let is_left = db.get_cf(&family, b"old").unwrap().is_some();
        assert_eq!(is_left, name != "half", "{name}");
    }
}

#[test]
fn cfs_have_their_own_ttl() {
    let home = tempfile::tempdir().unwrap();
    let never = ColumnFamilyTtl::Disabled;
    let later = ColumnFamilyTtl::Duration(Duration::from_secs(3_600));
    let families = [("never", options(), never), ("later", options(), later)];
    let db = SieveDb::builder(home.path())
        .options(&options())
        .filters(&sieve())
        .cfs_with_ttl(families)
        .ttl(TTL)
        .open()
        .unwrap();
    db.create_cf("made", &options()).unwrap();
    let names = ["never", "later", "made", DEFAULT];
    let model: Model = (10..200)
        .map(|number| (key(number), b"value".to_vec()))
        .collect();
    for name in names {
        let family = db.cf_handle(name).unwrap();
        model
            .iter()
            .for_each(|(key, value)| db.put_cf(&family, key, value).unwrap());
        db.flush_cf(&family).unwrap();
    }
    sleep(LONG_ENOUGH);
    for name in names {
        let family = db.cf_handle(name).unwrap();
        // So that there is something to compact.
        db.put_cf(&family, key(5), b"value").unwrap();
        db.flush_cf(&family).unwrap();
        db.compact_range_cf::<&[u8], &[u8]>(&family, None, None);
        let mut left = if name == DEFAULT {
            Model::new()
        } else {
            model.clone()
        };
        left.insert(key(5), b"value".to_vec());
        check_cf_reads(&db, name, &left);
    }
    cover(&db);
    verify_finds_every_key(&db);
}

/// RocksDB's transactions would write values without their time, which reads could not parse.
#[test]
fn ttl_with_transactions_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let settings = sieve().transactions(Isolation::Optimistic);
    let error = SieveDb::builder(&path)
        .options(&options())
        .filters(&settings)
        .ttl(TTL)
        .open()
        .unwrap_err();
    assert!(matches!(error, OpenError::Settings { .. }), "{error}");
    assert!(error.to_string().contains("time to live"), "{error}");
    assert!(!path.exists(), "it left something behind");
}

/// An entry that is too short for a time is reported by the engine.
#[test]
fn database_without_ttl_cannot_be_read_with_ttl() {
    let home = tempfile::tempdir().unwrap();
    let options = Options::default();
    {
        let db = SieveDb::builder(home.path()).open().unwrap();
        db.put(b"key", b"v").unwrap();
    }
    let db = SieveDb::builder(home.path())
        .options(&options)
        .filters(&sieve())
        .ttl(TTL)
        .open()
        .unwrap();
    let error = db.get(b"key").unwrap_err();
    assert!(error.to_string().contains("timestamp"), "{error}");
    assert_eq!(db.get(b"no key").unwrap(), None);
}

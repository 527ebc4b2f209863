//! `maintenance::static_stage` of `lsm-sieve-front`, over RocksDB.

use std::thread;
use std::time::Duration;

use rocksdb::{Options, SstFileWriter};

use crate::math::{Bits, Items};
use crate::rocks::{SieveDb, SieveOptions};

const KEYS: u32 = 20_000;

const PATIENCE: Duration = Duration::from_secs(20);

fn settings() -> SieveOptions {
    SieveOptions::default().audit(0)
}

/// A database of overlapping SSTs, whose summary filter is built from `at_once` hashes at a
/// time.
fn filled(home: &std::path::Path, sieve: &SieveOptions, at_once: u64) -> SieveDb {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_disable_auto_compactions(true);
    let sieve = sieve.clone().build_memory(Bits::from_bytes(8 * at_once));
    let db = SieveDb::open(&options, &sieve, home).unwrap();
    for table in 0..3 {
        let keys = (0..KEYS).filter(|key| key % 3 == table || key % 10 == 0);
        keys.for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
        db.flush().unwrap();
    }
    db
}

fn is_denied(db: &SieveDb, key: u32) -> bool {
    db.filter_answer(key.to_be_bytes()).is_absent()
}

#[test]
fn a_summary_that_is_made_in_parts_has_all_keys_once() {
    let sieve = settings();
    for at_once in [1 << 20, 7_000, 300] {
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &sieve, at_once);
        db.consolidate().unwrap();
        let summary = db.cf_filters().all().remove(0).view().summary;
        assert!(summary.begins_static() && summary.stages() == 1);
        assert_eq!(summary.items(), Items::new(KEYS.into()), "{at_once}");
        assert!(!(0..KEYS).any(|key| is_denied(&db, key)), "{at_once}");
        let absent = KEYS..2 * KEYS;
        let passing = absent.filter(|&key| !is_denied(&db, key)).count();
        assert!(passing < 200, "{passing} of {KEYS}");
        let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
        assert!((0..KEYS).all(|key| read(key).is_some()));
    }
}

/// The parts before it have none of its keys.
#[test]
fn a_table_that_comes_between_two_parts_is_read_whole() {
    let sieve = settings();
    // Fewer than fit into memory.
    const FILES: u32 = 12;
    const KEYS_A_FILE: u32 = 300;
    let home = tempfile::tempdir().unwrap();
    let db = filled(&home.path().join("db"), &sieve, 400);
    let ingest = |number: u32| {
        let file = home.path().join(format!("{number}.sst"));
        let options = Options::default();
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        let first = KEYS + number * KEYS_A_FILE;
        let keys = first..first + KEYS_A_FILE;
        keys.for_each(|key| writer.put(key.to_be_bytes(), "value").unwrap());
        writer.finish().unwrap();
        db.ingest_external_file(vec![&file]).unwrap();
    };
    thread::scope(|scope| {
        let files = scope.spawn(|| {
            for number in 0..FILES {
                ingest(number);
                thread::sleep(Duration::from_millis(30));
            }
        });
        // Some builds are overtaken.
        while !files.is_finished() {
            drop(db.consolidate());
        }
    });
    assert!(db.wait_until_complete(PATIENCE));
    let last = KEYS + FILES * KEYS_A_FILE;
    let denied: Vec<u32> = (0..last).filter(|&key| is_denied(&db, key)).collect();
    assert!(
        denied.is_empty(),
        "{} keys, {:?}",
        denied.len(),
        denied.first()
    );
    let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
    assert!((0..last).all(|key| read(key).is_some()));
}

/// There is room for a few keys more than the first part predicts. Keys that memtables feed
/// anyway must not use it.
#[test]
fn what_is_written_and_flushed_beside_it_crowds_no_summary() {
    let sieve = settings();
    let home = tempfile::tempdir().unwrap();
    let db = filled(home.path(), &sieve, 1_000);
    let failed = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for key in KEYS..4 * KEYS {
                db.put(key.to_be_bytes(), "value").unwrap();
                if key % 5_000 == 0 {
                    db.flush().unwrap();
                }
            }
        });
        let mut failed = Vec::new();
        while !writer.is_finished() {
            failed.extend(db.consolidate().err().map(|error| error.to_string()));
        }
        failed
    });
    let crowded = failed.iter().filter(|error| error.contains("keys came"));
    assert_eq!(crowded.count(), 0, "{failed:?}");
    assert!((0..4 * KEYS).all(|key| !is_denied(&db, key)));
}

#[test]
fn tables_that_are_compacted_between_two_parts_stay_readable() {
    let sieve = settings();
    let home = tempfile::tempdir().unwrap();
    let db = filled(home.path(), &sieve, 400);
    thread::scope(|scope| {
        let compactions = scope.spawn(|| {
            for round in 0..8_u32 {
                let more = (0..KEYS).filter(|key| key % 7 == round % 7);
                more.for_each(|key| db.put(key.to_be_bytes(), "newer").unwrap());
                db.flush().unwrap();
                db.compact_range(None::<&[u8]>, None::<&[u8]>);
            }
        });
        while !compactions.is_finished() {
            drop(db.consolidate());
        }
    });
    db.consolidate().unwrap();
    assert!(db.wait_for_maintenance(PATIENCE));
    let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
    assert!((0..KEYS).all(|key| !is_denied(&db, key) && read(key).is_some()));
}

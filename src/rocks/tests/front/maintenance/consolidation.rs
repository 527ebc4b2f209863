//! `maintenance::consolidation` of `lsm-sieve-front`, over RocksDB.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rocksdb::{Options, SstFileWriter};

use crate::filter::naive::{hashes, imprint};
use crate::filter::{Scalable, Stage};
use crate::math::{Bits, Items};
use crate::rocks::{SieveDb, SieveOptions};
use lsm_sieve_front::maintenance::consolidation::is_oversized;

const KEYS: u32 = 5_000;

const PATIENCE: Duration = Duration::from_secs(20);

/// A consolidated database with one SST.
fn consolidated(path: &Path) -> SieveDb {
    let mut options = Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().audit(0);
    let db = SieveDb::open(&options, &sieve, path).unwrap();
    (0..KEYS).for_each(|i| db.put(i.to_be_bytes(), b"value").unwrap());
    db.flush().unwrap();
    db.consolidate().unwrap();
    db
}

fn damage_the_table(db: &SieveDb) {
    let table = &db.live_files().unwrap()[0].name;
    let path = db.path().join(table.trim_start_matches('/'));
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    let middle = file.metadata().unwrap().len() / 2;
    file.write_all_at(&[0xee; 64], middle).unwrap();
}

/// Otherwise the first key after a pause would cause all keys to be read again, forever.
#[test]
fn a_static_summary_is_outgrown_by_a_quarter_of_its_keys_and_not_by_the_first() {
    const FIRST: u64 = 1_200_000;
    let options = SieveOptions::default().resolved();
    let rate = options.summary.at_rest.unwrap();
    let keys = Items::new(FIRST);
    let size = options.summary_size(keys);
    let summary = options.static_summary(keys, Bits::new(0));
    let summary = Scalable::with_pending_first(imprint(1), summary, size);
    let mut keys = hashes(1);
    let first = keys.by_ref().take(FIRST as usize);
    summary.complete(Stage::ribbon(first.collect(), rate).unwrap());
    let mut grow_by = |more: u64| {
        let more = keys.by_ref().take(more as usize);
        more.for_each(|key| summary.append(key));
        (summary.stages(), is_oversized(&summary, &options))
    };
    assert_eq!(grow_by(0), (1, false));
    assert_eq!(grow_by(1), (2, false));
    assert_eq!(grow_by(FIRST / 5), (2, false));
    assert_eq!(grow_by(FIRST / 10), (3, true));
}

/// Lookups continue with the old summary filter, so writers must continue to feed it.
#[test]
fn consolidations_that_fail_leave_writers_their_summary() {
    let home = tempfile::tempdir().unwrap();
    let db = consolidated(home.path());
    damage_the_table(&db);
    assert!(db.consolidate().is_err(), "the table cannot be read");
    db.put(b"written since", b"value").unwrap();
    assert!(!db.filter_answer(b"written since").is_absent());
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ingested files that overlap nothing leave the latest sequence number unchanged.
#[test]
fn what_is_ingested_piece_by_piece_ends_in_one_stage() {
    const FILES: u32 = 12;
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().expected_keys(Items::new(1_000));
    let db = SieveDb::open(&options, &sieve, home.path().join("db")).unwrap();
    let file = home.path().join("keys.sst");
    for number in 0..FILES {
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        let keys = number * 1_000..(number + 1) * 1_000;
        keys.for_each(|key| writer.put(key.to_be_bytes(), b"value").unwrap());
        writer.finish().unwrap();
        db.ingest_external_file(vec![&file]).unwrap();
        assert!(db.wait_until_complete(PATIENCE));
    }
    let cf_filter = db.cf_filters().all().remove(0);
    let holds_all = || cf_filter.view().summary.items() > Items::new(11_000);
    wait_until("one stage, of the right size", || {
        db.wait_until_complete(PATIENCE) && cf_filter.view().summary.stages() == 1 && holds_all()
    });
    (0..FILES * 1_000).for_each(|key| assert!(!db.filter_answer(key.to_be_bytes()).is_absent()));
}

/// Otherwise all SSTs were listed twice a second for as long as nothing is written.
#[test]
fn an_idle_database_is_not_asked_again() {
    let home = tempfile::tempdir().unwrap();
    drop(consolidated(home.path()));
    let fast = SieveOptions::default().speed_over_memory(true).audit(0);
    for sieve in [fast, SieveOptions::default().audit(0)] {
        let db = SieveDb::open(&Options::default(), &sieve, home.path()).unwrap();
        let cf_filter = db.cf_filters().all().remove(0);
        let now = cf_filter.write_position(db.latest_sequence_number(), None);
        wait_until("at rest", || cf_filter.is_consolidated(now));
        assert_eq!(
            cf_filter.view().summary.begins_static(),
            sieve.resolved().summary.at_rest.is_some()
        );
        assert!(!db.filter_answer(7_u32.to_be_bytes()).is_absent());
    }
}

//! `maintenance::scrub` of `lsm-sieve-front`, over RocksDB.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::rocks::{SieveDb, SieveOptions};
use lsm_sieve_front::maintenance::scrub::*;
use lsm_sieve_front::segment::Segment;

const KEYS: u32 = 2_000;

const PATIENCE: Duration = Duration::from_secs(60);

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = SieveDb::open(&options, sieve, path).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), b"value").unwrap());
    db.flush().unwrap();
    settle(&db);
    db
}

fn settle(db: &SieveDb) {
    assert!(db.wait_for_maintenance(PATIENCE));
    assert!(db.wait_until_complete(PATIENCE));
    assert!(db.wait_for_maintenance(PATIENCE));
}

/// Every key is found, no filter denies one, and nearly all absent keys are denied.
fn whole(db: &SieveDb) {
    for i in 0..KEYS {
        assert!(db.get(key(i)).unwrap().is_some());
    }
    let absent = (KEYS..2 * KEYS).filter(|&i| db.filter_answer(key(i)).is_absent());
    assert!(absent.count() > 1_900);
    let report = db.verify(true).unwrap();
    assert!(report.lost.is_empty() && report.damaged.is_empty());
}

fn the_segment(db: &SieveDb) -> Arc<Segment> {
    let id = *db.shared_registry().ids().iter().next().unwrap();
    db.shared_registry().get(id).unwrap()
}

#[test]
fn what_is_intact_stays() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    let filter = the_segment(&db).filter().unwrap();
    for _ in 0..3 {
        let found = db.scrub().unwrap();
        assert_eq!(found.damaged, 0);
        assert!(found.filters >= 2, "a table and a summary");
        assert!(found.bytes > u64::from(KEYS));
    }
    assert!(Arc::ptr_eq(&filter, &the_segment(&db).filter().unwrap()));
    whole(&db);
}

#[test]
fn a_bit_that_a_table_filter_lost_in_memory_is_noticed_and_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    let damaged = the_segment(&db).filter().unwrap();
    damaged.chain.stages()[0].clear_one_bit();
    assert!(!db.verify(true).unwrap().lost.is_empty(), "it lies");
    assert_eq!(db.scrub().unwrap().damaged, 1);
    settle(&db);
    assert!(the_segment(&db).filter().unwrap().is_intact());
    whole(&db);
    assert_eq!(db.scrub().unwrap().damaged, 0);
    assert_eq!(db.inspect().unwrap().scrubbed.damaged, 1);
}

#[test]
fn a_bit_that_a_summary_lost_in_memory_is_noticed_and_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    assert_eq!(db.scrub().unwrap().damaged, 0, "the look to compare with");
    db.cf_filters().all()[0].view().summary.clear_one_bit();
    assert!(!db.verify(true).unwrap().lost.is_empty(), "it lies");
    assert_eq!(db.scrub().unwrap().damaged, 1);
    for i in 0..KEYS {
        assert!(!db.filter_answer(key(i)).is_absent(), "{i}");
    }
    db.consolidate().unwrap();
    settle(&db);
    whole(&db);
    assert_eq!(db.scrub().unwrap().damaged, 0);
}

/// A checksum matches whatever it is computed from, damage included.
#[test]
fn damage_in_memory_does_not_reach_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    let filter = the_segment(&db).filter().unwrap();
    let id = db.shared_registry().ids().into_iter().next().unwrap();
    assert!(db.sieve().filters.filter_store.save(id, &filter));
    filter.chain.stages()[0].clear_one_bit();
    assert!(!db.sieve().filters.filter_store.save(id, &filter));
    let stored = db.sieve().filters.filter_store.load(id).unwrap();
    assert!(stored.is_intact() && stored.chain.checksum() != filter.chain.checksum());
}

/// The last scrub of a summary filter is the one before it is stored.
#[test]
fn damage_of_a_summary_in_memory_does_not_reach_the_disk() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    assert_eq!(db.scrub().unwrap().damaged, 0, "the look to compare with");
    db.cf_filters().all()[0].view().summary.clear_one_bit();
    drop(db);
    // Read-only: it takes what is stored as it is.
    let read_only_filters = SieveOptions::default().read_only_filters(true);
    let db = SieveDb::open(
        &rocksdb::Options::default(),
        &read_only_filters,
        home.path(),
    )
    .unwrap();
    assert!(db.wait_for_maintenance(PATIENCE));
    assert!(db.verify(true).unwrap().lost.is_empty());
}

/// At once, not only after maintenance has rebuilt it.
#[test]
fn a_damaged_filter_is_asked_no_more_from_then_on() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    let segment = the_segment(&db);
    let rules_out = |i: u32| !segment.may_contain(&key(i), None);
    assert!((KEYS..2 * KEYS).any(rules_out));
    segment.filter().unwrap().chain.stages()[0].clear_one_bit();
    // Maintenance is not notified.
    let (cf_filters, registry) = (db.shared_cf_filters(), db.shared_registry());
    Scrubber::new(cf_filters, registry, Arc::default(), Arc::default(), None).scrub_all();
    assert!(!(0..2 * KEYS).any(rules_out));
}

/// A block cache may keep readers of filters that are no longer scrubbed, and pass them on to
/// the next filters of the same SSTs.
#[test]
fn a_filter_that_outlives_its_database_rules_nothing_out() {
    let home = tempfile::tempdir().unwrap();
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_block_cache(&rocksdb::Cache::new_lru_cache(8 << 20));
    table.set_cache_index_and_filter_blocks(true);
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    let sieve = SieveOptions::default().audit(0);
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), b"value").unwrap());
    db.flush().unwrap();
    settle(&db);
    let segment = the_segment(&db);
    let cf_filter = db.cf_filters().all().remove(0);
    assert!(db.get(key(0)).unwrap().is_some(), "its reader is cached");
    drop(db);
    let rules_out = |i: u32| !segment.may_contain(&key(i), None);
    assert!(!(KEYS..2 * KEYS).any(rules_out));
    assert!(!(KEYS..2 * KEYS).any(|i| cf_filter.answer(&key(i)).is_absent()));
    assert!(cf_filter.size().get() <= 512, "its memory is given back");
    let again = SieveDb::open(&options, &sieve, home.path()).unwrap();
    settle(&again);
    whole(&again);
}

#[test]
fn rounds_come_by_themselves() {
    let home = tempfile::tempdir().unwrap();
    let often = SieveOptions::default().scrub_every(Some(Duration::from_millis(1)));
    let db = open(home.path(), &often);
    the_segment(&db).filter().unwrap().chain.stages()[0].clear_one_bit();
    let deadline = Instant::now() + PATIENCE;
    while db.scrubbed().damaged == 0 {
        assert!(Instant::now() < deadline, "no round came");
        assert!(db.wait_for_maintenance(PATIENCE));
    }
    settle(&db);
    whole(&db);
}

/// No call waits for the scrub, and the writers do not pause, which would also replace the
/// summary filter.
#[test]
fn damaged_filters_are_made_anew_without_a_call() {
    let home = tempfile::tempdir().unwrap();
    let often = SieveOptions::default().scrub_every(Some(Duration::from_millis(1)));
    let db = open(home.path(), &often);
    let becomes = |what: &str, is_so: &dyn Fn() -> bool| {
        let deadline = Instant::now() + PATIENCE / 2;
        while !is_so() {
            assert!(Instant::now() < deadline, "never: {what}");
            db.put(key(0), b"value").unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let segment = the_segment(&db);
    segment.filter().unwrap().chain.stages()[0].clear_one_bit();
    becomes("the table has a filter that is intact", &|| {
        segment.filter().is_some_and(|filter| filter.is_intact())
    });
    let read = db.scrubbed().filters;
    becomes("the summary was read", &|| db.scrubbed().filters > read + 6);
    let cf_filter = db.cf_filters().all().remove(0);
    let damaged = cf_filter.view().summary;
    damaged.clear_one_bit();
    becomes("another summary is there", &|| {
        !Arc::ptr_eq(&damaged, &cf_filter.view().summary)
    });
    becomes("it rules keys out", &|| {
        db.filter_answer(key(KEYS)).is_absent()
    });
    whole(&db);
}

/// Filters of many times the rate are not scrubbed in one go.
#[test]
fn a_round_rests_when_it_has_read_its_share() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default().scrub_every(None));
    let every = Some(Duration::from_secs(10));
    let (cf_filters, registry) = (db.shared_cf_filters(), db.shared_registry());
    let mut scrubber = Scrubber::new(cf_filters, registry, Arc::default(), Arc::default(), every);
    let start = scrubber.began;
    scrubber.scrub_in_turn(start + Duration::from_secs(9));
    assert_eq!(scrubber.log.so_far().filters, 0, "not yet");
    let all = scrubber.targets().len() as u64;
    let mut now = start + Duration::from_secs(10);
    let mut turns = 0;
    while scrubber.log.so_far().filters < all {
        scrubber.scrub_in_turn(now);
        assert!(scrubber.rested > now || scrubber.left.is_empty());
        now = scrubber.rested.max(now);
        turns += 1;
    }
    assert!(turns > 1);
    let taken = (now - start - Duration::from_secs(10)).as_nanos();
    let due = u128::from(scrubber.log.so_far().bytes) * 1_000_000_000 / u128::from(BYTES_A_SECOND);
    assert!(
        taken <= due + 1_000 && taken * 2 >= due,
        "{taken} ns for {due} ns worth"
    );
}

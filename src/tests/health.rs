//! `Health` against an inspection.

use std::time::{Duration, Instant};

use rocksdb::Options;

use crate::{SieveDb, SieveOptions};
use lsm_sieve_front::audit::Distrust as _;

const LIMIT: Duration = Duration::from_secs(60);
const KEYS: u64 = 5_000;

fn open(folder: &std::path::Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    SieveDb::builder(folder)
        .options(&options)
        .filters(sieve)
        .cfs(["users"])
        .open()
        .unwrap()
}

#[test]
fn it_says_what_an_inspection_says() {
    let home = tempfile::tempdir().unwrap();
    let budget = 1 << 20;
    let db = open(home.path(), &SieveOptions::default().memory_budget(budget));
    let users = db.cf_handle("users").unwrap();
    for key in 0..KEYS {
        db.put_cf(&users, key.to_be_bytes(), b"value").unwrap();
    }
    db.flush_cf(&users).unwrap();
    assert!(db.filters().wait_until_complete(LIMIT) && db.filters().wait_for_maintenance(LIMIT));
    assert!(db.get_cf(&users, b"absent").unwrap().is_none());

    let (health, inspection) = (db.filters().health(), db.filters().inspect().unwrap());
    assert_eq!(
        (health.budget_bytes, health.false_negatives),
        (Some(budget), false)
    );
    let filters = inspection
        .cfs
        .iter()
        .flat_map(|cf_filter| &cf_filter.segments);
    let bits = filters.filter_map(|segment| Some(segment.filter.as_ref()?.bits));
    assert_eq!(health.memory.segments.get(), bits.sum::<u64>());
    assert!(health.memory.segments.get() > 0);
    let memory: u64 = health.cfs.iter().map(|cf| cf.memory.get()).sum();
    assert_eq!(health.memory.summary.get(), memory);
    let overhead: u64 = health.cfs.iter().map(|cf| cf.overhead.get()).sum();
    assert_eq!(health.memory.overhead.get(), overhead);
    assert!(overhead > 0 && overhead != memory);
    assert_eq!(health.known_segments, 1);

    let cf_filter = &inspection.cfs[1];
    let cf = &health.cfs[1];
    assert_eq!((&*cf.name, &*cf_filter.name), ("users", "users"));
    assert!(cf.memory.get() >= cf_filter.summary.bits);
    assert_eq!(cf.keys.get(), cf_filter.summary.keys);
    assert_eq!(cf.stages, cf_filter.summary.stages);
    assert_eq!(cf.predicted_rate, cf_filter.summary.predicted_rate);
    assert_eq!(cf.uncovered, Some(0));
    assert_eq!(cf.stats.lookups(), 1);
}

/// Otherwise a caller that polls would hide a forgotten wakeup.
#[test]
fn reports_wake_nothing() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &SieveOptions::default());
    db.put(b"key", b"value").unwrap();
    let wakeup = db.shared_wakeup();
    let at_rest = || {
        let runs = wakeup.runs();
        std::thread::sleep(Duration::from_millis(1_500));
        wakeup.runs() == runs
    };
    while !at_rest() {}
    let runs = wakeup.runs();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        assert_eq!(db.filters().health().cfs.len(), 2);
        let _ = (
            db.filters().stats(),
            db.filters().stats_cf(&db.cf_handle("users").unwrap()),
            db.filters().scrubbed(),
        );
        assert!(!db.filters().answer(b"key").is_absent());
        assert_eq!(db.filters().inspect().unwrap().cfs.len(), 2);
        assert_eq!(db.filters().false_negative(), None);
    }
    assert_eq!(wakeup.runs(), runs);
}

#[test]
fn it_tells_of_a_summary_without_room_and_of_a_front_that_gave_up() {
    let home = tempfile::tempdir().unwrap();
    let sieve = SieveOptions::default().memory_budget(0);
    let db = open(home.path(), &sieve);
    let none = db.filters().health();
    assert_eq!(none.memory.summary.get(), 0);
    assert_eq!(none.cfs[0].predicted_rate, 1.0);
    db.cf_filters().all()[0].disable();
    assert_eq!(db.filters().health().cfs[0].uncovered, None);
}

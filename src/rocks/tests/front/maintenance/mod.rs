//! `maintenance` of `lsm-sieve-front`, over RocksDB.

mod budget;
mod consolidation;
mod growth;
mod scrub;
mod static_stage;
mod sweep;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rocksdb::Options;

use crate::math::Items;
use crate::rocks::{SieveDb, SieveOptions};

const LIMIT: Duration = Duration::from_secs(20);

/// A database whose maintenance has nothing left to do.
fn open(path: &Path) -> SieveDb {
    let db = SieveDb::builder(path).open().unwrap();
    assert!(db.wait_until_complete(LIMIT));
    assert!(db.wait_for_maintenance(LIMIT));
    db
}

/// Otherwise its callers would wait for a day, and new SSTs would get no filters.
#[test]
fn panic_ends_a_run_and_not_maintenance() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let wakeup = db.shared_wakeup();
    wakeup.panic_next("a pass");
    let ticket = wakeup.call(|requests| requests.consolidate = true);
    let failure = wakeup.wait_for(ticket, LIMIT);
    assert_eq!(failure.as_deref(), Some("it panicked"));
    db.put("key", "value").unwrap();
    db.consolidate().unwrap();
    assert!(!db.filter_answer("key").is_absent());
}

/// The other column families are maintained in the same run.
#[test]
fn a_panic_over_one_family_is_the_failure_of_that_family() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.create_cf("other", &Options::default()).unwrap();
    assert!(db.wait_until_complete(LIMIT));
    let other = db.cf_handle("other").unwrap();
    db.put("key", "value").unwrap();
    db.put_cf(&other, "key", "value").unwrap();
    let summaries = || {
        db.cf_filters()
            .all()
            .into_iter()
            .map(|cf_filter| cf_filter.view().summary)
    };
    let before: Vec<_> = summaries().collect();
    let wakeup = db.shared_wakeup();
    wakeup.panic_next("default");
    let ticket = wakeup.call(|requests| requests.consolidate = true);
    let failure = wakeup.wait_for(ticket, LIMIT);
    assert_eq!(failure.as_deref(), Some("it panicked"));
    let pairs = before.iter().zip(summaries());
    let same: Vec<bool> = pairs.map(|(old, new)| Arc::ptr_eq(old, &new)).collect();
    assert_eq!(same, [true, false]);
    db.consolidate().unwrap();
    assert!(
        !db.filter_answer("key").is_absent() && !db.filter_answer_cf(&other, "key").is_absent()
    );
}

/// Two checks in quick succession see no write between them, however busy the writers are.
#[test]
fn writers_who_pause_for_a_moment_are_not_taken_for_quiet() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().expected_keys(Items::new(100));
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    (0..150_u32).for_each(|i| db.put(i.to_be_bytes(), b"value").unwrap());
    // A new summary filter may have two stages as well: with so few keys the estimate may be
    // too low.
    let grown = cf_filter.view().summary;
    assert!(grown.stages() > 1);
    let is_kept = || Arc::ptr_eq(&grown, &cf_filter.view().summary);
    let looked = AtomicBool::new(false);
    let kept = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !looked.load(Ordering::Acquire) {
                let began = Instant::now();
                db.put("key", "value").unwrap();
                thread::sleep(Duration::from_millis(5));
                longest = longest.max(began.elapsed());
            }
            longest
        });
        (0..1_000).for_each(|_| assert!(db.wait_for_maintenance(LIMIT)));
        let kept = is_kept();
        looked.store(true, Ordering::Release);
        // On a busy machine the interval may be long.
        kept || writer.join().unwrap() >= lsm_sieve_front::maintenance::PATIENCE
    });
    assert!(kept, "consolidated beside writers");
    let began = Instant::now();
    while is_kept() {
        assert!(began.elapsed() < LIMIT, "not consolidated when they paused");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn panic_ends_a_scrub_and_not_maintenance() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let wakeup = db.shared_wakeup();
    wakeup.panic_next("scrubbing");
    let ticket = wakeup.call(|requests| requests.consolidate = true);
    assert_eq!(wakeup.wait_for(ticket, LIMIT), None);
    // It did: no panic is pending.
    wakeup.panic_if_requested("scrubbing");
}

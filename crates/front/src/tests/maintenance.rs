//! What ends a maintenance run, and when writers count as quiet.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::memory_lsm::{Store, Stored};
use crate::maintenance::PATIENCE;
use crate::math::Items;
use crate::options::FrontOptions;
use crate::wakeup::WaitError;

const LIMIT: Duration = Duration::from_secs(20);

/// A store whose maintenance has nothing left to do.
fn open() -> Store {
    let store = Store::open(Stored::new(), &super::default_options());
    store.settle();
    assert!(store.is_complete());
    store
}

/// Lets this part of maintenance panic in a consolidation. Its failure.
fn failure_of_panic_in(store: &Store, part: &'static str) -> Option<String> {
    let wakeup = &store.filters.wakeup;
    wakeup.panic_next(part);
    let ticket = wakeup.request(|requests| requests.consolidate = true);
    match wakeup.wait_for(ticket, LIMIT) {
        Ok(()) => None,
        Err(WaitError::Failed(reason)) => Some(reason),
        Err(WaitError::Ended) => panic!("maintenance has ended"),
    }
}

/// Otherwise its callers would wait for a day, and new segments would get no filters.
#[test]
fn panic_in_a_run_ends_that_run_alone() {
    let store = open();
    let failure = failure_of_panic_in(&store, "a run");
    assert_eq!(failure.as_deref(), Some("it panicked"));
    store.put(b"key", b"value");
    assert!(store.consolidate());
    assert!(!store.rules_out(b"key"));
}

/// The other column families are maintained in the same run.
#[test]
fn panic_over_one_column_family_is_the_failure_of_that_one_alone() {
    let store = open();
    let other = store.add_family("other");
    store.settle();
    assert!(other.is_complete());
    store.put(b"key", b"value");
    let families = [store.cf_filter(), &other];
    let summaries = || families.map(|cf_filter| cf_filter.view().summary);
    let before = summaries();
    let failure = failure_of_panic_in(&store, "default");
    assert_eq!(failure.as_deref(), Some("it panicked"));
    let pairs = before.iter().zip(summaries());
    let same: Vec<bool> = pairs.map(|(old, new)| Arc::ptr_eq(old, &new)).collect();
    assert_eq!(same, [true, false]);
    assert!(store.consolidate());
    assert!(
        families
            .iter()
            .all(|cf_filter| !cf_filter.answer(b"key").is_absent())
    );
}

#[test]
fn panic_in_a_scrub_does_not_end_maintenance() {
    let store = open();
    assert_eq!(failure_of_panic_in(&store, "scrubbing"), None);
    // It did: no panic is pending.
    store.filters.wakeup.panic_if_requested("scrubbing");
}

/// Two checks in quick succession see no write between them, however busy the writers are.
#[test]
fn writers_that_pause_briefly_do_not_count_as_quiet() {
    let options = FrontOptions {
        expected_keys: Some(Items::new(100)),
        ..super::default_options()
    };
    let store = Store::open(Stored::new(), &options);
    let cf_filter = store.cf_filter();
    (0..150_u32).for_each(|i| store.put(&i.to_be_bytes(), b"value"));
    // A new summary filter may have two stages as well: with so few keys the estimate may be too
    // low.
    let grown = cf_filter.view().summary;
    assert!(grown.stages() > 1);
    let is_kept = || Arc::ptr_eq(&grown, &cf_filter.view().summary);
    let looked = AtomicBool::new(false);
    let kept = thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !looked.load(Ordering::Acquire) {
                let began = Instant::now();
                store.put(b"key", b"value");
                thread::sleep(Duration::from_millis(5));
                longest = longest.max(began.elapsed());
            }
            longest
        });
        (0..1_000).for_each(|_| store.settle());
        let kept = is_kept();
        looked.store(true, Ordering::Release);
        // On a busy machine the interval may be long.
        kept || writer.join().unwrap() >= PATIENCE
    });
    assert!(kept, "consolidated beside writers");
    let began = Instant::now();
    while is_kept() {
        assert!(began.elapsed() < LIMIT, "not consolidated when they paused");
        thread::sleep(Duration::from_millis(20));
    }
}

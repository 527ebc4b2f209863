//! A summary filter is replaced while keys are written, sealed, flushed and compacted: at each step of
//! the replacement, and by every order of two such steps.
//!
//! Maintenance runs on the thread of the test, so that each history is the same in each run.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::memory_lsm::{OtherThread, Scan, Step, Store, Stored};
use crate::audit::Distrust as _;
use crate::cf_filter::prefix_lookup;
use crate::math::Items;
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};

fn options(is_static: bool) -> FrontOptions {
    let options = FrontOptions {
        expected_keys: Some(Items::new(2_000)),
        ..FrontOptions::default()
    };
    if is_static {
        options.at_rest()
    } else {
        options
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn open(is_static: bool) -> Store {
    let store = Store::open_without_thread(Stored::new(), &options(is_static));
    store.look();
    assert!(store.is_complete());
    store
}

fn write(store: &Store, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.put(&key(number), b"value"));
}

#[track_caller]
fn assert_no_key_is_denied(store: &Store, numbers: impl IntoIterator<Item = u32>) {
    let keys = numbers.into_iter().map(key);
    let denied = keys.filter(|key| store.has(key) && store.rules_out(key));
    assert_eq!(denied.count(), 0, "keys are denied");
}

fn denies_others(store: &Store) -> bool {
    let absent = 1 << 24..(1 << 24) + 1_000;
    absent.filter(|&n| store.rules_out(&key(n))).count() > 900
}

/// What happens beside a consolidation.
type Act = fn(&OtherThread);

const ACTS: [(&str, Act); 4] = [
    ("a write", |other| other.put(&key(10_000), b"value")),
    ("a flush", OtherThread::flush),
    ("a write and a flush", |other| {
        other.put(&key(10_001), b"value");
        other.flush();
    }),
    ("a flush and a compaction", |other| {
        other.flush();
        other.compact();
    }),
];

const STEPS: [Step; 3] = [
    Step::BeforeMemtables,
    Step::AfterMemtables,
    Step::AfterSegment,
];

/// Keys of the memtable, of a sealed one and of a segment, in one consolidation each.
#[test]
fn keys_are_found_whatever_happens_at_any_two_steps_of_a_consolidation() {
    for is_static in [false, true] {
        for (first, &at_first) in STEPS.iter().enumerate() {
            for &at_second in &STEPS[first..] {
                for (one, first_act) in ACTS {
                    for (two, second_act) in ACTS {
                        let store = open(is_static);
                        write(&store, 0..300);
                        store.flush();
                        write(&store, 300..400);
                        store.seal_memtable();
                        write(&store, 400..500);
                        for (step, act) in [(at_first, first_act), (at_second, second_act)] {
                            let other = store.other_thread();
                            store.at(step, move || act(&other));
                        }
                        let before = store.cf_filter().view().summary;
                        assert!(store.consolidate());
                        let after = store.cf_filter().view().summary;
                        let case = format!("{one} at {at_first:?}, {two} at {at_second:?}");
                        assert!(!Arc::ptr_eq(&before, &after), "{case}");
                        let keys = (0..500).chain([10_000, 10_001]);
                        assert_no_key_is_denied(&store, keys);
                        assert!(denies_others(&store), "{case}");
                    }
                }
            }
        }
    }
}

/// Those of keys in memtables, and of keys that are written while both filters are fed.
#[test]
fn prefixes_are_found_whatever_step_their_keys_come_at() {
    for step in STEPS {
        let prefixes = Prefixes::new([Prefix::fixed(2)]).unwrap();
        let options = FrontOptions {
            prefixes: Arc::new(prefixes),
            ..options(false)
        };
        let store = Store::open_without_thread(Stored::new(), &options);
        store.look();
        store.put(b"segment", b"value");
        store.flush();
        store.put(b"memtable", b"value");
        let other = store.other_thread();
        store.at(step, move || other.put(b"beside", b"value"));
        assert!(store.consolidate());
        for (prefix, is_there) in [(b"se", true), (b"me", true), (b"be", true), (b"no", false)] {
            let maybe = prefix_lookup::may_exist(&**store.cf_filter(), prefix);
            assert_eq!(maybe, is_there, "{prefix:?} at {step:?}");
        }
    }
}

/// Those of keys that were written when nobody asked for them.
#[test]
fn prefixes_by_a_new_function_are_completed() {
    let giving = |prefixes: Vec<Prefix>| FrontOptions {
        prefixes: Arc::new(Prefixes::new(prefixes).unwrap()),
        ..options(false)
    };
    let store = Store::open_without_thread(Stored::new(), &giving(Vec::new()));
    store.look();
    write(&store, 0..300);
    store.flush();
    assert!(store.consolidate());
    let stored = store.close();
    let store = Store::open_without_thread(stored, &giving(vec![Prefix::fixed(3)]));
    let may_exist = |number| prefix_lookup::may_exist(&**store.cf_filter(), &key(number)[..3]);
    assert!(may_exist(1 << 10), "nothing is known of prefixes");
    (0..3).for_each(|_| store.look());
    assert!(may_exist(0) && may_exist(1 << 8) && !may_exist(1 << 10));
    let all = store.cf_filter().prefixes().all();
    assert_eq!(store.cf_filter().lookups().prefixes_of_segments(), all);
    // The filter is stored with them.
    let stored = store.close();
    let store = Store::open_without_thread(stored, &giving(vec![Prefix::fixed(3)]));
    assert!(!store.cf_filter().lookups().lacks_prefixes());
}

/// They may have outgrown the new summary filter, and no write may follow.
#[test]
fn writes_beside_a_consolidation_cause_another() {
    let store = open(false);
    write(&store, 0..100);
    let other = store.other_thread();
    let many = move || (1_000..100_000).for_each(|number| other.put(&key(number), b"value"));
    store.at(Step::AfterMemtables, many);
    assert!(store.consolidate());
    assert!(store.cf_filter().view().summary.stages() > 1);
    store.look();
    assert_eq!(store.cf_filter().view().summary.stages(), 1);
    assert_no_key_is_denied(&store, (0..100).chain(1_000..100_000));
}

/// A filter of other entries than the segment has is not taken, and the segment is read once more.
#[test]
fn segments_with_deletions_are_read_once_for_the_summary_and_their_filters() {
    let without = FrontOptions {
        segment_rate: None,
        ..options(false)
    };
    let store = Store::open_without_thread(Stored::new(), &without);
    write(&store, 0..100);
    store.flush();
    (0..50).for_each(|number| store.delete(&key(number)));
    store.flush();
    // No summary filter was stored.
    let (stored, _) = store.crash(1);
    let store = Store::open_without_thread(stored, &options(false));
    store.look();
    store.look();
    assert_eq!(store.scans(), 2);
    for segment in store.segments() {
        assert!(
            store
                .cf_filter()
                .intake()
                .segments()
                .open(segment)
                .filter()
                .is_some()
        );
    }
}

/// It flushed the memtables, which the engine would not have done.
#[test]
fn a_consolidation_makes_no_segment() {
    for is_static in [false, true] {
        let store = open(is_static);
        write(&store, 0..300);
        store.flush();
        write(&store, 300..500);
        let segments = store.segments();
        assert!(store.consolidate());
        assert_eq!(store.segments(), segments);
        let summary = store.cf_filter().view().summary;
        assert_eq!(summary.begins_static(), is_static);
        assert_eq!((summary.stages(), summary.items()), (1, Items::new(500)));
        assert_no_key_is_denied(&store, 0..500);
    }
}

/// A key that was deleted is in no summary filter that is built after it, once the older entry is gone.
#[test]
fn deletions_in_memtables_are_not_added() {
    let store = open(false);
    (0..300).for_each(|number| store.delete(&key(number)));
    write(&store, 300..400);
    assert!(store.consolidate());
    assert_eq!(store.cf_filter().view().summary.items(), Items::new(100));
    assert_no_key_is_denied(&store, 0..400);
}

/// Writes feed the old one alone again, and the next one has all keys.
#[test]
fn consolidation_that_cannot_read_a_memtable_or_a_segment_leaves_the_old_summary() {
    let failures: [fn(&Store); 3] = [
        |store| store.let_memtables_fail(),
        |store| store.set_next_scans([Scan::FailsAfter(10)]),
        |store| store.set_next_scans([Scan::PanicsAfter(10)]),
    ];
    for fail in failures {
        let store = open(false);
        write(&store, 0..300);
        store.flush();
        write(&store, 300..400);
        let before = store.cf_filter().view().summary;
        fail(&store);
        assert!(!store.consolidate());
        assert!(Arc::ptr_eq(&before, &store.cf_filter().view().summary));
        let fed = store.cf_filter().intake().summaries();
        assert!(fed.len() == 1 && Arc::ptr_eq(&fed[0], &before));
        write(&store, 400..500);
        assert_no_key_is_denied(&store, 0..500);
        assert!(store.consolidate());
        assert!(!Arc::ptr_eq(&before, &store.cf_filter().view().summary));
        assert_no_key_is_denied(&store, 0..500);
        assert!(denies_others(&store));
    }
}

/// Nothing need be written before it is tried again.
#[test]
fn consolidation_that_fails_ends_the_rest_after_the_last_one() {
    let store = open(false);
    write(&store, 0..100);
    assert!(store.consolidate());
    let coverage = store.cf_filter().coverage();
    let is_resting = || coverage.is_resting(coverage.write_position(store.sequence(), None));
    assert!(is_resting());
    store.let_memtables_fail();
    assert!(!store.consolidate() && !is_resting());
    assert!(store.consolidate() && is_resting());
}

/// Its keys are in no memtable and in no segment: those of a store whose memtables are not read, or of
/// a write that is not committed yet.
#[test]
fn writes_that_hold_their_keys_are_awaited() {
    let store = open(false);
    write(&store, 0..100);
    let cf_filter = Arc::clone(store.cf_filter());
    let hold = cf_filter.intake().hold();
    cf_filter.intake().add(&key(500));
    let other = store.other_thread();
    let committed = thread::spawn(move || {
        thread::sleep(Duration::from_millis(200));
        other.write_past_filters(&key(500), b"value");
        other.flush();
        drop(hold);
    });
    assert!(store.consolidate());
    committed.join().unwrap();
    assert_no_key_is_denied(&store, (0..100).chain([500]));
    // One that does not end is told, and the summary filter stays.
    let before = store.cf_filter().view().summary;
    let hold = cf_filter.intake().hold();
    let failure = store.consolidation_failure().unwrap();
    assert!(failure.contains("do not end"), "{failure}");
    assert!(Arc::ptr_eq(&before, &store.cf_filter().view().summary));
    drop(hold);
    assert!(store.consolidate());
}

const LIMIT: Duration = Duration::from_secs(20);

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Ingestions leave the latest sequence number unchanged.
#[test]
fn summary_of_many_ingestions_ends_in_one_stage() {
    const SEGMENTS: u32 = 12;
    let store = Store::open(
        Stored::new(),
        &FrontOptions {
            expected_keys: Some(Items::new(1_000)),
            ..super::default_options()
        },
    );
    let sequence = store.sequence();
    for number in 0..SEGMENTS {
        let keys = number * 1_000..(number + 1) * 1_000;
        let entries = keys.map(|number| (key(number).to_vec(), b"value".to_vec()));
        store.ingest(&entries.collect::<Vec<_>>());
        assert!(store.filters.wait_until_complete(LIMIT));
    }
    assert_eq!(store.sequence(), sequence);
    let summary = || store.cf_filter().view().summary;
    wait_until("one stage, of the right size", || {
        store.filters.wait_until_complete(LIMIT)
            && summary().stages() == 1
            && summary().items() > Items::new(11_000)
    });
    assert_no_key_is_denied(&store, 0..SEGMENTS * 1_000);
}

/// Otherwise all segments were listed twice a second for as long as nothing is written.
#[test]
fn idle_store_counts_as_consolidated() {
    let options = |is_static| FrontOptions {
        expected_keys: None,
        ..options(is_static)
    };
    let store = Store::open(Stored::new(), &options(true));
    write(&store, 0..5_000);
    store.flush();
    assert!(store.consolidate());
    let mut stored = store.close();
    for is_static in [false, true] {
        let store = Store::open(stored, &options(is_static));
        let cf_filter = store.cf_filter();
        let now = cf_filter.coverage().write_position(store.sequence(), None);
        wait_until("at rest", || cf_filter.coverage().is_resting(now));
        assert_eq!(cf_filter.view().summary.begins_static(), is_static);
        assert!(!store.rules_out(&key(7)));
        stored = store.close();
    }
}

/// No task is left then, and none failed: a new column family of this name must not wait.
#[test]
fn column_family_that_is_dropped_meanwhile_is_no_failure() {
    let drop_at: [(&str, &[Step]); 5] = [
        (
            "before writes feed both filters",
            &[Step::Listing, Step::Listing],
        ),
        ("before the memtables are read", &[Step::BeforeMemtables]),
        ("after the memtables were read", &[Step::AfterMemtables]),
        ("after a segment was read", &[Step::AfterSegment]),
        ("after a segment was covered", &[Step::AfterSegment]),
    ];
    for (when, steps) in drop_at {
        let store = open(false);
        write(&store, 0..300);
        store.flush();
        store.look();
        write(&store, 300..400);
        let is_covering = when == "after a segment was covered";
        if is_covering {
            store.ingest(&[(b"ingested".to_vec(), b"value".to_vec())]);
        }
        let (last, before) = steps.split_last().unwrap();
        before.iter().for_each(|&step| store.at(step, || ()));
        let dropped = Arc::clone(store.cf_filter());
        store.at(*last, move || dropped.retire());
        let wakeup = &store.filters.wakeup;
        let ticket = wakeup.request(|requests| requests.consolidate = !is_covering);
        store.turn();
        let done = wakeup.wait_for(ticket, Duration::ZERO);
        assert!(done.is_ok(), "{when}: {done:?}");
        assert!(store.cf_filter().coverage().is_disabled(), "{when}");
        assert!(!denies_others(&store), "{when}");
    }
}

/// A caller learns that the filters it waited for will never deny a key.
#[test]
fn consolidation_during_which_a_hook_fails_is_no_success() {
    let store = open(false);
    write(&store, 0..300);
    let failing = Arc::clone(store.cf_filter());
    store.at(Step::AfterMemtables, move || failing.disable());
    assert!(!store.consolidate());
}

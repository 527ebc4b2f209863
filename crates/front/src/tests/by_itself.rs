//! What maintenance does by itself, and what it does not do again.
//!
//! *Wakes.* Nothing here waits for maintenance: such a call wakes it, and would hide a forgotten
//! wake. A state is polled, until it is there, while nothing else goes on.
//!
//! *Work.* What maintenance does again is counted: views that are published, files that are written,
//! segments that are read, listings. On a quiet store the counts stay as they are, run after run,
//! and after a restart.
//!
//! *Memory.* What is gone is held by nobody: a `Weak` of it has nothing left.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::memory_lsm::{FOLDER, Scan, Store, Stored};
use crate::disk::Disk as _;
use crate::math::{Bits, Items};
use crate::options::{FilterSize, FrontOptions};
use crate::prefix::{Prefix, Prefixes};
use crate::segment::{SealedFilter, SegmentId, SidecarName};

const LIMIT: Duration = Duration::from_secs(30);

/// Longer than maintenance waits before it takes writers for quiet.
const PAUSE: Duration = Duration::from_millis(600);

/// Polls until the condition holds. Nothing wakes maintenance.
#[track_caller]
fn by_itself(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "never by itself: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Lets maintenance run for as long as it is woken, on this thread: a wake of another one hides
/// nothing.
fn turn_while_woken(store: &Store) {
    loop {
        let runs = store.filters.wakeup.runs();
        store.turn();
        if store.filters.wakeup.runs() == runs {
            return;
        }
    }
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn write(store: &Store, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.put(&key(number), b"value"));
}

fn entries(numbers: std::ops::Range<u32>) -> Vec<(Vec<u8>, Vec<u8>)> {
    numbers
        .map(|number| (key(number).to_vec(), b"value".to_vec()))
        .collect()
}

/// Filters with room for all keys of a test, so that none is consolidated.
fn roomy() -> FrontOptions {
    FrontOptions {
        expected_keys: Some(Items::new(20_000)),
        ..FrontOptions::default()
    }
}

fn open(options: &FrontOptions) -> Store {
    let store = Store::open(Stored::new(), options);
    by_itself("a new store is covered", || store.is_complete());
    store
}

/// Writes segments of 1,000 keys each.
fn write_segments(store: &Store, segments: u32) {
    for segment in 0..segments {
        write(store, segment * 1_000..(segment + 1) * 1_000);
        store.flush();
    }
}

fn sealed(store: &Store) -> Vec<Arc<SealedFilter>> {
    let segments = store.segments().into_iter();
    let filters = segments.filter_map(|id| store.filters.registry.get(id)?.filter());
    filters.collect()
}

fn downgraded<T>(all: &[Arc<T>]) -> Vec<Weak<T>> {
    all.iter().map(Arc::downgrade).collect()
}

fn held<T>(all: &[Weak<T>]) -> usize {
    all.iter().filter(|weak| weak.strong_count() > 0).count()
}

/// Memory of the summary filter and of the segment filters.
fn taken(store: &Store) -> u64 {
    let summary = store.cf_filter().view().summary.size().get();
    summary + store.filters.registry.size().get()
}

fn rules_out(store: &Store) -> bool {
    let absent = 1 << 24..(1 << 24) + 1_000;
    absent.filter(|&n| store.rules_out(&key(n))).count() > 900
}

fn prefetches_all(store: &Store) -> bool {
    store.cf_filter().lookups().prefetches(&sealed(store))
}

#[track_caller]
fn assert_no_key_is_denied(store: &Store, numbers: std::ops::Range<u32>) {
    let denied = |&number: &u32| store.rules_out(&key(number));
    assert_eq!(numbers.filter(denied).count(), 0);
}

/// Whether all segments have filters, which lookups prefetch.
fn is_settled(store: &Store) -> bool {
    sealed(store).len() == store.segments().len() && prefetches_all(store)
}

/// A budget for this much of summary and segment filters, of a settled store.
fn budget_for(store: &Store, filters: u64) -> Option<Bits> {
    Some(Bits::new(filters) + store.filters.cf_filters.overhead())
}

// ------------------------------------------------------------------ wakes

/// The views keep dropped filters until another run has collected them again.
#[test]
fn filters_over_a_lowered_budget_are_freed_and_come_back_when_it_is_raised() {
    let store = open(&roomy());
    write_segments(&store, 6);
    by_itself("all have filters", || is_settled(&store));
    let filters = downgraded(&sealed(&store));
    let summary = store.cf_filter().view().summary.size().get();
    let budget = budget_for(&store, summary + summary / 20);
    store.filters.set_memory_budget(budget.map(Bits::to_bytes));
    by_itself("what exceeds the budget is freed", || {
        let kept = sealed(&store).len();
        kept < 6 && held(&filters) == kept
    });
    assert_no_key_is_denied(&store, 0..6_000);
    store.filters.set_memory_budget(None);
    by_itself("all have filters again", || {
        sealed(&store).len() == 6 && prefetches_all(&store)
    });
    assert_no_key_is_denied(&store, 0..6_000);
}

/// It leaves room for segment filters that had none. They stayed out until something else woke
/// maintenance.
#[test]
fn segment_filters_come_when_the_budget_drops_the_summary() {
    // So large that it does not fit at any rate.
    let store = open(&FrontOptions {
        expected_keys: Some(Items::new(200_000)),
        ..FrontOptions::default()
    });
    write_segments(&store, 6);
    by_itself("all have filters", || is_settled(&store));
    let summary = Arc::downgrade(&store.cf_filter().view().summary);
    let size = store.cf_filter().view().summary.size().get();
    let one = sealed(&store)[0].chain.size().get();
    let budget = budget_for(&store, size + 2 * one).map(Bits::to_bytes);
    store.filters.set_memory_budget(budget);
    by_itself("some are dropped", || sealed(&store).len() == 2);
    // Those that are left do not exceed this one.
    assert!(size > 50 * one);
    let budget = budget_for(&store, 20 * one).map(Bits::to_bytes);
    store.filters.set_memory_budget(budget);
    by_itself("the summary filter is freed", || {
        summary.strong_count() == 0
    });
    by_itself("all have filters again", || sealed(&store).len() == 6);
    assert_no_key_is_denied(&store, 0..6_000);
    store.filters.set_memory_budget(None);
    by_itself("there is a summary filter again", || {
        !store.cf_filter().view().summary.is_saturated() && rules_out(&store)
    });
    assert_no_key_is_denied(&store, 0..6_000);
}

/// A summary filter without room is not rebuilt, but dropped, which makes room for others.
#[test]
fn segment_filters_come_when_a_consolidation_drops_the_summary() {
    let options = |budget: Option<Bits>| FrontOptions {
        expected_keys: Some(Items::new(5_000)),
        memory_budget: budget.into(),
        ..FrontOptions::default()
    };
    let store = Store::open_without_thread(Stored::new(), &options(None));
    let first = store.cf_filter().view().summary.size();
    let budget = budget_for(&store, first.get() + (1 << 14));
    let store = Store::open_without_thread(Stored::new(), &options(budget));
    store.look();
    write_segments(&store, 24);
    (0..4).for_each(|_| store.look());
    let before = sealed(&store).len();
    let summary = store.cf_filter().view().summary;
    assert!(summary.is_saturated() && summary.size() == first);
    assert!(store.consolidate());
    turn_while_woken(&store);
    let after = sealed(&store).len();
    assert!(after > before, "{after} segment filters, {before} before");
    assert_no_key_is_denied(&store, 0..24_000);
}

/// Without a budget there is room, also while the writers are busy. It waited for a pause.
#[test]
fn summary_comes_back_when_there_is_no_budget_any_more() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 2);
    store.filters.set_memory_budget(Some(0));
    let is_saturated = || store.cf_filter().view().summary.is_saturated();
    (0..3).for_each(|_| store.look());
    assert!(is_saturated());
    store.filters.set_memory_budget(None);
    write(&store, 5_000..5_001);
    store.turn();
    assert!(!is_saturated() && rules_out(&store));
    assert_no_key_is_denied(&store, 0..2_000);
}

#[test]
fn budget_without_room_for_a_rebuilt_summary_leaves_it_to_the_segment_filters() {
    let store = open(&FrontOptions {
        expected_keys: Some(Items::new(50)),
        ..FrontOptions::default()
    });
    let overhead = store.filters.cf_filters.overhead().to_bytes();
    store.filters.set_memory_budget(Some((4 << 10) + overhead));
    write_segments(&store, 4);
    by_itself("it keeps to the budget", || {
        taken(&store) <= 4 << 13 && store.is_complete()
    });
    assert_no_key_is_denied(&store, 0..4_000);
    store.filters.set_memory_budget(None);
    by_itself("all have filters", || {
        is_settled(&store) && rules_out(&store)
    });
}

/// What is read may be compacted away meanwhile. Its successor must be listed, and nobody says so.
#[test]
fn successor_of_a_segment_that_went_while_it_was_read_is_covered() {
    for replaced in 1..=3 {
        let store = Store::open_without_thread(Stored::new(), &roomy());
        store.look();
        write(&store, 0..3_000);
        store.flush();
        turn_while_woken(&store);
        store.set_next_scans([Scan::FindsItReplaced; 3].into_iter().take(replaced));
        store.ingest(&entries(5_000..5_100));
        turn_while_woken(&store);
        assert!(store.is_complete() && sealed(&store).len() == 2);
        assert!(rules_out(&store));
        assert_no_key_is_denied(&store, 5_000..5_100);
    }
}

/// A static summary filter is built from what was read before.
#[test]
fn segment_that_comes_beside_a_static_stage_is_read_too() {
    let options = FrontOptions {
        build_memory: Some(Bits::new(400 * u64::from(u64::BITS))),
        ..FrontOptions::default().at_rest()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    store.look();
    write_segments(&store, 3);
    turn_while_woken(&store);
    store.ingest_after_next_scan(entries(5_000..5_100));
    let before = store.scans();
    assert!(store.consolidate());
    assert!(
        store.scans() < before + 8 * 3,
        "no segment is read for each part"
    );
    assert!(store.is_complete() && rules_out(&store));
    assert_no_key_is_denied(&store, 0..3_000);
    assert_no_key_is_denied(&store, 5_000..5_100);
}

#[test]
fn successor_of_a_segment_that_went_while_its_filter_was_built_has_one() {
    let store = open(&roomy());
    write_segments(&store, 2);
    by_itself("all have filters", || sealed(&store).len() == 2);
    store.set_next_scans([Scan::FindsItReplaced]);
    let id = store.segments()[0];
    let segment = store.filters.registry.get(id).unwrap();
    let rate = FilterSize::rate(0.001).unwrap();
    store.filters.set_filter_size(rate);
    by_itself("the successor has one", || {
        !store.segments().contains(&id) && sealed(&store).len() == 2
    });
    drop(segment);
    assert_no_key_is_denied(&store, 0..2_000);
}

/// No run finds a consolidation due beside a segment that cannot be read. The scrub asks for one.
#[test]
fn damaged_summary_comes_back_beside_a_segment_that_cannot_be_read() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 2);
    turn_while_woken(&store);
    store.ingest(&entries(5_000..5_100));
    store.set_unreadable(store.segments()[0]);
    turn_while_woken(&store);
    assert!(!store.is_complete() && rules_out(&store));
    let scrub = || {
        // It fails, because of the segment.
        assert!(store.filters.scrub().is_err());
        store.filters.scrubbed().damaged
    };
    assert_eq!(scrub(), 0, "the look to compare with");
    store.cf_filter().view().summary.clear_one_bit();
    assert_eq!(scrub(), 1);
    assert!(store.cf_filter().view().summary.is_saturated());
    turn_while_woken(&store);
    assert!(!store.cf_filter().view().summary.is_saturated() && rules_out(&store));
    assert_no_key_is_denied(&store, 0..2_000);
    assert_no_key_is_denied(&store, 5_000..5_100);
}

/// A file goes in the second run that finds it without a segment, and nothing else causes one.
#[test]
fn files_of_segments_that_are_gone_are_removed() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 4);
    turn_while_woken(&store);
    assert_eq!(store.filters.filter_store.list().len(), 4);
    store.compact();
    let runs = store.filters.wakeup.runs();
    turn_while_woken(&store);
    assert_eq!(store.filters.filter_store.list(), store.segments());
    assert_eq!(store.filters.wakeup.runs(), runs + 2);
}

/// Its removal is tried in each run, and causes none.
#[test]
fn file_that_cannot_be_removed_wakes_nobody() {
    let stored = Stored::new();
    let disk = stored.disk.clone();
    let store = Store::open_without_thread(stored, &roomy());
    store.look();
    // A folder is no file.
    let name = SidecarName::Segment(SegmentId::from_bytes([9; 16]));
    disk.create_folder(&Path::new(FOLDER).join(name.to_string()))
        .unwrap();
    (0..4).for_each(|_| store.look());
    store.turn();
    let runs = store.filters.wakeup.runs();
    (0..8).for_each(|_| store.turn());
    assert_eq!(store.filters.wakeup.runs(), runs);
}

/// A read that fails twice is tried again after the backoff, and again.
#[test]
fn failed_reads_are_tried_again() {
    for failure in [Scan::FailsAfter(10), Scan::PanicsAfter(10)] {
        let store = open(&roomy());
        write(&store, 0..3_000);
        store.flush();
        store.set_next_scans([failure; 2]);
        store.ingest(&entries(5_000..5_100));
        by_itself("it is covered, and has a filter", || {
            store.is_complete() && sealed(&store).len() == 2
        });
        assert!(rules_out(&store));
        assert_no_key_is_denied(&store, 5_000..5_100);
    }
}

/// A run that panicked before it came to the summary filter took the request with it, and the filter
/// kept its size until the next write.
#[test]
fn failed_consolidations_are_tried_again() {
    for failure in [Scan::FailsAfter(10), Scan::PanicsAfter(10)] {
        let store = open(&FrontOptions {
            expected_keys: Some(Items::new(50)),
            ..FrontOptions::default()
        });
        write_segments(&store, 2);
        by_itself("it is of the right size", || {
            is_settled(&store) && store.cf_filter().view().summary.stages() == 1
        });
        store.set_next_scans([failure; 2]);
        let size = FilterSize::rate(0.000_1).unwrap();
        store.filters.set_filter_size(size);
        by_itself("it has the new rate", || {
            store.cf_filter().view().summary.options().rate == size.summary_rates(true).growing
        });
        assert_no_key_is_denied(&store, 0..2_000);
    }
}

#[test]
fn ingested_segments_are_covered() {
    let store = open(&roomy());
    write(&store, 0..1_000);
    store.ingest(&entries(5_000..5_100));
    by_itself("it is covered", || {
        store.is_complete() && sealed(&store).len() == 1 && prefetches_all(&store)
    });
    assert_no_key_is_denied(&store, 5_000..5_100);
}

#[test]
fn all_filters_have_a_new_size() {
    let store = open(&roomy());
    write_segments(&store, 3);
    by_itself("all have filters", || sealed(&store).len() == 3);
    let size = FilterSize::rate(0.000_01).unwrap();
    store.filters.set_filter_size(size);
    let segment_rate = size.segment_part(true).segment_rate();
    by_itself("they have it", || {
        let filters = sealed(&store);
        let summary = store.cf_filter().view().summary;
        filters.len() == 3
            && filters.iter().all(|filter| filter.rate == segment_rate)
            && summary.options().rate == size.summary_rates(true).growing
    });
}

#[test]
fn new_size_brings_no_segment_filters_where_there_are_none() {
    let options = FrontOptions {
        segment_rate: None,
        ..roomy()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    write_segments(&store, 2);
    turn_while_woken(&store);
    store
        .filters
        .set_filter_size(FilterSize::rate(0.000_1).unwrap());
    turn_while_woken(&store);
    write(&store, 2_000..3_000);
    store.flush();
    store.look();
    assert_eq!(store.cf_filter().intake().segments().rate(), None);
    assert_eq!(sealed(&store).len(), 0);
}

/// Otherwise each open would find the old ones, and build them again.
#[test]
fn filters_of_a_new_size_are_stored() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    write_segments(&store, 2);
    turn_while_woken(&store);
    let size = FilterSize::rate(0.000_1).unwrap();
    store.filters.set_filter_size(size);
    turn_while_woken(&store);
    let rate = size.segment_part(true).segment_rate();
    for id in store.segments() {
        let stored = store.filters.filter_store.load(id).unwrap();
        assert_eq!(stored.rate, rate);
    }
}

/// Also after a crash that lost the filters of all segments.
#[test]
fn segments_of_an_earlier_run_are_covered() {
    let store = open(&roomy());
    write_segments(&store, 3);
    let mut stored = store.close();
    for is_lost in [false, true] {
        if is_lost {
            stored.disk = crate::disk::MemoryDisk::new();
        }
        let store = Store::open(stored, &roomy());
        by_itself("they are covered, and have filters", || {
            store.is_complete() && sealed(&store).len() == 3 && prefetches_all(&store)
        });
        assert!(rules_out(&store));
        assert_no_key_is_denied(&store, 0..3_000);
        stored = store.close();
    }
}

// ------------------------------------------------------------------ work

/// What maintenance has done so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Work {
    views: u64,
    written: u64,
    scans: u64,
}

fn work(store: &Store) -> Work {
    Work {
        views: store.cf_filter().view().edition,
        written: store.writes(),
        scans: store.scans(),
    }
}

/// The settings that change what maintenance does.
fn settings() -> Vec<FrontOptions> {
    let with = |change: fn(&mut FrontOptions)| {
        let mut options = roomy();
        change(&mut options);
        options
    };
    let rate = FilterSize::bits_per_key(9.3).unwrap();
    vec![
        roomy(),
        with(|options| options.expected_keys = Some(Items::new(50))),
        with(|options| options.expected_keys = None),
        roomy().at_rest(),
        with(|options| options.segment_rate = None),
        with(|options| options.memory_budget = Some(Bits::from_bytes(4 << 20)).into()),
        with(|options| options.prefixes = Arc::new(Prefixes::new([Prefix::fixed(2)]).unwrap())),
        FrontOptions {
            summary: rate.summary_rates(true),
            segment_rate: Some(rate.segment_rate()),
            ..roomy()
        },
        FrontOptions {
            summary: rate.summary_rates(false),
            segment_rate: Some(rate.segment_rate()),
            ..roomy()
        },
    ]
}

/// Lets maintenance do all that is left to do on a store that nobody writes to.
fn come_to_rest(store: &Store) {
    for _ in 0..2 {
        (0..4).for_each(|_| store.look());
        thread::sleep(PAUSE);
    }
    (0..4).for_each(|_| store.look());
}

/// Runs maintenance ten times, and counts.
#[track_caller]
fn assert_at_rest(store: &Store, setting: usize) {
    const RUNS: u64 = 10;
    let (before, listings) = (work(store), store.listings());
    (0..RUNS).for_each(|_| store.look());
    assert_eq!(work(store), before, "setting {setting}");
    // To maintain the filters, and to collect those of the segments.
    let listed = store.listings() - listings;
    assert_eq!(listed, 2 * RUNS, "setting {setting}: listings");
    let (runs, listings) = (store.filters.wakeup.runs(), store.listings());
    store.turn();
    thread::sleep(PAUSE);
    store.turn();
    assert_eq!(store.filters.wakeup.runs(), runs, "setting {setting}");
    assert_eq!(store.listings(), listings, "setting {setting}");
}

/// Runs a test with each of the settings, at the same time: most of it is pauses.
fn with_each_setting(test: impl Fn(usize, &FrontOptions) + Sync) {
    let settings = settings();
    thread::scope(|scope| {
        for (setting, options) in settings.iter().enumerate() {
            let test = &test;
            scope.spawn(move || test(setting, options));
        }
    });
}

#[test]
fn maintenance_of_a_quiet_store_does_nothing_again() {
    with_each_setting(|setting, options| {
        let store = Store::open_without_thread(Stored::new(), options);
        store.look();
        write_segments(&store, 3);
        store.compact();
        write(&store, 5_000..6_000);
        store.flush();
        store.ingest(&entries(7_000..7_100));
        come_to_rest(&store);
        assert!(store.is_complete());
        assert_at_rest(&store, setting);
        // Beside a memtable with keys as well, and one that is older than the segments.
        write(&store, 8_000..8_100);
        come_to_rest(&store);
        assert_at_rest(&store, setting);
        write(&store, 8_100..8_200);
        store.compact();
        come_to_rest(&store);
        assert_at_rest(&store, setting);
        store.flush();
        come_to_rest(&store);
        assert_at_rest(&store, setting);
    });
}

/// One that has no room at any rate is not built again and again.
#[test]
fn maintenance_of_a_quiet_store_without_room_for_a_summary_does_nothing_again() {
    let store = Store::open_without_thread(
        Stored::new(),
        &FrontOptions {
            expected_keys: Some(Items::new(200_000)),
            memory_budget: Some(Bits::from_bytes(64 << 10)).into(),
            ..FrontOptions::default()
        },
    );
    store.look();
    write_segments(&store, 3);
    come_to_rest(&store);
    assert!(store.is_complete() && store.cf_filter().view().summary.is_saturated());
    assert_at_rest(&store, 0);
}

/// Filters are loaded: none is built, none is stored.
#[test]
fn open_and_close_of_a_quiet_store_read_and_write_nothing_again() {
    with_each_setting(|setting, options| {
        let store = Store::open_without_thread(Stored::new(), options);
        store.look();
        write_segments(&store, 3);
        store.ingest(&entries(7_000..7_100));
        come_to_rest(&store);
        let mut stored = store.close();
        for open in 0..3 {
            let store = Store::open_without_thread(stored, options);
            let written = store.writes();
            come_to_rest(&store);
            assert!(store.is_complete());
            let filters = if options.segment_rate.is_some() { 4 } else { 0 };
            assert_eq!(sealed(&store).len(), filters, "setting {setting}");
            assert_eq!(store.scans(), 0, "setting {setting}, open {open}: scans");
            assert_at_rest(&store, setting);
            assert_no_key_is_denied(&store, 0..3_000);
            let writes = store.write_counter();
            stored = store.close();
            assert_eq!(writes(), written, "setting {setting}, open {open}: writes");
        }
    });
}

#[test]
fn filters_of_the_last_flush_are_stored_at_the_close() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 3);
    turn_while_woken(&store);
    write(&store, 5_000..6_000);
    let store = Store::open_without_thread(store.close(), &roomy());
    store.look();
    assert!(store.is_complete() && sealed(&store).len() == 4);
    assert_eq!(store.scans(), 0);
    assert_no_key_is_denied(&store, 5_000..6_000);
}

/// Its keys go into the summary filter and into its own one at once.
#[test]
fn each_segment_is_read_once() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 4);
    store.look();
    assert_eq!(store.scans(), 0, "flushes give their keys");
    for nth in 0..5 {
        store.ingest(&entries(5_000 + nth..5_001 + nth));
        (0..3).for_each(|_| store.look());
        assert_eq!(store.scans(), u64::from(nth) + 1, "the ingested one");
    }
    let segments = store.segments().len();
    let mut stored = store.close();
    stored.disk = crate::disk::MemoryDisk::new();
    let store = Store::open_without_thread(stored, &roomy());
    (0..5).for_each(|_| store.look());
    assert!(store.is_complete() && sealed(&store).len() == segments);
    assert_eq!(store.scans(), segments as u64, "all filters were lost");
}

/// A large summary filter is not written for a few keys.
/// All would be read for it, again and again.
#[test]
fn segment_that_cannot_be_read_is_tried_again_alone() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    write_segments(&store, 3);
    turn_while_woken(&store);
    store.ingest(&entries(5_000..15_000));
    store.set_unreadable(store.segments()[0]);
    (0..2).for_each(|_| store.settle());
    for _ in 0..3 {
        let before = store.scans();
        store.settle();
        assert_eq!(store.scans() - before, 1);
    }
    assert!(!store.is_complete());
}

#[test]
fn small_ingestions_do_not_store_the_summary_again() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    store.look();
    write_segments(&store, 4);
    store.ingest(&entries(5_000..6_000));
    come_to_rest(&store);
    for nth in 0..5 {
        let written = store.writes();
        store.ingest(&entries(6_000 + nth..6_001 + nth));
        (0..3).for_each(|_| store.look());
        // The segment filter: a file is created and renamed.
        assert_eq!(store.writes() - written, 2);
    }
    assert_no_key_is_denied(&store, 5_000..6_005);
}

/// It would be read as soon as its flush has ended.
#[test]
fn filter_of_a_segment_that_is_being_written_is_kept_for_it() {
    // So long that the filter is stored, and dropped from memory.
    for runs in [1, 4, 30] {
        let store = Store::open_without_thread(Stored::new(), &roomy());
        store.look();
        write_segments(&store, 2);
        store.look();
        write(&store, 5_000..6_000);
        let id = store.begin_flush();
        (0..runs).for_each(|_| store.look());
        store.end_flush();
        store.look();
        assert!(store.segments().contains(&id));
        assert_eq!(sealed(&store).len(), 3, "{runs} runs");
        assert_eq!(store.scans(), 0, "{runs} runs");
        assert_no_key_is_denied(&store, 5_000..6_000);
    }
}

// ------------------------------------------------------------------ memory

#[test]
fn summary_that_was_replaced_is_freed() {
    let store = open(&roomy());
    write(&store, 0..1_000);
    let before = Arc::downgrade(&store.cf_filter().view().summary);
    store
        .filters
        .set_filter_size(FilterSize::rate(0.000_1).unwrap());
    by_itself("it is freed", || before.strong_count() == 0);
    assert_no_key_is_denied(&store, 0..1_000);
}

#[test]
fn filters_of_segments_that_are_gone_are_freed() {
    let store = open(&roomy());
    write_segments(&store, 4);
    by_itself("all have filters", || {
        sealed(&store).len() == 4 && prefetches_all(&store)
    });
    let segments = store.segments().into_iter();
    let segments = segments.filter_map(|id| store.filters.registry.get(id));
    let (segments, filters) = (
        downgraded(&segments.collect::<Vec<_>>()),
        downgraded(&sealed(&store)),
    );
    store.compact();
    by_itself("they are freed", || {
        held(&segments) == 0 && held(&filters) == 0
    });
    by_itself("one file is left", || {
        store.filters.filter_store.list() == store.segments()
    });
    assert_no_key_is_denied(&store, 0..4_000);
}

/// The rest of the run failed, and what is prefetched was not listed anew.
#[test]
fn segment_filters_that_were_replaced_are_freed_although_a_consolidation_fails() {
    let store = Store::open_without_thread(Stored::new(), &roomy());
    write_segments(&store, 2);
    turn_while_woken(&store);
    let before = sealed(&store);
    assert!(before.len() == 2 && prefetches_all(&store));
    let before = downgraded(&{ before });
    // The segment filters are built anew, and then the summary filter cannot be.
    store.set_next_scans([Scan::Whole, Scan::Whole, Scan::FailsAfter(10)]);
    let size = FilterSize::rate(0.000_1).unwrap();
    store.filters.set_filter_size(size);
    assert!(!store.consolidate());
    let rate = size.segment_part(true).segment_rate();
    assert!(sealed(&store).iter().all(|filter| filter.rate == rate));
    assert_eq!(held(&before), 0);
    assert!(prefetches_all(&store));
}

/// The engine holds the filters of a dropped family until the last handle of it is gone, and its
/// memtables go on feeding them. The summary filter was freed at the close only.
#[test]
fn summary_of_a_dropped_family_is_freed_while_the_engine_holds_it() {
    let store = open(&roomy());
    let opening = store.filters.opening();
    let cf_filter = opening.cf_filter("second", &roomy(), Bits::new(0));
    cf_filter.key_space().memtable_created(1);
    store.filters.insert(1, Arc::clone(&cf_filter));
    store.filters.wakeup.notify();
    by_itself("it is known", || cf_filter.is_complete());
    cf_filter.intake().add(b"key");
    let summary = Arc::downgrade(&cf_filter.view().summary);
    store.filters.cf_filters.remove(&cf_filter);
    assert_eq!(summary.strong_count(), 0);
    cf_filter.intake().add(b"another key");
    let cf_filter = Arc::downgrade(&{ cf_filter });
    by_itself("nobody but the engine held it", || {
        cf_filter.strong_count() == 0
    });
}

#[test]
fn closed_store_holds_no_filter() {
    let store = open(&roomy());
    write_segments(&store, 2);
    write(&store, 5_000..5_100);
    by_itself("all have filters", || {
        sealed(&store).len() == 2 && prefetches_all(&store)
    });
    let cf_filter = Arc::downgrade(store.cf_filter());
    let summary = Arc::downgrade(&store.cf_filter().view().summary);
    let tables = downgraded(&sealed(&store));
    let registry = Arc::downgrade(&store.filters.registry);
    drop(store.close());
    assert_eq!(held(&tables), 0);
    let others = [
        summary.strong_count(),
        cf_filter.strong_count(),
        registry.strong_count(),
    ];
    assert_eq!(others, [0; 3]);
}

//! Filters that change in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory_lsm::{Store, Stored};
use crate::maintenance::scrub::{BYTES_A_SECOND, Scrubber};
use crate::options::FrontOptions;
use crate::segment::{SealedFilter, Segment};

const KEYS: u32 = 2_000;

const PATIENCE: Duration = Duration::from_secs(60);

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

/// A store with one segment, whose maintenance has nothing left to do.
fn open() -> Store {
    open_with(super::default_options())
}

fn open_scrubbed_every(interval: Option<Duration>) -> Store {
    open_with(FrontOptions {
        scrub_every: interval,
        ..super::default_options()
    })
}

fn open_with(options: FrontOptions) -> Store {
    let store = Store::open(Stored::new(), &options);
    fill(&store);
    settle(&store);
    store
}

fn fill(store: &Store) {
    (0..KEYS).for_each(|i| store.put(&key(i), b"value"));
    store.flush();
}

fn settle(store: &Store) {
    store.settle();
    assert!(store.filters.wait_until_complete(PATIENCE));
    store.settle();
}

/// Every key is found, no filter denies one, nearly all absent keys are denied, and no stored filter
/// is damaged.
fn assert_whole(store: &Store) {
    for i in 0..KEYS {
        assert!(store.get(&key(i)).is_some());
    }
    let absent = (KEYS..2 * KEYS).filter(|&i| store.rules_out(&key(i)));
    assert!(absent.count() > 1_900);
    assert_eq!(store.denied_keys(), 0);
    let filter_store = &store.filters.filter_store;
    for id in filter_store.list() {
        assert!(filter_store.load_checked(id).is_ok());
    }
    assert!(filter_store.check_summary(store.cf_filter().name()).is_ok());
}

fn segment_of(store: &Store) -> Arc<Segment> {
    let id = store.segments()[0];
    store.filters.registry.get(id).unwrap()
}

fn filter_of(store: &Store) -> Arc<SealedFilter> {
    segment_of(store).filter().unwrap()
}

#[test]
fn intact_filters_stay() {
    let store = open();
    let filter = filter_of(&store);
    for _ in 0..3 {
        let found = store.filters.scrub().unwrap();
        assert_eq!(found.damaged, 0);
        assert!(found.filters >= 2, "a segment and a summary");
        assert!(found.bytes > u64::from(KEYS));
    }
    assert!(Arc::ptr_eq(&filter, &filter_of(&store)));
    assert_whole(&store);
}

#[test]
fn segment_filter_that_lost_a_bit_is_noticed_and_rebuilt() {
    let store = open();
    filter_of(&store).chain.stages()[0].clear_one_bit();
    assert_ne!(store.denied_keys(), 0);
    assert_eq!(store.filters.scrub().unwrap().damaged, 1);
    settle(&store);
    assert!(filter_of(&store).is_intact());
    assert_whole(&store);
    assert_eq!(store.filters.scrub().unwrap().damaged, 0);
    assert_eq!(store.filters.scrubbed().damaged, 1);
}

#[test]
fn summary_that_lost_a_bit_is_noticed_and_rebuilt() {
    let store = open();
    let scrub = || store.filters.scrub().unwrap().damaged;
    assert_eq!(scrub(), 0, "the look to compare with");
    store.cf_filter().view().summary.clear_one_bit();
    assert_ne!(store.denied_keys(), 0);
    assert_eq!(scrub(), 1);
    for i in 0..KEYS {
        assert!(!store.rules_out(&key(i)), "{i}");
    }
    assert!(store.consolidate());
    settle(&store);
    assert_whole(&store);
    assert_eq!(scrub(), 0);
}

/// A checksum matches whatever it is computed from, damage included.
#[test]
fn segment_filter_that_lost_a_bit_is_not_stored() {
    let store = open();
    let (filter, id) = (filter_of(&store), store.segments()[0]);
    let filter_store = &store.filters.filter_store;
    assert!(filter_store.save(id, &filter));
    filter.chain.stages()[0].clear_one_bit();
    assert!(!filter_store.save(id, &filter));
    let stored = filter_store.load(id).unwrap();
    assert!(stored.is_intact() && stored.chain.checksum() != filter.chain.checksum());
}

/// The last scrub of a summary filter is the one before it is stored.
#[test]
fn summary_that_lost_a_bit_is_not_stored_at_the_close() {
    let store = Store::open_without_thread(Stored::new(), &super::default_options());
    fill(&store);
    store.look();
    // After a write, maintenance does not take the writers for quiet, which would store the filter.
    store.put(&key(KEYS), b"value");
    let found = store.filters.scrub().unwrap();
    assert_eq!(found.damaged, 0, "the look to compare with");
    store.cf_filter().view().summary.clear_one_bit();
    assert!(store.is_complete() && !store.cf_filter().is_saved());
    let stored = store.close();
    // Read-only: it takes what is stored as it is.
    let options = FrontOptions {
        read_only_filters: true,
        ..super::default_options()
    };
    let store = Store::open(stored, &options);
    store.settle();
    assert_eq!(store.denied_keys(), 0);
}

/// At once, not only after maintenance has rebuilt it.
#[test]
fn damaged_filter_answers_maybe_after_the_scrub() {
    let store = open();
    let segment = segment_of(&store);
    let rules_out = |i: u32| !segment.may_contain(&key(i), None);
    assert!((KEYS..2 * KEYS).any(rules_out));
    filter_of(&store).chain.stages()[0].clear_one_bit();
    // Maintenance is not notified.
    let cf_filters = Arc::clone(&store.filters.cf_filters);
    let registry = Arc::clone(&store.filters.registry);
    Scrubber::new(cf_filters, registry, Arc::default(), Arc::default(), None).scrub_all();
    assert!(!(0..2 * KEYS).any(rules_out));
}

#[test]
fn scrubs_that_are_due_begin_without_a_call() {
    let store = open_scrubbed_every(Some(Duration::from_millis(1)));
    filter_of(&store).chain.stages()[0].clear_one_bit();
    let began = Instant::now();
    while store.filters.scrubbed().damaged == 0 {
        assert!(began.elapsed() < PATIENCE, "no round came");
        store.settle();
    }
    settle(&store);
    assert_whole(&store);
}

/// No call waits for the scrub, and the writers do not pause, which would also replace the summary
/// filter.
#[test]
fn damaged_filters_are_rebuilt_without_a_call() {
    let store = open_scrubbed_every(Some(Duration::from_millis(1)));
    let becomes = |what: &str, is_so: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE / 2, "never: {what}");
            store.put(&key(0), b"value");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let segment = segment_of(&store);
    filter_of(&store).chain.stages()[0].clear_one_bit();
    becomes("the segment has a filter that is intact", &|| {
        segment.filter().is_some_and(|filter| filter.is_intact())
    });
    let read = store.filters.scrubbed().filters;
    becomes("the summary was read", &|| {
        store.filters.scrubbed().filters > read + 6
    });
    let cf_filter = store.cf_filter();
    let damaged = cf_filter.view().summary;
    damaged.clear_one_bit();
    becomes("another summary is there", &|| {
        !Arc::ptr_eq(&damaged, &cf_filter.view().summary)
    });
    becomes("it rules keys out", &|| store.rules_out(&key(KEYS)));
    assert_whole(&store);
}

/// Filters of many times the rate are not scrubbed in one go.
#[test]
fn scrub_rests_when_it_has_read_its_share() {
    let store = open_scrubbed_every(None);
    let every = Some(Duration::from_secs(10));
    let cf_filters = Arc::clone(&store.filters.cf_filters);
    let registry = Arc::clone(&store.filters.registry);
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

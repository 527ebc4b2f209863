//! Ranges: no span that holds a key is denied, whatever happens to the key; and spans without a key
//! are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::histories::write_beside_maintenance;
use super::memory_lsm::{Entries, OtherThread, Step, Store, Stored};
use crate::cf_filter::prefix_lookup;
use crate::maintenance::PATIENCE;
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};
use crate::ranges::{RangeKeys, Span};

/// Ranges behind a first byte.
fn options() -> FrontOptions {
    FrontOptions {
        expected_keys: Some(Items::new(50)),
        ranges: Some(Arc::new(RangeKeys::new(Prefix::fixed(1), 16).unwrap())),
        // An audit would hide a wrong denial: the engine answers in its place.
        audit: Some(0),
        ..FrontOptions::default()
    }
}

fn open() -> Store {
    let store = Store::open_without_thread(Stored::new(), &options());
    store.look();
    store
}

/// Numbers of different blocks: a false positive of the summary filter is one for a whole block.
fn blocks() -> impl Iterator<Item = u64> {
    (0..1_000).map(|number| number * 70_000)
}

/// How many ranges of ten numbers right behind those of [`blocks`] are denied.
fn denied_behind(store: &Store, of: u8) -> usize {
    let ranges = blocks().map(|number| (key(of, number + 1), key(of, number + 11)));
    let denied = ranges.filter(|(from, to)| store.rules_out_span(Span::HalfOpen(from, to)));
    denied.count()
}

/// Of a thousand ranges: a few are false positives.
const NEARLY_ALL: usize = 970;

fn key(of: u8, number: u64) -> Vec<u8> {
    [&[of][..], &number.to_be_bytes()].concat()
}

/// Keys of two prefixes, at the ends of blocks, with the same number, and without a prefix.
fn universe() -> Vec<Vec<u8>> {
    let mut keys = vec![
        key(b'a', 65_535),
        key(b'a', 65_536),
        [key(b'a', 65_536), vec![0]].concat(),
        key(b'b', 7),
        b"b".to_vec(),
        Vec::new(),
    ];
    keys.sort();
    keys
}

/// All spans whose bounds are keys of the universe or beside them.
fn spans() -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut bounds = universe();
    bounds.extend([key(b'a', 65_534), key(b'a', 65_537), key(b'a', 200_000)]);
    bounds.extend([b"a".to_vec(), key(b'b', 8), b"c".to_vec()]);
    bounds.sort();
    let pairs = bounds.iter().enumerate();
    pairs
        .flat_map(|(at, from)| bounds[at..].iter().map(|to| (from.clone(), to.clone())))
        .collect()
}

/// No span that holds a key is denied. Returns how many others are.
#[track_caller]
fn check(store: &Store, spans: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let mut denied = 0;
    for (from, to) in spans {
        let behind_last = [&to[..], &[0]].concat();
        for (span, end) in [
            (Span::HalfOpen(from, to), to),
            (Span::Closed(from, to), &behind_last),
        ] {
            if store.rules_out_span(span) {
                assert!(!store.has_between(from, end), "{span:?}");
                denied += 1;
            }
        }
    }
    assert_eq!(store.filters.false_negative(), None);
    denied
}

type Act = fn(&Store);

const ACTS: [Act; 4] = [
    Store::flush,
    Store::seal_memtable,
    Store::compact,
    |store| assert!(store.consolidate()),
];

/// What happens at a step: a key is written, deleted or ingested, or the store changes its files.
fn act(store: &Store, at: usize, keys: &[Vec<u8>]) {
    match (at / keys.len(), &keys[at % keys.len()]) {
        (0, key) => store.put(key, b"value"),
        (1, key) => store.delete(key),
        (2, key) => store.ingest(&[(key.clone(), b"value".to_vec())]),
        _ => ACTS[at - 3 * keys.len()](store),
    }
}

#[test]
fn no_span_with_a_key_is_denied_after_any_three_steps() {
    let (keys, spans) = (universe(), spans());
    let acts = 3 * keys.len() + ACTS.len();
    let mut denied = 0;
    for steps in 0..acts.pow(3) {
        let store = open();
        for at in [steps % acts, steps / acts % acts, steps / acts / acts] {
            act(&store, at, &keys);
        }
        denied += check(&store, &spans);
    }
    assert!(denied > 100_000, "{denied}");
}

#[test]
fn no_span_with_a_key_is_denied_in_random_histories_with_crashes() {
    let near = |number: u64| [number.saturating_sub(1), number, number + 1, number + 300];
    let budget = Some(Bits::from_bytes(20 << 10));
    let with_budget = FrontOptions {
        memory_budget: budget.into(),
        ..options()
    };
    let audited = FrontOptions {
        audit: Some(1),
        ..options()
    };
    for (nth, options) in [options(), options().at_rest(), with_budget, audited]
        .iter()
        .enumerate()
    {
        let mut random = SmallRng::seed_from_u64(nth as u64);
        let mut numbers = BTreeSet::new();
        let mut store = Store::open(Stored::new(), options);
        let mut denied = 0;
        for _ in 0..8 {
            for _ in 0..150 {
                let number = random.random_range(0..1_000_000);
                match random.random_range(0..100) {
                    0..80 => {
                        store.put(&key(b'a', number), b"value");
                        numbers.insert(number);
                    }
                    80..88 => {
                        let old = numbers.iter().find(|&&old| old >= number);
                        old.into_iter()
                            .for_each(|&old| store.delete(&key(b'a', old)));
                    }
                    88..92 => store.flush(),
                    92..94 => store.compact(),
                    94..96 => {
                        store.flush();
                        store.ingest(&[(key(b'a', number), b"value".to_vec())]);
                        numbers.insert(number);
                    }
                    _ => _ = store.consolidate(),
                }
            }
            let bounds: Vec<_> = numbers.iter().flat_map(|&number| near(number)).collect();
            let spans = bounds.windows(2).map(|pair| {
                let [from, to] = [pair[0], pair[0].max(pair[1])];
                (key(b'a', from), key(b'a', to))
            });
            denied += check(&store, &spans.collect::<Vec<_>>());
            let (stored, log) = match random.random_bool(0.5) {
                true => (store.close(), Entries::new()),
                false => store.crash(random.random()),
            };
            store = Store::open(stored, options);
            for (key, value) in log {
                match value {
                    Some(value) => store.put(&key, &value),
                    None => store.delete(&key),
                }
            }
        }
        assert!(denied > 1_000 || nth == 2, "{nth}: {denied}");
    }
}

const STEPS: [Step; 5] = [
    Step::BeforeMemtables,
    Step::AfterMemtables,
    Step::Listing,
    Step::Listed,
    Step::AfterSegment,
];

/// A key is in the range filter, or its block is in the summary filter.
#[test]
fn keys_are_in_ranges_whatever_step_of_a_consolidation_they_come_at() {
    let writes = |other: OtherThread| other.put(&key(b'a', 3_000), b"value");
    let flushes = move |other: OtherThread| {
        other.put(&key(b'a', 3_000), b"value");
        other.flush();
    };
    for is_static in [false, true] {
        for step in STEPS {
            for nth in 0..3 {
                let options = match is_static {
                    true => options().at_rest(),
                    false => options(),
                };
                let store = Store::open_without_thread(Stored::new(), &options);
                store.look();
                store.put(&key(b'a', 1_000), b"value");
                store.flush();
                store.put(&key(b'a', 2_000), b"value");
                let other = store.other_thread();
                match nth {
                    0 => store.at(step, move || writes(other)),
                    1 => store.at(step, move || flushes(other)),
                    _ => store.ingest_after_next_scan(vec![(key(b'a', 3_000), b"value".to_vec())]),
                }
                assert!(store.consolidate());
                let has = |number| {
                    let [from, to] = [key(b'a', number), key(b'a', number + 1)];
                    !store.rules_out_span(Span::HalfOpen(&from, &to))
                };
                let case = format!("{nth} at {step:?}, static: {is_static}");
                assert!([1_000, 2_000, 3_000].into_iter().all(has), "{case}");
                assert!(denied_behind(&store, b'b') > NEARLY_ALL, "{case}");
            }
        }
    }
}

/// Right behind a key a block is no answer, and the range filter is.
#[test]
fn empty_spans_are_denied_before_and_after_a_consolidation_and_after_a_reopen() {
    let store = open();
    blocks().for_each(|number| store.put(&key(b'a', number), b"value"));
    assert_eq!(denied_behind(&store, b'a'), 0, "only blocks are known");
    assert!(denied_behind(&store, b'b') > NEARLY_ALL);
    assert!(store.consolidate());
    assert!(denied_behind(&store, b'a') > NEARLY_ALL);
    let store = Store::open_without_thread(store.close(), &options());
    store.look();
    assert_eq!(
        denied_behind(&store, b'a'),
        0,
        "a range filter is not stored"
    );
    assert!(store.consolidate());
    assert!(denied_behind(&store, b'a') > NEARLY_ALL);
    assert!(denied_behind(&store, b'b') > NEARLY_ALL);
}

/// An iterator reads the database as of its creation.
#[test]
fn span_is_answered_only_while_the_view_of_its_edition_is_published() {
    let store = open();
    blocks().for_each(|number| store.put(&key(b'a', number), b"value"));
    let before = store.cf_filter().lookups().edition();
    blocks().for_each(|number| store.delete(&key(b'a', number)));
    store.flush();
    store.compact();
    assert!(store.consolidate());
    let empty = |edition| {
        let is_empty = |number: &u64| {
            let [from, to] = [key(b'a', *number), key(b'a', number + 9)];
            let span = Span::HalfOpen(&from, &to);
            prefix_lookup::is_empty_since(&**store.cf_filter(), span, edition)
        };
        blocks().filter(is_empty).count()
    };
    assert!(empty(store.cf_filter().lookups().edition()) > NEARLY_ALL);
    assert_eq!(empty(before), 0);
}

/// Otherwise all ranges near new keys would stay `maybe` for as long as the database is open.
#[test]
fn range_filter_is_rebuilt_once_many_keys_came_and_writers_pause() {
    let store = open();
    let pause = || {
        // It is quiet only if two looks find no write.
        store.look();
        thread::sleep(PATIENCE);
        store.look();
    };
    blocks().for_each(|number| store.put(&key(b'a', number), b"value"));
    pause();
    assert!(denied_behind(&store, b'a') > NEARLY_ALL);
    let few = || blocks().take(5);
    few().for_each(|number| store.put(&key(b'c', number), b"value"));
    pause();
    // They are not worth another one: their blocks are in the summary filter.
    assert!((900..=995).contains(&denied_behind(&store, b'c')));
    blocks().for_each(|number| store.put(&key(b'c', number), b"value"));
    pause();
    for of in [b'a', b'c'] {
        assert!(denied_behind(&store, of) > NEARLY_ALL);
    }
}

/// Whether nearly all keys, and nearly all ranges, are denied.
fn denies(store: &Store) -> [bool; 2] {
    let keys = (0..1_000).filter(|&number| store.rules_out(&key(b'c', number)));
    [keys.count(), denied_behind(store, b'a')].map(|denied| denied > NEARLY_ALL)
}

/// A store of 15,000 keys in few blocks, with a budget of so many KiB.
fn filled(budget: Option<u64>, bits_per_key: u32) -> Store {
    let options = FrontOptions {
        memory_budget: budget.map(|kib| Bits::from_bytes(kib << 10)).into(),
        ranges: Some(Arc::new(
            RangeKeys::new(Prefix::fixed(1), bits_per_key).unwrap(),
        )),
        ..options()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    store.look();
    (0..15_000).for_each(|number| store.put(&key(b'b', number * 100), b"value"));
    store.flush();
    assert!(store.consolidate());
    store
}

/// The summary filter takes 38 KiB with what is beside it, and 69 with the range filter.
#[test]
fn budget_serves_keys_before_ranges() {
    let has_ranges = |store: &Store| store.cf_filter().health().ranges > Bits::new(0);
    for (kib, has_room) in [(60, false), (80, true)] {
        let store = filled(Some(kib), 16);
        assert_eq!(denies(&store), [true, has_room]);
        assert_eq!(has_ranges(&store), has_room);
        let health = store.cf_filter().health();
        assert!(health.memory + health.overhead <= Bits::from_bytes(kib << 10));
    }
    let store = filled(None, 16);
    assert_eq!(denies(&store), [true, true]);
    store.filters.set_memory_budget(Some(60 << 10));
    store.look();
    assert_eq!(denies(&store), [true, false]);
    assert!(!has_ranges(&store));
}

/// Each reader knows a number below which every key was written.
#[test]
fn readers_find_every_key_by_its_range_beside_maintenance() {
    const WRITTEN: u32 = 10_000;
    let store = Store::open(Stored::new(), &options());
    let (done, written) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(1);
            while !done.load(Ordering::Acquire) {
                let below = written.load(Ordering::Acquire);
                if below > 0 {
                    let number = u64::from(random.random_range(0..below));
                    let [from, to] = [key(b'a', number), key(b'a', number + 1)];
                    let span = Span::HalfOpen(&from, &to);
                    assert!(!store.rules_out_span(span), "{number} of {below}");
                }
            }
        });
        let keys = (0..WRITTEN).map(|number| key(b'a', number.into()));
        write_beside_maintenance(&store, keys, &written);
        done.store(true, Ordering::Release);
    });
}

/// Lookups read the old summary filter until the new one is published.
#[test]
fn key_that_comes_at_a_step_of_a_consolidation_is_in_its_range_at_once() {
    for step in STEPS {
        let store = open();
        store.put(&key(b'a', 1_000), b"value");
        store.flush();
        let (other, is_found) = (store.other_thread(), Arc::new(AtomicBool::new(false)));
        let found = Arc::clone(&is_found);
        store.at(step, move || {
            other.put(&key(b'a', 700_000), b"value");
            let [from, to] = [key(b'a', 699_990), key(b'a', 700_010)];
            let span = Span::HalfOpen(&from, &to);
            let may_exist = prefix_lookup::span_may_exist(&**other.cf_filter(), span);
            found.store(may_exist, Ordering::Release);
        });
        assert!(store.consolidate());
        assert!(is_found.load(Ordering::Acquire), "{step:?}");
    }
}

/// Keys that begin with the same bytes may have prefixes of several lengths.
#[test]
fn no_span_with_a_key_is_denied_whatever_function_gives_the_prefix() {
    let letters = [b'a', b'/', 0];
    let mut universe = vec![Vec::new()];
    for length in 0..3 {
        let longest = universe.iter().filter(|key| key.len() == length);
        let longer = longest.flat_map(|key| letters.map(|letter| [&key[..], &[letter]].concat()));
        universe.extend(longer.collect::<Vec<_>>());
    }
    universe.sort();
    let pairs = universe.iter().enumerate().flat_map(|(at, from)| {
        let bounds = universe[at..].iter();
        bounds.map(|to| (from.clone(), to.clone()))
    });
    let spans: Vec<_> = pairs.collect();
    for prefix in [Prefix::fixed(2), Prefix::capped(2), Prefix::until(b'/')] {
        let mut denied = 0;
        for key in &universe {
            let options = FrontOptions {
                ranges: Some(Arc::new(RangeKeys::new(prefix.clone(), 16).unwrap())),
                ..options()
            };
            let store = Store::open_without_thread(Stored::new(), &options);
            store.look();
            store.put(key, b"value");
            denied += check(&store, &spans);
            assert!(store.consolidate());
            denied += check(&store, &spans);
        }
        assert!(denied > 100, "{prefix:?}: {denied}");
    }
}

/// Keys of one block are new entries of the summary filter; their block is one more.
#[test]
fn range_filter_is_outgrown_by_a_quarter_of_its_keys_and_not_by_less() {
    let store = open();
    let lacks = || store.cf_filter().lookups().lacks_ranges();
    blocks().for_each(|number| store.put(&key(b'a', number), b"value"));
    assert!(store.consolidate());
    assert!(!lacks());
    let mut new = 0..;
    let mut put = |count| {
        let numbers = new.by_ref().take(count);
        numbers.for_each(|number| store.put(&key(b'b', number), b"value"));
    };
    put(200);
    assert!(!lacks());
    put(100);
    assert!(lacks());
}

/// Otherwise all segments would be read after each pause, for nothing.
#[test]
fn range_filter_for_which_there_is_no_room_is_not_asked_for() {
    let lacks = |store: &Store| store.cf_filter().lookups().lacks_ranges();
    assert!(!lacks(&filled(Some(60), 16)));
    let store = filled(None, 16);
    assert!(store.cf_filter().drop_ranges());
    assert!(!lacks(&store));
}

#[test]
fn memory_of_a_range_filter_is_counted_beside_its_summary_filter() {
    let store = filled(None, 16);
    let cf_filter = store.cf_filter();
    let (view, health) = (cf_filter.view(), cf_filter.health());
    assert!(health.ranges > Bits::new(0));
    assert_eq!(health.memory, view.summary.size() + health.ranges);
    assert_eq!(cf_filter.size_of_published(), health.memory);
}

#[test]
fn range_filter_is_freed_with_its_summary_filter() {
    let frees: [fn(&Store); 2] = [
        |store| assert!(store.cf_filter().drop_summary()),
        |store| store.cf_filter().retire(),
    ];
    for free in frees {
        let store = filled(None, 16);
        free(&store);
        assert_eq!(store.cf_filter().health().ranges, Bits::new(0));
    }
}

/// The blocks of its keys go to the summary filter that is there.
#[test]
fn range_filter_stays_when_a_segment_is_ingested() {
    let store = open();
    blocks().for_each(|number| store.put(&key(b'a', number), b"value"));
    assert!(store.consolidate());
    store.ingest(&[(key(b'c', 5), b"value".to_vec())]);
    assert_eq!(denied_behind(&store, b'a'), 0, "its keys are unknown");
    store.look();
    assert!(denied_behind(&store, b'a') > NEARLY_ALL);
    assert!(!store.rules_out_span(Span::Closed(&key(b'c', 5), &key(b'c', 5))));
}

#[test]
fn span_with_a_key_of_a_segment_that_cannot_be_read_is_not_denied() {
    let store = open();
    store.put(&key(b'a', 5), b"value");
    assert!(store.consolidate());
    let ingested = key(b'c', 5);
    store.ingest(&[(ingested.clone(), b"value".to_vec())]);
    store.set_unreadable(store.segments()[0]);
    store.look();
    assert_eq!(store.cf_filter().view().uncovered(), Some(1));
    assert!(!store.rules_out_span(Span::Closed(&ingested, &ingested)));
    assert_eq!(denied_behind(&store, b'b'), 0);
}

/// The log has hashes, which no range filter can be built from.
#[test]
fn keys_are_in_ranges_of_a_summary_filter_that_is_rebuilt_because_it_has_grown() {
    let store = open();
    let summary = || store.cf_filter().view().summary;
    let (before, mut numbers) = (summary(), Vec::new());
    while Arc::ptr_eq(&before, &summary()) {
        assert!(numbers.len() < 1 << 20, "it never happens");
        for _ in 0..200 {
            let number = 70_000 * numbers.len() as u64;
            store.put(&key(b'a', number), b"value");
            numbers.push(number);
        }
        store.flush();
        store.look();
    }
    for number in numbers {
        let bound = key(b'a', number);
        assert!(
            !store.rules_out_span(Span::Closed(&bound, &bound)),
            "{number}"
        );
    }
    assert!(denied_behind(&store, b'b') > NEARLY_ALL);
}

#[test]
fn summary_filter_may_grow_as_far_as_the_range_filter_leaves_the_budget() {
    let store = filled(Some(80), 16);
    let (view, health) = (store.cf_filter().view(), store.cf_filter().health());
    assert!(health.ranges > Bits::new(0));
    let most = view.summary.options().budget.unwrap();
    assert!(most + health.ranges + health.overhead <= Bits::from_bytes(80 << 10));
}

#[test]
fn no_more_range_filters_are_dropped_than_the_budget_asks_for() {
    let store = filled(None, 16);
    let other = store.add_family("other");
    store.look();
    assert!(store.consolidate());
    let families = [store.cf_filter(), &other];
    let ranges = families.map(|cf_filter| cf_filter.health().ranges);
    assert!(ranges.iter().all(|&ranges| ranges > Bits::new(0)));
    let health = families.map(|cf_filter| cf_filter.health());
    let taken: Bits = health.iter().map(|cf| cf.memory + cf.overhead).sum();
    let budget = taken.get() / 8 - ranges[0].get() / 16;
    store.filters.set_memory_budget(Some(budget));
    store.look();
    let left = families.map(|cf_filter| cf_filter.health().ranges > Bits::new(0));
    assert_eq!(left.into_iter().filter(|&is_left| is_left).count(), 1);
}

/// A key that the filters were not told of is in the middle of a span, or its last.
#[test]
fn audit_of_a_span_with_a_key_disables_the_filters() {
    let options = FrontOptions {
        audit: Some(1),
        ..options()
    };
    let [before, at, behind] = [8, 9, 10].map(|number| key(b'a', number));
    for (span, is_wrong) in [
        (Span::HalfOpen(&before, &behind), true),
        (Span::Closed(&before, &at), true),
        (Span::HalfOpen(&before, &at), false),
        (Span::Closed(&behind, &behind), false),
    ] {
        let store = Store::open_without_thread(Stored::new(), &options);
        store.look();
        store.other_thread().write_past_filters(&at, b"value");
        assert_eq!(store.rules_out_span(span), !is_wrong, "{span:?}");
        let stats = store.cf_filter().stats();
        assert_eq!((stats.prefixes_absent, stats.audited), (1, 1), "{span:?}");
        assert_eq!(stats.false_negatives, u64::from(is_wrong), "{span:?}");
        assert_eq!(store.filters.false_negative().is_some(), is_wrong);
    }
}

/// As a check of all keys needs it.
#[test]
fn range_of_a_key_alone_is_denied_if_the_filters_lack_the_key() {
    let store = open();
    store.put(&key(b'a', 5), b"value");
    assert!(store.consolidate());
    let denies = |key: &[u8]| {
        let lookups = store.cf_filter().lookups();
        lookups.denies_range_of(&store.cf_filter().view(), key)
    };
    assert!(!denies(&key(b'a', 5)));
    assert!(
        blocks()
            .filter(|&number| denies(&key(b'b', number)))
            .count()
            > NEARLY_ALL
    );
    assert!(!denies(b""), "it has no prefix");
}

/// A block's bytes are those of the key with its prefix and number.
#[test]
fn blocks_let_no_key_pass() {
    let store = open();
    (0..1_000).for_each(|block| store.put(&key(b'a', block << 16), b"value"));
    let denied = (1..1_000).filter(|&number| store.rules_out(&key(b'a', number)));
    assert!(denied.count() > NEARLY_ALL);
}

/// The budget serves keys first, also where a range filter would leave nearly nothing.
#[test]
fn keys_are_denied_whatever_a_budget_leaves_to_ranges() {
    for bits_per_key in [16, 34] {
        for kib in (40..100).step_by(4) {
            let [keys, _] = denies(&filled(Some(kib), bits_per_key));
            assert!(keys, "{kib} KiB, {bits_per_key} bits");
        }
    }
}

/// Their blocks would take as much of the summary filter as the keys.
#[test]
fn summary_filter_takes_no_blocks_of_segments_beside_which_there_is_no_range_filter() {
    let options = FrontOptions {
        memory_budget: Some(Bits::from_bytes(45 << 10)).into(),
        ..options()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    store.look();
    (0..10_000).for_each(|number| store.put(&key(b'b', number * 70_000), b"value"));
    store.flush();
    assert!(store.consolidate());
    assert_eq!(store.cf_filter().health().ranges, Bits::new(0));
    assert_eq!(denies(&store), [true, false]);
}

/// Each version of a key is an entry of an SST.
#[test]
fn range_filter_of_several_versions_of_each_key_is_as_large_as_of_one() {
    let store = open();
    for _ in 0..8 {
        (0..5_000).for_each(|number| store.put(&key(b'b', number * 100), b"value"));
        store.flush();
    }
    let size = || {
        assert!(store.consolidate());
        store.cf_filter().health().ranges.get()
    };
    let versions = size();
    store.compact();
    let one = size();
    assert!(versions < one + one / 10, "{versions} {one}");
}

#[test]
fn span_is_denied_if_its_end_is_the_first_key_behind_it() {
    let store = open();
    let [before, at] = [5, 10].map(|number| key(b'a', number));
    store.put(&at, b"value");
    assert!(store.consolidate());
    assert!(store.rules_out_span(Span::HalfOpen(&before, &at)));
    assert!(!store.rules_out_span(Span::Closed(&before, &at)));
}

/// It is asked where no range filter answers: without one, and for a span of too many numbers.
#[test]
fn span_is_denied_by_the_prefix_of_its_bounds_if_no_key_has_it() {
    for ranges in [None, options().ranges] {
        let options = FrontOptions {
            prefixes: Arc::new(Prefixes::new([Prefix::fixed(1)]).unwrap()),
            ranges,
            ..options()
        };
        let store = Store::open_without_thread(Stored::new(), &options);
        store.look();
        for of in [b'a', b'c'] {
            store.put(&key(of, 5), b"value");
        }
        let numbers = [4, 5, 6, 1 << 40];
        let bounds = (b'a'..=b'd').flat_map(|of| numbers.map(|number| key(of, number)));
        let bounds: Vec<_> = bounds.collect();
        let pairs = bounds
            .iter()
            .flat_map(|from| bounds.iter().map(move |to| (from, to)));
        let mut denied = 0;
        for (from, to) in pairs {
            let behind = [&to[..], &[0]].concat();
            for (span, has_key) in [
                (Span::Closed(from, to), store.has_between(from, &behind)),
                (Span::HalfOpen(from, to), store.has_between(from, to)),
            ] {
                let is_denied = store.rules_out_span(span);
                assert!(!(is_denied && has_key), "{span:?}");
                denied += usize::from(is_denied && [b'b', b'd'].contains(&from[0]));
            }
        }
        // Ten of either kind with each of the two prefixes that no key has.
        assert_eq!(denied, 40);
    }
}

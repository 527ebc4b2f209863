//! Ranges: no span that holds a key is denied, whatever happens to the key; and spans without a key
//! are.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::memory_lsm::{Entries, OtherThread, Step, Store, Stored};
use crate::cf_filter::prefix_lookup;
use crate::maintenance::PATIENCE;
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::prefix::Prefix;
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

/// The summary filter takes 38 KiB with what is beside it, and 69 with the range filter.
#[test]
fn budget_serves_keys_before_ranges() {
    let filled = |memory_budget: Option<Bits>| {
        let options = FrontOptions {
            memory_budget: memory_budget.into(),
            ..options()
        };
        let store = Store::open_without_thread(Stored::new(), &options);
        store.look();
        (0..15_000).for_each(|number| store.put(&key(b'b', number * 100), b"value"));
        store.flush();
        assert!(store.consolidate());
        store
    };
    let has_ranges = |store: &Store| store.cf_filter().health().ranges > Bits::new(0);
    for (kib, has_room) in [(60, false), (80, true)] {
        let store = filled(Some(Bits::from_bytes(kib << 10)));
        assert_eq!(denies(&store), [true, has_room]);
        assert_eq!(has_ranges(&store), has_room);
        let health = store.cf_filter().health();
        assert!(health.memory + health.overhead <= Bits::from_bytes(kib << 10));
    }
    let store = filled(None);
    assert_eq!(denies(&store), [true, true]);
    store.filters.set_memory_budget(Some(60 << 10));
    store.look();
    assert_eq!(denies(&store), [true, false]);
    assert!(!has_ranges(&store));
}

/// Each reader knows a number below which every key was written.
#[test]
fn readers_find_every_key_by_its_range_beside_maintenance() {
    const WRITTEN: u64 = 10_000;
    let store = Store::open(Stored::new(), &options());
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(1);
            while !done.load(Ordering::Acquire) {
                let below = written.load(Ordering::Acquire);
                if below > 0 {
                    let number = random.random_range(0..below);
                    let [from, to] = [key(b'a', number), key(b'a', number + 1)];
                    let span = Span::HalfOpen(&from, &to);
                    assert!(!store.rules_out_span(span), "{number} of {below}");
                }
            }
        });
        for number in 0..WRITTEN {
            store.put(&key(b'a', number), b"value");
            written.store(number + 1, Ordering::Release);
            match number % 1_000 {
                0 => store.flush(),
                500 => store.compact(),
                700 => _ = store.consolidate(),
                _ => {}
            }
        }
        done.store(true, Ordering::Release);
    });
}

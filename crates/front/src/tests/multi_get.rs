//! Reads of several keys at one moment.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use super::memory_lsm::{Store, Stored};
use crate::cf_filter::lookup::get;
use crate::cf_filter::multi_lookup::{multi_get, multi_get_cf};
use crate::cf_filter::prefix_lookup::{may_exist, may_exist_many};
use crate::key_range::KeyRange;
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};
use crate::sorted_runs::WithRange;
use crate::view::{CHUNK, Coverage};

/// Each of the two keys was ruled out at its turn, and yet the record always existed.
#[test]
fn record_that_moves_between_two_absent_answers_is_found() {
    // Each *absent* is audited, which lets the test act between the two.
    let options = FrontOptions {
        audit: Some(1),
        ..FrontOptions::default()
    };
    let store = Arc::new(Store::open(Stored::new(), &options));
    store.put(b"from", b"record");
    assert!(store.consolidate());
    assert!(store.rules_out(b"to") && !store.rules_out(b"from"));
    let moving = Arc::downgrade(&store);
    store.after_next_audit(move || {
        let store = moving.upgrade().unwrap();
        store.move_record(b"from", b"to");
        store.flush();
        store.compact();
        assert!(store.consolidate());
        assert!(store.rules_out(b"from") && !store.rules_out(b"to"));
    });
    let found = store.multi_get(&[b"to", b"from"]);
    let Ok(found) = found.into_iter().collect::<Result<Vec<_>, Infallible>>();
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}

/// Three chunks and a part of one.
const KEYS: u32 = 3 * CHUNK as u32 + 7;

fn key(number: u32) -> [u8; 5] {
    let [a, b, c, d] = number.to_be_bytes();
    [a, b, c, d, b'.']
}

/// An empty store whose filters are complete and have the first four bytes of each key.
fn open(audit: u32) -> Store {
    let options = FrontOptions {
        audit: Some(audit),
        prefixes: Arc::new(Prefixes::new([Prefix::fixed(4)]).unwrap()),
        ..FrontOptions::default()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    store.look();
    assert!(store.is_complete());
    store
}

#[test]
fn batch_of_several_chunks_is_answered_as_its_keys_are_alone() {
    let store = open(0);
    let cf_filter = &**store.cf_filter();
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    let starts: Vec<_> = keys.iter().map(|key| &key[..4]).collect();
    keys.iter()
        .step_by(3)
        .for_each(|key| store.put(key, b"value"));
    let read = |key: &[u8]| Ok::<_, Infallible>(store.get_past_filters(key));
    let stats = || {
        let stats = cf_filter.stats();
        (stats.absent, stats.prefixes_absent)
    };
    let check = |least_denied: usize| {
        let maybe = |at: &usize| !store.rules_out(&keys[*at]);
        let maybe: Vec<_> = (0..keys.len()).filter(maybe).collect();
        let denied = keys.len() - maybe.len();
        assert!(denied > least_denied, "{denied}");
        let before = stats();
        assert_eq!(cf_filter.candidate_indexes(&keys), maybe);
        assert_eq!(stats(), (before.0 + denied as u64, before.1));
        let values = multi_get(cf_filter, &keys, |passed| {
            passed.iter().map(|key| read(key)).collect()
        });
        assert_eq!(values, keys.iter().map(|key| read(key)).collect::<Vec<_>>());

        let before = stats();
        let alone = starts.iter().map(|start| may_exist(cf_filter, start));
        let alone: Vec<_> = alone.collect();
        let denied = alone.iter().filter(|&&maybe| !maybe).count();
        assert!(denied > least_denied, "{denied}");
        assert_eq!(may_exist_many(cf_filter, &starts), alone);
        assert_eq!(stats(), (before.0, before.1 + 2 * denied as u64));
    };
    check(keys.len() / 2);
    // Beside a segment that may have some of them, which is not read.
    let range = KeyRange::new(&key(0), &key(100));
    let uncovered = WithRange {
        filter: None,
        range: Some(&range),
    };
    let (listed, summary) = (cf_filter.list(|| ()), cf_filter.view().summary);
    let coverage = Coverage::all_but(vec![uncovered]);
    assert!(cf_filter.publish(&listed, summary, coverage, HashSet::new()));
    assert!(!store.rules_out(&key(1)) && may_exist(cf_filter, starts[1]));
    check(keys.len() / 4);
}

/// Beside keys that are found, of which the audits are told nothing.
#[test]
fn false_negative_is_found_at_any_place_of_a_batch() {
    let chunk = CHUNK as u32;
    for lost in [1, chunk - 1, chunk, 2 * chunk + 3, KEYS - 1] {
        for of_prefixes in [false, true] {
            let store = open(1);
            let keys: Vec<_> = (0..KEYS).map(key).collect();
            let is_written = |at: &usize| at.is_multiple_of(5) && *at != lost as usize;
            let written = (0..keys.len()).filter(is_written);
            written.for_each(|at| store.put(&keys[at], b"value"));
            store
                .other_thread()
                .write_past_filters(&key(lost), b"value");
            let is_there = |at: &usize| store.get_past_filters(&keys[*at]).is_some();
            let found: Vec<_> = (0..keys.len()).filter(is_there).collect();
            let cf_filter = &**store.cf_filter();
            let candidates = match of_prefixes {
                false => cf_filter.candidate_indexes(&keys),
                true => {
                    let starts: Vec<_> = keys.iter().map(|key| &key[..4]).collect();
                    let maybe = may_exist_many(cf_filter, &starts);
                    (0..keys.len()).filter(|&at| maybe[at]).collect()
                }
            };
            assert_eq!(candidates, found, "key {lost}");
            assert!(store.filters.false_negative().is_some());
        }
    }
}

/// Of keys that are in no column family with filters, the engine is asked.
#[test]
fn batch_of_absent_keys_does_not_ask_the_engine() {
    let store = open(0);
    let filters = Some(Arc::clone(store.cf_filter()));
    let keys: [(_, &[u8]); 2] = [(filters.clone(), b"one"), (filters, b"other")];
    let asks = |at: &[usize]| -> Vec<Result<Option<()>, Infallible>> { panic!("asked for {at:?}") };
    assert!(multi_get_cf(&keys, asks) == [Ok(None), Ok(None)]);
    let [(filters, one), (_, other)] = keys;
    let keys = [(None, one), (filters, other)];
    let values = multi_get_cf(&keys, |at| {
        assert_eq!(at, [0]);
        vec![Ok::<_, Infallible>(Some(()))]
    });
    assert!(values == [Ok(Some(())), Ok(None)]);
}

/// Threads whose keys are found skip the filters, if they may.
#[test]
fn batch_says_of_the_next_lookup_what_its_keys_were() {
    const THERE: &[u8] = b"there";
    for adaptive_hits in [true, false] {
        let options = FrontOptions {
            adaptive_hits,
            ..FrontOptions::default()
        };
        let store = Store::open_without_thread(Stored::new(), &options);
        store.look();
        store.put(THERE, b"value");
        let cf_filter = &**store.cf_filter();
        let batch = |keys: &[&[u8]]| {
            let read = |key: &&[u8]| Ok::<_, Infallible>(store.get_past_filters(key));
            let values = multi_get(cf_filter, keys, |passed| passed.iter().map(read).collect());
            assert_eq!(values.len(), keys.len());
        };
        let is_unchecked = || {
            let before = cf_filter.stats().found_unchecked;
            let found = get(cf_filter, THERE, || Ok::<_, Infallible>(Some(())));
            assert_eq!(found, Ok(Some(())));
            cf_filter.stats().found_unchecked > before
        };
        batch(&[THERE; 32]);
        assert_eq!(is_unchecked(), adaptive_hits);
        batch(&[THERE; 2]);
        assert_eq!(is_unchecked(), adaptive_hits);
        batch(&[THERE, b"absent"]);
        assert!(!is_unchecked());
    }
}

/// A start that has no prefix is in the batch and not among its hashes.
#[test]
fn audited_denial_in_a_batch_of_prefixes_is_that_of_its_own_start() {
    let store = open(1);
    store.put(&key(7), b"value");
    let (there, absent) = (key(7), key(9));
    let starts: [&[u8]; 4] = [b"", &there[..2], &absent[..4], &there[..4]];
    let maybe = may_exist_many(store.cf_filter(), &starts);
    assert_eq!(maybe, [true, true, false, true]);
    assert!(store.filters.false_negative().is_none());
}

//! Histories that are known to be linearizable or not.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::*;

fn put(key: Key, value: u8) -> Operation {
    Operation::Write(vec![(key, Change::Put(vec![value]))])
}

fn delete(key: Key) -> Operation {
    Operation::Write(vec![(key, Change::Delete)])
}

fn found(key: Key, value: u8) -> Operation {
    Operation::Read(vec![(key, Some(vec![value]))])
}

fn absent(key: Key) -> Operation {
    Operation::Read(vec![(key, None)])
}

/// Calls by begin and end; one that ends at 0 was cut short.
fn history<const N: usize>(calls: [(u64, u64, Operation); N]) -> History {
    let calls = calls.into_iter().enumerate();
    let calls = calls.map(|(thread, (begin, end, operation))| Call {
        thread,
        begin,
        end: (end > 0).then_some(end),
        by: "call",
        operation,
    });
    let calls = calls.collect();
    History { calls, crash: None }
}

fn is_linearizable<const N: usize>(calls: [(u64, u64, Operation); N]) -> bool {
    history(calls).is_linearizable()
}

#[test]
fn read_beside_a_write_may_find_either_value() {
    assert!(is_linearizable([(1, 4, put(0, 7)), (2, 3, absent(0))]));
    assert!(is_linearizable([(1, 4, put(0, 7)), (2, 3, found(0, 7))]));
}

#[test]
fn stale_absent_is_not_linearizable() {
    assert!(!is_linearizable([(1, 2, put(0, 7)), (3, 4, absent(0))]));
    // Another thread has seen the value while the write was under way.
    let seen = [(1, 6, put(0, 7)), (2, 3, found(0, 7)), (4, 5, absent(0))];
    assert!(!is_linearizable(seen));
    let deleted = [(1, 2, put(0, 7)), (3, 6, delete(0)), (4, 5, absent(0))];
    assert!(is_linearizable(deleted));
}

#[test]
fn lost_update_is_not_linearizable() {
    let merge = |more| Operation::Write(vec![(0, Change::Merge(more))]);
    let both = |value: &[u8]| Operation::Read(vec![(0, Some(value.to_vec()))]);
    let read = |value: &[u8]| {
        let merges = [(1, 3, merge(7)), (2, 4, merge(8)), (5, 6, both(value))];
        is_linearizable(merges)
    };
    assert!(read(&[7, 8]) && read(&[8, 7]));
    assert!(!read(&[7]) && !read(&[8]));
}

#[test]
fn half_a_batch_is_not_linearizable() {
    let moved = Operation::Write(vec![(0, Change::Delete), (1, Change::Put(vec![7]))]);
    let read = |first: Option<u8>, second: Option<u8>| {
        let value = |value: Option<u8>| value.map(|value| vec![value]);
        let read = Operation::Read(vec![(0, value(first)), (1, value(second))]);
        is_linearizable([(1, 2, put(0, 7)), (3, 6, moved.clone()), (4, 5, read)])
    };
    assert!(read(Some(7), None) && read(None, Some(7)));
    assert!(!read(None, None) && !read(Some(7), Some(7)));
}

/// Each key alone is in order; both together are not.
#[test]
fn keys_that_are_in_order_one_by_one_may_not_be_together() {
    let read = |first: Option<u8>, second: Option<u8>| {
        let value = |value: Option<u8>| value.map(|value| vec![value]);
        Operation::Read(vec![(0, value(first)), (1, value(second))])
    };
    assert!(!is_linearizable([
        (1, 8, put(0, 7)),
        (2, 9, put(1, 8)),
        (3, 5, read(Some(7), None)),
        (4, 6, read(None, Some(8))),
    ]));
}

#[test]
fn call_that_a_crash_cut_short_took_effect_before_it_or_never() {
    let after = |reads: [Operation; 2]| {
        let [first, second] = reads;
        let calls = [(1, 0, put(0, 7)), (4, 5, first), (6, 7, second)];
        let crash = Some(3);
        let history = History {
            crash,
            ..history(calls)
        };
        history.is_linearizable()
    };
    assert!(after([absent(0), absent(0)]));
    assert!(after([found(0, 7), found(0, 7)]));
    assert!(!after([found(0, 7), absent(0)]));
    assert!(!after([absent(0), found(0, 7)]));
}

/// Tries all orders.
fn oracle(left: &[&Call], state: &Vec<Option<Value>>) -> bool {
    left.is_empty()
        || left.iter().enumerate().any(|(at, call)| {
            let is_first = left.iter().all(|other| other.end > Some(call.begin));
            let (is_valid, state) = Map::apply(&call.operation, state);
            let mut left = left.to_vec();
            left.remove(at);
            is_first && is_valid && oracle(&left, &state)
        })
}

#[test]
fn checker_agrees_with_the_trial_of_all_orders() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut linearizable = 0;
    for _ in 0..20_000 {
        let calls = [0; 6].map(|_| {
            let (key, value) = (random.random_range(0..2), random.random_range(0..3));
            let begin = random.random_range(0..100);
            let operation = match random.random_range(0..4) {
                0 => put(key, value),
                1 => delete(key),
                2 => found(key, value),
                _ => absent(key),
            };
            (begin, begin + random.random_range(1..60), operation)
        });
        // No two at one moment.
        let mut history = history(calls);
        for (at, call) in history.calls.iter_mut().enumerate() {
            call.begin = 20 * call.begin + at as u64;
            call.end = call.end.map(|end| 20 * end + 10 + at as u64);
        }
        let all: Vec<_> = history.calls.iter().collect();
        let is_linearizable = oracle(&all, &Map::init());
        assert_eq!(history.is_linearizable(), is_linearizable, "\n{history}");
        assert!(is_linearizable || !history.reduced().is_linearizable());
        linearizable += u32::from(is_linearizable);
    }
    assert!((2_000..18_000).contains(&linearizable), "{linearizable}");
}

#[test]
fn history_is_printed_with_the_calls_as_bars() {
    let mut history = history([(4, 9, put(0, 7)), (5, 6, absent(1)), (7, 0, delete(2))]);
    history.crash = Some(10);
    let lines = "\
thread 0 |---|   call k0=[7]
thread 1  ||     call k1 is absent
thread 2    |-?  call k2 deleted
? until the crash
";
    assert_eq!(history.to_string(), lines);
}

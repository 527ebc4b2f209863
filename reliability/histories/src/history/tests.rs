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

/// A read of keys from the first on.
fn read<const N: usize>(values: [Option<u8>; N]) -> Operation {
    let values = values.map(|value| value.map(|value| vec![value]));
    Operation::Read((0..).zip(values).collect())
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
fn stale_absent_is_not_linearizable() {
    assert!(is_linearizable([(1, 4, put(0, 7)), (2, 3, read([None]))]));
    assert!(!is_linearizable([(1, 2, put(0, 7)), (3, 4, read([None]))]));
    // Another thread has seen the value while the write was under way.
    let seen = [
        (1, 6, put(0, 7)),
        (2, 3, read([Some(7)])),
        (4, 5, read([None])),
    ];
    assert!(!is_linearizable(seen));
    let deleted = [(1, 2, put(0, 7)), (3, 6, delete(0)), (4, 5, read([None]))];
    assert!(is_linearizable(deleted));
}

#[test]
fn lost_update_is_not_linearizable() {
    let merge = |more| Operation::Write(vec![(0, Change::Merge(more))]);
    let both = |value: &[u8]| Operation::Read(vec![(0, Some(value.to_vec()))]);
    let found = |value: &[u8]| {
        let merges = [(1, 3, merge(7)), (2, 4, merge(8)), (5, 6, both(value))];
        is_linearizable(merges)
    };
    assert!(found(&[7, 8]) && found(&[8, 7]));
    assert!(!found(&[7]) && !found(&[8]));
}

#[test]
fn half_a_batch_is_not_linearizable() {
    let moved = Operation::Write(vec![(0, Change::Delete), (1, Change::Put(vec![7]))]);
    let found = |values: [Option<u8>; 2]| {
        is_linearizable([
            (1, 2, put(0, 7)),
            (3, 6, moved.clone()),
            (4, 5, read(values)),
        ])
    };
    assert!(found([Some(7), None]) && found([None, Some(7)]));
    assert!(!found([None, None]) && !found([Some(7), Some(7)]));
    // Each key alone is in order; both together are not.
    assert!(!is_linearizable([
        (1, 8, put(0, 7)),
        (2, 9, put(1, 8)),
        (3, 5, read([Some(7), None])),
        (4, 6, read([None, Some(8)])),
    ]));
}

#[test]
fn call_that_a_crash_cut_short_took_effect_before_it_or_never() {
    let after = |first: Option<u8>, second: Option<u8>| {
        let calls = [
            (1, 0, put(0, 7)),
            (4, 5, read([first])),
            (6, 7, read([second])),
        ];
        let crash = Some(3);
        History {
            crash,
            ..history(calls)
        }
        .is_linearizable()
    };
    assert!(after(None, None) && after(Some(7), Some(7)));
    assert!(!after(Some(7), None) && !after(None, Some(7)));
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
fn search_agrees_with_the_trial_of_all_orders() {
    let mut random = SmallRng::seed_from_u64(1);
    let mut linearizable = 0;
    for _ in 0..20_000 {
        let mut nth = 0;
        let history = history([0; 6].map(|_| {
            nth += 1;
            let value = random.random_range(0..3);
            let operation = match random.random_range(0..4) {
                0 => put(0, value),
                1 => delete(0),
                2 => read([Some(value)]),
                _ => read([None]),
            };
            // No two at one moment.
            let begin = random.random_range(0..100) * 20 + nth;
            (
                begin,
                begin + random.random_range(1..60) * 20 + 7,
                operation,
            )
        }));
        let all: Vec<_> = history.calls.iter().collect();
        let is_linearizable = oracle(&all, &Map::init());
        assert_eq!(history.is_linearizable(), is_linearizable, "\n{history}");
        assert!(is_linearizable || !history.reduced().is_linearizable());
        linearizable += u32::from(is_linearizable);
    }
    assert!((2_000..18_000).contains(&linearizable), "{linearizable}");
}

#[test]
fn calls_are_printed_by_their_begin() {
    let mut history = history([(7, 0, delete(2)), (4, 9, put(0, 7)), (5, 6, read([None]))]);
    history.crash = Some(10);
    let lines = "\
thread 1    4..9    call k0=[7]
thread 2    5..6    call k0 is absent
thread 0    7..10   call k2 deleted
";
    assert_eq!(history.to_string(), lines);
}

/// What a recorder of thread 3 records of these calls.
fn recorded(calls: impl FnOnce(&mut Recorder<'_>)) -> Vec<Call> {
    let clock = Clock::default();
    let mut recorder = Recorder::new(&clock, 3);
    calls(&mut recorder);
    recorder.into_calls()
}

#[test]
fn write_is_recorded_as_one_call() {
    let changes = vec![(0, Change::Delete), (1, Change::Put(vec![7]))];
    let clock = Clock::default();
    let mut recorder = Recorder::new(&clock, 3);
    let mut meanwhile = 0;
    let written = recorder.write(changes.clone(), |given| {
        assert_eq!(given, changes);
        meanwhile = clock.tick();
        Some("batch")
    });
    assert_eq!(written, Some(()));
    let calls = recorder.into_calls();
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!((call.thread, call.by), (3, "batch"));
    assert_eq!(call.operation, Operation::Write(changes));
    assert!(call.begin < meanwhile && Some(meanwhile) < call.end);
}

#[test]
fn read_is_recorded_as_one_call() {
    let clock = Clock::default();
    let mut recorder = Recorder::new(&clock, 3);
    let (values, mut meanwhile) = (vec![None, Some(vec![7])], 0);
    let found = recorder.read(&[2, 1], |given| {
        assert_eq!(given, [2, 1]);
        meanwhile = clock.tick();
        Some(("several", values.clone()))
    });
    assert_eq!(found, Some(values));
    let calls = recorder.into_calls();
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!((call.thread, call.by), (3, "several"));
    let read = Operation::Read(vec![(2, None), (1, Some(vec![7]))]);
    assert_eq!(call.operation, read);
    assert!(call.begin < meanwhile && Some(meanwhile) < call.end);
}

#[test]
fn write_that_was_cut_short_has_no_end() {
    let changes = vec![(2, Change::Merge(7))];
    let calls = recorded(|recorder| {
        assert_eq!(recorder.write(changes.clone(), |_| None), None);
    });
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    assert_eq!(call.end, None);
    assert_eq!(call.operation, Operation::Write(changes));
}

#[test]
fn read_that_was_cut_short_is_not_recorded() {
    let calls = recorded(|recorder| assert_eq!(recorder.read(&ALL, |_| None), None));
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
#[should_panic(expected = "values of several")]
fn read_without_a_value_for_each_key_is_refused() {
    recorded(|recorder| _ = recorder.read(&[0, 1], |_| Some(("several", vec![None]))));
}

#[test]
#[should_panic(expected = "values of one")]
fn read_with_more_values_than_keys_is_refused() {
    recorded(|recorder| _ = recorder.read(&[0], |_| Some(("one", vec![None, None]))));
}

#[test]
fn values_from_before_are_recorded_as_one_write() {
    let values = [None, Some(vec![7]), None, Some(vec![8, 9])];
    let calls = recorded(|recorder| recorder.found(&values));
    let [call] = &calls[..] else {
        panic!("{calls:?}");
    };
    let put = vec![(1, Change::Put(vec![7])), (3, Change::Put(vec![8, 9]))];
    assert_eq!(call.operation, Operation::Write(put));
    assert!(call.end > Some(call.begin));
}

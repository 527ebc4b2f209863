//! What plans contain.

use std::collections::BTreeSet;

use super::*;

const SEEDS: u64 = 1_000;

fn steps(plan: &Plan) -> impl Iterator<Item = &Step> {
    plan.threads.iter().flatten()
}

/// All changes of a plan.
fn changes(plan: &Plan) -> impl Iterator<Item = &Change> {
    let written = steps(plan).filter_map(|step| match step {
        Step::Write(changes, _) => Some(changes),
        Step::Read(..) => None,
    });
    written.flatten().map(|(_, change)| change)
}

/// A read could not say which of two equal values it saw.
#[test]
fn each_value_of_a_plan_is_written_once() {
    for seed in 0..SEEDS {
        let plan = Plan::new(seed, true);
        let mut written = BTreeSet::new();
        for change in changes(&plan) {
            let value = match change {
                Change::Put(value) => value.clone(),
                Change::Merge(more) => vec![*more],
                Change::Delete => continue,
            };
            assert_eq!(value.len(), 1, "seed {seed}");
            assert!(written.insert(value), "seed {seed}: {change:?} twice");
        }
    }
}

#[test]
fn each_kind_of_step_is_planned() {
    for merges in [false, true] {
        let (mut reads, mut writes) = (BTreeSet::new(), BTreeSet::new());
        let (mut kinds, mut choices) = (BTreeSet::new(), BTreeSet::new());
        let mut all = 0;
        for plan in (0..SEEDS).map(|seed| Plan::new(seed, merges)) {
            for step in steps(&plan) {
                let (keys, counts, choice): (Vec<Key>, _, _) = match step {
                    Step::Write(changes, choice) => {
                        let keys = changes.iter().map(|(key, _)| *key);
                        (keys.collect(), &mut writes, choice)
                    }
                    Step::Read(keys, choice) => (keys.clone(), &mut reads, choice),
                };
                assert!(keys.is_sorted_by(|key, next| key < next), "{keys:?}");
                counts.extend(keys.iter().map(|key| (keys.len(), *key)));
                choices.insert(*choice);
                all += 1;
            }
            kinds.extend(changes(&plan).map(|change| match change {
                Change::Put(_) => "put",
                Change::Delete => "delete",
                Change::Merge(_) => "merge",
            }));
        }
        // Of one key, two and three, each key.
        let any: BTreeSet<_> = (1..=3)
            .flat_map(|count| ALL.map(|key| (count, key)))
            .collect();
        assert_eq!(reads, any);
        assert_eq!(writes, any);
        let expected: &[_] = if merges {
            &["delete", "merge", "put"]
        } else {
            &["delete", "put"]
        };
        assert!(kinds.iter().eq(expected), "{kinds:?}");
        assert!(choices.len() > all * 9 / 10, "{} of {all}", choices.len());
    }
}

#[test]
fn threads_and_their_calls_are_as_many_as_documented() {
    let mut counts = BTreeSet::new();
    let mut beside = BTreeSet::new();
    for plan in (0..SEEDS).map(|seed| Plan::new(seed, false)) {
        let threads = plan.threads.len();
        counts.extend(plan.threads.iter().map(|calls| (threads, calls.len())));
        beside.insert(plan.beside.len());
    }
    let documented = [(2, 3..=7), (3, 3..=5), (4, 3..=4)];
    let documented = documented.into_iter();
    let documented = documented.flat_map(|(threads, calls)| calls.map(move |n| (threads, n)));
    assert!(counts.iter().copied().eq(documented), "{counts:?}");
    assert!(beside.iter().copied().eq(1..=5), "{beside:?}");
}

#[test]
fn plan_is_the_same_for_the_same_seed() {
    let plan = |seed| format!("{:?}", Plan::new(seed, true));
    assert_eq!(plan(1), plan(1));
    assert_ne!(plan(1), plan(2));
}

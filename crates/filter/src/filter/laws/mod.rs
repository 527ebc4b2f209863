//! The laws that every filter must obey, whatever its layout: no false negatives here, the other
//! laws in one file per topic.
//!
//! With the feature `laws` other crates test their filters against them. The filters of the
//! literature compile these files again, for their own `Stage` and the kinds of their `subjects`.

#![allow(
    clippy::unwrap_used,
    reason = "a law fails by panicking, in its helpers as well"
)]
#![cfg_attr(
    not(test),
    allow(
        dead_code,
        unused_imports,
        reason = "these are tests, and what the tests of other crates share with them"
    )
)]

pub mod golden;
#[cfg(test)]
mod merging;
pub mod rates;
pub mod shapes;

use super::naive::{Naive, hashes, imprint};
use super::subjects::{self, KINDS};
use super::{Filter, Insert, Kind, Scalable, ScalableOptions, Stage};
use crate::hash::KeyHash;
use crate::math::{Items, Rate};

pub fn stage(kind: Kind, items: u64, rate: f64) -> Stage {
    Stage::with_rate(kind, Items::new(items), Rate::new(rate).unwrap()).unwrap()
}

pub fn scalable(kind: Kind) -> Scalable {
    let first = Items::new(100);
    Scalable::new(
        imprint(1),
        ScalableOptions {
            kind,
            first,
            ..ScalableOptions::default()
        },
    )
}

/// A filter that the laws are applied to.
pub trait Subject: Filter + Insert {}

impl<F: Filter + Insert> Subject for F {}

pub type Boxed = Box<dyn Subject>;

/// Filters that count a key once however often it is inserted, for 1,000 keys at 1 %.
fn sets() -> Vec<Boxed> {
    let stages = KINDS.map(|kind| Box::new(stage(kind, 1_000, 0.01)) as Boxed);
    let scalable = KINDS.map(|kind| Box::new(scalable(kind)) as Boxed);
    let mut all: Vec<Boxed> = stages.into_iter().chain(scalable).collect();
    all.push(Box::<Naive>::default());
    all
}

pub fn insert_all(mut filter: impl Insert, keys: impl IntoIterator<Item = KeyHash>) {
    keys.into_iter().for_each(|hash| _ = filter.insert(hash));
}

pub fn words(stage: &Stage) -> Vec<u64> {
    stage.words().collect()
}

/// No false negatives. Inserts thirty times the planned number of keys, so that overfull filters
/// are tested as well.
#[test]
fn no_key_is_answered_absent() {
    check_no_key_is_absent(sets());
}

/// The law above, for any filters.
pub fn check_no_key_is_absent(filters: Vec<Boxed>) {
    for mut filter in filters {
        for hash in hashes(1).take(30_000) {
            filter.insert(hash);
            assert!(
                filter.may_contain(hash),
                "absent right after it was inserted"
            );
        }
        assert!(hashes(1).take(30_000).all(|hash| filter.may_contain(hash)));
    }
}

/// `insert` says *new* exactly if the filter said *absent*. A key that is old to the oracle is
/// never new.
#[test]
fn insert_is_new_exactly_if_lookup_is_absent() {
    check_insert_agrees_with_lookup(sets());
}

/// The law above, for any filters.
pub fn check_insert_agrees_with_lookup(filters: Vec<Boxed>) {
    for mut filter in filters {
        let mut oracle = Naive::default();
        let repeated = hashes(1).take(500).chain(hashes(1).take(1_000));
        for hash in repeated {
            let absent = !filter.may_contain(hash);
            let inserted = filter.insert(hash);
            assert_eq!(inserted, absent);
            assert!(oracle.insert(hash) || !inserted);
        }
        assert!(filter.items() <= oracle.items());
        assert!(filter.items().get() > 980);
    }
}

#[test]
fn empty_filter_answers_absent() {
    check_empty_filter(sets());
}

/// The law above, for any filters.
pub fn check_empty_filter(filters: Vec<Boxed>) {
    for filter in filters {
        assert!(!hashes(1).take(1_000).any(|hash| filter.may_contain(hash)));
        assert_eq!(filter.predicted_rate(), 0.0);
        assert_eq!(filter.items().get(), 0);
    }
}

/// Holds if an insertion does not depend on what is in the filter already. The other filters are
/// tested below.
#[test]
fn insertion_order_does_not_change_words() {
    for kind in KINDS {
        let (forward, backward) = in_both_orders(|| stage(kind, 1_000, 0.01));
        assert_eq!(words(&forward), words(&backward));
    }
}

/// A growing filter puts later keys into a later stage. In either order all keys stay, by the law
/// above.
#[test]
fn words_of_growing_filter_depend_on_insertion_order() {
    for kind in KINDS {
        let (forward, backward) = in_both_orders(|| scalable(kind));
        let [first, other] =
            [forward, backward].map(|filter| words(&filter.to_chain().stages()[0]));
        assert_ne!(first, other);
    }
}

/// A thousand keys, the middle ones twice; and the same keys from the last to the first.
pub fn in_both_orders<F: Subject>(make: impl Fn() -> F) -> (F, F) {
    let middle = hashes(1).skip(450).take(100);
    let keys: Vec<_> = hashes(1).take(1_000).chain(middle).collect();
    let (mut forward, mut backward) = (make(), make());
    insert_all(&mut forward, keys.iter().copied());
    insert_all(&mut backward, keys.iter().rev().copied());
    assert!(
        keys.iter()
            .all(|&key| forward.may_contain(key) && backward.may_contain(key))
    );
    (forward, backward)
}

#[test]
fn insert_many_equals_single_inserts() {
    let keys: Vec<_> = hashes(1).take(1_001).collect();
    for kind in KINDS {
        // For the blocked kind, these give patterns of two groups and of four.
        for rate in [0.2, 0.01, 0.001] {
            let (single, mut batched) = (stage(kind, 1_000, rate), stage(kind, 1_000, rate));
            insert_all(&single, keys.iter().copied());
            batched.insert_many(&keys);
            assert_eq!(words(&single), words(&batched));
            assert_eq!(single.items(), batched.items());
        }

        let (single, batched) = (scalable(kind), scalable(kind));
        insert_all(&single, keys.iter().copied());
        batched.insert_many(&keys);
        assert_eq!(
            (single.items(), single.stages()),
            (batched.items(), batched.stages())
        );
        assert!(keys.iter().all(|&hash| batched.may_contain(hash)));
    }
}

#[test]
fn keys_of_four_concurrent_writers_are_found() {
    for kind in KINDS {
        filled_by_four(&stage(kind, 1_000, 0.01));
        filled_by_four(&scalable(kind));
    }
}

fn filled_by_four<F: Filter + Sync>(filter: &F)
where
    for<'a> &'a F: Insert,
{
    const EACH: usize = if cfg!(miri) { 200 } else { 20_000 };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            // Each thread shares half of its keys with the next one.
            let keys = hashes(1).skip(thread * EACH / 2).take(EACH);
            scope.spawn(move || insert_all(filter, keys));
        }
    });
    let mut inserted = hashes(1).take(EACH / 2 * 5);
    assert!(inserted.all(|hash| filter.may_contain(hash)));
    // A key that two threads insert at once may count twice, and no key counts more often.
    assert!(filter.items().get() <= 4 * EACH as u64);
}

/// A copy taken during insertions has every key inserted before the call.
#[test]
fn copy_during_insertions_contains_all_earlier_keys() {
    let filter = scalable(Kind::Blocked);
    insert_all(&filter, hashes(1).take(5_000));
    std::thread::scope(|scope| {
        scope.spawn(|| insert_all(&filter, hashes(2).take(50_000)));
        for _ in 0..20 {
            let chain = filter.to_chain();
            assert!(hashes(1).take(5_000).all(|hash| chain.may_contain(hash)));
        }
    });
}

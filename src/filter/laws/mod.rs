//! What every filter must keep, whatever its layout: the promise here, the rest one matter a file.

mod golden;
mod growth;
mod histories;
mod merging;
mod rates;
mod shapes;

use super::naive::{Naive, hashes, imprint};
use super::{
    CounterWidth, Counting, Filter, Growing, Growth, Kind, MinimalIncrease, RecurringMinimum,
    Scalable, ScalableOptions, Spectral, Stage,
};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};
use std::sync::Mutex;

/// The layouts of a stage.
const KINDS: [Kind; 4] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
];

fn stage(kind: Kind, items: u64, rate: f64) -> Stage {
    Stage::with_rate(kind, Items::new(items), Rate::new(rate).unwrap()).unwrap()
}

fn scalable(kind: Kind) -> Scalable {
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

/// Filters with one writer, behind a lock, so that one suite binds them all.
macro_rules! behind_a_lock {
    ($($filter:ty),*) => {$(
        impl Filter for Mutex<$filter> {
            fn insert(&self, hash: KeyHash) -> bool {
                self.lock().unwrap().insert(hash)
            }

            fn may_contain(&self, hash: KeyHash) -> bool {
                self.lock().unwrap().may_contain(hash)
            }

            fn items(&self) -> Items {
                self.lock().unwrap().items()
            }

            fn size(&self) -> Bits {
                self.lock().unwrap().size()
            }

            fn predicted_rate(&self) -> f64 {
                self.lock().unwrap().predicted_rate()
            }
        }
    )*};
}

behind_a_lock!(
    Counting,
    Spectral,
    MinimalIncrease,
    RecurringMinimum,
    Growing<Counting>,
    Growing<Spectral>
);

type Boxed = Box<dyn Filter + Sync>;

/// Filters that count a key once however often it is inserted, for 1,000 keys at 1 %.
fn sets() -> Vec<Boxed> {
    let (items, rate, width) = (Items::new(1_000), Rate::ONE_PERCENT, CounterWidth::Sixteen);
    let spectral = Spectral::with_rate(items, rate, width).unwrap();
    let minimal = MinimalIncrease::with_rate(items, rate, width).unwrap();
    let recurring = RecurringMinimum::with_rate(items, rate, width).unwrap();
    let growing = Growing::<Spectral>::spectral(growth(), width).unwrap();
    let stages = KINDS.map(|kind| Box::new(stage(kind, 1_000, 0.01)) as Boxed);
    let scalable = KINDS.map(|kind| Box::new(scalable(kind)) as Boxed);
    let mut all: Vec<Boxed> = stages.into_iter().chain(scalable).collect();
    all.push(Box::new(Mutex::new(spectral)));
    all.push(Box::new(Mutex::new(minimal)));
    all.push(Box::new(Mutex::new(recurring)));
    all.push(Box::new(Mutex::new(growing)));
    all.push(Box::<Naive>::default());
    all
}

/// Every filter there is; the last ones count each insertion.
fn all() -> Vec<Boxed> {
    let counting = Counting::with_rate(Items::new(1_000), Rate::ONE_PERCENT).unwrap();
    let growing = Growing::counting(growth()).unwrap();
    let mut all = sets();
    all.push(Box::new(Mutex::new(counting)));
    all.push(Box::new(Mutex::new(growing)));
    all
}

fn growth() -> Growth {
    let first = Items::new(100);
    Growth {
        first,
        ..Growth::default()
    }
}

fn insert_all(filter: &(impl Filter + ?Sized), keys: impl IntoIterator<Item = KeyHash>) {
    keys.into_iter().for_each(|hash| _ = filter.insert(hash));
}

fn words(stage: &Stage) -> Vec<u64> {
    stage.words().collect()
}

/// The promise. Thirty times the keys asked for, so that overfull filters are held to it as well.
#[test]
fn no_key_is_answered_absent() {
    for filter in all() {
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

/// `insert` says *new* exactly when the filter said *absent*; what the oracle calls old never is.
#[test]
fn insertion_tells_what_a_look_up_would() {
    for filter in sets() {
        let oracle = Naive::default();
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
fn an_empty_filter_holds_nothing() {
    for filter in all() {
        assert!(!hashes(1).take(1_000).any(|hash| filter.may_contain(hash)));
        assert_eq!(filter.predicted_rate(), 0.0);
        assert_eq!(filter.items().get(), 0);
    }
}

/// But for minimal increase, where each insertion looks at what the others left.
#[test]
fn the_order_of_insertion_leaves_no_trace() {
    let keys: Vec<_> = hashes(1).take(1_000).collect();
    for kind in KINDS {
        let (forward, backward) = (stage(kind, 1_000, 0.01), stage(kind, 1_000, 0.01));
        insert_all(&forward, keys.iter().copied());
        insert_all(&backward, keys.iter().rev().copied());
        assert_eq!(words(&forward), words(&backward));
    }

    let spectral = || {
        let (items, width) = (Items::new(1_000), CounterWidth::Eight);
        Spectral::with_rate(items, Rate::ONE_PERCENT, width).unwrap()
    };
    let (mut forward, mut backward) = (spectral(), spectral());
    keys.iter().for_each(|&hash| _ = forward.insert(hash));
    keys.iter()
        .rev()
        .for_each(|&hash| _ = backward.insert(hash));
    assert_eq!(forward.words(), backward.words());
}

#[test]
fn batches_insert_what_single_calls_do() {
    let keys: Vec<_> = hashes(1).take(1_001).collect();
    for kind in KINDS {
        let (single, batched) = (stage(kind, 1_000, 0.01), stage(kind, 1_000, 0.01));
        insert_all(&single, keys.iter().copied());
        batched.insert_many(&keys);
        assert_eq!(words(&single), words(&batched));
        assert_eq!(single.items(), batched.items());

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
fn four_threads_lose_nothing() {
    const EACH: usize = 20_000;
    for filter in all() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let filter = &filter;
                // Each thread shares half of its keys with the next one.
                let keys = hashes(1).skip(thread * EACH / 2).take(EACH);
                scope.spawn(move || insert_all(filter.as_ref(), keys));
            }
        });
        let inserted = EACH / 2 * 5;
        assert!(
            hashes(1)
                .take(inserted)
                .all(|hash| filter.may_contain(hash))
        );
        // One key from two threads at once may count twice, and nothing counts more often.
        assert!(filter.items().get() <= 4 * EACH as u64);
    }
}

/// Keys sealed while others are being inserted: what came before the call is in the copy.
#[test]
fn a_copy_taken_amid_insertions_has_what_came_before() {
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

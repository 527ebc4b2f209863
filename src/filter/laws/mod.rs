//! What every filter must keep, whatever its layout: the promise here, the rest one matter a file.

mod exceptions;
mod golden;
mod growth;
mod histories;
mod merging;
mod rates;
mod shapes;

use super::naive::{Naive, hashes, imprint};
use super::{
    CounterWidth, Counting, Filter, Growing, Growth, HashCoding, Insert, Kind, MinimalIncrease,
    RecurringMinimum, Scalable, ScalableOptions, Spectral, Stage,
};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};

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

/// A table of codes that is never filled up, so that it takes every key as the filters do.
struct Roomy(HashCoding);

impl Roomy {
    fn with_rate(items: u64, rate: Rate) -> Self {
        Self(HashCoding::with_rate(Items::new(items), rate).unwrap())
    }
}

impl Insert for Roomy {
    fn insert(&mut self, hash: KeyHash) -> bool {
        self.0.insert(hash).unwrap()
    }
}

impl Filter for Roomy {
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.0.may_contain(hash)
    }

    fn items(&self) -> Items {
        self.0.items()
    }

    fn size(&self) -> Bits {
        self.0.size()
    }

    fn predicted_rate(&self) -> f64 {
        self.0.predicted_rate()
    }
}

/// What the laws are about.
trait Subject: Filter + Insert {}

impl<F: Filter + Insert> Subject for F {}

type Boxed = Box<dyn Subject>;

const WIDTH: CounterWidth = CounterWidth::Sixteen;

/// Filters that count a key once however often it is inserted, for 1,000 keys at 1 %; the table,
/// which cannot be overfilled, for 30,000.
fn sets() -> Vec<Boxed> {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    let stages = KINDS.map(|kind| Box::new(stage(kind, 1_000, 0.01)) as Boxed);
    let scalable = KINDS.map(|kind| Box::new(scalable(kind)) as Boxed);
    let mut all: Vec<Boxed> = stages.into_iter().chain(scalable).collect();
    all.push(Box::new(Roomy::with_rate(30_000, rate)));
    all.push(Box::new(Spectral::with_rate(items, rate, WIDTH).unwrap()));
    all.push(Box::new(
        MinimalIncrease::with_rate(items, rate, WIDTH).unwrap(),
    ));
    all.push(Box::new(
        RecurringMinimum::with_rate(items, rate, WIDTH).unwrap(),
    ));
    all.push(Box::new(
        Growing::<Spectral>::spectral(growth(), WIDTH).unwrap(),
    ));
    all.push(Box::new(
        Growing::<MinimalIncrease>::spectral(growth(), WIDTH).unwrap(),
    ));
    all.push(Box::<Naive>::default());
    all
}

/// Every filter there is; the last ones count each insertion.
fn all() -> Vec<Boxed> {
    let counting = Counting::with_rate(Items::new(1_000), Rate::ONE_PERCENT).unwrap();
    let growing = Growing::counting(growth()).unwrap();
    let mut all = sets();
    all.push(Box::new(counting));
    all.push(Box::new(growing));
    all
}

fn growth() -> Growth {
    let first = Items::new(100);
    Growth {
        first,
        ..Growth::default()
    }
}

fn insert_all(mut filter: impl Insert, keys: impl IntoIterator<Item = KeyHash>) {
    keys.into_iter().for_each(|hash| _ = filter.insert(hash));
}

fn words(stage: &Stage) -> Vec<u64> {
    stage.words().collect()
}

/// The promise. Thirty times the keys asked for, so that overfull filters are held to it as well.
#[test]
fn no_key_is_answered_absent() {
    for mut filter in all() {
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
    for mut filter in sets() {
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
fn an_empty_filter_holds_nothing() {
    for filter in all() {
        assert!(!hashes(1).take(1_000).any(|hash| filter.may_contain(hash)));
        assert_eq!(filter.predicted_rate(), 0.0);
        assert_eq!(filter.items().get(), 0);
    }
}

/// Where an insertion does not look at what the others left. Those that do are below.
#[test]
fn the_order_of_insertion_leaves_no_trace() {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    for kind in KINDS {
        let (forward, backward) = in_both_orders(|| stage(kind, 1_000, 0.01));
        assert_eq!(words(&forward), words(&backward));
    }
    let (forward, backward) = in_both_orders(|| Counting::with_rate(items, rate).unwrap());
    assert_eq!(forward, backward);
    let spectral = || Spectral::with_rate(items, rate, WIDTH).unwrap();
    let (forward, backward) = in_both_orders(spectral);
    assert_eq!(forward.words(), backward.words());
    let recurring = || RecurringMinimum::with_rate(items, rate, WIDTH).unwrap();
    let (forward, backward) = in_both_orders(recurring);
    assert_eq!(forward.primary().words(), backward.primary().words());
}

/// Minimal increase raises what is least by now; recurring minimum counts a key again from when its
/// minimum is single; a cell is taken by who comes first; and growth puts into a later stage what
/// comes later. In either order all members stay, which is the law above.
#[test]
fn some_filters_remember_the_order() {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    let minimal = || MinimalIncrease::with_rate(items, rate, WIDTH).unwrap();
    let (forward, backward) = in_both_orders(minimal);
    assert_ne!(forward.words(), backward.words());
    let recurring = || RecurringMinimum::with_rate(items, rate, WIDTH).unwrap();
    let (forward, backward) = in_both_orders(recurring);
    assert_ne!(forward.secondary().words(), backward.secondary().words());
    let (forward, backward) = in_both_orders(|| Roomy::with_rate(1_000, rate));
    assert_ne!(forward.0.words(), backward.0.words());
    let (forward, backward) = in_both_orders(|| Growing::counting(growth()).unwrap());
    assert_ne!(forward.stages()[0].words(), backward.stages()[0].words());
    for kind in KINDS {
        let (forward, backward) = in_both_orders(|| scalable(kind));
        let [first, other] =
            [forward, backward].map(|filter| words(&filter.to_chain().stages()[0]));
        assert_ne!(first, other);
    }
}

/// A thousand keys, the middle ones twice, and the same from the last to the first.
fn in_both_orders<F: Subject>(make: impl Fn() -> F) -> (F, F) {
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
fn batches_insert_what_single_calls_do() {
    let keys: Vec<_> = hashes(1).take(1_001).collect();
    for kind in KINDS {
        // Of the blocked kind, patterns of two groups and of four.
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
fn four_threads_lose_nothing() {
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
    // One key from two threads at once may count twice, and nothing counts more often.
    assert!(filter.items().get() <= 4 * EACH as u64);
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

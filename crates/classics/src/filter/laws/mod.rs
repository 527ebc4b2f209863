//! What every filter must keep, for those of the literature; the laws are with [`super::Stage`].

mod exceptions;
mod golden;
mod growth;
mod histories;
mod merging;
mod rates;
mod shapes;

use super::laws_of_filters::{
    Boxed, deny_no_key, hold_nothing_when_empty, in_both_orders, tell_what_a_look_up_would,
};
use super::{
    CounterWidth, Counting, Filter, Growing, Growth, HashCoding, Insert, MinimalIncrease,
    RecurringMinimum, Spectral,
};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};

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

const WIDTH: CounterWidth = CounterWidth::Sixteen;

/// Filters that count a key once however often it is inserted, for 1,000 keys at 1 %; the table,
/// which cannot be overfilled, for 30,000.
fn sets() -> Vec<Boxed> {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    vec![
        Box::new(Roomy::with_rate(30_000, rate)),
        Box::new(Spectral::with_rate(items, rate, WIDTH).unwrap()),
        Box::new(MinimalIncrease::with_rate(items, rate, WIDTH).unwrap()),
        Box::new(RecurringMinimum::with_rate(items, rate, WIDTH).unwrap()),
        Box::new(Growing::<Spectral>::spectral(growth(), WIDTH).unwrap()),
        Box::new(Growing::<MinimalIncrease>::spectral(growth(), WIDTH).unwrap()),
    ]
}

/// Every filter there is here; the last ones count each insertion.
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

/// The promise. Thirty times the keys asked for, so that overfull filters are held to it as well.
#[test]
fn no_key_is_answered_absent() {
    deny_no_key(all());
}

/// `insert` says *new* exactly when the filter said *absent*; what the oracle calls old never is.
#[test]
fn insertion_tells_what_a_look_up_would() {
    tell_what_a_look_up_would(sets());
}

#[test]
fn an_empty_filter_holds_nothing() {
    hold_nothing_when_empty(all());
}

/// Where an insertion does not look at what the others left. Those that do are below.
#[test]
fn the_order_of_insertion_leaves_no_trace() {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
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
}

//! Applies the laws that every filter must obey to the filters of the literature. The laws are
//! defined beside [`super::Stage`].

mod exceptions;
mod golden;
mod growth;
mod histories;
mod merging;
mod rates;
mod shapes;

use super::laws_of_filters::{
    Boxed, check_empty_filter, check_insert_agrees_with_lookup, check_no_key_is_absent,
    in_both_orders,
};
use super::{
    CounterWidth, Counting, Filter, Growing, Growth, HashCoding, Insert, MinimalIncrease,
    RecurringMinimum, Spectral,
};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};

/// A table of codes that is never full, so that it takes every key as the filters do.
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

/// Filters that count a key once, however often it is inserted, for 1,000 keys at 1 %. The table
/// cannot be overfilled, so it is for 30,000 keys.
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

/// All filters of this crate that obey the laws; the last ones count each insertion.
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

/// No false negatives, with thirty times the expected keys, so that overfull filters are tested
/// too.
#[test]
fn no_key_is_answered_absent() {
    check_no_key_is_absent(all());
}

/// `insert` returns *new* exactly if the filter answered *absent*, and never for a key that the
/// oracle has seen.
#[test]
fn insert_is_new_exactly_if_lookup_is_absent() {
    check_insert_agrees_with_lookup(sets());
}

#[test]
fn empty_filter_answers_absent() {
    check_empty_filter(all());
}

/// For filters whose insertions do not depend on earlier ones. The others are tested below.
#[test]
fn insertion_order_does_not_change_words() {
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

/// Minimal increase raises the counters that have the minimum at the time. Recurring minimum counts
/// a key a second time once its minimum is single. The first key takes a cell of a table. A growing
/// filter puts later keys into later stages. In either order no inserted key is lost: that is the
/// law above.
#[test]
fn words_of_some_filters_depend_on_insertion_order() {
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

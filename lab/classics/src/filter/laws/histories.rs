//! Long histories of insertions and valid removals, checked against an exact table.

use crate::filter::naive::hashes;
use crate::filter::{
    CounterWidth, Counting, Growing, Growth, RecurringMinimum, RemoveError, Spectral,
};
use crate::hash::KeyHash;
use crate::math::{Items, Rate};
use std::collections::HashMap;

/// 200,000 steps over 3,000 keys, three times what the filters are made for, so that keys collide.
///
/// `remove` returns whether one insertion of the key was removed. `allows` returns the filter's
/// upper bound on the insertions of a key.
fn live_through<F>(
    name: &str,
    mut filter: F,
    insert: impl Fn(&mut F, KeyHash) -> bool,
    remove: impl Fn(&mut F, KeyHash) -> bool,
    allows: impl Fn(&F, KeyHash) -> u64,
) {
    let keys: Vec<_> = hashes(1).take(3_000).collect();
    let mut truth: HashMap<KeyHash, u64> = HashMap::new();
    for (step, coin) in hashes(2).take(200_000).enumerate() {
        let key = keys[(coin.get() >> 32) as usize % keys.len()];
        let held = truth.entry(key).or_default();
        if coin.get() % 100 >= 48 {
            insert(&mut filter, key);
            *held += 1;
        } else if *held > 0 {
            *held -= u64::from(remove(&mut filter, key));
        }
        if step % 10_000 == 0 {
            for (&key, &held) in &truth {
                let most = allows(&filter, key);
                assert!(most >= held, "{name}, step {step}: {most} for {held}");
            }
        }
    }
    let emptied = truth.values().filter(|&&held| held == 0).count();
    assert!(emptied > 100, "{name}: {emptied} keys were taken out");
}

/// A removal may be refused because the key's stage is not known. A present key is never denied.
fn taken(removed: Result<(), RemoveError>) -> bool {
    match removed {
        Ok(()) => true,
        Err(RemoveError::Ambiguous { .. }) => false,
        Err(RemoveError::NotInserted(_)) => panic!("a member is denied"),
    }
}

const ITEMS: Items = Items::new(1_000);
const RATE: Rate = Rate::ONE_PERCENT;
const WIDTH: CounterWidth = CounterWidth::Eight;
const MANY: u64 = u64::MAX;

#[test]
fn filters_of_fixed_size_have_no_false_negatives() {
    live_through(
        "counting",
        Counting::with_rate(ITEMS, RATE).unwrap(),
        Counting::insert,
        |filter, key| filter.remove(key).map(|()| true).unwrap(),
        |filter, key| if filter.may_contain(key) { MANY } else { 0 },
    );
    live_through(
        "spectral",
        Spectral::with_rate(ITEMS, RATE, WIDTH).unwrap(),
        Spectral::insert,
        |filter, key| filter.remove(key).map(|()| true).unwrap(),
        |filter, key| filter.count(key).unwrap_or(MANY),
    );
    live_through(
        "recurring minimum",
        RecurringMinimum::with_rate(ITEMS, RATE, WIDTH).unwrap(),
        RecurringMinimum::insert,
        |filter, key| filter.remove(key).map(|()| true).unwrap(),
        |filter, key| filter.at_most(key).unwrap_or(MANY),
    );
}

#[test]
fn growing_filters_have_no_false_negatives() {
    let growth = Growth {
        first: Items::new(100),
        rate: Rate::new(0.1).unwrap(),
        ..Growth::default()
    };
    live_through(
        "growing counting",
        Growing::counting(growth).unwrap(),
        Growing::insert,
        |filter, key| taken(filter.remove(key)),
        |filter, key| if filter.may_contain(key) { MANY } else { 0 },
    );
    live_through(
        "growing spectral",
        Growing::<Spectral>::spectral(growth, WIDTH).unwrap(),
        Growing::insert,
        |filter, key| taken(filter.remove(key)),
        |filter, key| filter.count(key).unwrap_or(MANY),
    );
}

//! Sums of filters of counters, and filters that are stored and restored.

use super::{WIDTH, growth};
use crate::filter::laws_of_filters::{insert_all, words};
use crate::filter::naive::hashes;
use crate::filter::{
    Composite, Counting, Growing, HashCoding, Insert, Kind, MinimalIncrease, Multiset,
    RecurringMinimum, Rule, Spectral, Stage,
};
use crate::math::{Items, Rate};

/// Equal counter by counter, even if the filters have keys in common.
#[test]
fn counters_added_are_what_inserting_both_makes() {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    let [mut left, right, both] = parts(|| Counting::with_rate(items, rate).unwrap());
    left.add(&right).unwrap();
    assert_eq!(left, both);
    let [mut left, right, both] = parts(|| Spectral::with_rate(items, rate, WIDTH).unwrap());
    left.add(&right).unwrap();
    assert_eq!(left.words(), both.words());
    assert!(left.items() >= both.items());
}

/// The upper bound is that of inserting both. The estimate may differ, and may be too low.
#[test]
fn recurring_minima_added_keep_the_bound_and_the_members() {
    let (items, rate) = (Items::new(1_000), Rate::ONE_PERCENT);
    let make = |items| move || RecurringMinimum::with_rate(items, rate, WIDTH).unwrap();
    let [mut left, right, both] = parts(make(items));
    left.add(&right).unwrap();
    assert_eq!(left.primary().words(), both.primary().words());
    let mut exact = 0;
    for (i, hash) in hashes(1).take(1_000).enumerate() {
        let times = 1 + u64::from((300..700).contains(&i));
        assert!(left.may_contain(hash));
        assert!(left.at_most(hash) >= Some(times));
        assert!(left.count(hash) <= left.at_most(hash));
        exact += usize::from(left.count(hash) == Some(times));
    }
    assert!(exact > 980, "{exact} of 1,000");

    let before = left.clone();
    assert!(left.add(&make(Items::new(2_000))()).is_err());
    assert_eq!(left, before);
}

/// Three filters: of keys 0 to 699, of keys 300 to 999, and of all these insertions together.
fn parts<F: Insert>(make: impl Fn() -> F) -> [F; 3] {
    let [mut left, mut right, mut both] = [(); 3].map(|()| make());
    let (older, newer) = (|| hashes(1).take(700), || hashes(1).skip(300).take(700));
    insert_all(&mut left, older());
    insert_all(&mut right, newer());
    insert_all(&mut both, older().chain(newer()));
    [left, right, both]
}

#[test]
fn words_make_the_counters_and_codes_they_came_from() {
    let (items, rate, keys) = (Items::new(1_000), Rate::ONE_PERCENT, || {
        hashes(1).take(1_000)
    });
    let mut counting = Counting::with_rate(items, rate).unwrap();
    insert_all(&mut counting, keys());
    let words = counting.words().to_vec();
    let again = Counting::from_words(counting.shape(), counting.items(), words);
    assert_eq!(again, Ok(counting));

    let mut minimal = MinimalIncrease::with_rate(items, rate, WIDTH).unwrap();
    insert_all(&mut minimal, keys());
    assert_eq!(reread(&minimal), minimal);

    let mut codes = HashCoding::with_rate(items, rate).unwrap();
    keys().for_each(|hash| _ = codes.insert(hash).unwrap());
    let again = HashCoding::from_words(codes.shape(), codes.words().to_vec());
    assert_eq!(again, Ok(codes));
}

#[test]
fn parts_make_the_filter_they_came_from() {
    let (items, rate, keys) = (Items::new(1_000), Rate::ONE_PERCENT, || {
        hashes(1).take(1_000)
    });
    let mut recurring = RecurringMinimum::with_rate(items, rate, WIDTH).unwrap();
    insert_all(&mut recurring, keys());
    let (primary, secondary) = (reread(recurring.primary()), reread(recurring.secondary()));
    assert_eq!(RecurringMinimum::from_parts(primary, secondary), recurring);

    let mut growing = Growing::<Spectral>::spectral(growth(), WIDTH).unwrap();
    insert_all(&mut growing, keys());
    let stages: Vec<_> = growing.stages().iter().map(reread).collect();
    assert!(stages.len() > 3);
    assert_eq!(Growing::from_stages(growth(), stages), Some(growing));

    let composite = Composite::with_rates(Kind::Classic, (items, rate), (items, rate)).unwrap();
    keys().for_each(|hash| composite.insert(hash).unwrap());
    keys().step_by(2).for_each(|hash| composite.remove(hash));
    let [added, removed] = [composite.added(), composite.removed()]
        .map(|part| Stage::from_words(part.shape(), part.items(), words(part)).unwrap());
    let again = Composite::from_parts(added, removed);
    for hash in hashes(1).take(10_000) {
        assert_eq!(again.membership(hash), composite.membership(hash));
    }
}

fn reread<R: Rule>(filter: &Multiset<R>) -> Multiset<R> {
    Multiset::from_words(filter.shape(), filter.items(), filter.words().to_vec()).unwrap()
}

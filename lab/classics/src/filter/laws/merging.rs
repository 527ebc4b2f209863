//! Sums of filters of counters, and filters that are stored and restored.

use super::{WIDTH, growth};
use crate::filter::laws_of_filters::{insert_all, stage, words};
use crate::filter::naive::hashes;
use crate::filter::resize::{expand, fold};
use crate::filter::subjects::KINDS;
use crate::filter::{
    Composite, Counting, Growing, HashCoding, Insert, Kind, MinimalIncrease, Mismatch, Multiset,
    RecurringMinimum, Rule, Shape, Spectral, Stage,
};
use crate::math::{Bits, Items, Rate};

/// Equal counter by counter, even if the filters have keys in common.
#[test]
fn added_counters_equal_inserting_keys_of_both() {
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
fn added_recurring_minima_keep_bound_and_keys() {
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
fn counters_and_codes_are_rebuilt_from_their_words() {
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
fn filter_is_rebuilt_from_its_parts() {
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

#[test]
fn merge_of_different_kinds_is_refused_and_sets_no_bit() {
    for kind in KINDS {
        for other in KINDS.into_iter().filter(|other| *other != kind) {
            let (a, b) = (stage(kind, 100, 0.01), stage(other, 100, 0.01));
            insert_all(&b, hashes(1).take(100));
            let (left, right) = (kind, other);
            assert_eq!(a.or_with(&b), Err(Mismatch::Kind { left, right }));
            assert_eq!(a.and(&b).unwrap_err(), Mismatch::Kind { left, right });
            assert_eq!(a.fill(), 0.0);
        }
    }
}

/// Fold, expand and fold again, at every size: the keys stay, and so does the smallest stage.
#[test]
fn folding_and_expanding_lose_no_key() {
    let made = |items| {
        let sized = stage(Kind::Blocked, items, 0.01).shape();
        let lines = (sized.bits.get() / 512).next_power_of_two();
        let bits = Bits::new(lines * 512);
        let stage = Stage::new(Shape { bits, ..sized }).unwrap();
        insert_all(&stage, hashes(1).take(1_000));
        stage
    };
    for items in [1_000, 2_000, 40_000] {
        let mut folded = made(items);
        while let Ok(half) = fold(&folded) {
            let again = expand(&half).unwrap();
            assert_eq!(words(&fold(&again).unwrap()), words(&half));
            for stage in [&half, &again] {
                assert!(hashes(1).take(1_000).all(|hash| stage.may_contain(hash)));
            }
            folded = half;
        }
        assert_eq!(folded.size().get(), 512);
    }
}

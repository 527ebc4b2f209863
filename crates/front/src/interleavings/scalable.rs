//! A filter that grows while it is filled: a thread that knows of a key finds it.

use std::sync::Arc;

use super::{at_once, explore, part};
use crate::filter::{Scalable, ScalableOptions};
use crate::hash::{HashId, Imprint, KeyHash};
use crate::math::{Bits, Items, Rate};
use crate::sync::atomic::{AtomicBool, Ordering};

/// One cache line for one key, then a second one, within a budget of `lines`. The false-positive
/// rate is high, so that one line is enough.
pub fn filter_of(lines: u64) -> Scalable {
    let imprint = Imprint {
        hash: HashId::Xxh3,
        seed_id: 1,
        known_answer: 2,
    };
    let options = ScalableOptions {
        rate: Rate::new(0.3).unwrap(),
        first: Items::new(1),
        growth: 1,
        budget: Some(Bits::new(lines * 512)),
        ..ScalableOptions::default()
    };
    let filter = Scalable::new(imprint, options);
    assert_eq!((filter.stages(), filter.size()), (1, Bits::new(512)));
    filter
}

fn filter(lines: u64) -> Arc<Scalable> {
    Arc::new(filter_of(lines))
}

/// Keys whose bits differ in every word of a line.
pub fn key(number: u64) -> KeyHash {
    KeyHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

const ROOM: u64 = 8;

/// Another thread grows the filter between a key's insertion and a lookup that knows of the key.
fn told(name: &str, room: u64, insert: fn(&Scalable, KeyHash)) {
    explore(name, move |turn| {
        let filter = filter(room);
        let [one, other, third] = [0; 3].map(|_| Arc::clone(&filter));
        let told = Arc::new(AtomicBool::new(false));
        let tell = Arc::clone(&told);
        let tells = move || {
            insert(&one, key(1));
            tell.store(true, Ordering::Release);
        };
        let grows = move || {
            insert(&other, key(2));
            insert(&other, key(3));
        };
        let looks = move || {
            let told = told.load(Ordering::Acquire);
            assert!(!told || third.may_contain(key(1)), "a key was lost");
        };
        at_once(turn, [part(tells), part(grows), part(looks)]);
        all_there(&filter);
        assert_eq!(filter.is_saturated(), room == 1);
        assert!(filter.stages() > 1 || room == 1, "the filter did not grow");
    });
}

fn all_there(filter: &Scalable) {
    for number in 1..=3 {
        assert!(filter.may_contain(key(number)), "key {number} was lost");
    }
}

#[test]
fn inserted_key_is_found_while_the_filter_grows() {
    told("scalable_insert", ROOM, |filter, key| {
        _ = filter.insert(key)
    });
}

#[test]
fn appended_key_is_found_while_the_filter_grows() {
    told("scalable_append", ROOM, Scalable::append);
}

/// The second stage does not fit in the budget: keys are lost, and every answer is *maybe*.
#[test]
fn key_is_found_while_the_filter_saturates() {
    told("scalable_saturate", 1, |filter, key| _ = filter.insert(key));
}

/// Both find the first stage full at the same time.
#[test]
fn concurrent_openings_of_a_stage_lose_no_key() {
    explore("scalable_open_together", |turn| {
        let filter = filter(ROOM);
        filter.insert(key(1));
        let inserts = [2, 3].map(|number| {
            let filter = Arc::clone(&filter);
            part(move || _ = filter.insert(key(number)))
        });
        at_once(turn, inserts);
        all_there(&filter);
        assert!(
            (2..=3).contains(&filter.stages()),
            "at most one stage a key"
        );
    });
}

/// A copy that is taken during growth has all earlier keys.
#[test]
fn copy_of_the_stages_has_every_earlier_key() {
    explore("scalable_copy", |turn| {
        let filter = filter(ROOM);
        filter.insert(key(1));
        let (one, other) = (Arc::clone(&filter), Arc::clone(&filter));
        let grows = move || {
            one.insert(key(2));
            one.insert(key(3));
        };
        let copies = move || {
            let copy = other.to_chain();
            assert!(copy.may_contain(key(1)), "a key was lost");
        };
        at_once(turn, [part(grows), part(copies)]);
        all_there(&filter);
        assert!(filter.stages() > 1, "the filter did not grow");
    });
}

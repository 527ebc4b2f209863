//! A filter that follows a feed: who sees a position finds its keys, and who asks at a position for
//! a key that it brought is not denied.

use std::sync::Arc;

use crate::feed::FeedFilter;
use crate::feed::filter::{Followed, Shared};
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve_front::interleavings::scalable::{filter_of, key};
use lsm_sieve_front::interleavings::{at_once, explore, part};
use lsm_sieve_front::rcu::Published;

#[test]
fn a_position_is_seen_after_its_keys() {
    explore("feed_advance_look", |turn| {
        let followed = Arc::new(Followed::new(filter_of(8), 0));
        let [follower, one, other] = [0; 3].map(|_| Arc::clone(&followed));
        let follows =
            move || (1..=2).for_each(|position| follower.apply([key(position)], position));
        let looks = |followed: Arc<Followed>| {
            move || {
                let position = followed.position();
                let is_there = |number| followed.filter.may_contain(key(number));
                assert!((1..=position).all(is_there), "a key was lost");
            }
        };
        at_once(turn, [part(follows), part(looks(one)), part(looks(other))]);
        assert_eq!(followed.position(), 2);
    });
}

/// The keys of positions, by their numbers.
const KEYS: [&[u8]; 3] = [b"never", b"ada", b"emmy"];

fn hash(number: usize) -> KeyHash {
    hasher().hash(KEYS[number]).for_summary()
}

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([7; 16]))
}

fn filter_at(filter: Scalable, position: u64) -> FeedFilter {
    let followed = Some(Arc::new(Followed::new(filter, position)));
    FeedFilter(Arc::new(Shared {
        hasher: hasher(),
        followed: Published::new(followed),
    }))
}

/// Asks for each key at the position that brought it.
fn asks(filter: &FeedFilter) -> impl FnOnce() + use<> {
    let filter = filter.clone();
    move || {
        for position in 1..KEYS.len() {
            let is_denied = filter.is_absent(KEYS[position], position as u64);
            assert!(!is_denied, "the key of a position is denied at it");
        }
    }
}

#[test]
fn keys_of_the_next_position_are_not_denied() {
    explore("feed_apply_ask", |turn| {
        let filter = filter_at(filter_of(8), 0);
        assert!((0..3).all(|number| filter.is_absent(KEYS[number], 0)));
        let follower = filter.0.followed.with(Option::clone).unwrap();
        let follows = move || {
            follower.apply([hash(1)], 1);
            // The first comes again.
            follower.apply([hash(2), hash(1)], 2);
            follower.apply([hash(1)], 1);
        };
        at_once(
            turn,
            [part(follows), part(asks(&filter)), part(asks(&filter))],
        );
        assert_eq!(filter.position(), Some(2));
    });
}

/// A filter and its position are replaced at once, and what replaces them may be less far.
#[test]
fn a_filter_is_asked_at_its_own_position() {
    explore("feed_install_ask", |turn| {
        let filter = filter_at(filter_of(8), 0);
        let installer = filter.clone();
        let installs = move || {
            let later = Followed::new(filter_of(8), 0);
            later.apply([hash(1), hash(2)], 2);
            let earlier = Followed::new(filter_of(8), 1);
            earlier.filter.insert(hash(1));
            let publish = |followed| installer.0.followed.publish(followed);
            publish(Some(Arc::new(later)));
            publish(Some(Arc::new(earlier)));
            publish(None);
        };
        at_once(turn, [part(installs), part(asks(&filter))]);
        assert!(!filter.is_absent(KEYS[0], 0));
    });
}

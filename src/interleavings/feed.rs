//! A filter that follows a feed: who sees a position finds its keys.

use std::sync::Arc;

use super::scalable::{filter_of, key};
use super::{at_once, explore, part};
use crate::feed::filter::Followed;

#[test]
fn a_position_is_seen_after_its_keys() {
    explore("feed_advance_look", |turn| {
        let followed = Arc::new(Followed::new(filter_of(8), 0));
        let [follower, one, other] = [0; 3].map(|_| Arc::clone(&followed));
        let follows = move || {
            for position in 1..=2 {
                follower.filter.insert(key(position));
                follower.advance(position);
            }
        };
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

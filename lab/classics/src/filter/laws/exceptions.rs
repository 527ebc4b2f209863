//! Tests the two filters that can deny an inserted key, against what they promise instead, in every
//! layout.

use crate::filter::laws_of_filters::rates::assert_binomial;
use crate::filter::laws_of_filters::words;
use crate::filter::naive::hashes;
use crate::filter::subjects::KINDS;
use crate::filter::{Composite, Kind, Membership, Sliding, SlidingOptions, Turn};
use crate::hash::KeyHash;
use crate::math::{Items, Rate};

const ADDED: usize = 50_000;
const REMOVED: usize = 5_000;
const ASKED: usize = 200_000;

fn composite(kind: Kind) -> Composite {
    let of = |items, rate| (Items::new(items as u64), Rate::new(rate).unwrap());
    Composite::with_rates(kind, of(ADDED, 0.01), of(REMOVED, 0.05)).unwrap()
}

/// A set whose first keys are removed and whose other keys are not.
fn filled(kind: Kind) -> Composite {
    let set = composite(kind);
    hashes(1)
        .take(ADDED)
        .for_each(|hash| set.insert(hash).unwrap());
    hashes(1).take(REMOVED).for_each(|hash| set.remove(hash));
    set
}

fn count(set: &Composite, keys: impl Iterator<Item = KeyHash>, answer: Membership) -> usize {
    keys.filter(|&hash| set.membership(hash) == answer).count()
}

#[test]
fn added_key_is_not_never_in_and_removed_key_is_out() {
    for kind in KINDS {
        let set = filled(kind);
        assert_eq!(count(&set, hashes(1).take(ADDED), Membership::NeverIn), 0);
        let removed = hashes(1).take(REMOVED);
        assert_eq!(count(&set, removed, Membership::ProbablyOut), REMOVED);
    }
}

/// Both kinds of error are as frequent as computed from the current bits.
#[test]
fn error_rates_of_a_composite_equal_those_of_its_filters() {
    for kind in KINDS {
        let set = filled(kind);
        let (taken, denied) = (set.added().observed_rate(), set.removed().observed_rate());
        let members = hashes(1).take(ADDED).skip(REMOVED);
        let hidden = count(&set, members, Membership::ProbablyOut);
        assert_binomial(
            hidden,
            ADDED - REMOVED,
            denied,
            &format!("{kind:?}, denied"),
        );
        let strangers = hashes(2).take(ASKED);
        let hits = count(&set, strangers, Membership::ProbablyIn);
        assert_binomial(
            hits,
            ASKED,
            taken * (1.0 - denied),
            &format!("{kind:?}, taken in"),
        );
    }
}

/// This holds if keys are removed after they were added and not before.
#[test]
fn insertion_order_does_not_change_a_composite() {
    for kind in KINDS {
        let (forward, backward) = (filled(kind), composite(kind));
        let reversed = |keys: usize| {
            let keys: Vec<_> = hashes(1).take(keys).collect();
            keys.into_iter().rev()
        };
        reversed(ADDED).for_each(|hash| backward.insert(hash).unwrap());
        reversed(REMOVED).for_each(|hash| backward.remove(hash));
        assert_eq!(words(forward.added()), words(backward.added()));
        assert_eq!(words(forward.removed()), words(backward.removed()));
    }
}

/// The last three generations of a thousand keys are never forgotten, in any layout.
#[test]
fn window_contains_all_keys_of_its_generations() {
    for kind in KINDS {
        let mut window = window(kind);
        let keys: Vec<_> = hashes(1).take(10_000).collect();
        for (newest, &key) in keys.iter().enumerate() {
            window.insert(key);
            let kept = &keys[newest.saturating_sub(2_999)..=newest];
            let look = newest % 101 == 0;
            assert!(!look || kept.iter().all(|&key| window.is_recent(key)));
        }
    }
}

#[test]
fn window_rate_is_the_compound_rate_of_its_generations() {
    for kind in KINDS {
        let mut window = window(kind);
        hashes(1)
            .take(20_000)
            .for_each(|hash| _ = window.insert(hash));
        assert!(window.predicted_rate() <= 0.01);
        let rates = window.generations().map(|stage| stage.observed_rate());
        let observed = crate::math::growth::compound(rates);
        let hits = hashes(2)
            .take(ASKED)
            .filter(|&hash| window.is_recent(hash))
            .count();
        assert_binomial(hits, ASKED, observed, &format!("{kind:?}"));
        assert!(
            (observed / window.predicted_rate() - 1.0).abs() < 0.15,
            "{kind:?}"
        );
    }
}

fn window(kind: Kind) -> Sliding {
    let options = SlidingOptions {
        kind,
        rate: Rate::ONE_PERCENT,
        items: Items::new(1_000),
        generations: 4,
        turn: Turn::Count,
    };
    Sliding::new(options).unwrap()
}

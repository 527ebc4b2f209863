//! Merged stages, and filters that are taken apart and put together again.

use super::subjects::KINDS;
use super::{insert_all, scalable, stage, words};
use crate::filter::naive::{hashes, imprint};
use crate::filter::{Chain, Stage};

#[test]
fn or_equals_inserting_keys_of_both() {
    for kind in KINDS {
        let [left, right, both] = [(); 3].map(|()| stage(kind, 1_000, 0.01));
        insert_all(&left, hashes(1).take(700));
        insert_all(&right, hashes(1).skip(300).take(700));
        insert_all(&both, hashes(1).take(1_000));
        left.or_with(&right).unwrap();
        assert_eq!(words(&left), words(&both));
        assert!(left.items() >= both.items());
    }
}

/// OR of several stages commutes, associates, and is idempotent.
#[test]
fn or_is_commutative_associative_and_idempotent() {
    for kind in KINDS {
        let part = |i: usize| {
            let part = stage(kind, 1_000, 0.01);
            insert_all(&part, hashes(1).skip(300 * i).take(400));
            part
        };
        let union = |order: &[usize]| {
            let all = stage(kind, 1_000, 0.01);
            order.iter().for_each(|&i| all.or_with(&part(i)).unwrap());
            words(&all)
        };
        let once = union(&[0, 1, 2]);
        for order in [&[2, 1, 0][..], &[1, 2, 0], &[0, 0, 1, 2, 2]] {
            assert_eq!(union(order), once);
        }
    }
}

#[test]
fn and_contains_common_keys_at_the_lower_rate() {
    for kind in KINDS {
        let [left, right, common] = [(); 3].map(|()| stage(kind, 3_000, 0.01));
        insert_all(&left, hashes(1).take(2_000));
        insert_all(&right, hashes(1).skip(1_000).take(2_000));
        insert_all(&common, hashes(1).skip(1_000).take(1_000));
        let both = left.and(&right).unwrap();
        assert!(
            hashes(1)
                .skip(1_000)
                .take(1_000)
                .all(|hash| both.may_contain(hash))
        );
        let maybe = |filter: &Stage| {
            let strangers = hashes(2).take(100_000);
            strangers.filter(|&hash| filter.may_contain(hash)).count()
        };
        assert!(maybe(&both) <= maybe(&left).min(maybe(&right)));
        // It has more bits than the stage of the common keys, whose bits it contains.
        assert!(
            words(&common)
                .iter()
                .zip(words(&both))
                .all(|(c, b)| c & b == *c)
        );
        assert_ne!(words(&common), words(&both));
        assert_eq!(both.items(), left.items().min(right.items()));
    }
}

/// A chain says *maybe* exactly if one of its stages does.
#[test]
fn chain_answers_maybe_if_any_stage_does() {
    for kind in KINDS {
        let [left, right] = [0, 900].map(|skip| {
            let part = stage(kind, 1_000, 0.1);
            insert_all(&part, hashes(1).skip(skip).take(1_000));
            part
        });
        let sealed = |stage: &Stage| Chain::new(imprint(1), vec![stage.try_clone().unwrap()]);
        let chain = sealed(&left).chain(sealed(&right)).unwrap();
        for hash in hashes(1).take(10_000) {
            let either = left.may_contain(hash) || right.may_contain(hash);
            assert_eq!(chain.may_contain(hash), either);
        }
    }
}

#[test]
fn stage_is_rebuilt_from_its_words() {
    for kind in KINDS {
        let original = stage(kind, 1_000, 0.01);
        insert_all(&original, hashes(1).take(1_000));
        let copy = Stage::from_words(original.shape(), original.items(), words(&original)).unwrap();
        assert_eq!(words(&copy), words(&original));
        assert_eq!(
            (copy.shape(), copy.items()),
            (original.shape(), original.items())
        );
        for hash in hashes(2).take(10_000) {
            assert_eq!(copy.may_contain(hash), original.may_contain(hash));
        }
    }
}

#[test]
fn sealed_and_loaded_filter_contains_every_key() {
    for kind in KINDS {
        let filter = scalable(kind);
        insert_all(&filter, hashes(1).take(10_000));
        let sealed = filter.to_chain();
        let load = |s: &Stage| Stage::from_words(s.shape(), s.items(), words(s)).unwrap();
        let loaded = Chain::new(sealed.imprint(), sealed.stages().iter().map(load).collect());
        assert!(hashes(1).take(10_000).all(|hash| loaded.may_contain(hash)));
        assert_eq!(loaded.predicted_rate(), sealed.predicted_rate());
    }
}

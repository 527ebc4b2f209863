//! The key space of a case: a sorted list of distinct keys, so that a key is identified by its
//! rank.
//!
//! With ranks for keys a model is an array, a range of keys is a range of ranks, and a case file is
//! readable. Even ranks are written, odd ones are only read. So there are always absent keys right
//! beside those that were written.

use std::collections::BTreeSet;

use lsm_sieve_cli::workload::random::Random;
use serde::{Deserialize, Serialize};

/// The shape of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Eight random bytes.
    Fixed,
    /// A long common prefix and a number.
    Shared,
    /// Up to two dozen bytes of a small alphabet, zero and 0xff among them.
    Binary,
    /// Keys that are prefixes of other keys.
    Nested,
    /// All of these, the empty key, one byte, and some kilobytes.
    Mixed,
}

/// Identifies a key space: equal settings make equal keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySettings {
    pub shape: Shape,
    pub count: usize,
    pub seed: u64,
}

/// Most keys that a case file may ask for.
const MOST: usize = 1 << 20;

const SHAPES: [Shape; 5] = [
    Shape::Fixed,
    Shape::Shared,
    Shape::Binary,
    Shape::Nested,
    Shape::Mixed,
];

impl KeySettings {
    pub fn draw(random: &mut Random) -> Self {
        // With few keys operations collide, many keys make SSTs and levels.
        let most = 32 << random.index(8);
        Self {
            shape: *random.pick(&SHAPES),
            count: 16 + random.index(most),
            seed: random.word(),
        }
    }
}

/// Distinct keys in bytewise order.
#[derive(Debug)]
pub struct KeySpace(Vec<Vec<u8>>);

impl KeySpace {
    pub fn new(settings: &KeySettings) -> Self {
        let mut random = Random::new(settings.seed);
        let mut keys = BTreeSet::new();
        if settings.shape == Shape::Mixed {
            keys.extend([
                vec![],
                vec![0],
                vec![0xff],
                vec![0xff; 300],
                vec![b'k'; 5_000],
            ]);
        }
        while keys.len() < settings.count.min(MOST) {
            keys.insert(key(settings.shape, &mut random));
        }
        Self(keys.into_iter().collect())
    }

    #[expect(clippy::len_without_is_empty, reason = "a key space has keys")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The key of this rank, if it exists.
    pub fn get(&self, rank: usize) -> Option<&[u8]> {
        self.0.get(rank).map(Vec::as_slice)
    }
}

fn key(shape: Shape, random: &mut Random) -> Vec<u8> {
    match shape {
        Shape::Fixed => random.word().to_be_bytes().to_vec(),
        Shape::Shared => {
            let number = random.below(1 << 24);
            format!("a/rather/long/common/prefix/{number:08}").into_bytes()
        }
        Shape::Binary => {
            let length = random.below(24);
            let alphabet = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
            (0..length).map(|_| *random.pick(&alphabet)).collect()
        }
        Shape::Nested => {
            let stem = *random.pick(b"abcdefgh");
            let repeats = random.index(256);
            let mut key = vec![stem; repeats];
            key.extend((random.below(4) > 0).then(|| *random.pick(b"abcdefgh")));
            key
        }
        Shape::Mixed => {
            let shape = *random.pick(&SHAPES[..4]);
            key(shape, random)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_yields_the_requested_keys_in_order() {
        for shape in SHAPES {
            for count in [16, 4_000] {
                let settings = KeySettings {
                    shape,
                    count,
                    seed: 7,
                };
                let keys = KeySpace::new(&settings);
                assert_eq!(keys.len(), count, "{shape:?}");
                assert!(keys.0.is_sorted(), "{shape:?}");
                assert_eq!(keys.0, KeySpace::new(&settings).0, "{shape:?}");
            }
        }
    }

    #[test]
    fn mixed_keys_include_edge_cases() {
        let settings = KeySettings {
            shape: Shape::Mixed,
            count: 50,
            seed: 1,
        };
        let keys = KeySpace::new(&settings);
        assert_eq!(keys.get(0), Some(&b""[..]));
        assert!(keys.0.iter().any(|key| key.len() == 5_000));
    }
}

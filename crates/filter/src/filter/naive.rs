//! The oracle: a set, which is never wrong in either direction. For tests only.

use super::{Filter, Insert};
use crate::hash::{HashId, Imprint, KeyHash};
use crate::math::{Bits, Items};
use std::collections::HashSet;

#[derive(Default)]
pub struct Naive(HashSet<KeyHash>);

impl Insert for Naive {
    fn insert(&mut self, hash: KeyHash) -> bool {
        self.0.insert(hash)
    }
}

impl Filter for Naive {
    fn may_contain(&self, hash: KeyHash) -> bool {
        self.0.contains(&hash)
    }

    fn items(&self) -> Items {
        Items::new(self.0.len() as u64)
    }

    fn size(&self) -> Bits {
        Bits::new(self.items().get() * 64)
    }

    fn predicted_rate(&self) -> f64 {
        0.0
    }
}

/// An endless sequence of distinct hashes, determined by the seed: SplitMix64.
pub fn hashes(seed: u64) -> impl Iterator<Item = KeyHash> {
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        KeyHash::new(z ^ (z >> 31))
    })
}

pub fn imprint(seed_id: u64) -> Imprint {
    Imprint {
        hash: HashId::Xxh3,
        seed_id,
        known_answer: 42,
    }
}

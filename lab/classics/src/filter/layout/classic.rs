//! Bloom's layout of 1970: k *different* bits of M.
//!
//! ```text
//! j   = M − k + i                                        i = 0 .. k−1
//! t   = ⌊ (hash × odd_i mod 2^64) × (j + 1) / 2^64 ⌋      a bit in 0 ..= j
//! bit = t, or j if t is taken already                     j never is: all taken bits are below it
//! ```
//!
//! Floyd's sampling (Bentley & Floyd, CACM 30(9), 1987): every k-subset is equally likely, after
//! exactly k steps. Its false-positive rate is a few percent lower than that of the standard layout
//! in filters of some hundred bits, and the same in large ones. It is slower, because each bit is
//! compared with those already taken.

use super::{Kind, Positions, Shape, ShapeError, probe};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, MAX_PROBES, Probes, Rate, classic};

/// The geometry: 1 to 64 probes, and at least as many bits.
#[derive(Clone, Copy, Debug)]
pub struct Classic {
    bits: u64,
    probes: u32,
}

/// Bits come in whole words, so that there are never fewer of them than probes.
const UNIT: u64 = MAX_PROBES as u64;

impl Positions for Classic {
    #[inline]
    fn positions(self, hash: KeyHash) -> impl Iterator<Item = u64> {
        let first = self.bits - u64::from(self.probes);
        let mut taken = Taken::default();
        (first..)
            .zip(probe::multiples(hash, self.probes))
            .map(move |(last, multiple)| taken.take(probe::fast_range(multiple, last + 1), last))
    }
}

impl Classic {
    /// The geometry that keeps `items` keys below `rate`; `None` beyond 2^64 bits.
    pub(super) fn for_rate(items: Items, rate: Rate) -> Option<Self> {
        let (bits, probes) = classic::size(items, rate);
        Some(Self {
            bits: bits.get().checked_next_multiple_of(UNIT)?,
            probes: probes.get(),
        })
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: Kind::Classic,
            bits: Bits::new(self.bits),
            probes: Probes::new(self.probes),
            groups: 0,
        }
    }

    pub(super) fn rate(self, items: Items) -> f64 {
        classic::rate(Bits::new(self.bits), Probes::new(self.probes), items)
    }

    pub(super) fn clear_chance(self) -> f64 {
        classic::clear_chance(Bits::new(self.bits), Probes::new(self.probes))
    }

    /// The probability that all of a key's different bits are set.
    pub(super) fn observed_rate(self, words: &Words) -> f64 {
        let (bits, probes) = (Bits::new(self.bits), Probes::new(self.probes));
        classic::matching(words.ones() as f64, bits, probes)
    }
}

/// The bits that the key has taken so far.
struct Taken {
    bits: [u64; MAX_PROBES as usize],
    len: usize,
}

impl Default for Taken {
    fn default() -> Self {
        let bits = [0; MAX_PROBES as usize];
        Self { bits, len: 0 }
    }
}

impl Taken {
    /// `bit`, or `instead` if it is taken.
    #[inline]
    fn take(&mut self, bit: u64, instead: u64) -> u64 {
        let new = if self.bits[..self.len].contains(&bit) {
            instead
        } else {
            bit
        };
        self.bits[self.len] = new;
        self.len += 1;
        new
    }
}

impl TryFrom<Shape> for Classic {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let probes = shape.ungrouped_probes()?;
        Ok(Self {
            bits: shape.bits_in_units_of(UNIT)?,
            probes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;
    use std::collections::HashSet;

    #[test]
    fn key_sets_as_many_bits_as_probes() {
        for probes in [1, 7, 63, 64] {
            let geometry = Classic { bits: 64, probes };
            for hash in hashes(1).take(1_000) {
                let bits: HashSet<u64> = geometry.positions(hash).collect();
                assert_eq!(bits.len(), probes as usize);
                assert!(bits.iter().all(|&bit| bit < 64));
            }
        }
    }

    /// Each of the 6 pairs among 4 bits should occur 10,000 times in 60,000, give or take 3.3
    /// standard deviations of 91.
    #[test]
    fn every_subset_is_equally_likely() {
        let geometry = Classic { bits: 4, probes: 2 };
        let mut counts = [0_u32; 16];
        for hash in hashes(1).take(60_000) {
            let subset: u64 = geometry.positions(hash).map(|bit| 1 << bit).sum();
            counts[subset as usize] += 1;
        }
        let drawn: Vec<u32> = counts.into_iter().filter(|&count| count > 0).collect();
        assert_eq!(drawn.len(), 6);
        assert!(drawn.iter().all(|&c| c.abs_diff(10_000) < 300), "{drawn:?}");
    }
}

//! Bloom's layout: k probes anywhere in M bits.
//!
//! ```text
//! bit of probe i = ⌊ (hash × odd_i mod 2^64) × M / 2^64 ⌋
//! ```
//!
//! The fewest bits of the layouts that take keys one by one, except for the classic layout in small
//! filters; k cache misses for a hit.

use super::{Kind, Positions, Shape, ShapeError, probe};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate, fill, standard};

/// The geometry: at least one bit, 1 to 64 probes.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    bits: u64,
    probes: u32,
}

/// Bits come in whole words.
const UNIT: u64 = 64;

impl Positions for Standard {
    #[inline]
    fn positions(self, hash: KeyHash) -> impl Iterator<Item = u64> {
        probe::positions(hash, self.probes, self.bits)
    }
}

impl Standard {
    /// The geometry that keeps `items` keys below `rate`; `None` beyond 2^64 bits.
    pub(super) fn for_rate(items: Items, rate: Rate) -> Option<Self> {
        let (bits, probes) = standard::size(items, rate);
        Some(Self {
            bits: bits.get().checked_next_multiple_of(UNIT)?,
            probes: probes.get(),
        })
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: Kind::Standard,
            bits: Bits::new(self.bits),
            probes: Probes::new(self.probes),
            groups: 0,
        }
    }

    pub(super) fn rate(self, items: Items) -> f64 {
        standard::rate_corrected(Bits::new(self.bits), Probes::new(self.probes), items)
    }

    pub(super) fn clear_chance(self) -> f64 {
        standard::clear_chance(Bits::new(self.bits), Probes::new(self.probes))
    }

    /// Every probe matches with the fill ratio as its probability.
    pub(super) fn observed_rate(self, words: &Words) -> f64 {
        fill::matching(
            words.ones() as f64 / self.bits as f64,
            Probes::new(self.probes),
        )
    }
}

impl TryFrom<Shape> for Standard {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let probes = shape.ungrouped_probes()?;
        Ok(Self {
            bits: shape.bits_in_units_of(UNIT)?,
            probes,
        })
    }
}

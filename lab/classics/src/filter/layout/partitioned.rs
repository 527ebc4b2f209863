//! Almeida's layout: k slices of m bits, one probe in each.
//!
//! ```text
//! | slice 0: m bits | slice 1: m bits | ...        m a multiple of 64
//! bit in slice i = ⌊ (hash × odd_i mod 2^64) × m / 2^64 ⌋
//! ```
//!
//! No two probes of a key collide, so there are no weak keys and the rate formula is exact.

use super::{Kind, Positions, Shape, ShapeError, probe};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate, fill, partitioned};

/// The geometry: 1 to 64 slices of at least one word.
#[derive(Clone, Copy, Debug)]
pub struct Partitioned {
    slice: u64,
    probes: u32,
}

/// Slices begin at whole words.
const UNIT: u64 = 64;

impl Positions for Partitioned {
    #[inline]
    fn positions(self, hash: KeyHash) -> impl Iterator<Item = u64> {
        let starts = (0..u64::from(self.probes)).map(move |i| i * self.slice);
        starts
            .zip(probe::positions(hash, self.probes, self.slice))
            .map(|(start, bit)| start + bit)
    }
}

impl Partitioned {
    /// The geometry that keeps `items` keys below `rate`; `None` beyond 2^64 bits.
    pub(super) fn for_rate(items: Items, rate: Rate) -> Option<Self> {
        let (slice, probes) = partitioned::size(items, rate);
        let slice = slice.get().checked_next_multiple_of(UNIT)?;
        slice.checked_mul(u64::from(probes.get()))?;
        Some(Self {
            slice,
            probes: probes.get(),
        })
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: Kind::Partitioned,
            bits: Bits::new(self.slice * u64::from(self.probes)),
            probes: Probes::new(self.probes),
            groups: 0,
        }
    }

    pub(super) fn rate(self, items: Items) -> f64 {
        partitioned::rate(Bits::new(self.slice), Probes::new(self.probes), items)
    }

    pub(super) fn clear_chance(self) -> f64 {
        partitioned::clear_chance(Bits::new(self.slice))
    }

    /// All slices have nearly the same fill ratio, so the mean is used for each of them.
    pub(super) fn observed_rate(self, words: &Words) -> f64 {
        let bits = (self.slice * u64::from(self.probes)) as f64;
        fill::matching(words.ones() as f64 / bits, Probes::new(self.probes))
    }
}

impl TryFrom<Shape> for Partitioned {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let probes = shape.ungrouped_probes()?;
        let bits = shape.bits_in_units_of(UNIT * u64::from(probes))?;
        Ok(Self {
            slice: bits / u64::from(probes),
            probes,
        })
    }
}

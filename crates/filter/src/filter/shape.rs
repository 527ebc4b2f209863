//! The geometry of one filter: what is needed to read its words, and nothing else.

use crate::math::{Bits, MAX_PROBES, Probes};

/// What the words of a filter hold.
///
/// A store's filters are [`Kind::Blocked`] and [`Kind::Ribbon`]. The others are filters of the
/// literature, with types of their own in another crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// k indexes over all M bits.
    Standard,
    /// k slices of m bits, one bit in each.
    Partitioned,
    /// One 64-byte line per key; within it `groups` words of `probes / groups` bits.
    Blocked,
    /// k different indexes over all M bits.
    Classic,
    /// Slots that are solved from all keys at once and take no further keys:
    /// [`super::Stage::ribbon`].
    Ribbon,
    /// k slices of counters, all of them incremented: `Counting`.
    Counting,
    /// The same, for multiplicities: `Spectral`.
    Spectral,
    /// k slices of counters, the smallest of them incremented: `MinimalIncrease`.
    MinimalIncrease,
    /// Cells that hold a code of a key: `HashCoding`.
    HashCoding,
}

impl Kind {
    /// Whether its cells are solved from all keys at once, so that it takes no further keys.
    pub const fn is_static(self) -> bool {
        matches!(self, Self::Ribbon)
    }
}

/// What must be equal before two stages may be ORed, and what a file records of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The layout.
    pub kind: Kind,
    /// All bits of the filter, over all slices, lines or cells.
    pub bits: Bits,
    /// The bits, counters or cells that a key touches: 1 for [`Kind::HashCoding`]. For
    /// [`Kind::Ribbon`], the whole bits of each slot.
    pub probes: Probes,
    /// For [`Kind::Blocked`], the words of a line that a key touches (2 or 4). For the kinds made
    /// of counters or cells, the bits of one of them. For [`Kind::Ribbon`], the sixteenths of a bit
    /// that slots have on average beyond the whole bits. 0 for the others.
    pub groups: u32,
}

/// A [`Shape`] that the requested filter cannot have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// The shape of another type of filter.
    #[error("a {kind:?} filter is no {wanted}; read it as what it is")]
    Kind {
        /// The kind that the shape names.
        kind: Kind,
        /// What it was to be read as.
        wanted: &'static str,
    },
    /// The bits do not divide into whole units.
    #[error("{kind:?} filter of {bits} bits: needs a positive multiple of {unit}; rebuild it")]
    Bits {
        /// The layout.
        kind: Kind,
        /// The bits that the shape names.
        bits: Bits,
        /// What they must be a multiple of.
        unit: u64,
    },
    /// The number of probes is 0 or more than [`crate::math::MAX_PROBES`].
    #[error("{kind:?} filter with {probes} probes: needs 1 to 64; rebuild it")]
    Probes {
        /// The layout.
        kind: Kind,
        /// The probes that the shape names.
        probes: Probes,
    },
    /// The groups do not match the layout and the probes.
    #[error("{kind:?} filter with {probes} probes in {groups} groups: unknown; rebuild it")]
    Groups {
        /// The layout.
        kind: Kind,
        /// The probes that the shape names.
        probes: Probes,
        /// The groups that the shape names.
        groups: u32,
    },
}

impl Shape {
    /// The bits, if they are a positive multiple of `unit`.
    #[doc(hidden)]
    pub fn bits_in_units_of(&self, unit: u64) -> Result<u64, ShapeError> {
        let bits = self.bits.get();
        if bits > 0 && bits.is_multiple_of(unit) {
            Ok(bits)
        } else {
            let Self { kind, bits, .. } = *self;
            Err(ShapeError::Bits { kind, bits, unit })
        }
    }

    /// The probes of a layout without groups, if they are within bounds.
    #[doc(hidden)]
    pub fn ungrouped_probes(&self) -> Result<u32, ShapeError> {
        let Self {
            kind,
            probes,
            groups,
            ..
        } = *self;
        if groups != 0 {
            return Err(ShapeError::Groups {
                kind,
                probes,
                groups,
            });
        }
        self.bounded_probes()
    }

    /// The probes, if they are within bounds.
    #[doc(hidden)]
    pub fn bounded_probes(&self) -> Result<u32, ShapeError> {
        let Self { kind, probes, .. } = *self;
        match probes.get() {
            within @ 1..=MAX_PROBES => Ok(within),
            _ => Err(ShapeError::Probes { kind, probes }),
        }
    }
}

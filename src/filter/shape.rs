//! The geometry of one stage: all that is needed to read its words, and nothing else.

use crate::math::{Bits, Probes};

/// The layout of a stage's bits; the number is what files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// k indexes over all M bits.
    Standard = 1,
    /// k slices of m bits, one bit in each.
    Partitioned = 2,
    /// One 64-byte line a key; within it `groups` words of `probes / groups` bits.
    Blocked = 3,
}

impl Kind {
    /// The layout with this number, if there is one.
    pub const fn from_u8(kind: u8) -> Option<Self> {
        match kind {
            1 => Some(Self::Standard),
            2 => Some(Self::Partitioned),
            3 => Some(Self::Blocked),
            _ => None,
        }
    }
}

/// What must be equal before two stages may be ORed, and what a file says of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The layout.
    pub kind: Kind,
    /// All bits of the stage, over all slices or lines.
    pub bits: Bits,
    /// Bits a key sets.
    pub probes: Probes,
    /// Words of a line that a key touches (2 or 4) for [`Kind::Blocked`], 0 for the others.
    pub groups: u32,
}

//! How the power goes: where writes tear, and what lies where bytes were lost.
//!
//! ```text
//!   written, not synced   | a a a a | b b b b | c c c c |     tear: 4 bytes
//!   survived              |   yes   |   no    |   yes   |
//!   found, zeroed         | a a a a | 0 0 0 0 | c c c c |
//!   found, stale          | a a a a | x x x x | c c c c |     x: an older file's, at this offset
//! ```
//!
//! Stale bytes are the worst there can be for a file that is made anew in one format: whole blocks
//! of its predecessor, in their places, under checksums that fit them.

/// One way for the power to go, and which of the disks it may leave are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Chooses among the disks where there are too many to look at all.
    pub seed: u64,
    /// How much of a write survives or is lost together.
    pub tear: Tear,
    /// What is found where bytes were lost.
    pub lost: Lost,
    /// Disks to look at, where there are too many to look at all.
    pub samples: usize,
}

impl PowerCut {
    /// Writes tear at their quarters, lost bytes are zero, 256 samples.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            tear: Tear::Quarters,
            lost: Lost::Zeroed,
            samples: 256,
        }
    }
}

/// How much of a write survives or is lost together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// A quarter of it.
    Quarters,
    /// So many bytes, at least one: a sector, a page.
    Bytes(usize),
}

impl Tear {
    /// The bytes of a piece of a write of `length` bytes.
    pub(super) fn piece(self, length: usize) -> usize {
        let piece = match self {
            Self::Quarters => length.div_ceil(4),
            Self::Bytes(bytes) => bytes,
        };
        piece.max(1)
    }
}

/// What is found where bytes were lost, within a length that survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Zeros.
    Zeroed,
    /// What an older file held at the same offset; zeros where there is none.
    Stale,
}

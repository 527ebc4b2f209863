//! A power cut: where writes tear, and what is found in place of lost bytes.
//!
//! ```text
//!   written, not synced   | a a a a | b b b b | c c c c |     tear: 4 bytes
//!   survived              |   yes   |   no    |   yes   |
//!   found, zeroed         | a a a a | 0 0 0 0 | c c c c |
//!   found, stale          | a a a a | x x x x | c c c c |     x: an older file's, at this offset
//! ```
//!
//! Stale bytes are the worst case for a file that is written again in the same format: whole blocks
//! of the older file at the same offsets, with checksums that match them.

/// One kind of power cut, and how many of the disks it may leave are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerCut {
    /// Seed that chooses among the disks if there are too many to try all.
    pub seed: u64,
    /// How much of a write survives or is lost as one piece.
    pub tear: Tear,
    /// What is found in place of lost bytes.
    pub lost: Lost,
    /// Number of disks to try if there are too many to try all.
    pub samples: usize,
}

impl PowerCut {
    /// Writes tear into quarters, lost bytes are zero, 256 samples.
    pub const fn new(seed: u64) -> Self {
        Self {
            seed,
            tear: Tear::Quarters,
            lost: Lost::Zeroed,
            samples: 256,
        }
    }
}

/// How much of a write survives or is lost as one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// A quarter of the write.
    Quarters,
    /// This many bytes, at least one: a sector or a page, for instance.
    Bytes(usize),
}

impl Tear {
    /// Length of a piece of a write of `length` bytes.
    pub(super) fn piece(self, length: usize) -> usize {
        let piece = match self {
            Self::Quarters => length.div_ceil(4),
            Self::Bytes(bytes) => bytes,
        };
        piece.max(1)
    }
}

/// What is found in place of lost bytes, within a length that survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Zeros.
    Zeroed,
    /// The bytes of an older file at the same offset; zeros if it has none there.
    Stale,
}

//! The contents of a sidecar as plain data.

use super::prefix_id::PrefixId;
use crate::filter::Shape;
use crate::hash::Imprint;
use crate::id::SegmentId;
use crate::math::{Bits, Items, Rate};
use std::fmt;

/// Sixteen random bytes that name one database permanently.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// Draws a new id from the operating system's random number generator.
    ///
    /// # Errors
    /// If the system cannot supply random bytes.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// Restores an id that was stored.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// A filter, with everything needed to decide which keys it may answer for.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidecar<S = StageRecord> {
    /// The database that the filter belongs to.
    pub store: StoreId,
    /// The hash function and seed of its keys.
    pub imprint: Imprint,
    /// The segment or segments whose keys it holds.
    pub subject: Subject,
    /// Where its keys came from.
    pub source: Source,
    /// Raw entries that were read or written to build it. For an SST, the count in its properties.
    pub entries: u64,
    /// The false-positive rate that it was sized for.
    pub rate: Rate,
    /// The prefix functions for which it also holds the prefixes of all keys: at most
    /// [`PrefixId::MOST`].
    pub prefixes: Vec<PrefixId>,
    /// The filter: 1 to 32 stages, oldest first. A lookup needs all, because a key is in only one.
    pub stages: Vec<S>,
}

/// The keys that a filter covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every key of one segment.
    Segment(SegmentId),
    /// Every key of these segments of a key space: a summary filter.
    Summary {
        /// The id of the column family.
        key_space: u32,
        /// The covered segments.
        covered: Vec<SegmentId>,
    },
}

/// Where a filter's keys came from. Files store the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Every raw entry, seen while the segment was written.
    TableCapture = 1,
    /// Every raw entry, read back from the finished segment.
    RawKeys = 2,
    /// The filters of the segments that were compacted.
    OrOfInputs = 3,
    /// A summary filter, copied from memory.
    Snapshot = 4,
}

impl Source {
    /// The source with this number, if it is known.
    pub const fn from_u8(source: u8) -> Option<Self> {
        match source {
            1 => Some(Self::TableCapture),
            2 => Some(Self::RawKeys),
            3 => Some(Self::OrOfInputs),
            4 => Some(Self::Snapshot),
            _ => None,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TableCapture => "table capture",
            Self::RawKeys => "raw keys",
            Self::OrOfInputs => "or of inputs",
            Self::Snapshot => "snapshot",
        })
    }
}

/// One stage of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRecord {
    /// Kind and size.
    pub shape: Shape,
    /// Number of keys inserted.
    pub items: Items,
    /// Its bits, `ceil(bits / 64)` words.
    pub words: Vec<u64>,
}

/// The header of a sidecar: everything except the covered segments and the words.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The database that the filter belongs to.
    pub store: StoreId,
    /// The hash function and seed of its keys.
    pub imprint: Imprint,
    /// The segment or segments whose keys it holds.
    pub subject: HeaderSubject,
    /// Where its keys came from.
    pub source: Source,
    /// Raw entries that were read or written to build it.
    pub entries: u64,
    /// Number of keys in all stages.
    pub keys: Items,
    /// The requested false-positive rate.
    pub rate: Rate,
    /// The functions whose prefixes of all keys it holds too.
    pub prefixes: Vec<PrefixId>,
    /// The stages, oldest first.
    pub stages: Vec<StageHeader>,
    /// Bytes of covered segment ids and words.
    pub payload_bytes: u64,
    /// Bytes of the whole file.
    pub total_bytes: u64,
}

impl Header {
    /// Bits in all stages.
    pub fn size(&self) -> Bits {
        self.stages.iter().map(|stage| stage.shape.bits).sum()
    }
}

/// [`Subject`] without the list of covered segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderSubject {
    /// One segment.
    Segment(SegmentId),
    /// Segments of a key space: a summary filter.
    Summary {
        /// The id of the column family.
        key_space: u32,
        /// Number of covered segments.
        covered: u64,
    },
}

/// [`StageRecord`] without the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageHeader {
    /// Kind and size.
    pub shape: Shape,
    /// Number of keys inserted.
    pub items: Items,
}

impl From<&Subject> for HeaderSubject {
    fn from(subject: &Subject) -> Self {
        match subject {
            Subject::Segment(id) => Self::Segment(*id),
            Subject::Summary { key_space, covered } => Self::Summary {
                key_space: *key_space,
                covered: covered.len() as u64,
            },
        }
    }
}

//! What a sidecar says, as plain data.

use crate::filter::Shape;
use crate::hash::Imprint;
use crate::id::SegmentId;
use crate::math::{Bits, Items, Rate};
use std::fmt;

/// Sixteen random bytes that name one database for ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId([u8; 16]);

impl StoreId {
    /// A new identity from the operating system's randomness.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// An identity read back from where it was stored.
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

/// A filter with everything that is needed to decide what it may be asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Sidecar<S = StageRecord> {
    /// The database that it belongs to.
    pub store: StoreId,
    /// The hash and the seed of its keys.
    pub imprint: Imprint,
    /// What it speaks for.
    pub subject: Subject,
    /// Where its keys came from.
    pub source: Source,
    /// Raw entries that were read or written to make it: for a table, those of its properties.
    pub entries: u64,
    /// The false-positive rate promised when it was sized.
    pub rate: Rate,
    /// The filter, 1 to 32 stages, oldest first. All are needed: a key is in any one of them.
    pub stages: Vec<S>,
}

/// What a filter speaks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Every key of one segment.
    Segment(SegmentId),
    /// Every key of these segments of a key space.
    Summary {
        /// The number of the column family.
        key_space: u32,
        /// The covered segments.
        covers: Vec<SegmentId>,
    },
}

/// Where a filter's keys came from; the number is what files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Every raw entry, seen while the segment was built.
    TableCapture = 1,
    /// Every raw entry, read back from the finished segment.
    RawKeys = 2,
    /// The filters of the segments that were merged.
    OrOfInputs = 3,
    /// A summary as it stood in memory.
    Snapshot = 4,
}

impl Source {
    /// The source with this number, if there is one.
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
    /// Its geometry.
    pub shape: Shape,
    /// Keys inserted.
    pub items: Items,
    /// Its bits, `ceil(bits / 64)` words.
    pub words: Vec<u64>,
}

/// What a sidecar's header says: all but the covered segments and the words.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The database that it belongs to.
    pub store: StoreId,
    /// The hash and the seed of its keys.
    pub imprint: Imprint,
    /// What it speaks for.
    pub subject: HeaderSubject,
    /// Where its keys came from.
    pub source: Source,
    /// Raw entries that were read or written to make it.
    pub entries: u64,
    /// Keys in all stages.
    pub keys: Items,
    /// The promised rate.
    pub rate: Rate,
    /// The stages, oldest first.
    pub stages: Vec<StageHeader>,
    /// Bytes of covered segments and words.
    pub payload_bytes: u64,
    /// Bytes of the whole file.
    pub total_bytes: u64,
}

impl Header {
    /// Bits of all stages.
    pub fn size(&self) -> Bits {
        self.stages.iter().map(|stage| stage.shape.bits).sum()
    }
}

/// [`Subject`] without the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderSubject {
    /// One segment.
    Segment(SegmentId),
    /// A key space.
    Summary {
        /// The number of the column family.
        key_space: u32,
        /// How many segments are covered.
        covers: u64,
    },
}

/// [`StageRecord`] without the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageHeader {
    /// Its geometry.
    pub shape: Shape,
    /// Keys inserted.
    pub items: Items,
}

impl From<&Subject> for HeaderSubject {
    fn from(subject: &Subject) -> Self {
        match subject {
            Subject::Segment(id) => Self::Segment(*id),
            Subject::Summary { key_space, covers } => Self::Summary {
                key_space: *key_space,
                covers: covers.len() as u64,
            },
        }
    }
}

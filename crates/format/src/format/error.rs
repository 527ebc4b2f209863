//! What can be wrong with bytes from a disk, and where.

use std::{fmt, io};

/// Why bytes are not what they should be; `byte N` counts from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes end too early.
    #[error("the {part} needs {needed} bytes, {found} are there")]
    Short {
        /// What does not fit.
        part: Part,
        /// Length needed, in bytes.
        needed: u64,
        /// Length found, in bytes.
        found: u64,
    },
    /// A mark is not there.
    #[error("byte {offset}: the mark of the {part} is missing, found {found:02x?}")]
    Magic {
        /// Which part the mark belongs to.
        part: Part,
        /// Where it should stand.
        offset: u64,
        /// What stands there.
        found: [u8; 8],
    },
    /// An intact file of a later version of this crate.
    #[error(
        "byte {offset}: version {version}, flags {flags:#06x}: newer than this library, which leaves the file alone"
    )]
    Newer {
        /// Where the version stands.
        offset: u64,
        /// The version.
        version: u16,
        /// The flags.
        flags: u16,
    },
    /// A checksum does not fit the bytes that it covers.
    #[error(
        "byte {offset}: the CRC-32 of the {part} is {found:08x}, its bytes give {expected:08x}"
    )]
    Checksum {
        /// The part that is damaged.
        part: Part,
        /// Where the checksum stands.
        offset: u64,
        /// What the bytes give.
        expected: u32,
        /// What stands there.
        found: u32,
    },
    /// A field holds a value that it cannot have.
    #[error("byte {offset}: the {field} is {found}; expected {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Where it stands.
        offset: u64,
        /// What stands there.
        found: u64,
        /// What could stand there.
        expected: &'static str,
    },
    /// Two statements of one length differ.
    #[error("byte {offset}: the {field} is {found}; the rest gives {expected}")]
    Length {
        /// Which length.
        field: &'static str,
        /// Where it stands.
        offset: u64,
        /// What stands there.
        found: u64,
        /// What the rest gives.
        expected: u64,
    },
    /// A stage is described as one can be, and none of its kind can be made of its words.
    #[error("stage {number} is of no use here: {reason}")]
    Stage {
        /// Which one, counted from 0.
        number: u64,
        /// Why it is not.
        reason: String,
    },
    /// The memory for the contents is not to be had.
    #[error("no memory for {bytes} bytes of the {part}")]
    Memory {
        /// For what.
        part: Part,
        /// How much, in bytes.
        bytes: u64,
    },
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// What was read is not what it should be.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The disk did not give it.
    #[error(transparent)]
    Disk(#[from] io::Error),
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The header.
    Header,
    /// The payload as a whole.
    Payload,
    /// One block of the payload, counted from 0.
    Block(u64),
    /// The trailer.
    Trailer,
    /// The identity file.
    Identity,
}

impl FormatError {
    /// Whether the file is intact and only unknown: it must not be replaced or removed.
    pub const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Payload => f.write_str("payload"),
            Self::Block(number) => write!(f, "block {number}"),
            Self::Trailer => f.write_str("trailer"),
            Self::Identity => f.write_str("identity"),
        }
    }
}

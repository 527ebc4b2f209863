//! What can be wrong with bytes from a disk, and where.

use std::{fmt, io};

/// Why bytes could not be decoded; `byte N` counts from the start of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The bytes end too early.
    #[error("the {part} needs {needed} bytes, but there are only {found}")]
    Short {
        /// The part that is too short.
        part: Part,
        /// Length needed, in bytes.
        needed: u64,
        /// Length found, in bytes.
        found: u64,
    },
    /// A magic number is missing.
    #[error("byte {offset}: the magic number of the {part} is missing, found {found:02x?}")]
    Magic {
        /// The part that should have it.
        part: Part,
        /// Where it should be.
        offset: u64,
        /// The bytes found there.
        found: [u8; 8],
    },
    /// An intact file of a later version of this crate.
    #[error(
        "byte {offset}: version {version} with flags {flags:#06x} is newer than this library; \
         the file is left as it is"
    )]
    Newer {
        /// Offset of the version.
        offset: u64,
        /// The version.
        version: u16,
        /// The flags.
        flags: u16,
    },
    /// A checksum does not match the bytes that it covers.
    #[error(
        "byte {offset}: the CRC-32 of the {part} is {found:08x}, but its bytes give {expected:08x}"
    )]
    Checksum {
        /// The part that is damaged.
        part: Part,
        /// Offset of the checksum.
        offset: u64,
        /// The checksum computed from the bytes.
        expected: u32,
        /// The checksum found in the file.
        found: u32,
    },
    /// A field has an invalid value.
    #[error("byte {offset}: the {field} is {found}; expected {expected}")]
    Field {
        /// Which field.
        field: &'static str,
        /// Its offset.
        offset: u64,
        /// The value found.
        found: u64,
        /// The values that are valid.
        expected: &'static str,
    },
    /// Two statements of the same length differ.
    #[error("byte {offset}: the {field} is {found}, but the rest of the file gives {expected}")]
    Length {
        /// Which length.
        field: &'static str,
        /// Its offset.
        offset: u64,
        /// The length found in the field.
        found: u64,
        /// The length computed from the rest of the file.
        expected: u64,
    },
    /// The description of a stage is valid, but no stage of its kind can be built of its words.
    #[error("stage {number} is of no use here: {reason}")]
    Stage {
        /// Index of the stage, from 0.
        number: u64,
        /// Why it cannot be built.
        reason: String,
    },
    /// There is not enough memory for the contents.
    #[error("cannot allocate {bytes} bytes for the {part}")]
    Memory {
        /// The part that needs the memory.
        part: Part,
        /// Bytes needed.
        bytes: u64,
    },
}

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Its bytes could not be decoded.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The disk reported an error.
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
    /// Whether the file is intact but of a newer version: it must not be replaced or removed.
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

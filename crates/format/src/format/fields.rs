//! Fixed-width little-endian fields of a byte slice, by offset. No offset can cause a panic.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::error::{FormatError, Part};
use super::layout::{AT_FLAGS, AT_VERSION, MUST_UNDERSTAND, check, short};
use crate::fault::fault;

/// The bytes of one part of a file.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    part: Part,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn new(part: Part, bytes: &'a [u8]) -> Self {
        Self { part, bytes }
    }

    pub(super) fn array<const N: usize>(&self, at: usize) -> Result<[u8; N], FormatError> {
        let found = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<N>);
        found
            .copied()
            .ok_or_else(|| short(self.part, at.saturating_add(N), self.bytes.len()))
    }

    pub(super) fn bytes(&self, at: usize, length: usize) -> Result<&'a [u8], FormatError> {
        let end = at.saturating_add(length);
        let found = self.bytes.get(at..end);
        found.ok_or_else(|| short(self.part, end, self.bytes.len()))
    }

    pub(super) fn u8(&self, at: usize) -> Result<u8, FormatError> {
        self.array(at).map(u8::from_le_bytes)
    }

    pub(super) fn u16(&self, at: usize) -> Result<u16, FormatError> {
        self.array(at).map(u16::from_le_bytes)
    }

    pub(super) fn u32(&self, at: usize) -> Result<u32, FormatError> {
        self.array(at).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&self, at: usize) -> Result<u64, FormatError> {
        self.array(at).map(u64::from_le_bytes)
    }

    /// Checks that this library can read the version and flags; `newest` is the latest version it
    /// knows.
    pub(super) fn known_version(&self, newest: u16) -> Result<(), FormatError> {
        let (version, flags) = (self.u16(AT_VERSION)?, self.u16(AT_FLAGS)?);
        fault!(NewerVersionRead, return Ok(()));
        if version > newest || flags & MUST_UNDERSTAND != 0 {
            return Err(FormatError::Newer {
                offset: AT_VERSION as u64,
                version,
                flags,
            });
        }
        check(
            version > 0,
            "version",
            AT_VERSION,
            version.into(),
            "1 or more",
        )
    }

    /// Checks the magic number of this part; `origin` is the part's offset in the file.
    pub(super) fn magic(
        &self,
        at: usize,
        origin: u64,
        expected: [u8; 8],
    ) -> Result<(), FormatError> {
        let found = self.array(at)?;
        if found == expected {
            return Ok(());
        }
        Err(FormatError::Magic {
            part: self.part,
            offset: origin.saturating_add(at as u64),
            found,
        })
    }
}

/// Splits `bytes` into data and CRC-32, and returns both if they match.
///
/// The checksum is at the end; `offset` is where `bytes` begin in the file.
pub(super) fn checked(part: Part, offset: u64, bytes: &[u8]) -> Result<(&[u8], u32), FormatError> {
    let Some((data, stored)) = bytes.split_last_chunk() else {
        return Err(short(part, size_of::<u32>(), bytes.len()));
    };
    let found = u32::from_le_bytes(*stored);
    let expected = crc32fast::hash(data);
    if found == expected || is_unchecked(part) {
        return Ok((data, found));
    }
    Err(FormatError::Checksum {
        part,
        offset: offset.saturating_add(data.len() as u64),
        expected,
        found,
    })
}

/// No part is, but for the faults.
fn is_unchecked(part: Part) -> bool {
    fault!(HeaderUnchecked, return matches!(part, Part::Header));
    fault!(BlocksUnchecked, return matches!(part, Part::Block(_)));
    false
}

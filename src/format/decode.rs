//! From bytes to a sidecar, whatever the bytes.
//!
//! Three depths: [`decode_header`] needs the start of a file, [`verify`] all of it, [`decode`] also
//! memory. None indexes, none computes without a check, none trusts a length before it agrees with
//! the bytes at hand.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::blocks::{Blocks, PayloadReader};
use super::error::{FormatError, Part};
use super::fields::{Fields, checked};
use super::header::decode_header;
use super::layout::{
    self, END_MAGIC, ID_BYTES, MIN_HEADER_BYTES, TRAILER_BYTES, TRAILER_CHECK, TRAILER_MAGIC,
    VALUES_BYTES, WORD_BYTES, header_bytes, short, words,
};
use super::sidecar::{Header, HeaderSubject, Sidecar, StageHeader, StageRecord, Subject};
use crate::filter::Values;
use crate::id::SegmentId;
use crate::planted::planted;
use byteorder::{LittleEndian, ReadBytesExt as _};
use crc32fast::Hasher;
use std::io::Read as _;

/// The sidecar in these bytes, every one of them verified.
///
/// Takes no more memory than the bytes themselves.
///
/// # Errors
/// [`FormatError`] says what is wrong with which byte.
pub fn decode(bytes: &[u8]) -> Result<Sidecar, FormatError> {
    let (header, blocks) = verified(bytes)?;
    let mut payload = blocks.reader();
    let subject = read_subject(&header, &mut payload)?;
    let lost = usize::from(planted!(StageLost));
    let stages = header
        .stages
        .iter()
        .take(header.stages.len().saturating_sub(lost))
        .map(|stage| read_stage(stage, &mut payload));
    Ok(Sidecar {
        store: header.store,
        imprint: header.imprint,
        subject,
        source: header.source,
        entries: header.entries,
        rate: header.rate,
        stages: stages.collect::<Result<_, _>>()?,
    })
}

/// Checks every byte of a sidecar without building its filter.
///
/// # Errors
/// The same as [`decode`], but for lack of memory.
pub fn verify(bytes: &[u8]) -> Result<Header, FormatError> {
    verified(bytes).map(|(header, _)| header)
}

fn verified(bytes: &[u8]) -> Result<(Header, Blocks<'_>), FormatError> {
    let header = decode_header(bytes)?;
    let length = bytes.len() as u64;
    header.check_file_length(length)?;
    let missing = || {
        short(
            Part::Payload,
            MIN_HEADER_BYTES.saturating_add(TRAILER_BYTES),
            bytes.len(),
        )
    };
    let (head, rest) = bytes
        .split_at_checked(header_bytes(header.stages.len()))
        .ok_or_else(missing)?;
    let (blocks, trailer) = rest
        .split_last_chunk::<TRAILER_BYTES>()
        .ok_or_else(missing)?;
    let mut check = Hasher::new();
    let (_, crc) = checked(Part::Header, 0, head)?;
    check.update(&crc.to_le_bytes());
    let blocks = Blocks::verify(blocks, head.len() as u64, &mut check)?;
    check_trailer(trailer, length, check)?;
    Ok((header, blocks))
}

/// The trailer of a file of this length, against all checksums before it.
fn check_trailer(trailer: &[u8], length: u64, mut check: Hasher) -> Result<(), FormatError> {
    let origin = length.saturating_sub(TRAILER_BYTES as u64);
    let fields = Fields::new(Part::Trailer, trailer);
    fields.magic(TRAILER_MAGIC, origin, END_MAGIC)?;
    let stated = fields.u64(0)?;
    if stated != length {
        return Err(FormatError::Length {
            field: "total length in the trailer",
            offset: origin,
            found: stated,
            expected: length,
        });
    }
    check.update(&length.to_le_bytes());
    let (expected, found) = (check.finalize(), fields.u32(TRAILER_CHECK)?);
    if expected == found || planted!(TrailerUnchecked) {
        return Ok(());
    }
    Err(FormatError::Checksum {
        part: Part::Trailer,
        offset: origin.saturating_add(TRAILER_CHECK as u64),
        expected,
        found,
    })
}

fn read_subject(header: &Header, payload: &mut PayloadReader<'_>) -> Result<Subject, FormatError> {
    let (key_space, count) = match header.subject {
        HeaderSubject::Segment(id) => return Ok(Subject::Segment(id)),
        HeaderSubject::Summary { key_space, covers } => (key_space, covers),
    };
    let mut covers = filled(SegmentId::from_bytes([0; ID_BYTES]), count)?;
    for cover in &mut covers {
        let mut id = [0; ID_BYTES];
        payload
            .read_exact(&mut id)
            .map_err(|_| too_short(count, ID_BYTES))?;
        *cover = SegmentId::from_bytes(id);
    }
    let mut values = filled(Values::default(), layout::values(count, &header.stages))?;
    for values in &mut values {
        let bits = payload
            .read_u8()
            .map_err(|_| too_short(count, VALUES_BYTES))?;
        *values = Values::from_bits(bits);
    }
    Ok(Subject::Summary {
        key_space,
        covers,
        values,
    })
}

fn read_stage(
    stage: &StageHeader,
    payload: &mut PayloadReader<'_>,
) -> Result<StageRecord, FormatError> {
    let count = words(stage.shape.bits.get());
    let mut words = filled(0, count)?;
    payload
        .read_u64_into::<LittleEndian>(&mut words)
        .map_err(|_| too_short(count, WORD_BYTES))?;
    Ok(StageRecord {
        role: stage.role,
        shape: stage.shape,
        items: stage.items,
        words,
    })
}

/// `count` values, which the caller has seen to be in the file.
fn filled<T: Clone>(value: T, count: u64) -> Result<Vec<T>, FormatError> {
    let no_memory = || FormatError::Memory {
        part: Part::Payload,
        bytes: count.saturating_mul(size_of::<T>() as u64),
    };
    let length = usize::try_from(count).map_err(|_| no_memory())?;
    let mut values = Vec::new();
    values.try_reserve_exact(length).map_err(|_| no_memory())?;
    values.resize(length, value);
    Ok(values)
}

/// Cannot happen while the payload length was checked; an error all the same.
fn too_short(count: u64, size: usize) -> FormatError {
    FormatError::Short {
        part: Part::Payload,
        needed: count.saturating_mul(size as u64),
        found: 0,
    }
}

//! From bytes to a sidecar, whatever the bytes.
//!
//! Three depths: [`decode_header`] needs the start of a file, [`verify`] all of it, [`decode`] also
//! memory. None indexes, none computes without a check, none trusts a length before it agrees with
//! the bytes at hand.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::blocks::{Blocks, PayloadReader};
use super::encode::{covers, sum_of_items};
use super::error::{FormatError, Part};
use super::fields::{Fields, checked};
use super::layout::{
    AT_COVERS, AT_ENTRIES, AT_HASH, AT_HEADER_LENGTH, AT_KEY_SPACE, AT_KEYS, AT_KNOWN_ANSWER,
    AT_MAGIC, AT_PAYLOAD_LENGTH, AT_RATE, AT_SEED_ID, AT_SEGMENT, AT_SOURCE, AT_STAGES, AT_STORE,
    AT_SUBJECT, AT_TOTAL_LENGTH, END_MAGIC, ID_BYTES, MAGIC, MAX_HEADER_BYTES, MAX_STAGES,
    MIN_HEADER_BYTES, STAGE_BITS, STAGE_GROUPS, STAGE_ITEMS, STAGE_KIND, STAGE_PROBES,
    STAGE_RESERVED, SUBJECT_SEGMENT, SUBJECT_SUMMARY, TRAILER_BYTES, TRAILER_CHECK, TRAILER_MAGIC,
    VERSION, WORD_BYTES, check, check_length, check_shape, header_bytes, payload_bytes, short,
    stage_at, total_bytes, words,
};
use super::sidecar::{
    Header, HeaderSubject, Sidecar, Source, StageHeader, StageRecord, StoreId, Subject,
};
use crate::filter::{Kind, Shape};
use crate::hash::{HashId, Imprint};
use crate::math::{Bits, Items, Probes, Rate};
use crate::segment::SegmentId;
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
    let subject = read_subject(header.subject, &mut payload)?;
    let stages = header
        .stages
        .iter()
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

/// What the header says, from at least the first [`MAX_HEADER_BYTES`] of a file or all of it.
///
/// The rest of the file may still be damaged: this is for inspection, never for an answer.
///
/// # Errors
/// [`FormatError`] says what is wrong with which byte of the header.
pub fn decode_header(bytes: &[u8]) -> Result<Header, FormatError> {
    let fields = checked_header(bytes)?;
    let header = Header {
        store: StoreId::from_bytes(fields.array(AT_STORE)?),
        imprint: imprint(fields)?,
        subject: subject(fields)?,
        source: known(
            Source::from_u8,
            fields.u8(AT_SOURCE)?,
            "source",
            AT_SOURCE,
            "1 to 4",
        )?,
        entries: fields.u64(AT_ENTRIES)?,
        keys: Items::new(fields.u64(AT_KEYS)?),
        rate: rate(fields)?,
        stages: stages(fields)?,
        payload_bytes: fields.u64(AT_PAYLOAD_LENGTH)?,
        total_bytes: fields.u64(AT_TOTAL_LENGTH)?,
    };
    check_header(&header)?;
    let expected = header_bytes(header.stages.len()) as u64;
    let length = fields.u32(AT_HEADER_LENGTH)?.into();
    check_length("header length", AT_HEADER_LENGTH, length, expected)?;
    Ok(header)
}

/// What must hold of every header, before it is written and after it was read.
pub(super) fn check_header(header: &Header) -> Result<(), FormatError> {
    let stages = header.stages.len();
    check(
        (1..=MAX_STAGES).contains(&stages),
        "number of stages",
        AT_STAGES,
        stages as u64,
        "1 to 32",
    )?;
    for (index, stage) in header.stages.iter().enumerate() {
        check_shape(&stage.shape, stage_at(index))?;
    }
    let keys = sum_of_items(&header.stages).get();
    check_length("number of keys", AT_KEYS, header.keys.get(), keys)?;
    let payload = payload_bytes(covers(&header.subject), &header.stages).unwrap_or(u64::MAX);
    check_length(
        "payload length",
        AT_PAYLOAD_LENGTH,
        header.payload_bytes,
        payload,
    )?;
    let total = total_bytes(stages, payload).unwrap_or(u64::MAX);
    check_length("total length", AT_TOTAL_LENGTH, header.total_bytes, total)
}

/// The header's fields once its CRC-32 fits and its version is known.
fn checked_header(bytes: &[u8]) -> Result<Fields<'_>, FormatError> {
    let start = Fields::new(Part::Header, bytes);
    start.magic(AT_MAGIC, 0, MAGIC)?;
    let length = start.u32(AT_HEADER_LENGTH)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let possible = (MIN_HEADER_BYTES..=MAX_HEADER_BYTES).contains(&length);
    check(
        possible,
        "header length",
        AT_HEADER_LENGTH,
        length as u64,
        "148 to 4096",
    )?;
    let header = bytes
        .get(..length)
        .ok_or_else(|| short(Part::Header, length, bytes.len()))?;
    let (header, _) = checked(Part::Header, 0, header)?;
    let fields = Fields::new(Part::Header, header);
    fields.known_version(VERSION)?;
    Ok(fields)
}

fn imprint(fields: Fields<'_>) -> Result<Imprint, FormatError> {
    Ok(Imprint {
        hash: known(
            HashId::from_u8,
            fields.u8(AT_HASH)?,
            "hash",
            AT_HASH,
            "1 or 2",
        )?,
        seed_id: fields.u64(AT_SEED_ID)?,
        known_answer: fields.u64(AT_KNOWN_ANSWER)?,
    })
}

fn subject(fields: Fields<'_>) -> Result<HeaderSubject, FormatError> {
    let key_space = fields.u32(AT_KEY_SPACE)?;
    let segment: [u8; ID_BYTES] = fields.array(AT_SEGMENT)?;
    let covers = fields.u64(AT_COVERS)?;
    match fields.u8(AT_SUBJECT)? {
        SUBJECT_SEGMENT => {
            check(
                key_space == 0,
                "key space",
                AT_KEY_SPACE,
                key_space.into(),
                "0 for a segment",
            )?;
            check(
                covers == 0,
                "number of covered segments",
                AT_COVERS,
                covers,
                "0 for a segment",
            )?;
            Ok(HeaderSubject::Segment(SegmentId::from_bytes(segment)))
        }
        SUBJECT_SUMMARY => {
            let first = segment
                .iter()
                .find(|byte| **byte != 0)
                .copied()
                .unwrap_or(0);
            check(
                first == 0,
                "segment",
                AT_SEGMENT,
                first.into(),
                "16 zeros for a summary",
            )?;
            Ok(HeaderSubject::Summary { key_space, covers })
        }
        other => Err(FormatError::Field {
            field: "subject",
            offset: AT_SUBJECT as u64,
            found: other.into(),
            expected: "1 or 2",
        }),
    }
}

fn rate(fields: Fields<'_>) -> Result<Rate, FormatError> {
    let bits = fields.u64(AT_RATE)?;
    Rate::new(f64::from_bits(bits)).map_err(|_| FormatError::Field {
        field: "rate",
        offset: AT_RATE as u64,
        found: bits,
        expected: "the bits of a number strictly between 0 and 1",
    })
}

fn stages(fields: Fields<'_>) -> Result<Vec<StageHeader>, FormatError> {
    let count = usize::from(fields.u8(AT_STAGES)?);
    let count = count.min(MAX_STAGES.saturating_add(1));
    (0..count)
        .map(|index| stage(fields, stage_at(index)))
        .collect()
}

fn stage(fields: Fields<'_>, at: usize) -> Result<StageHeader, FormatError> {
    let field = |offset: usize| at.saturating_add(offset);
    let reserved = fields.u32(field(STAGE_RESERVED))?;
    check(
        reserved == 0,
        "reserved field",
        field(STAGE_RESERVED),
        reserved.into(),
        "0",
    )?;
    let kind = fields.u8(field(STAGE_KIND))?;
    Ok(StageHeader {
        shape: Shape {
            kind: known(
                Kind::from_u8,
                kind,
                "kind of stage",
                field(STAGE_KIND),
                "1 to 3",
            )?,
            bits: Bits::new(fields.u64(field(STAGE_BITS))?),
            probes: Probes::new(fields.u16(field(STAGE_PROBES))?.into()),
            groups: fields.u8(field(STAGE_GROUPS))?.into(),
        },
        items: Items::new(fields.u64(field(STAGE_ITEMS))?),
    })
}

fn known<T>(
    from_u8: impl Fn(u8) -> Option<T>,
    found: u8,
    field: &'static str,
    at: usize,
    expected: &'static str,
) -> Result<T, FormatError> {
    from_u8(found).ok_or(FormatError::Field {
        field,
        offset: at as u64,
        found: found.into(),
        expected,
    })
}

fn verified(bytes: &[u8]) -> Result<(Header, Blocks<'_>), FormatError> {
    let header = decode_header(bytes)?;
    let length = bytes.len() as u64;
    check_length("total length", AT_TOTAL_LENGTH, header.total_bytes, length)?;
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
    if expected == found {
        return Ok(());
    }
    Err(FormatError::Checksum {
        part: Part::Trailer,
        offset: origin.saturating_add(TRAILER_CHECK as u64),
        expected,
        found,
    })
}

fn read_subject(
    subject: HeaderSubject,
    payload: &mut PayloadReader<'_>,
) -> Result<Subject, FormatError> {
    let (key_space, count) = match subject {
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
    Ok(Subject::Summary { key_space, covers })
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

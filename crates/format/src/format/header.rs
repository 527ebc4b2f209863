//! The header of a sidecar, field by field, and the invariants that it must satisfy.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::error::{FormatError, Part};
use super::fields::{Fields, checked};
use super::layout::{
    AT_COVERS, AT_ENTRIES, AT_FLAGS, AT_HASH, AT_HEADER_LENGTH, AT_KEY_SPACE, AT_KEYS,
    AT_KNOWN_ANSWER, AT_MAGIC, AT_PAYLOAD_LENGTH, AT_RATE, AT_SEED_ID, AT_SEGMENT, AT_SOURCE,
    AT_STAGES, AT_STORE, AT_SUBJECT, AT_TOTAL_LENGTH, HAS_PREFIXES, ID_BYTES, MAGIC,
    MAX_HEADER_BYTES, MAX_STAGES, PREFIX_NAME, PREFIX_NAME_LENGTH, PREFIX_VERSION,
    SHORTEST_HEADER_BYTES, STAGE_BITS, STAGE_GROUPS, STAGE_ITEMS, STAGE_KIND, STAGE_PROBES,
    STAGE_RESERVED, SUBJECT_SEGMENT, SUBJECT_SUMMARY, VERSION, check, check_length, check_shape,
    header_bytes, kind_of, payload_bytes, prefix_table_bytes, short, stage_at, total_bytes,
};
use super::prefix_id::PrefixId;
use super::sidecar::{Header, HeaderSubject, Source, StageHeader, StoreId};
use crate::filter::Shape;
use crate::hash::{HashId, Imprint};
use crate::id::SegmentId;
use crate::math::{Bits, Items, Probes, Rate};

/// Decodes the header. `bytes` are at least the first [`MAX_HEADER_BYTES`] of a file, or all of it.
///
/// The rest of the file may still be damaged: use this for inspection, never for an answer.
///
/// # Errors
/// [`FormatError`] says which byte of the header is wrong, and why.
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
        prefixes: prefixes(fields)?,
        stages: stages(fields)?,
        payload_bytes: fields.u64(AT_PAYLOAD_LENGTH)?,
        total_bytes: fields.u64(AT_TOTAL_LENGTH)?,
    };
    check_header(&header)?;
    let expected = header.bytes() as u64;
    let length = fields.u32(AT_HEADER_LENGTH)?.into();
    check_length("header length", AT_HEADER_LENGTH, length, expected)?;
    Ok(header)
}

impl Header {
    /// Bytes of the header itself.
    pub(super) fn bytes(&self) -> usize {
        header_bytes(self.stages.len(), prefix_table_bytes(&self.prefixes))
    }

    /// Checks that a file of `length` bytes is as long as its header says.
    ///
    /// # Errors
    /// [`FormatError::Length`] if it is not.
    pub fn check_file_length(&self, length: u64) -> Result<(), FormatError> {
        check_length("total length", AT_TOTAL_LENGTH, self.total_bytes, length)
    }
}

/// The invariants of a header, checked before it is written and after it was read.
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
    let prefixes = header.prefixes.len();
    check(
        prefixes <= PrefixId::MOST,
        "number of prefixes",
        stage_at(stages),
        prefixes as u64,
        "at most 8",
    )?;
    let keys = sum_of_items(&header.stages).get();
    check_length("number of keys", AT_KEYS, header.keys.get(), keys)?;
    let payload = payload_bytes(covered(&header.subject), &header.stages).unwrap_or(u64::MAX);
    check_length(
        "payload length",
        AT_PAYLOAD_LENGTH,
        header.payload_bytes,
        payload,
    )?;
    let total = total_bytes(header.bytes(), payload).unwrap_or(u64::MAX);
    check_length("total length", AT_TOTAL_LENGTH, header.total_bytes, total)
}

pub(super) fn sum_of_items(stages: &[StageHeader]) -> Items {
    stages.iter().map(|stage| stage.items).sum()
}

pub(super) const fn covered(subject: &HeaderSubject) -> u64 {
    match subject {
        HeaderSubject::Segment(_) => 0,
        HeaderSubject::Summary { covered, .. } => *covered,
    }
}

/// The header's fields, once its CRC-32 matches and its version is known.
fn checked_header(bytes: &[u8]) -> Result<Fields<'_>, FormatError> {
    let start = Fields::new(Part::Header, bytes);
    start.magic(AT_MAGIC, 0, MAGIC)?;
    let length = start.u32(AT_HEADER_LENGTH)?;
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let possible = (SHORTEST_HEADER_BYTES..=MAX_HEADER_BYTES).contains(&length);
    check(
        possible,
        "header length",
        AT_HEADER_LENGTH,
        length as u64,
        "20 to 4096",
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
    let covered = fields.u64(AT_COVERS)?;
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
                covered == 0,
                "number of covered segments",
                AT_COVERS,
                covered,
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
            Ok(HeaderSubject::Summary { key_space, covered })
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

/// The prefix table, which follows the stage table if the flag says so.
fn prefixes(fields: Fields<'_>) -> Result<Vec<PrefixId>, FormatError> {
    if fields.u16(AT_FLAGS)? & HAS_PREFIXES == 0 {
        return Ok(Vec::new());
    }
    let mut at = stage_at(fields.u8(AT_STAGES)?.into());
    let count = usize::from(fields.u8(at)?);
    let expected = "1 to 8";
    let fits = (1..=PrefixId::MOST).contains(&count);
    check(fits, "number of prefixes", at, count as u64, expected)?;
    at = at.saturating_add(1);
    let mut prefixes = Vec::new();
    for _ in 0..count {
        let prefix = prefix(fields, at)?;
        at = at
            .saturating_add(PREFIX_NAME)
            .saturating_add(prefix.name().len());
        prefixes.push(prefix);
    }
    Ok(prefixes)
}

fn prefix(fields: Fields<'_>, at: usize) -> Result<PrefixId, FormatError> {
    let version = fields.u32(at.saturating_add(PREFIX_VERSION))?;
    let at_length = at.saturating_add(PREFIX_NAME_LENGTH);
    let length = fields.u8(at_length)?;
    let name = fields.bytes(at.saturating_add(PREFIX_NAME), length.into())?;
    let name = std::str::from_utf8(name).ok();
    name.and_then(|name| PrefixId::new(name, version))
        .ok_or(FormatError::Field {
            field: "name of a prefix",
            offset: at_length as u64,
            found: length.into(),
            expected: "1 to 128 bytes of UTF-8",
        })
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
            kind: known(kind_of, kind, "kind of stage", field(STAGE_KIND), "1 to 5")?,
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

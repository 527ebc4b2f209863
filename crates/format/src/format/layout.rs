//! The picture of `format/mod.rs` as constants, and the arithmetic of lengths.
//!
//! Writer and reader share these constants and the checks of a stage, so nothing is written that a
//! reader would refuse.

use super::error::{FormatError, Part};
use super::prefix_id::PrefixId;
use super::sidecar::StageHeader;
use crate::filter::{Kind, Shape};

pub(super) const MAGIC: [u8; 8] = *b"\x89SIEVE\r\n";
pub(super) const END_MAGIC: [u8; 8] = *b"SIEVEEND";
pub(super) const VERSION: u16 = 1;
/// Flags that a reader must understand; none is defined.
pub(super) const MUST_UNDERSTAND: u16 = 0x00ff;
/// A table of prefixes follows the stage table.
pub(super) const HAS_PREFIXES: u16 = 0x0100;

pub(super) const SUBJECT_SEGMENT: u8 = 1;
pub(super) const SUBJECT_SUMMARY: u8 = 2;

pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = AT_MAGIC + 8;
pub(super) const AT_FLAGS: usize = AT_VERSION + 2;
pub(super) const AT_HEADER_LENGTH: usize = AT_FLAGS + 2;
pub(super) const AT_TOTAL_LENGTH: usize = AT_HEADER_LENGTH + 4;
pub(super) const AT_STORE: usize = AT_TOTAL_LENGTH + 8;
pub(super) const AT_HASH: usize = AT_STORE + 16;
pub(super) const AT_SUBJECT: usize = AT_HASH + 1;
pub(super) const AT_SOURCE: usize = AT_SUBJECT + 1;
pub(super) const AT_STAGES: usize = AT_SOURCE + 1;
pub(super) const AT_KEY_SPACE: usize = AT_STAGES + 1;
pub(super) const AT_SEED_ID: usize = AT_KEY_SPACE + 4;
pub(super) const AT_KNOWN_ANSWER: usize = AT_SEED_ID + 8;
pub(super) const AT_SEGMENT: usize = AT_KNOWN_ANSWER + 8;
pub(super) const AT_COVERS: usize = AT_SEGMENT + 16;
pub(super) const AT_ENTRIES: usize = AT_COVERS + 8;
pub(super) const AT_KEYS: usize = AT_ENTRIES + 8;
pub(super) const AT_RATE: usize = AT_KEYS + 8;
pub(super) const AT_PAYLOAD_LENGTH: usize = AT_RATE + 8;
pub(super) const AT_STAGE_TABLE: usize = AT_PAYLOAD_LENGTH + 8;

pub(super) const STAGE_KIND: usize = 0;
pub(super) const STAGE_GROUPS: usize = STAGE_KIND + 1;
pub(super) const STAGE_PROBES: usize = STAGE_GROUPS + 1;
pub(super) const STAGE_RESERVED: usize = STAGE_PROBES + 2;
pub(super) const STAGE_BITS: usize = STAGE_RESERVED + RESERVED_BYTES;
pub(super) const STAGE_ITEMS: usize = STAGE_BITS + 8;
pub(super) const STAGE_BYTES: usize = STAGE_ITEMS + 8;

pub(super) const RESERVED_BYTES: usize = 4;
pub(super) const CRC_BYTES: usize = 4;
pub(super) const ID_BYTES: usize = 16;
pub(super) const WORD_BYTES: usize = 8;

/// One row of the prefix table: version, length of the name; the name follows.
pub(super) const PREFIX_VERSION: usize = 0;
pub(super) const PREFIX_NAME_LENGTH: usize = PREFIX_VERSION + 4;
pub(super) const PREFIX_NAME: usize = PREFIX_NAME_LENGTH + 1;

pub(super) const MAX_STAGES: usize = 32;
const MAX_PROBES: u32 = 32;
const MAX_BITS: u64 = 1 << 48;
const LINE_BITS: u64 = 512;
const WORD_BITS: u64 = 64;

/// The fields that every version has: magic, version, flags, header length, header CRC.
pub(super) const SHORTEST_HEADER_BYTES: usize = AT_TOTAL_LENGTH + CRC_BYTES;
pub(super) const MIN_HEADER_BYTES: usize = header_bytes(1, 0);
/// Maximum length of a header, in bytes. Read this much of a file before calling `decode_header`.
pub const MAX_HEADER_BYTES: usize = 4096;

pub(super) const BLOCK_BYTES: usize = 4096;
pub(super) const BLOCK_DATA_BYTES: usize = BLOCK_BYTES - CRC_BYTES;

pub(super) const TRAILER_CHECK: usize = 8;
pub(super) const TRAILER_MAGIC: usize = TRAILER_CHECK + CRC_BYTES;
pub(super) const TRAILER_BYTES: usize = TRAILER_MAGIC + 8;

const _: () = {
    assert!(AT_STAGE_TABLE == 120);
    assert!(STAGE_BYTES == 24);
    assert!(TRAILER_BYTES == 20);
    let longest = 1 + PrefixId::MOST * (PREFIX_NAME + PrefixId::MOST_NAME_BYTES);
    assert!(header_bytes(MAX_STAGES, longest) <= MAX_HEADER_BYTES);
    assert!(PrefixId::MOST_NAME_BYTES <= u8::MAX as usize);
};

/// Bytes of a header with `stages` stages and a prefix table of `prefixes` bytes, its CRC included.
pub(super) const fn header_bytes(stages: usize, prefixes: usize) -> usize {
    stage_at(stages)
        .saturating_add(prefixes)
        .saturating_add(CRC_BYTES)
}

/// Bytes of the prefix table; 0 if there are no prefixes.
pub(super) fn prefix_table_bytes(prefixes: &[PrefixId]) -> usize {
    if prefixes.is_empty() {
        return 0;
    }
    let rows = prefixes.iter();
    let rows = rows.map(|prefix| PREFIX_NAME.saturating_add(prefix.name().len()));
    rows.fold(1, usize::saturating_add)
}

/// Number of 64-bit words that hold `bits` bits.
pub(super) const fn words(bits: u64) -> u64 {
    bits.div_ceil(u64::BITS as u64)
}

/// Bytes of covered segment ids and words before they are cut into blocks; `None` beyond 2^64.
pub(super) fn payload_bytes(covered: u64, stages: &[StageHeader]) -> Option<u64> {
    let ids = covered.checked_mul(ID_BYTES as u64)?;
    stages
        .iter()
        .map(|stage| words(stage.shape.bits.get()).checked_mul(WORD_BYTES as u64))
        .try_fold(ids, |sum, bytes| sum.checked_add(bytes?))
}

/// Bytes of the whole file with a header of this length and such a payload; `None` beyond 2^64.
pub(super) fn total_bytes(header: usize, payload: u64) -> Option<u64> {
    let blocks = payload.div_ceil(BLOCK_DATA_BYTES as u64);
    blocks
        .checked_mul(CRC_BYTES as u64)?
        .checked_add(payload)?
        .checked_add(header as u64)?
        .checked_add(TRAILER_BYTES as u64)
}

/// Offset of a stage's entry in the header.
pub(super) const fn stage_at(index: usize) -> usize {
    AT_STAGE_TABLE.saturating_add(STAGE_BYTES.saturating_mul(index))
}

/// The kinds of stages. A kind's number is its position, counted from 1.
const KINDS: [Kind; 5] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
    Kind::Ribbon,
];

/// The number of a kind; 0 if no stage has this kind.
pub(super) fn number_of(kind: Kind) -> u8 {
    let numbered = (1..).zip(KINDS);
    let mut found = numbered.filter_map(|(number, known)| (known == kind).then_some(number));
    found.next().unwrap_or(0)
}

/// The kind with this number.
pub(super) fn kind_of(number: u8) -> Option<Kind> {
    KINDS.get(usize::from(number.checked_sub(1)?)).copied()
}

/// Checks that a stage can have this shape; `at` is the offset of its entry.
pub(super) fn check_shape(shape: &Shape, at: usize) -> Result<(), FormatError> {
    let probes = shape.probes.get();
    let bits = shape.bits.get();
    let number = number_of(shape.kind);
    check(
        number > 0,
        "kind of stage",
        at.saturating_add(STAGE_KIND),
        number.into(),
        "1 to 5: counters and codes are not stored",
    )?;
    let groups_fit = match shape.kind {
        Kind::Blocked => matches!(shape.groups, 2 | 4),
        Kind::Ribbon => shape.groups < 16,
        _ => shape.groups == 0,
    };
    let divides_into = |unit: u64| bits.checked_rem(unit) == Some(0);
    let bits_fit = match shape.kind {
        Kind::Partitioned => divides_into(u64::from(probes)),
        Kind::Blocked => divides_into(LINE_BITS),
        Kind::Classic | Kind::Ribbon => divides_into(WORD_BITS),
        _ => true,
    };
    check(
        groups_fit,
        "number of groups",
        at.saturating_add(STAGE_GROUPS),
        shape.groups.into(),
        "2 or 4 for blocked stages, below 16 for static ones, else 0",
    )?;
    check(
        (1..=MAX_PROBES).contains(&probes),
        "number of probes",
        at.saturating_add(STAGE_PROBES),
        probes.into(),
        "1 to 32",
    )?;
    check(
        bits_fit && (1..=MAX_BITS).contains(&bits),
        "number of bits",
        at.saturating_add(STAGE_BITS),
        bits,
        "1 to 2^48, whole lines, slices or words as the kind asks for",
    )
}

/// Returns an error unless the field's value `holds`.
pub(super) fn check(
    holds: bool,
    field: &'static str,
    at: usize,
    found: u64,
    expected: &'static str,
) -> Result<(), FormatError> {
    if holds {
        return Ok(());
    }
    Err(FormatError::Field {
        field,
        offset: at as u64,
        found,
        expected,
    })
}

/// Compares two statements of the same length.
pub(super) fn check_length(
    field: &'static str,
    at: usize,
    found: u64,
    expected: u64,
) -> Result<(), FormatError> {
    if found == expected {
        return Ok(());
    }
    Err(FormatError::Length {
        field,
        offset: at as u64,
        found,
        expected,
    })
}

pub(super) fn short(part: Part, needed: usize, found: usize) -> FormatError {
    FormatError::Short {
        part,
        needed: needed as u64,
        found: found as u64,
    }
}

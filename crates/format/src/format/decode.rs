//! From bytes to a sidecar, whatever the bytes.
//!
//! Three depths: [`decode_header`] needs the start of a file, [`verify`] all of it, [`decode`] also
//! memory. None indexes, none computes without a check, none trusts a length before it agrees with
//! the bytes at hand.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::blocks::BlockReader;
use super::error::{FormatError, Part, ReadError};
use super::fields::{Fields, checked};
use super::header::decode_header;
use super::layout::{
    END_MAGIC, ID_BYTES, MAX_HEADER_BYTES, MIN_HEADER_BYTES, TRAILER_BYTES, TRAILER_CHECK,
    TRAILER_MAGIC, header_bytes, short, words,
};
use super::sidecar::{Header, HeaderSubject, Sidecar, StageHeader, Subject};
use super::stored::Restored;
use crate::filter::StageError;
use crate::id::SegmentId;
use crate::planted::planted;
use crc32fast::Hasher;
use std::io::Read;

/// The sidecar in these bytes, every one of them verified.
///
/// Takes no more memory than the bytes themselves.
///
/// # Errors
/// [`FormatError`] says what is wrong with which byte.
pub fn decode(bytes: &[u8]) -> Result<Sidecar, FormatError> {
    of_bytes(bytes, Reader::read)
}

/// Checks every byte of a sidecar without building its filter.
///
/// # Errors
/// The same as [`decode`], but for lack of memory.
pub fn verify(bytes: &[u8]) -> Result<Header, FormatError> {
    of_bytes(bytes, Reader::verify)
}

fn of_bytes<'b, T>(
    bytes: &'b [u8],
    read: impl FnOnce(Reader<&'b [u8]>) -> Result<T, ReadError>,
) -> Result<T, FormatError> {
    let length = bytes.len();
    let done = Reader::begin(bytes, length as u64).and_then(read);
    done.map_err(|error| match error {
        ReadError::Format(error) => error,
        // Cannot happen while the length was checked; an error all the same.
        ReadError::Disk(_) => short(Part::Payload, length.saturating_add(1), length),
    })
}

/// A sidecar that is being read: its header is known, and intact.
#[derive(Debug)]
pub struct Reader<R> {
    header: Header,
    /// The header's bytes, and what was read with them.
    start: Vec<u8>,
    length: u64,
    rest: R,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a file of so many bytes. The file may still be damaged, or of another length.
    ///
    /// # Errors
    /// When it cannot be read, or is no header.
    pub fn begin(mut bytes: R, length: u64) -> Result<Self, ReadError> {
        let known = length.min(MAX_HEADER_BYTES as u64);
        let mut start = Vec::new();
        bytes.by_ref().take(known).read_to_end(&mut start)?;
        Ok(Self {
            header: decode_header(&start)?,
            start,
            length,
            rest: bytes,
        })
    }

    /// What the file says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The sidecar, every byte of it verified. Takes the memory of its filter, and no other.
    ///
    /// # Errors
    /// When the rest cannot be read or is not what it should be, or memory does not suffice.
    pub fn read<S: Restored>(self) -> Result<Sidecar<S>, ReadError> {
        let (header, (subject, stages)) = self.walk(|header, blocks| {
            let subject = read_subject(header, blocks)?;
            let lost = usize::from(planted!(StageLost));
            let kept = header.stages.len().saturating_sub(lost);
            let stages = header.stages.iter().take(kept).enumerate();
            let stages = stages.map(|(number, stage)| read_stage(number, *stage, blocks));
            Ok((subject, stages.collect::<Result<_, _>>()?))
        })?;
        Ok(Sidecar {
            store: header.store,
            imprint: header.imprint,
            subject,
            source: header.source,
            entries: header.entries,
            rate: header.rate,
            stages,
        })
    }

    /// Checks every byte, without memory for the filter.
    ///
    /// # Errors
    /// The same as [`Reader::read`], but for lack of memory.
    pub fn verify(self) -> Result<Header, ReadError> {
        self.walk(|_, _| Ok(())).map(|(header, ())| header)
    }

    /// Hands the payload over, and verifies what was not taken of it, and the trailer.
    fn walk<T>(
        self,
        take: impl FnOnce(&Header, &mut BlockReader<'_>) -> Result<T, ReadError>,
    ) -> Result<(Header, T), ReadError> {
        let Self { header, length, .. } = self;
        header.check_file_length(length)?;
        let head = header_bytes(header.stages.len());
        let needed = MIN_HEADER_BYTES.saturating_add(TRAILER_BYTES);
        let missing = || short(Part::Payload, needed, self.start.len());
        let (head, begun) = self.start.split_at_checked(head).ok_or_else(missing)?;
        let around = head.len().saturating_add(TRAILER_BYTES) as u64;
        let left = length.checked_sub(around).ok_or_else(missing)?;
        let (_, crc) = checked(Part::Header, 0, head)?;
        let mut check = Hasher::new();
        check.update(&crc.to_le_bytes());
        let mut rest = begun.chain(self.rest);
        let mut blocks = BlockReader::new(&mut rest, head.len() as u64, left, check);
        let taken = take(&header, &mut blocks)?;
        let check = blocks.finish()?;
        let mut trailer = [0; TRAILER_BYTES];
        rest.read_exact(&mut trailer)?;
        check_trailer(&trailer, length, check)?;
        Ok((header, taken))
    }
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

fn read_subject(header: &Header, payload: &mut BlockReader<'_>) -> Result<Subject, ReadError> {
    let (key_space, count) = match header.subject {
        HeaderSubject::Segment(id) => return Ok(Subject::Segment(id)),
        HeaderSubject::Summary { key_space, covers } => (key_space, covers),
    };
    let mut covers = filled(SegmentId::from_bytes([0; ID_BYTES]), count)?;
    for cover in &mut covers {
        let mut id = [0; ID_BYTES];
        payload.fill(&mut id)?;
        *cover = SegmentId::from_bytes(id);
    }
    Ok(Subject::Summary { key_space, covers })
}

fn read_stage<S: Restored>(
    number: usize,
    stage: StageHeader,
    payload: &mut BlockReader<'_>,
) -> Result<S, ReadError> {
    let bits = stage.shape.bits;
    let no_memory = || FormatError::Memory {
        part: Part::Payload,
        bytes: bits.get().div_ceil(8),
    };
    let count = usize::try_from(words(bits.get())).map_err(|_| no_memory())?;
    let mut words = payload.words(count);
    let restored = S::restore(stage, &mut words);
    // First: what was not read is no stage, whatever was made of it.
    let left = words.finish()?;
    let of_no_use = |reason| FormatError::Stage {
        number: number as u64,
        reason,
    };
    let stage = restored.map_err(|error| match error {
        StageError::Memory { .. } => no_memory(),
        error => of_no_use(error.to_string()),
    })?;
    if left > 0 {
        // The next stage would begin with them.
        return Err(of_no_use(format!("{left} words were not taken")).into());
    }
    Ok(stage)
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

//! Decodes a sidecar from untrusted bytes.
//!
//! There are three depths: [`decode_header`] needs only the start of a file, [`verify`] all of it,
//! and [`decode`] also memory for the filter. None of them indexes or does unchecked arithmetic,
//! and none trusts a length before it agrees with the actual bytes.

#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use super::blocks::BlockReader;
use super::error::{FormatError, Part, ReadError};
use super::fields::{Fields, checked};
use super::header::decode_header;
use super::layout::{
    END_MAGIC, ID_BYTES, MAX_HEADER_BYTES, MIN_HEADER_BYTES, TRAILER_BYTES, TRAILER_CHECK,
    TRAILER_MAGIC, short, words,
};
use super::sidecar::{Header, HeaderSubject, Sidecar, StageHeader, Subject};
use super::stored::Restored;
use crate::fault::fault;
use crate::filter::StageError;
use crate::id::SegmentId;
use crc32fast::Hasher;
use std::io::Read;

/// Decodes a sidecar and verifies every byte.
///
/// Allocates no more memory than the bytes themselves take.
///
/// # Errors
/// [`FormatError`] says which byte is wrong, and why.
pub fn decode(bytes: &[u8]) -> Result<Sidecar, FormatError> {
    of_bytes(bytes, Reader::read)
}

/// Verifies every byte of a sidecar without building its filter.
///
/// # Errors
/// The same as [`decode`], except [`FormatError::Memory`].
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
        // Cannot happen, because the length was checked; it is an error all the same.
        ReadError::Disk(_) => short(Part::Payload, length.saturating_add(1), length),
    })
}

/// A sidecar that is being read. Its header is intact and decoded.
#[derive(Debug)]
pub struct Reader<R> {
    header: Header,
    /// The header's bytes, and the bytes that were read with them.
    start: Vec<u8>,
    length: u64,
    rest: R,
}

impl<R: Read> Reader<R> {
    /// Reads the header of a file of `length` bytes. The rest of the file may still be damaged, or
    /// the length wrong.
    ///
    /// # Errors
    /// If the file cannot be read or has no valid header.
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

    /// The decoded header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Reads the sidecar and verifies every byte. Allocates memory for the filter only.
    ///
    /// # Errors
    /// If the rest cannot be read or is not valid, or if memory does not suffice.
    pub fn read<S: Restored>(self) -> Result<Sidecar<S>, ReadError> {
        let (header, (subject, stages)) = self.walk(|header, blocks| {
            let subject = read_subject(header, blocks)?;
            let stages = all_stages(header).iter().enumerate();
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
            prefixes: header.prefixes,
            stages,
        })
    }

    /// Verifies every byte, without memory for the filter.
    ///
    /// # Errors
    /// The same as [`Reader::read`], except [`FormatError::Memory`].
    pub fn verify(self) -> Result<Header, ReadError> {
        self.walk(|_, _| Ok(())).map(|(header, ())| header)
    }

    /// Passes the payload to `take`, then verifies the blocks that it left, and the trailer.
    fn walk<T>(
        self,
        take: impl FnOnce(&Header, &mut BlockReader<'_>) -> Result<T, ReadError>,
    ) -> Result<(Header, T), ReadError> {
        let Self { header, length, .. } = self;
        header.check_file_length(length)?;
        let head = header.bytes();
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

/// Checks the trailer of a file of this length against all checksums before it.
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
    fault!(TrailerUnchecked, return Ok(()));
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
        HeaderSubject::Summary { key_space, covered } => (key_space, covered),
    };
    let mut covered = filled(SegmentId::from_bytes([0; ID_BYTES]), count)?;
    for cover in &mut covered {
        let mut id = [0; ID_BYTES];
        payload.fill(&mut id)?;
        *cover = SegmentId::from_bytes(id);
    }
    Ok(Subject::Summary { key_space, covered })
}

fn all_stages(header: &Header) -> &[StageHeader] {
    let stages = header.stages.as_slice();
    fault!(
        StageLost,
        return stages.split_last().map_or(&[], |(_, kept)| kept)
    );
    stages
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
    // First: a stage that was not read completely is no stage, whatever was built of it.
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
        // Otherwise the next stage would begin with them.
        return Err(of_no_use(format!("{left} words were not taken")).into());
    }
    Ok(stage)
}

/// A vector of `count` values. The caller has checked that the file has as many.
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

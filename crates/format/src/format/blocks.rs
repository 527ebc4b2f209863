//! A payload, cut into blocks of at most 4 KiB. Each ends with the CRC-32 of its data.

use super::error::{FormatError, Part, ReadError};
use super::fields::checked;
use super::layout::{BLOCK_BYTES, BLOCK_DATA_BYTES, CRC_BYTES, WORD_BYTES};
use byteorder::{ByteOrder as _, LittleEndian};
use crc32fast::Hasher;
use std::io::{self, Read, Write};
use std::ops::Range;

/// Writes a payload in blocks.
pub(super) struct BlockWriter<'a> {
    out: &'a mut dyn Write,
    /// The open block.
    block: [u8; BLOCK_BYTES],
    filled: usize,
    check: Hasher,
}

impl<'a> BlockWriter<'a> {
    /// Writes behind what `out` already has. `check` is extended by the CRC of each block.
    pub(super) fn new(out: &'a mut dyn Write, check: Hasher) -> Self {
        Self {
            out,
            block: [0; BLOCK_BYTES],
            filled: 0,
            check,
        }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = &mut self.block[self.filled..BLOCK_DATA_BYTES];
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled == BLOCK_DATA_BYTES {
                self.close_block()?;
            }
            bytes = later;
        }
        Ok(())
    }

    pub(super) fn put_words(&mut self, mut words: impl Iterator<Item = u64>) -> io::Result<()> {
        const TOGETHER: usize = 64;
        let (mut some, mut bytes) = ([0; TOGETHER], [0; TOGETHER * WORD_BYTES]);
        loop {
            let filled = some.iter_mut().zip(&mut words);
            let count = filled.map(|(place, word)| *place = word).count();
            if count == 0 {
                return Ok(());
            }
            let bytes = &mut bytes[..count * WORD_BYTES];
            LittleEndian::write_u64_into(&some[..count], bytes);
            self.put(bytes)?;
        }
    }

    /// Closes the last block and returns `check`.
    pub(super) fn finish(mut self) -> io::Result<Hasher> {
        if self.filled > 0 {
            self.close_block()?;
        }
        Ok(self.check)
    }

    fn close_block(&mut self) -> io::Result<()> {
        let end = self.filled + CRC_BYTES;
        let crc = crc32fast::hash(&self.block[..self.filled]).to_le_bytes();
        self.check.update(&crc);
        self.block[self.filled..end].copy_from_slice(&crc);
        self.filled = 0;
        self.out.write_all(&self.block[..end])
    }
}

/// Reads a payload across its blocks. Returns no byte of a block whose checksum is wrong.
pub(super) struct BlockReader<'a> {
    rest: &'a mut dyn Read,
    /// Bytes of the blocks that were not read yet.
    left: u64,
    /// Offset of the next block in the file.
    offset: u64,
    number: u64,
    block: [u8; BLOCK_BYTES],
    /// The part of the block's data that was not returned yet.
    data: Range<usize>,
    check: Hasher,
}

#[deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
impl<'a> BlockReader<'a> {
    /// Reads the blocks at the start of `rest`, `left` bytes in all. In the file they begin at
    /// `offset`. `check` is extended by their checksums.
    pub(super) fn new(rest: &'a mut dyn Read, offset: u64, left: u64, check: Hasher) -> Self {
        Self {
            rest,
            left,
            offset,
            number: 0,
            block: [0; BLOCK_BYTES],
            data: 0..0,
            check,
        }
    }

    /// Fills `room` with the next bytes of the payload.
    pub(super) fn fill(&mut self, mut room: &mut [u8]) -> Result<(), ReadError> {
        while !room.is_empty() {
            if self.data.is_empty() {
                self.open_block()?;
            }
            let mut data = self.block.get(self.data.clone()).unwrap_or(&[]);
            let count = data.read(room)?;
            self.data.start = self.data.start.saturating_add(count);
            room = room.get_mut(count..).unwrap_or_default();
        }
        Ok(())
    }

    #[inline]
    fn word(&mut self) -> Result<u64, ReadError> {
        let data = self.block.get(self.data.clone()).unwrap_or(&[]);
        if let Some(word) = data.first_chunk::<WORD_BYTES>() {
            self.data.start = self.data.start.saturating_add(WORD_BYTES);
            return Ok(LittleEndian::read_u64(word));
        }
        // The word lies across two blocks.
        let mut word = [0; WORD_BYTES];
        self.fill(&mut word)?;
        Ok(LittleEndian::read_u64(&word))
    }

    /// The next `count` words of the payload.
    pub(super) fn words(&mut self, count: usize) -> Words<'_, 'a> {
        Words {
            blocks: self,
            left: count,
            failure: None,
        }
    }

    /// Checks the blocks that were not read yet, and returns `check`.
    pub(super) fn finish(mut self) -> Result<Hasher, ReadError> {
        while self.left > 0 {
            self.open_block()?;
        }
        Ok(self.check)
    }

    fn open_block(&mut self) -> Result<(), ReadError> {
        let length = usize::try_from(self.left).unwrap_or(usize::MAX);
        let length = length.min(BLOCK_BYTES);
        let block = self.block.get_mut(..length).unwrap_or_default();
        if block.is_empty() {
            return Err(too_short());
        }
        self.rest.read_exact(block)?;
        let (data, crc) = checked(Part::Block(self.number), self.offset, block)?;
        self.data = 0..data.len();
        self.check.update(&crc.to_le_bytes());
        self.left = self.left.saturating_sub(length as u64);
        self.offset = self.offset.saturating_add(length as u64);
        self.number = self.number.saturating_add(1);
        Ok(())
    }
}

/// Cannot happen, because the payload length was checked; it is an error all the same.
fn too_short() -> ReadError {
    ReadError::Format(FormatError::Short {
        part: Part::Payload,
        needed: 1,
        found: 0,
    })
}

/// Words of a payload. After a read error it yields zeros, so that their number stays as announced.
pub(super) struct Words<'b, 'a> {
    blocks: &'b mut BlockReader<'a>,
    left: usize,
    failure: Option<ReadError>,
}

impl Words<'_, '_> {
    /// Number of words that were not taken, or the first read error.
    pub(super) fn finish(self) -> Result<usize, ReadError> {
        self.failure.map_or(Ok(self.left), Err)
    }
}

impl Iterator for Words<'_, '_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        if self.failure.is_some() {
            return Some(0);
        }
        let word = self.blocks.word();
        Some(word.unwrap_or_else(|error| {
            self.failure = Some(error);
            0
        }))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Words<'_, '_> {}

//! A payload, cut into blocks of at most 4 KiB that end with the CRC-32 of their bytes.

use super::error::{FormatError, Part};
use super::fields::checked;
use super::layout::{BLOCK_BYTES, BLOCK_DATA_BYTES, CRC_BYTES};
use crc32fast::Hasher;
use std::io::{self, Read};

/// Appends a payload to a file in blocks.
pub(super) struct BlockWriter<'a> {
    file: &'a mut Vec<u8>,
    /// Where the open block begins.
    block: usize,
    check: Hasher,
}

impl<'a> BlockWriter<'a> {
    /// A writer behind what `file` holds; `check` goes over the CRC of each block.
    pub(super) fn new(file: &'a mut Vec<u8>, check: Hasher) -> Self {
        let block = file.len();
        Self { file, block, check }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = BLOCK_DATA_BYTES - (self.file.len() - self.block);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.file.extend_from_slice(now);
            if now.len() == room {
                self.close_block();
            }
            bytes = later;
        }
    }

    /// Closes the last block and gives the check back.
    pub(super) fn finish(mut self) -> Hasher {
        if self.file.len() > self.block {
            self.close_block();
        }
        self.check
    }

    fn close_block(&mut self) {
        let crc = crc32fast::hash(&self.file[self.block..]).to_le_bytes();
        self.check.update(&crc);
        self.file.extend_from_slice(&crc);
        self.block = self.file.len();
    }
}

/// Blocks whose checksums all fit.
#[derive(Clone, Copy)]
pub(super) struct Blocks<'a>(&'a [u8]);

impl<'a> Blocks<'a> {
    /// Checks every block and carries their checksums into `check`; they begin at `offset`.
    #[deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
    pub(super) fn verify(
        bytes: &'a [u8],
        offset: u64,
        check: &mut Hasher,
    ) -> Result<Self, FormatError> {
        let mut offset = offset;
        for (number, block) in bytes.chunks(BLOCK_BYTES).enumerate() {
            let (_, crc) = checked(Part::Block(number as u64), offset, block)?;
            check.update(&crc.to_le_bytes());
            offset = offset.saturating_add(block.len() as u64);
        }
        Ok(Self(bytes))
    }

    /// The payload, from its first byte.
    pub(super) fn reader(self) -> PayloadReader<'a> {
        PayloadReader {
            block: &[],
            rest: self.0,
        }
    }
}

/// Reads a payload across its blocks.
pub(super) struct PayloadReader<'a> {
    block: &'a [u8],
    rest: &'a [u8],
}

impl Read for PayloadReader<'_> {
    #[deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let (block, rest) = self.rest.split_at(BLOCK_BYTES.min(self.rest.len()));
            self.block = block
                .get(..block.len().saturating_sub(CRC_BYTES))
                .unwrap_or(&[]);
            self.rest = rest;
        }
        self.block.read(buffer)
    }
}

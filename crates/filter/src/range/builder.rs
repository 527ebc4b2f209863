//! Builds a range filter from all keys.

use super::{BUCKETS, PADDING, RangeError, RangeFilter, RangeShape, block, number};
use crate::hash::{KeyHash, KeyHasher};

/// Collects keys: ten bytes of memory for each, and twice that while the filter is built.
#[derive(Debug)]
pub struct RangeBuilder {
    hasher: KeyHasher,
    blocks: Vec<KeyHash>,
    within: Vec<u16>,
    lacks_memory: bool,
}

impl RangeBuilder {
    /// For keys that `hasher` hashes.
    pub fn new(hasher: KeyHasher) -> Self {
        Self {
            hasher,
            blocks: Vec::new(),
            within: Vec::new(),
            lacks_memory: false,
        }
    }

    /// Takes a key: its prefix, and the rest behind it. One that is given twice in a row counts once.
    #[inline]
    pub fn insert(&mut self, prefix: &[u8], rest: &[u8]) {
        let (block, within) = block(&self.hasher, prefix, number(rest));
        if (self.blocks.last(), self.within.last()) == (Some(&block), Some(&within)) {
            return;
        }
        match (self.blocks.try_reserve(1), self.within.try_reserve(1)) {
            (Ok(()), Ok(())) => {
                self.blocks.push(block);
                self.within.push(within);
            }
            _ => self.lacks_memory = true,
        }
    }

    /// The codes of all keys, each once, in order.
    fn codes(&self, shape: RangeShape) -> Result<Vec<u64>, RangeError> {
        let mut codes: Vec<u64> = reserved(self.blocks.len() as u64)?;
        let keys = self.blocks.iter().zip(&self.within);
        codes.extend(keys.map(|(&block, &within)| shape.code(block, within)));
        codes.sort_unstable();
        codes.dedup();
        Ok(codes)
    }

    /// The filter of these keys, with this many bits for each.
    ///
    /// # Errors
    /// Those of [`RangeShape::new`], [`RangeError::Size`] if it would be larger than 4 GiB, and
    /// [`RangeError::Memory`] if the allocator refuses it, or refused a key.
    pub fn finish(self, bits_per_key: u32) -> Result<RangeFilter, RangeError> {
        let mut shape = RangeShape::new(self.blocks.len() as u64, bits_per_key)?;
        if self.lacks_memory {
            return Err(RangeError::Memory);
        }
        let mut codes = self.codes(shape)?;
        // Keys that came several times. A few more are those with the code of another.
        if codes.len() < self.blocks.len() - self.blocks.len() / 16 {
            shape = RangeShape::new(codes.len() as u64, bits_per_key)?;
            codes = self.codes(shape)?;
        }
        let low_bits = shape.low_bits;
        let groups = u64::from(shape.groups);
        // Each group ends within a byte.
        let most_bits = codes.len() as u64 * u64::from(1 + low_bits) + groups * (BUCKETS + 7);
        let mut bits = BitWriter {
            bytes: reserved(most_bits / 8 + 1 + PADDING as u64)?,
            ..BitWriter::default()
        };
        let mut starts = reserved(groups + 1)?;
        let mut left = &codes[..];
        for group in 0..groups {
            starts.push(bits.length()?);
            let end = (group + 1) * BUCKETS;
            let count = left.partition_point(|code| code >> low_bits < end);
            let (codes, rest) = left.split_at(count);
            left = rest;
            let mut of_group = codes;
            for bucket in end - BUCKETS..end {
                let count = of_group.partition_point(|code| code >> low_bits == bucket);
                of_group = &of_group[count..];
                (0..count).for_each(|_| bits.push(1, 1));
                bits.push(0, 1);
            }
            for code in codes {
                bits.push(code & ((1 << low_bits) - 1), low_bits);
            }
            bits.end_byte();
        }
        starts.push(bits.length()?);
        let mut bytes = bits.bytes;
        bytes.resize(bytes.len() + PADDING, 0);
        Ok(RangeFilter {
            hasher: self.hasher,
            shape,
            starts: starts.into(),
            bytes: bytes.into(),
        })
    }
}

/// Room for this many, or an error.
fn reserved<T>(count: u64) -> Result<Vec<T>, RangeError> {
    let mut room = Vec::new();
    let count = usize::try_from(count).map_err(|_| RangeError::Memory)?;
    room.try_reserve_exact(count)
        .map_err(|_| RangeError::Memory)?;
    Ok(room)
}

/// Bits from the lowest of each byte on.
#[derive(Default)]
struct BitWriter {
    bytes: Vec<u8>,
    /// Those that fill no byte yet.
    begun: u64,
    width: u32,
}

impl BitWriter {
    /// `width` is at most 32.
    fn push(&mut self, value: u64, width: u32) {
        self.begun |= value << self.width;
        self.width += width;
        while self.width >= 8 {
            self.bytes.push(self.begun as u8);
            self.begun >>= 8;
            self.width -= 8;
        }
    }

    fn end_byte(&mut self) {
        if self.width > 0 {
            self.push(0, 8 - self.width);
        }
    }

    fn length(&self) -> Result<u32, RangeError> {
        u32::try_from(self.bytes.len()).map_err(|_| RangeError::Size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Seed};

    /// The filter would deny the key that it lacks.
    #[test]
    fn no_filter_is_built_without_a_key_that_the_allocator_refused() {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([9; 16]));
        let mut builder = RangeBuilder::new(hasher);
        builder.insert(b"prefix", b"rest");
        builder.lacks_memory = true;
        assert_eq!(builder.finish(16).unwrap_err(), RangeError::Memory);
    }
}

//! Builds a range filter from all keys.

use super::{BUCKETS, PADDING, RangeError, RangeFilter, RangeShape, code, number};
use crate::hash::KeyHasher;

/// Collects keys: eight bytes of memory for each.
#[derive(Debug)]
pub struct RangeBuilder {
    hasher: KeyHasher,
    shape: RangeShape,
    codes: Vec<u64>,
}

impl RangeBuilder {
    /// For keys that `hasher` hashes. With more keys than the shape is for, the filter takes more bits
    /// and more ranges pass.
    pub fn new(hasher: KeyHasher, shape: RangeShape) -> Self {
        Self {
            hasher,
            shape,
            codes: Vec::new(),
        }
    }

    /// Takes a key: its prefix, and the rest behind it.
    #[inline]
    pub fn insert(&mut self, prefix: &[u8], rest: &[u8]) {
        let code = code(&self.hasher, self.shape, prefix, number(rest));
        self.codes.push(code);
    }

    /// The filter of these keys.
    ///
    /// # Errors
    /// [`RangeError::Size`] if it would be larger than 4 GiB.
    pub fn finish(mut self) -> Result<RangeFilter, RangeError> {
        self.codes.sort_unstable();
        self.codes.dedup();
        let low_bits = self.shape.low_bits;
        let groups = u64::from(self.shape.groups);
        let mut bits = BitWriter::default();
        let mut starts = Vec::with_capacity(groups as usize + 1);
        let mut left = &self.codes[..];
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
            shape: self.shape,
            starts: starts.into(),
            bytes: bytes.into(),
        })
    }
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

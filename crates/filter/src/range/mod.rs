//! A filter for ranges: is there a key from here to there? Built once from all keys.
//!
//! It is Grafite (Costa, Ferragina and Vinciguerra, SIGMOD 2024, arXiv:2311.15380) for keys of bytes.
//! A key is a *prefix* and the rest behind it, as any function of the user's divides it. The first
//! eight bytes of the rest are read as a big-endian number, with zeros for those that it lacks.
//!
//! ```text
//! n keys, B bits per key       at least n buckets of 2^(B-2) codes       r = their codes, at least 2^16
//!
//! block   (prefix, ⌊ number / 2^16 ⌋)
//! code    (⌊ hash(block) r / 2^64 ⌋ + number mod 2^16) mod r        neighbours stay neighbours
//!
//! starts  | 0 | 1 | ...                    where a group of 32 buckets begins: 1 bit per key
//! group   | highs | lows | to a byte       highs: for each bucket a one per code, then a zero
//!                                          lows: code mod 2^(B-2), in order
//! ```
//!
//! # The bound
//!
//! An empty range of w numbers within one prefix passes with a probability of at most
//! w n / r = w / 2^(B-2), whatever the keys and the range.
//!
//! *Proof.* Let the range lie in one block. Its codes are w in a row, from a first one that is uniform.
//! A key of another block has a code that is independent of that, and it is one of the w with
//! probability w / r. A key of the same block has another number, and the codes differ by as much as
//! the numbers do (modulo r, and both are below 2^16 ≤ r), so it is none of the w. A union over the n
//! keys gives the bound. A range over two blocks is two rows of codes, w in all, and the sum of their
//! bounds is the same. A wider range is *maybe*. The hash is taken for a random function, as for all
//! filters here.
//!
//! # Bytes that are no numbers
//!
//! Let `number` be as above; it does not decrease in the order of the bytes. So the keys from `first`
//! on and before `end` have numbers from `number(first)` to `number(end)`. A key with `number(end)`
//! itself is below `end` only if `end` is longer than eight bytes or ends with a zero byte: otherwise
//! the key, padded to eight bytes, equals `end` padded, and is no shorter than `end`. Only then does
//! the range include that number ([`last_before`]). Keys that differ behind the eighth byte have one
//! number, and a range between them is *maybe*. The number of a shorter key is that of a longer one
//! with zeros, so a range may pass that begins right behind it.
//!
//! Under the reverse order, a range has the same keys with its bounds exchanged.

mod builder;

pub use self::builder::RangeBuilder;

use crate::fault::fault;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Bits;

/// Buckets of a group.
const BUCKETS: u64 = 32;

/// A block has 2^16 numbers.
const BLOCK_BITS: u32 = 16;
const BLOCK: u64 = 1 << BLOCK_BITS;

/// Behind the last group, so that a word can be read from its last bit on.
const PADDING: usize = 16;

/// Bytes of a rest that its number is read from.
const NUMBER_BYTES: usize = 8;

/// How codes are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeShape {
    /// Groups of 32 buckets: one bucket for each key.
    pub groups: u32,
    /// The bits of a code within its bucket: two less than the bits per key.
    pub low_bits: u32,
}

/// A range filter cannot have this shape, or its bytes are not those of a filter of this shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// Fewer or more bits per key than a filter can have.
    #[error("a range filter has 10 to 34 bits per key, not {0}")]
    Bits(u32),
    /// More keys than a filter can have.
    #[error("a range filter takes at most {max} keys, not {0}; divide them", max = RangeShape::MOST_KEYS)]
    Keys(u64),
    /// More bytes than a filter can have.
    #[error("the codes of a range filter take more than 4 GiB; use fewer bits per key")]
    Size,
    /// The allocator refused memory.
    #[error("memory does not suffice for a range filter")]
    Memory,
    /// A group is not as its shape says.
    #[error("group {0} of a range filter is damaged")]
    Damaged(usize),
}

impl RangeShape {
    /// The most keys of a filter.
    pub const MOST_KEYS: u64 = 1 << 30;

    /// The shape for this many keys at this many bits per key, beside one bit for `starts`.
    ///
    /// # Errors
    /// [`RangeError::Bits`] for fewer than 10 or more than 34 bits, [`RangeError::Keys`] for too many
    /// keys.
    pub fn new(keys: u64, bits_per_key: u32) -> Result<Self, RangeError> {
        if keys > Self::MOST_KEYS {
            return Err(RangeError::Keys(keys));
        }
        let low_bits = bits_per_key.wrapping_sub(2);
        if !(8..=32).contains(&low_bits) {
            return Err(RangeError::Bits(bits_per_key));
        }
        // A block is no larger than all codes.
        let least = (BLOCK >> low_bits).max(1);
        Ok(Self {
            groups: keys.max(least).div_ceil(BUCKETS) as u32,
            low_bits,
        })
    }

    /// Whether a filter can have this shape.
    fn is_possible(self) -> bool {
        let buckets = u64::from(self.groups) * BUCKETS;
        Self::new(buckets, self.low_bits.saturating_add(2)) == Ok(self)
    }

    /// All codes are below it.
    fn codes(self) -> u64 {
        (u64::from(self.groups) * BUCKETS) << self.low_bits
    }

    /// The code of a number in the block of this hash.
    #[inline]
    fn code(self, block: KeyHash, within: u16) -> u64 {
        let codes = self.codes();
        let of_block = ((u128::from(block.get()) * u128::from(codes)) >> 64) as u64;
        let code = of_block + u64::from(within);
        if code < codes { code } else { code - codes }
    }

    /// The probability with which an empty range of `width` numbers passes at most, if the filter has
    /// no more keys than it was made for.
    pub fn bound(self, width: u64) -> f64 {
        (width as f64 / (1_u64 << self.low_bits) as f64).min(1.0)
    }
}

/// The number of a key with this rest.
///
/// ```
/// # use lsm_sieve_filter::range::number;
/// assert_eq!(number(&7_u64.to_be_bytes()), 7);
/// assert_eq!(number(&[1]), 1 << 56);
/// ```
#[inline]
pub fn number(rest: &[u8]) -> u64 {
    let mut bytes = [0; NUMBER_BYTES];
    let length = rest.len().min(NUMBER_BYTES);
    bytes[..length].copy_from_slice(&rest[..length]);
    u64::from_be_bytes(bytes)
}

/// The last number that a key before `end` may have. `None` if no key is before it.
///
/// ```
/// # use lsm_sieve_filter::range::last_before;
/// assert_eq!(last_before(&7_u64.to_be_bytes()), Some(6));
/// // `[1, 0]` is before `[1, 0, 0]`, and has its number.
/// assert_eq!(last_before(&[1, 0, 0]), Some(1 << 56));
/// ```
#[inline]
pub fn last_before(end: &[u8]) -> Option<u64> {
    let is_included = end.len() > NUMBER_BYTES || *end.last()? == 0;
    fault!(RangeEndLeftOut, return number(end).checked_sub(1));
    Some(number(end) - u64::from(!is_included))
}

/// Which ranges hold a key.
#[derive(Clone, Debug)]
pub struct RangeFilter {
    hasher: KeyHasher,
    shape: RangeShape,
    starts: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl RangeFilter {
    /// A filter of these [parts](Self::parts), hashed by `hasher`.
    ///
    /// # Errors
    /// [`RangeError::Damaged`] if they are not those of a filter of this shape. Each part that is not
    /// refused is safe to probe, but another code in it is not noticed: check a sum of all bytes.
    pub fn from_parts(
        hasher: KeyHasher,
        shape: RangeShape,
        starts: Box<[u32]>,
        mut bytes: Vec<u8>,
    ) -> Result<Self, RangeError> {
        let length = bytes.len();
        bytes.resize(length + PADDING, 0);
        let filter = Self {
            hasher,
            shape,
            starts,
            bytes: bytes.into(),
        };
        let groups = u64::from(shape.groups) + 1;
        let is_whole = filter.starts.len() as u64 == groups && filter.starts[0] == 0;
        if !shape.is_possible() || !is_whole {
            return Err(RangeError::Damaged(0));
        }
        for (at, ends) in filter.starts.windows(2).enumerate() {
            let is_within = ends[0] < ends[1] && ends[1] as usize <= length;
            if !is_within || !filter.group(at).is_some_and(|group| group.is_sound()) {
                return Err(RangeError::Damaged(at));
            }
        }
        match filter.starts.last() {
            Some(&end) if end as usize == length => Ok(filter),
            _ => Err(RangeError::Damaged(filter.starts.len() - 2)),
        }
    }

    /// Its shape, where the groups begin, and their bytes: what a filter is stored as.
    pub fn parts(&self) -> (RangeShape, &[u32], &[u8]) {
        let length = self.bytes.len() - PADDING;
        (self.shape, &self.starts, &self.bytes[..length])
    }

    /// Its size in memory.
    pub fn size(&self) -> Bits {
        Bits::new(8 * (self.bytes.len() + size_of_val(&*self.starts)) as u64)
    }

    /// Whether there may be a key with this prefix and a number from `first` to `last`. False only if
    /// there is none.
    #[inline]
    pub fn may_contain(&self, prefix: &[u8], first: u64, last: u64) -> bool {
        if last < first {
            return false;
        }
        if last - first >= BLOCK {
            return true;
        }
        let end_of_block = first | (BLOCK - 1);
        fault!(
            SecondBlockNotAsked,
            return self.row_may_contain(prefix, first, last.min(end_of_block))
        );
        self.row_may_contain(prefix, first, last.min(end_of_block))
            || last > end_of_block && self.row_may_contain(prefix, end_of_block + 1, last)
    }

    /// The same within one block.
    fn row_may_contain(&self, prefix: &[u8], first: u64, last: u64) -> bool {
        let codes = self.shape.codes();
        let (block, within) = block(&self.hasher, prefix, first);
        let low = self.shape.code(block, within);
        let high = low + (last - first);
        fault!(
            WrappedCodesNotAsked,
            return self.has_code(low, high.min(codes - 1))
        );
        match high < codes {
            true => self.has_code(low, high),
            false => self.has_code(low, codes - 1) || self.has_code(0, high - codes),
        }
    }

    /// Whether a code from `low` to `high` is stored.
    fn has_code(&self, low: u64, high: u64) -> bool {
        let bucket = |code: u64| code >> self.shape.low_bits;
        let (first, last) = (bucket(low), bucket(high));
        let mask = (1 << self.shape.low_bits) - 1;
        (first / BUCKETS..=last / BUCKETS).any(|at| {
            let Some(group) = self.group(at as usize) else {
                return true;
            };
            let from = first.max(at * BUCKETS);
            let to = last.min(at * BUCKETS + BUCKETS - 1);
            // A bucket that the row enters or leaves within another group is asked for as a whole.
            let low = if from == first { low & mask } else { 0 };
            let high = if to == last { high & mask } else { mask };
            group.has_code(from % BUCKETS, to % BUCKETS, low, high)
        })
    }

    #[inline]
    fn group(&self, at: usize) -> Option<Group<'_>> {
        let (&start, &end) = (self.starts.get(at)?, self.starts.get(at + 1)?);
        let bits = 8 * u64::from(end.checked_sub(start)?);
        let codes = bits.checked_sub(BUCKETS)? / u64::from(1 + self.shape.low_bits);
        let highs = 8 * u64::from(start);
        Some(Group {
            bytes: &self.bytes,
            low_bits: self.shape.low_bits,
            highs,
            lows: highs + BUCKETS + codes,
        })
    }
}

/// Whether the numbers from `first` to `last` are in one or two blocks.
#[inline]
pub fn are_few(first: u64, last: u64) -> bool {
    first <= last && last - first < BLOCK
}

/// The hashes of the blocks that hold the numbers from `first` to `last`: one, or two. `None` if they
/// are more.
#[inline]
pub fn blocks(
    hasher: &KeyHasher,
    prefix: &[u8],
    first: u64,
    last: u64,
) -> Option<(KeyHash, Option<KeyHash>)> {
    if !are_few(first, last) {
        return None;
    }
    let of = |number| block(hasher, prefix, number).0;
    let are_two = first >> BLOCK_BITS != last >> BLOCK_BITS;
    Some((of(first), are_two.then(|| of(last))))
}

/// The hash of the block of a number, and its place there.
#[inline]
fn block(hasher: &KeyHasher, prefix: &[u8], number: u64) -> (KeyHash, u16) {
    /// Longer ones are copied to the heap.
    const SHORT: usize = 120;
    let block = (number >> BLOCK_BITS).to_be_bytes();
    let mut bytes = [0; SHORT + NUMBER_BYTES];
    let length = prefix.len();
    let hash = if length <= SHORT {
        bytes[..length].copy_from_slice(prefix);
        bytes[length..length + NUMBER_BYTES].copy_from_slice(&block);
        hasher.hash(&bytes[..length + NUMBER_BYTES])
    } else {
        hasher.hash(&[prefix, &block].concat())
    };
    (hash, number as u16)
}

/// The codes of 32 buckets.
struct Group<'f> {
    bytes: &'f [u8],
    low_bits: u32,
    /// The first bit of the high parts, and of the low parts.
    highs: u64,
    lows: u64,
}

impl Group<'_> {
    /// Whether the high parts have a zero for each bucket.
    fn is_sound(&self) -> bool {
        let mut left = self.lows - self.highs;
        let mut zeros = 0;
        while left > 0 {
            let width = left.min(64) as u32;
            let word = self.word(self.lows - left) | !(u64::MAX >> (64 - width));
            zeros += u64::from(word.count_zeros());
            left -= u64::from(width);
        }
        zeros == BUCKETS
    }

    /// Whether a code of the buckets `first` to `last` is stored, of the first one with a low part from
    /// `low` on, of the last one up to `high`.
    #[inline]
    fn has_code(&self, first: u64, last: u64, low: u64, high: u64) -> bool {
        let [from, to] = [first, first + 1].map(|bucket| self.before(bucket));
        if first == last {
            return self.bucket_has(from, to, low, high);
        }
        // Low parts are in order: the last of the first bucket, and the first of the last.
        if from < to && self.low(to - 1) >= low {
            return true;
        }
        let from = self.before(last);
        fault!(LastBucketNotAsked, return to < from);
        to < from || from < self.before(last + 1) && self.low(from) <= high
    }

    /// Whether the codes from one to before another have a low part from `low` to `high`.
    fn bucket_has(&self, mut from: u64, to: u64, low: u64, high: u64) -> bool {
        let mut end = to;
        while from < end {
            let middle = from.midpoint(end);
            match self.low(middle) < low {
                true => from = middle + 1,
                false => end = middle,
            }
        }
        from < to && self.low(from) <= high
    }

    /// How many codes the buckets before this one have.
    #[inline]
    fn before(&self, bucket: u64) -> u64 {
        let mut zeros = bucket as u32;
        let mut at = 0;
        while zeros > 0 {
            let mut holes = !self.word(self.highs + at);
            let here = holes.count_ones();
            if here >= zeros {
                // The bit of the last of these zeros.
                (1..zeros).for_each(|_| holes &= holes - 1);
                return at + u64::from(holes.trailing_zeros()) + 1 - bucket;
            }
            zeros -= here;
            at += 64;
        }
        0
    }

    #[inline]
    fn low(&self, at: u64) -> u64 {
        self.word(self.lows + at * u64::from(self.low_bits)) & ((1 << self.low_bits) - 1)
    }

    /// The 64 bits from this one on.
    #[inline]
    fn word(&self, bit: u64) -> u64 {
        let at = (bit / 8) as usize;
        match self.bytes.get(at..).and_then(<[u8]>::first_chunk) {
            Some(&bytes) => (u128::from_le_bytes(bytes) >> (bit % 8)) as u64,
            // Not reached: no group is read behind its end, which the padding follows.
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests;

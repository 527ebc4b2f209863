//! Ranges: is there a key from here to there? What the filters know of a column family's ranges.
//!
//! Two filters answer together. The *range filter* has the keys that existed when the summary filter
//! was built. It takes no others, so the summary filter takes the *block* of each key that comes later:
//! its prefix and 2^16 numbers around it, as one more hash ([`lsm_sieve_filter::range`]). A range is
//! empty if the range filter denies it and the summary filter denies its one or two blocks.
//!
//! *Invariant 11.* For each key of an entry that the view covers, but for tombstones, the range filter
//! has the number or the summary filter has the block. A new pair is built as a summary filter is
//! (invariant 3). Writes add blocks to the new summary filter from its first moment on. The keys of
//! memtables and segments go to the range filter until it is finished. Those that are read later are
//! added as blocks.

use std::borrow::Cow;
use std::sync::Arc;

use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::{Bits, Items};
use crate::prefix::Prefix;
use lsm_sieve_filter::range::{
    self, RangeBuilder, RangeError, RangeFilter, RangeShape, last_before, number,
};

/// Which keys an iterator asks for.
#[derive(Clone, Copy, Debug)]
pub enum Span<'k> {
    /// Those whose prefix by the engine's own function is that of this key.
    SamePrefix(&'k [u8]),
    /// Those from the first to the last in bytewise order.
    Closed(&'k [u8], &'k [u8]),
    /// Those from the first on that are below the other.
    HalfOpen(&'k [u8], &'k [u8]),
}

impl<'k> Span<'k> {
    /// Its first key, and the least one above all of it; `None` for a prefix.
    pub(crate) fn half_open(self) -> Option<(&'k [u8], Cow<'k, [u8]>)> {
        match self {
            Self::SamePrefix(_) => None,
            Self::Closed(from, to) => Some((from, Cow::Owned([to, &[0]].concat()))),
            Self::HalfOpen(from, end) => Some((from, Cow::Borrowed(end))),
        }
    }
}

/// Which ranges the filters of a column family answer for.
#[derive(Clone, Debug)]
pub struct RangeKeys {
    prefix: Prefix,
    bits_per_key: u32,
}

/// What the view of a column family knows of ranges, beside the blocks in its summary filter.
#[derive(Clone, Debug)]
pub(crate) enum Ranges {
    /// The summary filter lacks blocks: it was loaded, or no ranges are asked for.
    Unknown,
    /// There was no room for a range filter.
    Omitted,
    Known(KnownRanges),
}

/// A range filter beside its summary filter.
#[derive(Clone, Debug)]
pub(crate) struct KnownRanges {
    pub(crate) filter: Arc<RangeFilter>,
    /// What the summary filter held when the range filter was finished.
    items: Items,
}

/// A range filter that lacks fewer keys than this is not rebuilt for them.
const WORTH_RANGES: u64 = 64;

/// Numbers behind one prefix, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeProbe<'k> {
    pub(crate) prefix: &'k [u8],
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl RangeKeys {
    /// Ranges of keys with one prefix by this function, by a range filter of this size.
    ///
    /// # Errors
    /// [`RangeError::Bits`] for fewer than 10 or more than 34 bits.
    pub fn new(prefix: Prefix, bits_per_key: u32) -> Result<Self, RangeError> {
        RangeShape::new(0, bits_per_key)?;
        Ok(Self {
            prefix,
            bits_per_key,
        })
    }

    /// The memory of a range filter of this many keys.
    pub(crate) fn size(&self, keys: Items) -> Bits {
        Bits::new(keys.get().saturating_mul(u64::from(self.bits_per_key) + 2))
    }

    /// A range filter without keys.
    pub(crate) fn nothing(&self, hasher: KeyHasher) -> Ranges {
        self.finish(RangeBuilder::new(hasher), Items::new(0))
    }

    /// The range filter of these keys, beside a summary filter that holds `items`.
    pub(crate) fn finish(&self, builder: RangeBuilder, items: Items) -> Ranges {
        match builder.finish(self.bits_per_key) {
            Ok(filter) => Ranges::Known(KnownRanges {
                filter: Arc::new(filter),
                items,
            }),
            Err(reason) => {
                tracing::warn!(%reason, "ranges are not answered until the next consolidation");
                Ranges::Omitted
            }
        }
    }

    /// The prefix of a key and what is behind it. A key without a prefix is in no range that is answered.
    #[inline]
    pub(crate) fn split<'k>(&self, key: &'k [u8]) -> Option<(&'k [u8], &'k [u8])> {
        let prefix = self.prefix.of(key)?;
        key.split_at_checked(prefix.len())
    }

    /// The hash of a key's block, for the summary filter.
    #[inline]
    pub(crate) fn block(&self, hasher: KeyHasher, key: &[u8]) -> Option<KeyHash> {
        let (prefix, rest) = self.split(key)?;
        let number = number(rest);
        let (block, _) = range::blocks(&hasher, prefix, number, number)?;
        Some(for_summary(block))
    }

    /// The numbers of a span's keys, if all have one prefix. `None` for a question that ranges do not
    /// answer.
    #[inline]
    pub(crate) fn probe<'k>(&self, span: Span<'k>) -> Option<RangeProbe<'k>> {
        let (Span::Closed(from, to) | Span::HalfOpen(from, to)) = span else {
            return None;
        };
        let prefix = self.prefix_of_all(from, to)?;
        let behind = |bound: &'k [u8]| bound.get(prefix.len()..);
        let last = match span {
            Span::HalfOpen(..) => last_before(behind(to)?)?,
            _ => last_of_closed(behind(to)?)?,
        };
        Some(RangeProbe {
            prefix,
            first: number(behind(from)?),
            last,
        })
    }

    /// The prefix that all keys from one to another have: they begin with the bytes that both have in
    /// common.
    #[inline]
    fn prefix_of_all<'k>(&self, from: &'k [u8], to: &[u8]) -> Option<&'k [u8]> {
        fault!(RangeOfTwoPrefixesAnswered, return self.prefix.of(from));
        let common = from.iter().zip(to).take_while(|(one, other)| one == other);
        self.prefix.of_all(&from[..common.count()])
    }
}

impl RangeProbe<'_> {
    /// Whether it is in one or two blocks.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        range::are_few(self.first, self.last)
    }

    /// The hashes of its blocks, for the summary filter. `None` if it is too wide.
    #[inline]
    pub(crate) fn blocks(&self, hasher: KeyHasher) -> Option<(KeyHash, Option<KeyHash>)> {
        let (first, last) = range::blocks(&hasher, self.prefix, self.first, self.last)?;
        Some((for_summary(first), last.map(for_summary)))
    }
}

impl Ranges {
    pub(crate) fn size(&self) -> Bits {
        match self {
            Self::Known(ranges) => ranges.filter.size(),
            Self::Unknown | Self::Omitted => Bits::new(0),
        }
    }

    /// Whether a new range filter would answer for more: there is none yet, or the summary filter has
    /// grown by a quarter since.
    pub(crate) fn are_outgrown(&self, summary: &Scalable) -> bool {
        match self {
            Self::Unknown => true,
            Self::Omitted => false,
            Self::Known(ranges) => {
                let (items, now) = (ranges.items.get(), summary.items().get());
                now.saturating_sub(items) >= WORTH_RANGES.max(items / 4)
            }
        }
    }
}

fn last_of_closed(rest: &[u8]) -> Option<u64> {
    fault!(LastOfRangeLeftOut, return last_before(rest));
    Some(number(rest))
}

/// A block's hash in the summary filter. A key may have the bytes of a block: the prefix and a small
/// number.
#[inline]
fn for_summary(block: KeyHash) -> KeyHash {
    const OF_BLOCK: u64 = 0x9d8f_2b61_47c3_e05a;
    KeyHash::new(block.get() ^ OF_BLOCK).for_summary()
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::*;
    use crate::hash::{HashId, Seed};

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([9; 16]))
    }

    fn of_keys(ranges: &RangeKeys, keys: u64) -> Ranges {
        let mut builder = RangeBuilder::new(hasher());
        (0..keys).for_each(|number| builder.insert(b"a", &(number << 20).to_be_bytes()));
        ranges.finish(builder, Items::new(keys))
    }

    /// Its size is planned before it is built, and must not exceed the budget then.
    #[test]
    fn range_filter_takes_nearly_the_memory_that_is_planned_for_it() {
        const KEYS: u64 = 20_000;
        for bits in [10, 16, 34] {
            let ranges = RangeKeys::new(Prefix::fixed(1), bits).unwrap();
            let planned = ranges.size(Items::new(KEYS)).get();
            let taken = of_keys(&ranges, KEYS).size().get();
            // Less than a bit per key is left.
            assert!(
                taken <= planned && planned < taken + KEYS,
                "{bits}: {taken} of {planned}"
            );
        }
    }

    /// The next try would fail as well, and read all segments.
    #[test]
    fn range_filter_that_cannot_be_built_is_not_asked_for() {
        let ranges = RangeKeys {
            prefix: Prefix::fixed(1),
            bits_per_key: 40,
        };
        assert!(matches!(of_keys(&ranges, 1), Ranges::Omitted));
    }
}

//! A filter for scans inside each SST: of the keys with a prefix, and of a range of keys.
//!
//! SlateDB asks it before a scan reads an SST. It has the prefixes of all keys, by SlateDB's own
//! [`PrefixExtractor`], and, on request, a range filter of what is behind them
//! ([`lsm_sieve_filter::range`]). An SST is skipped if no row of it, tombstones included, has a key of
//! the scan.
//!
//! ```text
//! | length of the sidecar, 4 | sidecar of the prefixes | ranges, if there are any | CRC-32 of all before |
//! ranges  | groups, 4 | bits of a low part, 4 | where the groups begin, 4 each | groups |
//! ```
//!
//! Numbers are little-endian. The sidecar binds the filter to the database and the seed. Decoding
//! cannot fail: a filter that is damaged, foreign or newer answers *maybe*.

use crate::binding::{Binding, SegmentFilter};
use crate::bucket::Bucket;
use crate::keys::KeyHashes;
use bytes::BufMut;
use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::math::Rate;
use lsm_sieve_filter::range::{
    RangeBuilder, RangeError, RangeFilter, RangeShape, last_before, number,
};
use lsm_sieve_format::format::Source;
use lsm_sieve_support::fault::fault;
use slatedb::bytes::Bytes;
use slatedb::{
    Filter, FilterBuilder, FilterPolicy, FilterQuery, FilterTarget, PrefixExtractor, PrefixTarget,
    RowEntry,
};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Puts a filter for scans into each SST, beside that of a [`SievePolicy`](crate::SievePolicy).
#[derive(Clone)]
pub struct ScanPolicy {
    binding: Binding,
    extractor: Arc<dyn PrefixExtractor>,
    name: String,
    range_bits: Option<u32>,
}

impl ScanPolicy {
    /// The name that SSTs carry, before that of the extractor.
    pub const NAME: &'static str = "lsm-sieve-scan";

    /// Filters of the prefixes that this function gives, of one percent: 7 bits for each prefix of an
    /// SST, for which SlateDB takes 10 for each key.
    pub fn new(bucket: &Bucket, extractor: Arc<dyn PrefixExtractor>) -> Self {
        Self {
            binding: *bucket.binding(),
            name: format!("{}:p={}", Self::NAME, extractor.name()),
            extractor,
            range_bits: None,
        }
    }

    /// Adds a range filter to new SSTs: of `bits_per_key`, from 10 to 34, and one more. A scan within
    /// one prefix then skips an SST that has no key between its bounds. Of w empty numbers, which are
    /// the eight bytes behind the prefix, a share of w / 2^(bits - 2) is read in vain: 0.6 % for 100
    /// at 16 bits. Scans of more than 2^16 numbers are not answered.
    ///
    /// # Errors
    /// [`RangeError::Bits`] for other bits.
    pub fn with_ranges(mut self, bits_per_key: u32) -> Result<Self, RangeError> {
        RangeShape::new(0, bits_per_key)?;
        self.range_bits = Some(bits_per_key);
        Ok(self)
    }

    /// The prefix of a key, or of all keys that start so, and what is behind it.
    fn split<'t>(&self, target: &'t PrefixTarget) -> Option<(&'t [u8], &'t [u8])> {
        let length = self.extractor.prefix_len(target)?;
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        bytes.split_at_checked(length)
    }
}

impl FilterPolicy for ScanPolicy {
    fn name(&self) -> &str {
        &self.name
    }

    fn builder(&self) -> Box<dyn FilterBuilder> {
        Box::new(Builder {
            prefixes: KeyHashes::new(self.binding),
            ranges: RangeBuilder::new(*self.binding.hasher()),
            policy: self.clone(),
        })
    }

    fn decode(&self, data: &[u8]) -> Arc<dyn Filter> {
        let decoded = Decoder(data).decode(&self.binding);
        if decoded.is_none() {
            tracing::warn!("a filter for scans in an SST is damaged, or of another database");
        }
        let (prefixes, ranges) = decoded.unzip();
        Arc::new(InSst {
            policy: self.clone(),
            prefixes: prefixes.map(Arc::new),
            ranges: ranges.flatten().map(Arc::new),
        })
    }

    /// As if each key had a prefix of its own.
    fn estimate_size(&self, keys: usize) -> usize {
        const BITS_OF_PREFIX: usize = 7;
        const BESIDE: usize = 250;
        let of_range = self.range_bits.map_or(0, |bits| bits as usize + 1);
        keys.saturating_mul(BITS_OF_PREFIX + of_range) / 8 + BESIDE
    }

    fn supports_range_queries(&self) -> bool {
        self.range_bits.is_some()
    }
}

impl fmt::Debug for ScanPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut policy = f.debug_struct("ScanPolicy");
        policy.field("name", &self.name);
        policy
            .field("range_bits", &self.range_bits)
            .finish_non_exhaustive()
    }
}

/// Collects the keys of an SST that is being written.
struct Builder {
    prefixes: KeyHashes,
    ranges: RangeBuilder,
    policy: ScanPolicy,
}

impl FilterBuilder for Builder {
    fn add_entry(&mut self, entry: &RowEntry) {
        let target = PrefixTarget::Point(entry.key.clone());
        // A key without a prefix is in no scan that the filter answers.
        let Some((prefix, rest)) = self.policy.split(&target) else {
            return;
        };
        self.prefixes.add(prefix);
        if self.policy.range_bits.is_some() {
            self.ranges.insert(prefix, rest);
        }
    }

    fn build(&mut self) -> Arc<dyn Filter> {
        let binding = self.policy.binding;
        let prefixes = std::mem::replace(&mut self.prefixes, KeyHashes::new(binding));
        let ranges = std::mem::replace(&mut self.ranges, RangeBuilder::new(*binding.hasher()));
        let prefixes = SegmentId::random()
            .ok()
            .and_then(|id| prefixes.seal(id, Rate::ONE_PERCENT));
        let ranges = self.policy.range_bits.map(|bits| ranges.finish(bits));
        if let Some(Err(reason)) = &ranges {
            tracing::warn!(%reason, "an SST gets no range filter");
        }
        Arc::new(InSst {
            policy: self.policy.clone(),
            prefixes: prefixes.map(Arc::new),
            ranges: ranges.and_then(Result::ok).map(Arc::new),
        })
    }
}

/// The filter of an SST, as SlateDB holds it. What is missing answers *maybe*.
#[derive(Clone)]
struct InSst {
    policy: ScanPolicy,
    prefixes: Option<Arc<SegmentFilter>>,
    ranges: Option<Arc<RangeFilter>>,
}

impl InSst {
    /// Whether the SST may have a key with this prefix and one of these numbers behind it.
    fn may_contain(&self, prefix: &[u8], first: u64, last: u64) -> bool {
        let has_prefix = self
            .prefixes
            .as_ref()
            .is_none_or(|prefixes| prefixes.chain.may_contain(self.policy.binding.hash(prefix)));
        let ranges = self.ranges.as_ref();
        has_prefix && ranges.is_none_or(|ranges| ranges.may_contain(prefix, first, last))
    }

    fn prefix_may_match(&self, start: &Bytes) -> bool {
        let target = PrefixTarget::Prefix(start.clone());
        let Some((prefix, rest)) = self.policy.split(&target) else {
            return true;
        };
        // The bytes that the rest lacks may be any.
        let lacking = u64::MAX.checked_shr(8 * rest.len() as u32).unwrap_or(0);
        let first = number(rest);
        fault!(
            ScannedPrefixIsKey,
            return self.may_contain(prefix, first, first)
        );
        self.may_contain(prefix, first, first | lacking)
    }

    /// The keys between two bounds have one prefix if both bounds have it: the prefix of a key depends
    /// on the bytes of the prefix alone.
    fn range_may_match(&self, lower: &Bound<Bytes>, upper: &Bound<Bytes>) -> bool {
        let (Bound::Included(first) | Bound::Excluded(first)) = lower else {
            return true;
        };
        let target = PrefixTarget::Point(first.clone());
        let Some((prefix, rest)) = self.policy.split(&target) else {
            return true;
        };
        fault!(
            ScanOfTwoPrefixesAnswered,
            return self.may_contain(prefix, number(rest), u64::MAX)
        );
        let last = match upper {
            Bound::Included(last) => last.strip_prefix(prefix).map(number),
            Bound::Excluded(end) => end.strip_prefix(prefix).and_then(last_before),
            Bound::Unbounded => None,
        };
        last.is_none_or(|last| self.may_contain(prefix, number(rest), last))
    }
}

impl Filter for InSst {
    fn might_match(&self, query: &FilterQuery) -> bool {
        match &query.target {
            FilterTarget::Point(_) => true,
            FilterTarget::Prefix(start) => self.prefix_may_match(start),
            FilterTarget::Range { lower, upper } => self.range_may_match(lower, upper),
        }
    }

    /// Writes nothing for a filter that could not be made. No bytes decode to *maybe*.
    fn encode(&self, writer: &mut dyn BufMut) {
        let Some(prefixes) = &self.prefixes else {
            return;
        };
        let sidecar = self
            .policy
            .binding
            .encode_segment(prefixes, Source::TableCapture);
        let Ok(sidecar) =
            sidecar.inspect_err(|reason| tracing::warn!(%reason, "an SST gets no filter"))
        else {
            return;
        };
        let mut bytes = (sidecar.len() as u32).to_le_bytes().to_vec();
        bytes.extend(sidecar);
        if let Some(ranges) = &self.ranges {
            let (shape, starts, groups) = ranges.parts();
            bytes.extend(shape.groups.to_le_bytes());
            bytes.extend(shape.low_bits.to_le_bytes());
            bytes.extend(starts.iter().flat_map(|start| start.to_le_bytes()));
            bytes.extend(groups);
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        writer.put_slice(&bytes);
    }

    fn size(&self) -> usize {
        let prefixes = self
            .prefixes
            .as_ref()
            .map(|prefixes| prefixes.chain.size().get());
        let ranges = self.ranges.as_ref().map(|ranges| ranges.size().get());
        let bits = prefixes.unwrap_or(0) + ranges.unwrap_or(0);
        usize::try_from(bits.div_ceil(8)).unwrap_or(usize::MAX)
    }

    /// Both parts are allocated to size, so sharing them wastes nothing.
    fn clamp_allocated_size(&self) -> Arc<dyn Filter> {
        Arc::new(self.clone())
    }
}

/// Bytes that are left to decode.
struct Decoder<'d>(&'d [u8]);

impl<'d> Decoder<'d> {
    fn decode(mut self, binding: &Binding) -> Option<(SegmentFilter, Option<RangeFilter>)> {
        let (all, sum) = self.0.split_last_chunk()?;
        if crc32fast::hash(all) != u32::from_le_bytes(*sum) {
            return None;
        }
        self.0 = all;
        let length = self.number()?;
        let prefixes = binding.decode_segment(self.take(length as usize)?).ok()?;
        if self.0.is_empty() {
            return Some((prefixes, None));
        }
        let (groups, low_bits) = (self.number()?, self.number()?);
        let starts = self.take((groups as usize).checked_add(1)?.checked_mul(4)?)?;
        let starts = starts
            .chunks_exact(4)
            .filter_map(|start| Some(u32::from_le_bytes(*start.first_chunk()?)));
        let shape = RangeShape { groups, low_bits };
        let ranges =
            RangeFilter::from_parts(*binding.hasher(), shape, starts.collect(), self.0.to_vec());
        Some((prefixes, Some(ranges.ok()?)))
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn take(&mut self, length: usize) -> Option<&'d [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }
}

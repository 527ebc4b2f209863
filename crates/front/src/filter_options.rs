//! The settings of filters that do not depend on the engine behind them.

use std::sync::Arc;
use std::time::Duration;

use crate::cf_filter::CfFilter;
use crate::hash::HashId;
use crate::math::{Bits, Items};
#[cfg(feature = "laws")]
use crate::mutant::Mutant;
use crate::options::{Access, FilterSize, FrontOptions, SummarySaves};

/// Settings of the filters of one store. Their order does not matter.
///
/// ```
/// # mod lsm_sieve {
/// #     pub use lsm_sieve_filter::math::Items;
/// #     pub use lsm_sieve_front::filter_options::FilterOptions;
/// #     pub use lsm_sieve_front::options::{FilterSize, FilterSizeError};
/// # }
/// use lsm_sieve::{FilterOptions, FilterSize, Items};
///
/// let options = FilterOptions::default()
///     .filter_size(FilterSize::rate(0.001)?)
///     .expected_keys(Items::new(50_000_000));
/// # Ok::<(), lsm_sieve::FilterSizeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FilterOptions {
    size: FilterSize,
    segments: SegmentSize,
    static_filters: bool,
    expected_keys: Option<Items>,
    memory_budget: Option<Bits>,
    hash: HashId,
    build_memory: Option<Bits>,
    adaptive_hits: bool,
    /// `None` means the default: see `cf_filter`.
    audit: Option<u32>,
    scrub_every: Option<Duration>,
    #[cfg(feature = "laws")]
    mutant: Option<Mutant>,
}

#[derive(Clone, Copy, Debug)]
enum SegmentSize {
    /// It follows from the size of the summary filter.
    Derived,
    /// There are no segment filters.
    Off,
    Set(FilterSize),
}

/// Each filter in memory is scrubbed once per interval, at a quarter of a GiB per second. With an
/// hour, scrubbing 1 GiB of filters takes a thousandth of the time.
const SCRUBBED: Duration = Duration::from_secs(60 * 60);

impl Default for FilterOptions {
    /// One percent false positives, XXH3, no memory budget.
    fn default() -> Self {
        Self {
            size: FilterSize::ONE_PERCENT,
            segments: SegmentSize::Derived,
            static_filters: false,
            expected_keys: None,
            memory_budget: None,
            hash: HashId::Xxh3,
            build_memory: None,
            adaptive_hits: true,
            audit: None,
            scrub_every: Some(SCRUBBED),
            #[cfg(feature = "laws")]
            mutant: None,
        }
    }
}

impl FilterOptions {
    /// Sets the size of the filters: [`FilterSize::ONE_PERCENT`] by default, which takes 13.6 bits
    /// per key for the summary filter and 10.3 more for segment filters. A rate bounds the share of
    /// lookups of absent keys that pass the summary filter.
    #[must_use]
    pub fn filter_size(mut self, size: FilterSize) -> Self {
        self.size = size;
        self
    }

    /// Sets the size of the segment filters alone; `None` builds none. By default it follows from
    /// [`FilterOptions::filter_size`].
    #[must_use]
    pub fn segment_filters(mut self, size: Option<FilterSize>) -> Self {
        self.segments = size.map_or(SegmentSize::Off, SegmentSize::Set);
        self
    }

    /// Whether a summary filter that hardly grows is rebuilt as a static one: fewer bits for fewer
    /// false positives, but two cache lines for a probe, and the store is read once more. Off by
    /// default. At one percent it takes 11 bits per key, and one absent key in 2,000 passes; while
    /// it grows it takes 10.3 bits, and its first stage passes one in 100.
    #[must_use]
    pub fn static_filters(mut self, are: bool) -> Self {
        self.static_filters = are;
        self
    }

    /// How many keys the store will hold. Not set by default: the summary filter starts small and
    /// grows.
    #[must_use]
    pub fn expected_keys(mut self, keys: Items) -> Self {
        self.expected_keys = Some(keys);
        self
    }

    /// The most memory that all filters may take. Not set by default. Over the budget whole filters
    /// are dropped; lookups then read the store.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.memory_budget = Some(Bits::from_bytes(bytes));
        self
    }

    /// The hash function of the keys, by default XXH3. Filters that were built with another are
    /// rebuilt.
    #[must_use]
    pub fn hash(mut self, hash: HashId) -> Self {
        self.hash = hash;
        self
    }

    /// The most memory for hashes while a static summary filter is built; a hash has 8 bytes. By
    /// default one byte for each key, or 1 MiB if that is more. The hashes of all keys are in a
    /// temporary file meanwhile.
    #[must_use]
    pub fn build_memory(mut self, bytes: u64) -> Self {
        self.build_memory = Some(Bits::from_bytes(bytes));
        self
    }

    /// Whether lookups may skip filters while a thread's keys are found. On by default.
    #[must_use]
    pub fn adaptive_hits(mut self, adaptive: bool) -> Self {
        self.adaptive_hits = adaptive;
        self
    }

    /// Audits one negative in `one_in`: the store is read all the same, to verify that the key does
    /// not exist. 0 audits none. If the key exists, no filter is trusted until the next open. The
    /// default is one in 8,192, throttled to 1% of the time.
    #[must_use]
    pub fn audit(mut self, one_in: u32) -> Self {
        self.audit = Some(one_in);
        self
    }

    /// How often the filters in memory are scrubbed in the background, to find flipped bits. The
    /// default is one hour; `None` turns it off.
    #[must_use]
    pub fn scrub_every(mut self, interval: Option<Duration>) -> Self {
        self.scrub_every = interval;
        self
    }

    /// For the suite that must find it.
    #[cfg(feature = "laws")]
    pub fn mutant(mut self, mutant: Option<Mutant>) -> Self {
        self.mutant = mutant;
        self
    }

    #[cfg(feature = "laws")]
    pub fn get_mutant(&self) -> Option<Mutant> {
        self.mutant
    }

    pub fn audit_one_in(&self) -> Option<u32> {
        self.audit
    }

    pub fn get_hash(&self) -> HashId {
        self.hash
    }

    /// The size of the segment filters; `None` if there are none.
    fn segment_size(&self) -> Option<FilterSize> {
        match self.segments {
            SegmentSize::Derived => Some(self.size.segment_part(!self.static_filters)),
            SegmentSize::Off => None,
            SegmentSize::Set(size) => Some(size),
        }
    }

    /// The settings of the filters of one column family, in a store that is open for writing. A
    /// rate that follows from bits per key takes a while to compute.
    pub fn resolved(&self) -> FrontOptions {
        FrontOptions {
            summary: self.size.summary_rates(!self.static_filters),
            segment_rate: self.segment_size().map(FilterSize::segment_rate),
            filters_last_level: !self.static_filters,
            build_memory: self.build_memory,
            expected_keys: self.expected_keys,
            memory_budget: self.memory_budget.into(),
            read_only_filters: false,
            audit: self.audit,
            scrub_every: self.scrub_every,
            adaptive_hits: self.adaptive_hits,
            unordered_writes: false,
            summary_saves: SummarySaves::WhenUseful,
            access: Access::Write,
            cfs: 1,
            overhead: CfFilter::OVERHEAD,
            prefixes: Arc::default(),
            ranges: None,
        }
    }
}

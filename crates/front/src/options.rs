//! The sizes that follow from the settings: those of all filters of a database.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::fault::fault;
use crate::filter::{ScalableOptions, Stage};
use crate::math::growth::Tightening;
use crate::math::{Bits, Items, Rate, blocked, ribbon};
use crate::prefix::Prefixes;
use crate::ranges::RangeKeys;

/// Settings of the filters of one database, resolved from the user's.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    pub summary: SummaryRates,
    /// `None` leaves the engine's own filters in place.
    pub segment_rate: Option<Rate>,
    /// Whether the segments of the last level get segment filters too.
    pub filters_last_level: bool,
    /// Bits of hashes in memory while a static summary filter is built.
    pub build_memory: Option<Bits>,
    pub expected_keys: Option<Items>,
    pub memory_budget: MemoryBudget,
    /// Existing filters are only read.
    pub read_only_filters: bool,
    /// One negative in this many is audited; `None` means the default, throttled.
    pub audit: Option<u32>,
    pub scrub_every: Option<Duration>,
    /// Whether reads skip filters while keys are likely to be found.
    pub adaptive_hits: bool,
    /// Whether the engine may make a write visible before its memtable has the key, as RocksDB does
    /// with `unordered_write`.
    pub unordered_writes: bool,
    pub summary_saves: SummarySaves,
    pub access: Access,
    /// Filtered column families, which share the budget.
    pub cfs: usize,
    /// Memory of the column families' filters beside the filters themselves.
    pub overhead: Bits,
    /// The prefixes of a column family's keys that its filters have too.
    pub prefixes: Arc<Prefixes>,
    /// The ranges of a column family's keys that its filters answer for.
    pub ranges: Option<Arc<RangeKeys>>,
}

/// The false-positive rates of a summary filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SummaryRates {
    /// Of all its stages together, while it grows.
    pub growing: Rate,
    /// Of the static stage that it begins with once it hardly grows; `None` if it never gets one.
    pub at_rest: Option<Rate>,
}

impl SummaryRates {
    /// The rate of the first stage while the filter grows. Unless it gets a static one, a
    /// consolidated summary filter has only this stage.
    pub(crate) fn first(self) -> Rate {
        Tightening::Geometric(TIGHTENING).rate(self.growing, 0)
    }
}

/// The memory budget of one database. Copies share it, and it may change.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<AtomicU64>);

impl MemoryBudget {
    const NONE: u64 = u64::MAX;

    pub fn get(&self) -> Option<Bits> {
        let bits = self.0.load(Ordering::Relaxed);
        (bits != Self::NONE).then(|| Bits::new(bits))
    }

    pub(crate) fn set(&self, budget: Option<Bits>) {
        let bits = budget.map_or(Self::NONE, Bits::get);
        self.0.store(bits, Ordering::Relaxed);
    }
}

impl From<Option<Bits>> for MemoryBudget {
    fn from(budget: Option<Bits>) -> Self {
        let new = Self(Arc::default());
        new.set(budget);
        new
    }
}

/// Whether summary filters are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SummarySaves {
    /// When that saves the next open reads.
    WhenUseful,
    /// No stored one could be trusted.
    Never,
}

/// How the engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Write,
    /// Read-only: lookups see the database as it was at open.
    Read,
    /// A secondary: it reads what another process writes, and catches up on request.
    Follow,
}

/// The size of a filter: its false-positive rate, or its bits per key.
///
/// ```
/// # mod lsm_sieve {
/// #     pub use lsm_sieve_front::options::{FilterSize, FilterSizeError};
/// # }
/// use lsm_sieve::FilterSize;
///
/// let one_in_a_thousand = FilterSize::rate(0.001)?;
/// let sixteen_bits = FilterSize::bits_per_key(16.0)?;
/// assert!(FilterSize::bits_per_key(0.0).is_err());
/// # Ok::<(), lsm_sieve::FilterSizeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FilterSize(Size);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    Rate(Rate),
    BitsPerKey(f64),
}

/// The size of a filter is out of range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterSizeError {
    /// The false-positive rate is not between [`FilterSize::LEAST_RATE`] and 1.
    #[error("a false-positive rate of {0} is out of range: use one from {least:e} to below 1", least = FilterSize::LEAST_RATE)]
    Rate(f64),
    /// The number of bits is not between 1 and 256.
    #[error("{0} bits per key are out of range: use 1 to 256")]
    BitsPerKey(f64),
}

impl FilterSize {
    /// The lowest rate that a growing filter can keep. Below it, stages run out of hash bits.
    pub const LEAST_RATE: f64 = 1e-8;

    /// One percent false positives.
    pub const ONE_PERCENT: Self = Self(Size::Rate(Rate::ONE_PERCENT));

    /// A false-positive rate, at least [`FilterSize::LEAST_RATE`] and below 1.
    ///
    /// # Errors
    /// If it is not.
    pub fn rate(rate: f64) -> Result<Self, FilterSizeError> {
        let checked = Rate::new(rate).ok().filter(|_| rate >= Self::LEAST_RATE);
        checked.map_or(Err(FilterSizeError::Rate(rate)), |rate| {
            Ok(Self(Size::Rate(rate)))
        })
    }

    /// At most this many bits per key, from 1 to 256. A filter that would keep a lower rate than
    /// [`FilterSize::LEAST_RATE`] takes fewer.
    ///
    /// # Errors
    /// If it is not.
    pub fn bits_per_key(bits: f64) -> Result<Self, FilterSizeError> {
        match blocked::is_bits_per_key(bits) {
            true => Ok(Self(Size::BitsPerKey(bits))),
            false => Err(FilterSizeError::BitsPerKey(bits)),
        }
    }

    /// The rates of a summary filter of this size.
    pub(crate) fn summary_rates(self, speed_over_memory: bool) -> SummaryRates {
        let of_first = |first: Rate| Rate::clamped(first.get() / (1.0 - TIGHTENING));
        let (growing, at_rest) = match self.0 {
            Size::Rate(rate) if speed_over_memory => (rate, rate),
            Size::Rate(rate) => {
                let at_rest = (rate.get() * AT_REST_PART).max(Self::LEAST_RATE);
                (of_first(rate), Rate::clamped(at_rest))
            }
            Size::BitsPerKey(bits) => {
                let first = growing_rate_of((bits / HEADROOM).max(1.0));
                (of_first(first), static_rate_of(bits))
            }
        };
        SummaryRates {
            growing,
            at_rest: (!speed_over_memory).then_some(at_rest),
        }
    }

    /// The rate of a segment filter of this size.
    pub(crate) fn segment_rate(self) -> Rate {
        match self.0 {
            Size::Rate(rate) => rate,
            Size::BitsPerKey(bits) => growing_rate_of(bits),
        }
    }

    /// The size that segment filters have by default beside a summary filter of this size: twice its
    /// rate, or its rate if speed comes before memory; or as many bits per key.
    #[must_use]
    pub(crate) fn segment_part(self, speed_over_memory: bool) -> Self {
        let part = if speed_over_memory { 1.0 } else { SEGMENT_PART };
        Self(match self.0 {
            Size::Rate(rate) => Size::Rate(Rate::clamped(rate.get() * part)),
            bits @ Size::BitsPerKey(_) => bits,
        })
    }
}

/// Keys of a summary filter's first stage if `expected_keys` is not set. It is
/// small enough (0.4 MB) for a small database, and large enough that a few stages hold millions of
/// keys.
const FIRST_STAGE: Items = Items::new(1 << 18);

/// The first stages of all column families together hold this many keys (6 MB). With more than 16
/// column families each gets less: of a thousand column families most are small.
const FIRST_STAGES: u64 = 1 << 22;

/// The least that a first stage holds (6 KiB): little beside the memtable of a column family.
const LEAST_FIRST_STAGE: u64 = 1 << 12;

/// If [`FIRST_STAGES`] made the first stage small, the second holds this many times its keys, up to
/// [`FIRST_STAGE`]. Each stage costs a miss one cache line until the summary filter is
/// consolidated.
const LEAP: u64 = 16;

/// Stage growth s. Consolidation replaces all stages by one, so few stages exist at a time. A
/// larger s would only allocate more memory for keys that may not come.
const GROWTH: u32 = 2;

/// A large first stage is followed by a second one of 1/4 its capacity. The first was sized for all
/// keys that existed. With s = 2, one more key would triple the memory.
const SECOND: u64 = 4;

/// Tightening ratio r. A growing summary filter is one stage of rate P(1 - r) for as long as it can
/// be. What passes reads the engine, which takes as long as a hundred probes. With a larger r, a
/// filter of two bits per key could not keep its rate. Later stages live only until the next
/// consolidation.
const TIGHTENING: f64 = 0.74;

/// The rate of a static summary filter, as a part of the configured rate. 0.05 % instead of 1 %
/// takes 4 bits more per key; a miss that passes reads a block of the last level, whose segments
/// have no filters.
const AT_REST_PART: f64 = 0.05;

/// The rate of a segment filter, as a part of the configured rate. It decides how many segments are
/// searched in vain for a key that exists.
const SEGMENT_PART: f64 = 2.0;

/// Each level of a leveled tree holds ten times as many keys as the one above it, so about a tenth of
/// all keys are above the last level.
const LEVEL_GROWTH: u64 = 10;

/// Hashes in memory while a static summary filter is built, at least: 1 MiB.
const HASHES_AT_ONCE: u64 = 1 << 17;

/// By default a static summary filter is built in at most this many parts, so its hashes take at
/// most one byte per key in memory.
const MOST_PARTS: u64 = 8;

/// A summary filter that the budget makes smaller has at least this many bits per key. It then passes
/// one absent key in six.
const LEAST_BITS: f64 = 4.0;
const MOST_BITS: f64 = 256.0;

/// The shares of the room that a summary filter is tried with: a small static stage takes more than
/// its bits per key.
const SHARES: [f64; 3] = [1.0, 0.97, 0.9];

/// A consolidated summary filter has room for this many times its keys before its second stage
/// opens.
const HEADROOM: f64 = 1.02;

impl Default for FrontOptions {
    /// One percent false positives, speed before memory, no memory budget.
    fn default() -> Self {
        let size = FilterSize::ONE_PERCENT;
        Self {
            summary: size.summary_rates(true),
            segment_rate: Some(size.segment_part(true).segment_rate()),
            filters_last_level: true,
            build_memory: None,
            expected_keys: None,
            memory_budget: None.into(),
            read_only_filters: false,
            audit: None,
            scrub_every: None,
            adaptive_hits: true,
            unordered_writes: false,
            summary_saves: SummarySaves::WhenUseful,
            access: Access::Write,
            cfs: 1,
            overhead: Bits::new(0),
            prefixes: Arc::default(),
            ranges: None,
        }
    }
}

impl FrontOptions {
    /// The same for column families of this number, which share the budget and take `overhead`
    /// beside their filters.
    pub fn shared_by(self, cfs: usize, overhead: Bits) -> Self {
        Self {
            cfs,
            overhead,
            ..self
        }
    }

    pub fn is_secondary(&self) -> bool {
        self.access == Access::Follow
    }

    /// The same for summary filters that get a static stage.
    #[cfg(test)]
    pub(crate) fn at_rest(mut self) -> Self {
        self.summary.at_rest = FilterSize::ONE_PERCENT.summary_rates(false).at_rest;
        self
    }

    /// The same for summary filters that get no static stage.
    pub(crate) fn growing(mut self) -> Self {
        self.summary.at_rest = None;
        self
    }

    /// The size of a summary filter that is built for `keys` keys.
    pub(crate) fn summary_size(&self, keys: Items) -> Bits {
        match self.summary.at_rest {
            Some(rate) => static_size(keys, rate),
            None => self.stage_size(self.with_room(keys).max(self.first_stage())),
        }
    }

    fn stage_size(&self, keys: Items) -> Bits {
        blocked::size_in_bits(keys, self.summary.first())
    }

    fn first_stage(&self) -> Items {
        self.expected_keys.unwrap_or_else(|| {
            fault!(FirstStagesLarge, return FIRST_STAGE);
            let share = FIRST_STAGES / self.cfs.max(1).next_power_of_two() as u64;
            Items::new(share.max(LEAST_FIRST_STAGE)).min(FIRST_STAGE)
        })
    }

    /// The capacity of the first stage of a summary filter that has to hold `keys` keys. A small
    /// number of keys is doubled; otherwise they would be read again each time a third more came.
    pub(crate) fn with_room(&self, keys: Items) -> Items {
        let twice = Items::new(keys.get().saturating_mul(2)).min(FIRST_STAGE);
        match self.expected_keys {
            None => with_headroom(keys).max(twice),
            Some(_) => with_headroom(keys),
        }
    }

    /// The capacity of the stage after a first one for `first` keys.
    fn second_stage(&self, first: Items) -> Items {
        let doubled = first.min(FIRST_STAGE).get() * u64::from(GROWTH);
        let leap = match self.expected_keys {
            None => (first.get().saturating_mul(LEAP)).min(FIRST_STAGE.get()),
            Some(_) => 0,
        };
        Items::new(doubled.max(leap).max(first.get() / SECOND))
    }

    /// The number of parts that a static summary filter of `entries` entries is built in.
    pub(crate) fn static_parts(&self, entries: u64) -> NonZeroU64 {
        let by_default = HASHES_AT_ONCE.max(entries.div_ceil(MOST_PARTS));
        let at_once = self.build_memory.map_or(by_default, |memory| {
            (memory.get() / u64::from(u64::BITS)).max(1)
        });
        NonZeroU64::new(entries.div_ceil(at_once)).unwrap_or(NonZeroU64::MIN)
    }

    /// The part of the budget that is left for filters.
    fn filter_budget(&self) -> Option<Bits> {
        self.filter_budget_beside(self.overhead)
    }

    /// The part of the budget that is left for filters beside `new_filters` bits of other memory.
    pub(crate) fn filter_budget_beside(&self, overhead: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(overhead.get()));
        self.memory_budget.get().map(left)
    }

    /// The part of the budget that is left for a summary filter if others take `others` bits.
    pub(crate) fn room_beside(&self, others: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(others.get()));
        self.filter_budget().map(left)
    }

    /// The same with a summary rate that makes a filter of `keys` keys fit the budget, of which
    /// others take `others` bits: a filter of few bits per key still denies most absent keys. Below
    /// [`LEAST_BITS`] per key none is worth its memory, and the rate stays as it is.
    pub(crate) fn fitting(self, keys: Items, others: Bits) -> Self {
        let Some(room) = self.room_beside(others) else {
            return self;
        };
        if self.summary_size(keys) <= room {
            return self;
        }
        let capacity = match self.summary.at_rest {
            Some(_) => keys,
            None => self.with_room(keys).max(self.first_stage()),
        };
        let bits_per_key = room.get() as f64 / capacity.get().max(1) as f64;
        let is_growing = self.summary.at_rest.is_none();
        for share in SHARES {
            let bits = bits_per_key * share;
            if !(LEAST_BITS..MOST_BITS).contains(&bits) {
                continue;
            }
            let size = FilterSize(Size::BitsPerKey(bits));
            let fitting = Self {
                summary: size.summary_rates(is_growing),
                ..self.clone()
            };
            if fitting.summary_size(keys) <= room {
                return fitting;
            }
        }
        self
    }

    /// The options of a summary filter whose static first stage of `keys` keys is still to come.
    /// Others take `others` bits of the budget.
    pub(crate) fn static_summary(&self, keys: Items, others: Bits) -> ScalableOptions {
        let second = Items::new(keys.get() / SECOND);
        ScalableOptions {
            first: keys,
            second: Some(second.max(self.first_stage().min(FIRST_STAGE))),
            ..self.summary(keys, others)
        }
    }

    /// The options of a summary filter for at least `keys` keys. Others take `others` bits of the
    /// budget.
    pub fn summary(&self, keys: Items, others: Bits) -> ScalableOptions {
        let first = keys.max(self.first_stage());
        ScalableOptions {
            rate: self.summary.growing,
            first,
            second: Some(self.second_stage(first)),
            growth: GROWTH,
            tightening: Tightening::Geometric(TIGHTENING),
            budget: self.room_beside(others),
            ..ScalableOptions::default()
        }
    }
}

/// The sizes of filters for `keys` keys: of a consolidated summary filter, and of the segment
/// filters of segments that hold each key once, in a leveled tree.
pub fn sizes_for(options: &FrontOptions, keys: Items) -> (Bits, Bits) {
    let summary = match options.summary.at_rest {
        Some(rate) => static_size(keys, rate),
        None => options.stage_size(with_headroom(keys)),
    };
    let filtered = match options.filters_last_level {
        true => keys,
        false => Items::new(keys.get() / LEVEL_GROWTH),
    };
    let segments = options.segment_rate;
    let segments = segments.map(|rate| blocked::size_in_bits(filtered, rate));
    (summary, segments.unwrap_or_default())
}

/// The size of a static filter. If none of this rate exists, it is larger than any budget.
fn static_size(keys: Items, rate: Rate) -> Bits {
    Stage::ribbon_size(keys, rate).unwrap_or(Bits::new(u64::MAX))
}

/// The rate of a static filter of `bits_a_key` bits per key, but not below what the growing stages
/// beside it can keep.
fn static_rate_of(bits_a_key: f64) -> Rate {
    Rate::clamped(
        ribbon::rate_of(bits_a_key)
            .get()
            .max(FilterSize::LEAST_RATE),
    )
}

/// The rate of a growing filter of `bits_a_key` bits per key, but not below what it can keep.
fn growing_rate_of(bits_a_key: f64) -> Rate {
    Rate::clamped(
        blocked::rate_of(bits_a_key)
            .get()
            .max(FilterSize::LEAST_RATE),
    )
}

/// Keys plus [`HEADROOM`].
fn with_headroom(keys: Items) -> Items {
    Items::new((keys.get() as f64 * HEADROOM).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a thousand column families take 0.4 GB before they have a key.
    #[test]
    fn first_stages_of_many_families_are_small_and_grow_by_leaps() {
        let stages = |cfs, keys| {
            let options = FrontOptions::default().shared_by(cfs, Bits::new(0));
            let summary = options.summary(options.with_room(Items::new(keys)), Bits::new(0));
            [summary.first.get(), summary.second.unwrap().get()]
        };
        for cfs in [0, 1, 2, 16] {
            assert_eq!(stages(cfs, 0), [1 << 18, 1 << 19]);
            assert_eq!(stages(cfs, 100_000), [1 << 18, 1 << 19]);
        }
        assert_eq!(stages(17, 0), [1 << 17, 1 << 18]);
        assert_eq!(stages(1_000, 0), [1 << 12, 1 << 16]);
        assert_eq!(stages(1_000_000, 0), [1 << 12, 1 << 16]);
        // A summary filter that is built from few existing keys has room for as many again.
        assert_eq!(stages(1_000, 5_000), [10_000, 160_000]);
        assert_eq!(stages(1_000, 200_000), [1 << 18, 1 << 19]);
        assert_eq!(stages(1_000, 4_000_000), [4_080_000, 1_020_000]);

        let told = FrontOptions {
            expected_keys: Some(Items::new(100)),
            ..FrontOptions::default().shared_by(1_000, Bits::new(0))
        };
        let summary = told.summary(Items::new(0), Bits::new(0));
        assert_eq!(summary.first, Items::new(100));
    }

    #[test]
    fn static_build_is_split_when_hashes_exceed_memory() {
        let mut options = FrontOptions::default();
        let parts = |options: &FrontOptions, entries| options.static_parts(entries).get();
        for (entries, expected) in [(0, 1), (1 << 17, 1), ((1 << 17) + 1, 2), (1 << 19, 4)] {
            assert_eq!(parts(&options, entries), expected, "{entries}");
        }
        assert_eq!(
            [1 << 20, 1 << 36, u64::MAX].map(|n| parts(&options, n)),
            [8; 3]
        );
        options.build_memory = Some(Bits::from_bytes(80));
        assert_eq!(
            [0, 10, 11, 1_000].map(|n| parts(&options, n)),
            [1, 1, 2, 100]
        );
        options.build_memory = Some(Bits::new(0));
        assert_eq!(parts(&options, 3), 3);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        for bits in [0.0, 0.99, 256.01, f64::NAN, f64::INFINITY] {
            assert!(FilterSize::bits_per_key(bits).is_err(), "{bits}");
        }
        for rate in [0.0, 9.9e-9, 1.0, -0.5, f64::NAN] {
            let error = FilterSize::rate(rate).unwrap_err();
            assert!(error.to_string().contains("1e-8"), "{error}");
        }
    }

    /// A growing stage beside a static one could not keep the rate of many bits.
    #[test]
    fn each_size_has_rates_that_growing_filters_can_keep() {
        let bits = [1.0, 1.01, 10.0, 256.0].map(|bits| FilterSize::bits_per_key(bits).unwrap());
        let rates = [1e-8, 0.01, 0.999].map(|rate| FilterSize::rate(rate).unwrap());
        for size in bits.into_iter().chain(rates) {
            for speed in [false, true] {
                let segments = size.segment_part(speed).segment_rate();
                let SummaryRates { growing, at_rest } = size.summary_rates(speed);
                for rate in [Some(growing), at_rest, Some(segments)]
                    .into_iter()
                    .flatten()
                {
                    let is_kept = rate.get() >= FilterSize::LEAST_RATE;
                    assert!(is_kept, "{size:?} {speed} {rate}");
                }
            }
        }
    }
}

//! The settings. Each has a default, and the reason for it is given here.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rocksdb::TransactionDBOptions;

use super::audit::Sampler;
use super::cf_filter::CfFilter;
use super::segment_filters::memtable_filter_budget;
use super::throttle::Throttle;
use crate::filter::{ScalableOptions, Stage};
use crate::hash::HashId;
use crate::math::growth::Tightening;
use crate::math::{Bits, Items, Rate, blocked, ribbon};
use crate::planted::planted;
use crate::segment::SegmentBuilder;

/// Settings of a [`SieveDb`](super::SieveDb).
///
/// ```
/// use lsm_sieve::{Items, Rate, SieveOptions};
///
/// let options = SieveOptions::default()
///     .rate(Rate::new(0.001)?)
///     .expected_keys(Items::new(50_000_000));
/// # Ok::<(), lsm_sieve::RateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SieveOptions {
    summary: Precision,
    /// `None` leaves RocksDB's own filters in place.
    segments: Option<Precision>,
    static_filters: bool,
    hashes_at_once: Option<NonZeroU64>,
    expected_keys: Option<Items>,
    memory_budget: Option<Bits>,
    hash: HashId,
    folder: Option<PathBuf>,
    read_only_filters: bool,
    /// `None` means the default: [`AUDITED`], throttled by [`AUDITS_REST`].
    audit: Option<u32>,
    scrub_every: Option<Duration>,
    excluded: BTreeSet<String>,
    spares_hits: bool,
    transactions: Option<Isolation>,
    publishes_first: bool,
    cfs: usize,
    /// Memory of the column families' filters beside the filters themselves: see [`FilterMemory`].
    overhead: Bits,
    access: Access,
}

/// How transactions are isolated.
#[derive(Clone)]
pub(crate) enum Isolation {
    /// A commit that finds a conflict fails.
    Optimistic,
    /// Each key that is written or read for update is locked.
    Locks(Arc<TransactionDBOptions>),
}

impl fmt::Debug for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Optimistic => "Optimistic",
            Self::Locks(_) => "Locks(..)",
        })
    }
}

/// The configured precision of a filter.
#[derive(Clone, Copy, Debug)]
enum Precision {
    Rate(Rate),
    BitsPerKey(f64),
}

/// How the engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    /// It sees the database as it was at open.
    Read,
    /// A secondary: it reads what another process writes, and catches up on request.
    Follow,
}

/// Memory of filters, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterMemory {
    /// The summary filter of a column family, which lookups check first; or those of all.
    pub summary: Bits,
    /// The segment filters of all SSTs, which RocksDB also checks.
    pub segments: Bits,
    /// Memory beside the filters, of a column family or of all: counters, lists of SSTs and hook
    /// objects.
    pub overhead: Bits,
}

/// Keys of a summary filter's first stage if [`SieveOptions::expected_keys`] is not set. It is
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

/// Tightening ratio r. A consolidated summary filter is one stage of rate P(1 - r) for as long as
/// it can be. Half the configured rate costs 1.4 bits per key. It halves the segment-filter checks
/// or, without segment filters, the reads of the engine. At slightly less than half, one percent
/// costs 12 bits per key. Later stages live only until the next consolidation.
const TIGHTENING: f64 = 0.52;

/// The rate of a segment filter, as a part of the configured rate. For 1.7 bits per key, less than
/// half as many SSTs are searched for a key that they do not have, and one percent costs 12 bits
/// per key. An absent key that passes both the summary filter and a segment filter costs as much as
/// several hundred that do not. A hit also passes SSTs on its way.
const SEGMENT_PART: f64 = 0.44;

/// Hashes in memory while a static summary filter is built, by default.
const HASHES_AT_ONCE: u64 = 1 << 26;

/// By default a static summary filter is built in at most this many parts, so each SST is read at
/// most this many times. An eighth of all hashes is one byte per key: as much as the summary filter
/// itself.
const MOST_PARTS: u64 = 8;

/// One negative in this many is audited. An audit is a read of the engine that misses. It takes
/// seven microseconds, because the engine's code and blocks are usually not in the processor's
/// caches: the filters answer most misses. Spread over 8,192 negatives that is 0.9 ns each.
const AUDITED: u32 = 8_192;

/// In a loop of batches 0.9 ns would be a tenth of what a negative costs. So after an audit, no
/// other runs for this many times as long as it took. Audits then take 1% of the time, which is
/// still a thousand audits per second.
const AUDITS_REST: u32 = 99;

/// Each filter in memory is scrubbed once per interval, at a quarter of a GiB per second. With an
/// hour, scrubbing 1 GiB of filters takes a thousandth of the time.
const SCRUBBED: Duration = Duration::from_secs(60 * 60);

impl Default for SieveOptions {
    /// One percent false positives, XXH3, no memory budget.
    fn default() -> Self {
        Self {
            summary: Precision::Rate(Rate::ONE_PERCENT),
            segments: Some(Precision::Rate(segment_part(Rate::ONE_PERCENT))),
            static_filters: false,
            hashes_at_once: None,
            expected_keys: None,
            memory_budget: None,
            hash: HashId::Xxh3,
            folder: None,
            read_only_filters: false,
            audit: None,
            scrub_every: Some(SCRUBBED),
            excluded: BTreeSet::new(),
            spares_hits: true,
            transactions: None,
            publishes_first: false,
            cfs: 1,
            overhead: CfFilter::OVERHEAD,
            access: Access::Write,
        }
    }
}

/// A consolidated summary filter has room for this many times its keys before its second stage
/// opens.
const HEADROOM: f64 = 1.02;

impl SieveOptions {
    /// The default folder of the filters, inside the database's own folder.
    pub const FOLDER: &str = "sieve";

    /// The lowest rate that a growing filter can keep. Below it, stages run out of hash bits. Open
    /// fails with [`OpenError::Rate`](super::OpenError::Rate) if a lower rate is set.
    pub const LEAST_RATE: f64 = 1e-8;

    /// Sets the false-positive rates of the summary filter and the segment filters. The default is
    /// 0.01. The rate must be at least [`SieveOptions::LEAST_RATE`].
    ///
    /// The summary filter gets this rate, and the segment filters less than half of it. So few of
    /// the keys that pass the summary filter pass a segment filter too. If segment filters are off
    /// ([`segment_rate(None)`](SieveOptions::segment_rate)), they stay off.
    #[must_use]
    pub fn rate(self, rate: Rate) -> Self {
        let segments = self.segments.map(|_| segment_part(rate));
        self.summary_rate(rate).segment_rate(segments)
    }

    /// The false-positive rate of the summary filter alone. At most this share of the lookups of
    /// absent keys enters the engine. The default is 0.01.
    #[must_use]
    pub fn summary_rate(mut self, rate: Rate) -> Self {
        self.summary = Precision::Rate(rate);
        self
    }

    /// The false-positive rate of each segment filter, which RocksDB checks SST by SST. `None`
    /// builds no segment filters and leaves RocksDB's own in place. The default is 0.0044, which is
    /// 0.44 of the summary filter's.
    #[must_use]
    pub fn segment_rate(mut self, rate: Option<Rate>) -> Self {
        self.segments = rate.map(Precision::Rate);
        self
    }

    /// Sets the summary filter's rate by its size: bits per key once the summary filter is
    /// consolidated. By default the size follows from the rate.
    ///
    /// # Panics
    /// If `bits` is not between 1 and 256.
    #[must_use]
    pub fn summary_bits_per_key(mut self, bits: f64) -> Self {
        self.summary = Precision::BitsPerKey(blocked::validate_bits_per_key(bits));
        self
    }

    /// Sets the segment filters' rate by their size in bits per key. By default the size follows
    /// from the rate.
    ///
    /// # Panics
    /// If `bits` is not between 1 and 256.
    #[must_use]
    pub fn segment_bits_per_key(mut self, bits: f64) -> Self {
        self.segments = Some(Precision::BitsPerKey(blocked::validate_bits_per_key(bits)));
        self
    }

    /// Whether filters that are built from all keys at once are static: bumped ribbon filters
    /// ([`Stage::ribbon`]). These are the segment filters and the consolidated summary filters. Off
    /// by default.
    ///
    /// A false-positive rate of one percent then costs 7.9 bits per key instead of 12. At 12 bits
    /// per key, one absent key in 3,600 passes instead of one in 200. But a probe reads two
    /// adjacent cache lines instead of one, and a filter takes longer to build. Use it if filters
    /// must be small and data rarely changes.
    ///
    /// A static summary filter is built when writes pause. Meanwhile the hashes of its keys are in
    /// memory, 8 bytes each, or a part of them ([`SieveOptions::hashes_at_once`]). Later keys go to
    /// a growing stage beside it. An SST with more than 2^23 keys gets the default filter. Existing
    /// filters are kept.
    #[must_use]
    pub fn static_filters(mut self, are: bool) -> Self {
        self.static_filters = are;
        self
    }

    /// About how many hashes may be in memory while a static summary filter is built, 8 bytes each.
    /// If the SSTs have more entries, the filter is built in parts, and each part reads all SSTs.
    /// The default is 2^26 hashes (512 MiB), or an eighth of all entries if that is more.
    #[must_use]
    pub fn hashes_at_once(mut self, hashes: NonZeroU64) -> Self {
        self.hashes_at_once = Some(hashes);
        self
    }

    /// The memory that filters for `keys` keys take, in a column family whose summary filter is
    /// consolidated and whose SSTs hold each key once. It is more while the summary filter grows or
    /// SSTs overlap.
    pub fn memory_for(&self, keys: Items) -> FilterMemory {
        FilterMemory {
            summary: match self.static_filters {
                true => static_size(keys, self.first_rate()),
                false => self.stage_size(with_headroom(keys)),
            },
            segments: match self.get_segment_rate() {
                Some(rate) if self.static_filters => static_size(keys, rate),
                Some(rate) => blocked::size_in_bits(keys, rate),
                None => Bits::new(0),
            },
            overhead: CfFilter::OVERHEAD,
        }
    }

    /// The size of a summary filter that is built for `keys` keys.
    pub(crate) fn summary_size(&self, keys: Items) -> Bits {
        self.size_of_kind(self.static_filters, keys)
    }

    /// The size of a summary filter of `keys` keys whose first stage is static, or is not.
    pub(crate) fn size_of_kind(&self, is_static: bool, keys: Items) -> Bits {
        if is_static {
            static_size(keys, self.first_rate())
        } else {
            self.stage_size(self.with_room(keys).max(self.first_stage()))
        }
    }

    /// The size of the segment filter of an SST with `keys` keys.
    pub(crate) fn segment_size(&self, keys: Items, rate: Rate) -> Bits {
        if self.static_filters && keys <= SegmentBuilder::MOST_STATIC {
            static_size(keys, rate)
        } else {
            blocked::size_in_bits(keys, rate)
        }
    }

    fn stage_size(&self, keys: Items) -> Bits {
        blocked::size_in_bits(keys, self.first_rate())
    }

    /// The rate of a summary filter's first stage. A consolidated summary filter has only this
    /// stage.
    pub(crate) fn first_rate(&self) -> Rate {
        Tightening::Geometric(TIGHTENING).rate(self.get_summary_rate(), 0)
    }

    fn first_stage(&self) -> Items {
        self.expected_keys.unwrap_or_else(|| {
            if planted!(FirstStagesLarge) {
                return FIRST_STAGE;
            }
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

    /// How many keys each column family will hold. The summary filter of every column family then
    /// has this size from the start. Not set by default: summary filters start small and grow.
    #[must_use]
    pub fn expected_keys(mut self, keys: Items) -> Self {
        self.expected_keys = Some(keys);
        self
    }

    /// The most memory that all filters and their hooks may take, in bits ([`Bits::from_bytes`]).
    /// Not set by default: they take what [`SieveOptions::memory_for`] says.
    ///
    /// Over the budget whole filters are dropped, first those of the SSTs that the fewest lookups
    /// reach. A summary filter that would have to grow answers *maybe*. Writes never fail because
    /// of the budget.
    ///
    /// The budget can be exceeded for a while. The segment filter of a new SST counts only after
    /// the next maintenance run. Each memtable filter may take up to 1/32 of the budget, or less if
    /// many column families were opened together. While a summary filter is rebuilt, lookups use
    /// the old one, which is not counted. Neither are the hashes that a static summary filter is
    /// built from.
    #[must_use]
    pub fn memory_budget(mut self, budget: Bits) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// The hash function of the keys, by default XXH3. Filters that were built with another are
    /// rebuilt.
    #[must_use]
    pub fn hash(mut self, hash: HashId) -> Self {
        self.hash = hash;
        self
    }

    /// The folder of the filters. The default is `sieve` inside the database's folder, so that a
    /// copied or moved database takes its filters along.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Excludes column families from filtering, in addition to those excluded before. None is
    /// excluded by default. Excluded ones take no memory for filters, and all their lookups go to
    /// the engine. They may have options that filters cannot serve. Use it for column families
    /// whose keys are nearly always found. The default column family cannot be excluded.
    #[must_use]
    pub fn exclude_cfs<N: Into<String>>(mut self, cfs: impl IntoIterator<Item = N>) -> Self {
        self.excluded.extend(cfs.into_iter().map(Into::into));
        self
    }

    /// Whether reads may skip filters while keys are likely to be found. On by default.
    ///
    /// After 32 hits in a row in a column family, a thread's reads of single keys go to the engine
    /// at once, until one misses. So filters cost next to nothing while nearly all keys exist. If
    /// the keys are in SSTs, reads even get faster: the cache lines of the segment filters that the
    /// engine will probe are prefetched. An absent key that comes after 32 hits costs what it costs
    /// the engine. If one key in fifty is absent, in random order, that is half of the absent keys.
    /// If one in ten is, it is one in thirty of them.
    ///
    /// Other reads, such as those of many keys, always check the summary filter. They skip the
    /// segment-filter check while the last eight keys that passed the summary filter were hits.
    ///
    /// [`SieveDb::filter_answer`](super::SieveDb::filter_answer) and single reads of differential stores always
    /// check all filters. If this is off, every read does.
    #[must_use]
    pub fn spare_hits(mut self, spare: bool) -> Self {
        self.spares_hits = spare;
        self
    }

    /// Whether [transactions](super::SieveDb::transaction) can be begun. Off by default. They are
    /// optimistic, as in an `OptimisticTransactionDB` of `rocksdb`.
    ///
    /// Flushed memtables are then kept in memory, so that a commit can check them for conflicts.
    /// Per column family this is one memtable more than fit into `max_write_buffer_number` times
    /// `write_buffer_size`, or as much as `max_write_buffer_size_to_maintain` says. Column families
    /// that are created through the bare engine keep none. A `WriteBufferManager` counts these
    /// memtables too: one that stalls writers needs room for all of them.
    ///
    /// Databases with `unordered_write` are refused, because a transaction could not tell what was
    /// written before it read. Column families with `enable_blob_direct_write` are refused too.
    #[must_use]
    pub fn transactions(mut self, transactions: bool) -> Self {
        self.transactions = transactions.then_some(Isolation::Optimistic);
        self
    }

    /// [`SieveOptions::transactions`] with locks, as in a `TransactionDB` of `rocksdb`: a
    /// transaction locks each key that it writes or reads for update. `locks` are its options.
    /// Memtables are kept and databases are refused as with [`SieveOptions::transactions`].
    ///
    /// Writes of the [`SieveDb`](super::SieveDb) outside of transactions lock their keys too, for
    /// as long as they take. They wait for the transaction that holds a lock, at most as long as
    /// `set_default_lock_timeout` says, and then fail with an error of the kind `TimedOut`. This
    /// also happens to a write of the thread whose own transaction holds the lock. Deleted ranges,
    /// ingested files, deleted files and writes of the bare
    /// [engine](super::SieveDb::with_engine_untracked) take no locks. RocksDB refuses batches that
    /// delete a range. It also refuses single deletes in batches, except in the default column
    /// family, where they take no lock.
    ///
    /// Drop no column family while a transaction that wrote to it is open. After such a transaction
    /// commits, RocksDB accepts no more writes, unless `ignore_missing_column_families` is among
    /// its write options.
    ///
    /// Transactions that a `TransactionDB` of `rocksdb` prepared and committed are recovered. If
    /// the database is opened without locks, RocksDB loses those of their writes that were not
    /// flushed. If a prepared transaction was neither committed nor rolled back, the database is
    /// refused until a `TransactionDB` has finished it.
    ///
    /// A database that is opened to read only, or as a secondary, has no locks and is refused.
    ///
    /// ```no_run
    /// # use lsm_sieve::{SieveDb, SieveOptions, rocksdb::TransactionDBOptions};
    /// # let options = rocksdb::Options::default();
    /// let sieve = SieveOptions::default().locking_transactions(TransactionDBOptions::default());
    /// let db = SieveDb::open(&options, &sieve, "/tmp/accounts")?;
    /// let transaction = db.transaction();
    /// if transaction.get_for_update(b"ada", true)?.is_none() {
    ///     transaction.put(b"ada", b"100")?; // no other writer can have inserted the key meanwhile
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn locking_transactions(mut self, locks: TransactionDBOptions) -> Self {
        self.transactions = Some(Isolation::Locks(Arc::new(locks)));
        self
    }

    /// Whether existing filters are only read: none is rebuilt, stored or removed. Off by default.
    /// For tools that inspect a database as it is.
    #[must_use]
    pub fn read_only_filters(mut self, read_only_filters: bool) -> Self {
        self.read_only_filters = read_only_filters;
        self
    }

    /// Audits one negative in `one_in`: it is read from the engine all the same, to verify that the
    /// key does not exist. 0 audits none. If the key exists, all filters of the database are
    /// distrusted until it is opened again: see
    /// [`SieveDb::false_negative`](super::SieveDb::false_negative).
    ///
    /// The default is one in 8,192, throttled so that the audits of a column family take at
    /// most 1% of the time. A value that is set here is not throttled.
    #[must_use]
    pub fn audit(mut self, one_in: u32) -> Self {
        self.audit = Some(one_in);
        self
    }

    /// How often the filters in memory are scrubbed in the background, to find flipped bits. The
    /// default is one hour; `None` turns it off. [`SieveDb::scrub`](super::SieveDb::scrub) scrubs
    /// at once.
    #[must_use]
    pub fn scrub_every(mut self, interval: Option<Duration>) -> Self {
        self.scrub_every = interval;
        self
    }

    pub(crate) fn excluded(&self) -> impl Iterator<Item = &str> {
        self.excluded.iter().map(String::as_str)
    }

    pub(crate) fn is_excluded(&self, cf: &str) -> bool {
        self.excluded.contains(cf)
    }

    pub(crate) fn spares_hits(&self) -> bool {
        self.spares_hits
    }

    pub(crate) fn isolation(&self) -> Option<&Isolation> {
        self.transactions.as_ref()
    }

    pub(crate) fn get_scrub_every(&self) -> Option<Duration> {
        self.scrub_every
    }

    /// Which negatives are audited, unless audits are throttled.
    pub(crate) fn audit_sampler(&self) -> Sampler {
        Sampler::one_in(self.audit.unwrap_or(AUDITED))
    }

    pub(crate) fn audit_throttle(&self) -> Throttle {
        Throttle::with_rest(self.audit.map_or(AUDITS_REST, |_| 0))
    }

    /// Sets whether the engine may make a write visible before its memtable has the key.
    pub(crate) fn publishes_first(mut self, first: bool) -> Self {
        self.publishes_first = first;
        self
    }

    /// Replaces bits per key by rates, which take a while to compute.
    pub(crate) fn with_rates(self) -> Self {
        let (summary, segments) = (self.get_summary_rate(), self.get_segment_rate());
        self.summary_rate(summary).segment_rate(segments)
    }

    /// Sets how many filtered column families share the budget.
    pub(crate) fn shared_by(mut self, cfs: usize) -> Self {
        self.cfs = cfs;
        let cf_filter = CfFilter::OVERHEAD.get();
        self.with_overhead(Bits::new(cf_filter.saturating_mul(cfs as u64)))
    }

    /// Sets the memory that those column families take beside their filters.
    pub(crate) fn with_overhead(mut self, overhead: Bits) -> Self {
        self.overhead = overhead;
        self
    }

    /// The most that one memtable filter of a column family takes. It is 0 if there is no
    /// segment-filter check to use it.
    pub(crate) fn memtable_filter_budget(&self) -> Bits {
        if self.segments.is_none() || self.access == Access::Read {
            return Bits::new(0);
        }
        memtable_filter_budget(self.filter_budget(), self.cfs)
    }

    pub(crate) fn get_publishes_first(&self) -> bool {
        self.publishes_first
    }

    /// For an engine that changes no file; then no filter is changed either.
    pub(super) fn read_only(mut self) -> Self {
        self.access = Access::Read;
        self.read_only_filters(true)
    }

    /// For an engine that follows one that writes.
    pub(super) fn secondary(mut self) -> Self {
        self.access = Access::Follow;
        self.read_only_filters(true)
    }

    /// Whether the engine writes nothing.
    pub(super) fn is_reader(&self) -> bool {
        self.access != Access::Write
    }

    pub(super) fn is_secondary(&self) -> bool {
        self.access == Access::Follow
    }

    pub(crate) fn has_read_only_filters(&self) -> bool {
        self.read_only_filters
    }

    pub(crate) fn get_summary_rate(&self) -> Rate {
        let first = match self.summary {
            Precision::Rate(rate) => return rate,
            Precision::BitsPerKey(bits) if self.static_filters => static_rate_of(bits),
            Precision::BitsPerKey(bits) => blocked::rate_of((bits / HEADROOM).max(1.0)),
        };
        Rate::clamped(first.get() / (1.0 - TIGHTENING))
    }

    pub(crate) fn get_segment_rate(&self) -> Option<Rate> {
        Some(match self.segments? {
            Precision::Rate(rate) => rate,
            Precision::BitsPerKey(bits) if self.static_filters => static_rate_of(bits),
            Precision::BitsPerKey(bits) => blocked::rate_of(bits),
        })
    }

    /// Whether filters that are built from all keys at once are static.
    pub(crate) fn has_static_filters(&self) -> bool {
        self.static_filters
    }

    /// The number of parts that a static summary filter of `entries` entries is built in.
    pub(crate) fn static_parts(&self, entries: u64) -> NonZeroU64 {
        let by_default = || HASHES_AT_ONCE.max(entries.div_ceil(MOST_PARTS));
        let at_once = self.hashes_at_once.map_or_else(by_default, NonZeroU64::get);
        NonZeroU64::new(entries.div_ceil(at_once)).unwrap_or(NonZeroU64::MIN)
    }

    pub(crate) fn get_memory_budget(&self) -> Option<Bits> {
        self.memory_budget
    }

    /// The part of the budget that is left for filters.
    fn filter_budget(&self) -> Option<Bits> {
        self.filter_budget_beside(self.overhead)
    }

    /// The part of the budget that is left for filters beside `new_filters` bits of other memory.
    pub(crate) fn filter_budget_beside(&self, overhead: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(overhead.get()));
        self.memory_budget.map(left)
    }

    pub(crate) fn get_hash(&self) -> HashId {
        self.hash
    }

    pub(crate) fn folder_of(&self, database: &Path) -> PathBuf {
        self.folder
            .clone()
            .unwrap_or_else(|| database.join(Self::FOLDER))
    }

    /// A configured rate below the lowest one.
    pub(crate) fn rate_out_of_reach(&self) -> Option<Rate> {
        let mut rates = self
            .get_segment_rate()
            .into_iter()
            .chain([self.get_summary_rate()]);
        rates.find(|rate| rate.get() < Self::LEAST_RATE)
    }

    /// The part of the budget that is left for a summary filter if others take `others` bits.
    pub(crate) fn room_beside(&self, others: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(others.get()));
        self.filter_budget().map(left)
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
    /// budget. If possible, it leaves some for the memtable filters.
    pub(crate) fn summary(&self, keys: Items, others: Bits) -> ScalableOptions {
        let first = keys.max(self.first_stage());
        let memtable_filters = std::iter::repeat_n(self.memtable_filter_budget(), self.cfs);
        let spared = self.room_beside(others + memtable_filters.sum());
        let fits = |room: &Bits| self.stage_size(first) <= *room;
        ScalableOptions {
            rate: self.get_summary_rate(),
            first,
            second: Some(self.second_stage(first)),
            growth: GROWTH,
            tightening: Tightening::Geometric(TIGHTENING),
            budget: spared.filter(fits).or(self.room_beside(others)),
            ..ScalableOptions::default()
        }
    }
}

/// The rate of the segment filters for a configured rate.
pub(super) fn segment_part(promised: Rate) -> Rate {
    Rate::clamped((promised.get() * SEGMENT_PART).max(SieveOptions::LEAST_RATE))
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
            .max(SieveOptions::LEAST_RATE),
    )
}

/// Keys plus [`HEADROOM`].
fn with_headroom(keys: Items) -> Items {
    Items::new((keys.get() as f64 * HEADROOM).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_one_percent_neither_filter_takes_more_than_twelve_bits_a_key() {
        let keys = Items::new(4_000_000);
        let memory = SieveOptions::default().memory_for(keys);
        for bits in [memory.summary, memory.segments] {
            let bits_a_key = bits.get() as f64 / keys.get() as f64;
            assert!((11.0..=12.0).contains(&bits_a_key), "{bits_a_key}");
        }
    }

    #[test]
    fn static_filters_take_the_bits_that_they_are_given_and_no_more() {
        let keys = Items::new(4_000_000);
        for bits in [2.2, 4.8, 7.2, 9.6, 12.0, 16.0] {
            let options = SieveOptions::default().static_filters(true);
            let options = options
                .summary_bits_per_key(bits)
                .segment_bits_per_key(bits);
            let memory = options.memory_for(keys);
            for filter in [memory.summary, memory.segments] {
                let takes = filter.per_key(keys);
                assert!((bits - 0.1..=bits).contains(&takes), "{bits}: {takes}");
            }
        }
    }

    /// Otherwise a thousand column families take 0.4 GB before they have a key.
    #[test]
    fn first_stages_of_many_families_are_small_and_grow_by_leaps() {
        let stages = |cfs, keys| {
            let options = SieveOptions::default().shared_by(cfs);
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

        let told = SieveOptions::default().expected_keys(Items::new(100));
        let summary = told.shared_by(1_000).summary(Items::new(0), Bits::new(0));
        assert_eq!(summary.first, Items::new(100));
    }

    /// A filter that could never be built would be planned again and again.
    #[test]
    fn the_filter_of_a_table_takes_what_is_said_whatever_its_entries() {
        let options = SieveOptions::default().static_filters(true);
        let [small, large] = [0, 1].map(|more| {
            let entries = Items::new(SegmentBuilder::MOST_STATIC.get() + more);
            let size = options.segment_size(entries, Rate::ONE_PERCENT);
            size.per_key(entries)
        });
        assert!((6.7..6.9).contains(&small), "{small}");
        assert!((9.6..11.0).contains(&large), "{large}");
    }

    #[test]
    fn a_static_summary_is_made_in_as_many_parts_as_its_hashes_ask_for() {
        let options = SieveOptions::default().static_filters(true);
        let parts = |entries| options.static_parts(entries).get();
        for (entries, expected) in [(0, 1), (1 << 26, 1), ((1 << 26) + 1, 2), (1 << 28, 4)] {
            assert_eq!(parts(entries), expected, "{entries}");
        }
        assert_eq!([1 << 29, 1 << 36, u64::MAX].map(parts), [8; 3]);
        let options = options.hashes_at_once(NonZeroU64::new(10).unwrap());
        assert_eq!(
            [0, 10, 11, 1_000].map(|n| options.static_parts(n).get()),
            [1, 1, 2, 100]
        );
    }

    #[test]
    fn a_rate_brings_no_filters_of_tables_where_none_are_wanted() {
        let none = SieveOptions::default().segment_rate(None);
        assert_eq!(none.rate(Rate::ONE_PERCENT).get_segment_rate(), None);
    }

    #[test]
    fn the_least_rate_is_within_reach_of_the_segments_too() {
        let least = Rate::clamped(SieveOptions::LEAST_RATE);
        let options = SieveOptions::default().rate(least);
        assert_eq!(options.rate_out_of_reach(), None);
    }

    #[test]
    fn bits_that_make_no_filter_are_refused() {
        let set = [
            SieveOptions::summary_bits_per_key,
            SieveOptions::segment_bits_per_key,
        ];
        for set in set {
            let with = |bits| std::panic::catch_unwind(|| set(SieveOptions::default(), bits));
            for bits in [0.0, 0.99, 256.01, f64::NAN, f64::INFINITY] {
                assert!(with(bits).is_err(), "{bits}");
            }
            for bits in [1.0, 1.01, 10.0, 256.0] {
                assert!(with(bits).is_ok(), "{bits}");
                // A growing stage beside a static one could not keep the rate of this many bits.
                let options = with(bits).unwrap().static_filters(true);
                assert_eq!(options.rate_out_of_reach(), None, "{bits}");
            }
        }
    }
}

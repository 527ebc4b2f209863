//! What a front may be told; every setting has a default that is argued here.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rocksdb::TransactionDBOptions;

use super::audit::Sample;
use super::column::Column;
use super::inventory::recent_budget;
use super::pace::Pace;
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
    /// None leaves RocksDB its own filters.
    segments: Option<Precision>,
    static_filters: bool,
    hashes_at_once: Option<NonZeroU64>,
    expected_keys: Option<Items>,
    memory_budget: Option<Bits>,
    hash: HashId,
    folder: Option<PathBuf>,
    frozen: bool,
    /// By default as [`AUDITED`] and [`AUDITS_REST`] say.
    audit: Option<u32>,
    scrub_every: Option<Duration>,
    left_out: BTreeSet<String>,
    spares_hits: bool,
    transactions: Option<Isolation>,
    publishes_first: bool,
    families: usize,
    /// What their fronts take beside filters.
    fronts: Bits,
    access: Access,
}

/// What keeps transactions apart.
#[derive(Clone)]
pub(crate) enum Isolation {
    /// A commit that finds a conflict fails.
    Optimistic,
    /// Each key that is written or read for update.
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

/// How precise a filter is to be.
#[derive(Clone, Copy, Debug)]
enum Precision {
    Rate(Rate),
    BitsPerKey(f64),
}

/// What the engine is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Write,
    /// It has the database as it was when it was opened.
    Read,
    /// It reads what another process writes, and catches up with it when told.
    Follow,
}

/// What filters take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterMemory {
    /// The summary of a column family, which is asked first; or those of all.
    pub summary: Bits,
    /// The filters of all SSTs, which RocksDB asks.
    pub segments: Bits,
    /// What the front of a column family takes beside filters, or those of all: counters, lists of tables, and the
    /// objects of its hooks.
    pub fronts: Bits,
}

/// The first stage of a summary whose database does not say how many keys will come: small
/// enough (0.4 MB) for a small database, large enough that a few stages hold millions of keys.
const FIRST_STAGE: Items = Items::new(1 << 18);

/// The first stages of all families together take so many keys (6 MB), so that those of more than 16 are
/// smaller: of a thousand families most are small.
const FIRST_STAGES: u64 = 1 << 22;

/// But no less than this (6 KiB), which is little beside the memtable of a family.
const LEAST_FIRST_STAGE: u64 = 1 << 12;

/// A first stage that is small for their sake is followed by one of so many times the keys, up to
/// [`FIRST_STAGE`]: each stage is a line of a miss until the summary is consolidated.
const LEAP: u64 = 16;

/// Stage growth s. Consolidation makes one stage of all, so few stages ever stand at once, and a
/// larger s would only allocate more for keys that may not come.
const GROWTH: u32 = 2;

/// The second stage takes this part of a large first one: that was made for all keys there were, and
/// with s = 2 the next key would treble the memory.
const SECOND: u64 = 4;

/// Tightening r. A consolidated summary is one stage of rate P(1 - r) for as long as it can be: half
/// the promise costs 1.4 bits a key, and spares every other second look, and every other walk
/// of the engine where there is none; a little less than half, and one percent costs 12 bits. Later
/// stages live only until the next consolidation.
const TIGHTENING: f64 = 0.52;

/// Of the rate that is promised, what each segment's filter keeps: for 1.7 bits a key, less than half as
/// many tables are searched in vain, and one percent costs 12 bits. An absent key that passes both the
/// summary and a table's filter costs as much as several hundred that do not, and a hit passes tables on
/// its way.
const SEGMENT_PART: f64 = 0.44;

/// As many hashes are in memory by default while a static summary is made.
const HASHES_AT_ONCE: u64 = 1 << 26;

/// Or those of so many parts of all keys, which are a byte a key: as much as the summary itself. So tables are
/// read so often at most.
const MOST_PARTS: u64 = 8;

/// One negative in so many is audited. An audit is a missing read of the engine, whose code and blocks
/// the front keeps out of the processor's caches: seven microseconds, of which each of 8,192 negatives
/// pays nine tenths of a nanosecond.
const AUDITED: u32 = 8_192;

/// That would be a tenth of what a negative costs in a loop of batches, so audits rest so many times as
/// long as they take: a hundredth of the time, which is still a thousand audits a second.
const AUDITS_REST: u32 = 99;

/// Every filter in memory is read once in so long, a quarter of a gibibyte a second. An hour, because that
/// is a thousandth of the time for a gibibyte of filters.
const SCRUBBED: Duration = Duration::from_secs(60 * 60);

impl Default for SieveOptions {
    /// One percent, XXH3, no budget.
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
            frozen: false,
            audit: None,
            scrub_every: Some(SCRUBBED),
            left_out: BTreeSet::new(),
            spares_hits: true,
            transactions: None,
            publishes_first: false,
            families: 1,
            fronts: Column::FRONT,
            access: Access::Write,
        }
    }
}

/// Room for new keys in a consolidated summary before its second stage opens.
const HEADROOM: f64 = 1.02;

impl SieveOptions {
    /// Where filters are, in the folder of their database, unless told otherwise.
    pub const FOLDER: &str = "sieve";

    /// The least rate that a front keeps while it grows: below, stages run out of hash bits. Whoever
    /// asks for less is refused at open.
    pub const LEAST_RATE: f64 = 1e-8;

    /// The false-positive rate of the summary, not below [`SieveOptions::LEAST_RATE`]. Each segment's
    /// filter keeps less than half of it, so that few of the keys that pass the summary pass a table too;
    /// where there are none ([`SieveOptions::segment_rate`]), there are none.
    #[must_use]
    pub fn rate(self, rate: Rate) -> Self {
        let segments = self.segments.map(|_| segment_part(rate));
        self.summary_rate(rate).segment_rate(segments)
    }

    /// The rate of the summary: of all look-ups of absent keys, at most this share enters the engine.
    #[must_use]
    pub fn summary_rate(mut self, rate: Rate) -> Self {
        self.summary = Precision::Rate(rate);
        self
    }

    /// The rate of each segment's filter, which RocksDB consults file by file; `None` leaves
    /// RocksDB's own filters in place and builds none.
    #[must_use]
    pub fn segment_rate(mut self, rate: Option<Rate>) -> Self {
        self.segments = rate.map(Precision::Rate);
        self
    }

    /// The summary's rate as the bits that each key may cost once it is consolidated.
    ///
    /// # Panics
    /// When `bits` is not between 1 and 256.
    #[must_use]
    pub fn summary_bits_per_key(mut self, bits: f64) -> Self {
        self.summary = Precision::BitsPerKey(blocked::makes_a_filter(bits));
        self
    }

    /// The segments' rate as the bits that each key may cost.
    ///
    /// # Panics
    /// When `bits` is not between 1 and 256.
    #[must_use]
    pub fn segment_bits_per_key(mut self, bits: f64) -> Self {
        self.segments = Some(Precision::BitsPerKey(blocked::makes_a_filter(bits)));
        self
    }

    /// Whether filters of keys at hand, which are those of SSTs and of consolidated summaries, are bumped
    /// ribbon filters ([`Stage::ribbon`]). One percent then costs 7.9 bits a key
    /// instead of 12, and with 12 bits one absent key in 3,600 passes instead of one in two
    /// hundred; but a look takes two cache lines that follow each other instead of one, and a filter longer to make. For filters
    /// that have to be small, and keys that rest.
    ///
    /// A summary is made so when its writers pause; its keys' hashes are then in memory, 8 bytes each, or a part of
    /// them ([`SieveOptions::hashes_at_once`]). Keys that come later go to a stage beside it. Of a table of more than
    /// 2^23 keys the filter is what it is by default, and filters that are there already are left.
    #[must_use]
    pub fn static_filters(mut self, are: bool) -> Self {
        self.static_filters = are;
        self
    }

    /// How many hashes may be in memory, about, while a static summary is made. Of tables with more entries
    /// it is made in parts, for each of which all tables are read. By default 2^26, or an eighth of all entries
    /// where that is more.
    #[must_use]
    pub fn hashes_at_once(mut self, hashes: NonZeroU64) -> Self {
        self.hashes_at_once = Some(hashes);
        self
    }

    /// What the filters of so many keys take, in a column family whose summary is consolidated and
    /// whose SSTs hold each key once. More while the summary grows or SSTs overlap.
    pub fn memory_for(&self, keys: Items) -> FilterMemory {
        FilterMemory {
            summary: match self.static_filters {
                true => static_size(keys, self.first_rate()),
                false => self.stage_size(roomy(keys)),
            },
            segments: match self.get_segment_rate() {
                Some(rate) if self.static_filters => static_size(keys, rate),
                Some(rate) => blocked::size_in_bits(keys, rate),
                None => Bits::new(0),
            },
            fronts: Column::FRONT,
        }
    }

    /// What a summary takes that is made for so many keys.
    pub(crate) fn summary_size(&self, keys: Items) -> Bits {
        self.size_of_kind(self.static_filters, keys)
    }

    /// What a summary of so many keys takes whose first stage is static, or is not.
    pub(crate) fn size_of_kind(&self, is_static: bool, keys: Items) -> Bits {
        if is_static {
            static_size(keys, self.first_rate())
        } else {
            self.stage_size(self.with_room(keys).max(self.first_stage()))
        }
    }

    /// What the filter of a table of so many keys takes.
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

    /// The rate of a summary's first stage, which a consolidated one consists of.
    pub(crate) fn first_rate(&self) -> Rate {
        Tightening::Geometric(TIGHTENING).rate(self.get_summary_rate(), 0)
    }

    fn first_stage(&self) -> Items {
        self.expected_keys.unwrap_or_else(|| {
            if planted!(FirstStagesLarge) {
                return FIRST_STAGE;
            }
            let share = FIRST_STAGES / self.families.max(1).next_power_of_two() as u64;
            Items::new(share.max(LEAST_FIRST_STAGE)).min(FIRST_STAGE)
        })
    }

    /// The keys that the first stage of a summary is made for which shall hold so many. Few get room for as many
    /// again: they would be read again for each third that comes.
    pub(crate) fn with_room(&self, keys: Items) -> Items {
        let twice = Items::new(keys.get().saturating_mul(2)).min(FIRST_STAGE);
        match self.expected_keys {
            None => roomy(keys).max(twice),
            Some(_) => roomy(keys),
        }
    }

    /// The keys of the stage after one for so many.
    fn second_stage(&self, first: Items) -> Items {
        let doubled = first.min(FIRST_STAGE).get() * u64::from(GROWTH);
        let leap = match self.expected_keys {
            None => (first.get().saturating_mul(LEAP)).min(FIRST_STAGE.get()),
            Some(_) => 0,
        };
        Items::new(doubled.max(leap).max(first.get() / SECOND))
    }

    /// How many keys each column family will hold, if that is known: its summary then starts at
    /// the right size, which each family's takes from the start.
    #[must_use]
    pub fn expected_keys(mut self, keys: Items) -> Self {
        self.expected_keys = Some(keys);
        self
    }

    /// The most memory that all filters and their fronts may take, in bits ([`Bits::from_bytes`]); none is set by
    /// default, and they take what [`SieveOptions::memory_for`] says. Past it whole filters are dropped, first those of
    /// the tables that the fewest look-ups pass through, and a summary that would grow answers
    /// *maybe*; writes never fail for it. A table that was just written may exceed it until upkeep
    /// has looked, and so may the filters of the latest memtables: each takes a 32nd part at most, where
    /// many families were opened together less. While a family's summary is made anew, readers ask the old one,
    /// which is then beside the budget, as are the hashes that a static one is made from.
    #[must_use]
    pub fn memory_budget(mut self, budget: Bits) -> Self {
        self.memory_budget = Some(budget);
        self
    }

    /// The hash of the keys. Filters that were made with another are rebuilt.
    #[must_use]
    pub fn hash(mut self, hash: HashId) -> Self {
        self.hash = hash;
        self
    }

    /// Where the filters are kept; by default the folder `sieve` inside the database's own, so
    /// that a copied or moved database takes them along.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Column families that get no front, beside those named before: they take no memory for filters,
    /// all their look-ups go to the engine, and they may have options that filters cannot serve. For
    /// families whose keys are nearly always there. The default family cannot be left out.
    #[must_use]
    pub fn leave_out<N: Into<String>>(mut self, families: impl IntoIterator<Item = N>) -> Self {
        self.left_out.extend(families.into_iter().map(Into::into));
        self
    }

    /// Whether a thread's reads of single keys go to the engine at once while its last 32 keys of the family
    /// were all found, until one is not; they do by default. A front then costs next to nothing where keys are
    /// nearly always there, for good or for a while, and saves time where they are in tables: the memory of
    /// filters that the engine will look at is fetched ahead. An absent key that comes after 32 such reads
    /// costs what it costs the engine: where one key in fifty is absent, in no order, that is half of the absent
    /// keys, and where one in ten is, one in thirty of them. Other reads, those of many keys among them, ask the
    /// summary, and do not ask the tables' filters what it lets by while the last eight keys that it let by were
    /// there. [`SieveDb::answer`](super::SieveDb::answer) and single reads of differential stores always ask all
    /// filters, and so does every read if this is off.
    #[must_use]
    pub fn spare_hits(mut self, spare: bool) -> Self {
        self.spares_hits = spare;
        self
    }

    /// Whether [transactions](super::SieveDb::transaction) can be begun; off by default. Memtables that were
    /// flushed are then kept, so that a commit can look there for conflicts, as in an
    /// `OptimisticTransactionDB` of `rocksdb`: for each column family one more than `max_write_buffer_number`
    /// times `write_buffer_size` of memory has room for, or as much as its
    /// `max_write_buffer_size_to_maintain` says; families that the bare engine makes keep none. A
    /// `WriteBufferManager` counts these memtables too: one that stalls writers needs room for all of them.
    ///
    /// Databases with `unordered_write` are refused: there a transaction could not tell what was written before
    /// it looked; so are families with `enable_blob_direct_write`.
    #[must_use]
    pub fn transactions(mut self, transactions: bool) -> Self {
        self.transactions = transactions.then_some(Isolation::Optimistic);
        self
    }

    /// [`SieveOptions::transactions`] that lock the keys that they write or read for update, with these options,
    /// as those of a `TransactionDB` of `rocksdb` do. Memtables are kept, and databases are refused, as there.
    ///
    /// Writes of the [`SieveDb`](super::SieveDb) outside of transactions lock their keys too, for as long as they
    /// take. They wait for transactions that have them, as long as `set_default_lock_timeout` says, and end with an
    /// error of the kind `TimedOut` then; so does the write of a thread whose own transaction has the key. There
    /// are no locks for ranges that are deleted, for files that are ingested or deleted, and for what the bare
    /// [engine](super::SieveDb::with_engine) writes. RocksDB refuses batches that delete a range, and single
    /// deletes in them for all families but the default one, where those take no lock.
    ///
    /// Drop no family while transactions that wrote to it are open: after the commit of one, RocksDB takes no more
    /// writes, unless `ignore_missing_column_families` is among its write options.
    ///
    /// Of what a `TransactionDB` of `rocksdb` prepared, the committed is taken up here; opened without locks, RocksDB
    /// forgets what of it was not flushed. What was neither committed nor rolled back is left to a `TransactionDB`,
    /// and the database refused until then.
    ///
    /// A database that is opened to read only, or as a secondary, has no locks, and is refused.
    ///
    /// ```no_run
    /// # use lsm_sieve::{SieveDb, SieveOptions, rocksdb::TransactionDBOptions};
    /// # let options = rocksdb::Options::default();
    /// let sieve = SieveOptions::default().locking_transactions(TransactionDBOptions::default());
    /// let db = SieveDb::open(&options, &sieve, "/tmp/accounts")?;
    /// let transaction = db.transaction();
    /// if transaction.get_for_update(b"ada", true)?.is_none() {
    ///     transaction.put(b"ada", b"100")?; // nobody else can have made her meanwhile
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn locking_transactions(mut self, locks: TransactionDBOptions) -> Self {
        self.transactions = Some(Isolation::Locks(Arc::new(locks)));
        self
    }

    /// Reads the filters that are there and changes none: nothing is rebuilt, saved or removed.
    /// For tools that look at a database as it is.
    #[must_use]
    pub fn frozen(mut self, frozen: bool) -> Self {
        self.frozen = frozen;
        self
    }

    /// How many negatives there are to each one that is read from the engine all the same, to see
    /// that it is none; 0 audits none. One that is wrong ends the trust in all filters of the
    /// database until it is opened again: see [`SieveDb::refutation`](super::SieveDb::refutation).
    ///
    /// Unless this is set, it is one in 8,192, and less often where audits of a column family would
    /// take more than a hundredth of the time. What is set is kept, whatever time it takes.
    #[must_use]
    pub fn audit(mut self, one_in: u32) -> Self {
        self.audit = Some(one_in);
        self
    }

    /// How often the filters in memory are read in the background, to see that no bit of them has
    /// fallen; `None` for never. [`SieveDb::scrub`](super::SieveDb::scrub) does it at once.
    #[must_use]
    pub fn scrub_every(mut self, interval: Option<Duration>) -> Self {
        self.scrub_every = interval;
        self
    }

    pub(crate) fn left_out(&self) -> impl Iterator<Item = &str> {
        self.left_out.iter().map(String::as_str)
    }

    pub(crate) fn leaves_out(&self, family: &str) -> bool {
        self.left_out.contains(family)
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

    /// Which negatives are audited, unless audits rest.
    pub(crate) fn audit_sample(&self) -> Sample {
        Sample::one_in(self.audit.unwrap_or(AUDITED))
    }

    pub(crate) fn audit_pace(&self) -> Pace {
        Pace::resting(self.audit.map_or(AUDITS_REST, |_| 0))
    }

    /// Notes that the engine lets a write be seen before its memtable has taken it.
    pub(crate) fn publishes_first(mut self, first: bool) -> Self {
        self.publishes_first = first;
        self
    }

    /// With rates in the place of bits, which take a while to be worked out.
    pub(crate) fn with_rates(self) -> Self {
        let (summary, segments) = (self.get_summary_rate(), self.get_segment_rate());
        self.summary_rate(summary).segment_rate(segments)
    }

    /// How many column families with fronts share the budget.
    pub(crate) fn shared_by(mut self, families: usize) -> Self {
        self.families = families;
        let front = Column::FRONT.get();
        self.beside_fronts(Bits::new(front.saturating_mul(families as u64)))
    }

    /// What those fronts take.
    pub(crate) fn beside_fronts(mut self, fronts: Bits) -> Self {
        self.fronts = fronts;
        self
    }

    /// The most that the filter of one generation of a column family's memtables takes: nothing where
    /// there is no second look for it.
    pub(crate) fn recent_budget(&self) -> Bits {
        if self.segments.is_none() || self.access == Access::Read {
            return Bits::new(0);
        }
        recent_budget(self.filter_budget(), self.families)
    }

    pub(crate) fn get_publishes_first(&self) -> bool {
        self.publishes_first
    }

    /// Of an engine that changes no file; then no filter is changed either.
    pub(super) fn read_only(mut self) -> Self {
        self.access = Access::Read;
        self.frozen(true)
    }

    /// Of an engine that follows one which writes.
    pub(super) fn secondary(mut self) -> Self {
        self.access = Access::Follow;
        self.frozen(true)
    }

    /// Whether the engine writes nothing.
    pub(super) fn is_reader(&self) -> bool {
        self.access != Access::Write
    }

    pub(super) fn is_secondary(&self) -> bool {
        self.access == Access::Follow
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
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

    /// Whether filters of keys at hand are static.
    pub(crate) fn has_static_filters(&self) -> bool {
        self.static_filters
    }

    /// In how many parts a static summary of tables with so many entries is made.
    pub(crate) fn static_parts(&self, entries: u64) -> NonZeroU64 {
        let by_default = || HASHES_AT_ONCE.max(entries.div_ceil(MOST_PARTS));
        let at_once = self.hashes_at_once.map_or_else(by_default, NonZeroU64::get);
        NonZeroU64::new(entries.div_ceil(at_once)).unwrap_or(NonZeroU64::MIN)
    }

    pub(crate) fn get_memory_budget(&self) -> Option<Bits> {
        self.memory_budget
    }

    /// What the fronts leave of the budget for filters.
    fn filter_budget(&self) -> Option<Bits> {
        self.filter_budget_beside(self.fronts)
    }

    /// What fronts that take so much leave of the budget for filters.
    pub(crate) fn filter_budget_beside(&self, fronts: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(fronts.get()));
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

    /// A rate below the least one.
    pub(crate) fn rate_out_of_reach(&self) -> Option<Rate> {
        let mut rates = self
            .get_segment_rate()
            .into_iter()
            .chain([self.get_summary_rate()]);
        rates.find(|rate| rate.get() < Self::LEAST_RATE)
    }

    /// What summaries that take so much leave of the budget for another one.
    pub(crate) fn room_beside(&self, others: Bits) -> Option<Bits> {
        let left = |budget: Bits| Bits::new(budget.get().saturating_sub(others.get()));
        self.filter_budget().map(left)
    }

    /// A summary whose static first stage of so many keys is still to come, beside others that take so
    /// much of the budget.
    pub(crate) fn static_summary(&self, keys: Items, others: Bits) -> ScalableOptions {
        let second = Items::new(keys.get() / SECOND);
        ScalableOptions {
            first: keys,
            second: Some(second.max(self.first_stage().min(FIRST_STAGE))),
            ..self.summary(keys, others)
        }
    }

    /// A summary for at least `keys` keys, beside others that take so much of the budget. If it can, it
    /// leaves some for the filters of memtables.
    pub(crate) fn summary(&self, keys: Items, others: Bits) -> ScalableOptions {
        let first = keys.max(self.first_stage());
        let recent = std::iter::repeat_n(self.recent_budget(), self.families);
        let spared = self.room_beside(others + recent.sum());
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

/// What each segment's filter keeps, where the front promises so much.
pub(super) fn segment_part(promised: Rate) -> Rate {
    Rate::clamped((promised.get() * SEGMENT_PART).max(SieveOptions::LEAST_RATE))
}

/// What a static filter takes; more than there can be where there is none.
fn static_size(keys: Items, rate: Rate) -> Bits {
    Stage::ribbon_size(keys, rate).unwrap_or(Bits::new(u64::MAX))
}

/// The rate of a static filter of so many bits a key, within what stages can grow to beside it.
fn static_rate_of(bits_a_key: f64) -> Rate {
    Rate::clamped(
        ribbon::rate_of(bits_a_key)
            .get()
            .max(SieveOptions::LEAST_RATE),
    )
}

/// Keys, and room for some more.
fn roomy(keys: Items) -> Items {
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

    /// Else a thousand families take 0.4 GB before they have a key.
    #[test]
    fn first_stages_of_many_families_are_small_and_grow_by_leaps() {
        let stages = |families, keys| {
            let options = SieveOptions::default().shared_by(families);
            let summary = options.summary(options.with_room(Items::new(keys)), Bits::new(0));
            [summary.first.get(), summary.second.unwrap().get()]
        };
        for families in [0, 1, 2, 16] {
            assert_eq!(stages(families, 0), [1 << 18, 1 << 19]);
            assert_eq!(stages(families, 100_000), [1 << 18, 1 << 19]);
        }
        assert_eq!(stages(17, 0), [1 << 17, 1 << 18]);
        assert_eq!(stages(1_000, 0), [1 << 12, 1 << 16]);
        assert_eq!(stages(1_000_000, 0), [1 << 12, 1 << 16]);
        // What is made of keys at hand has room for as many again, while they are few.
        assert_eq!(stages(1_000, 5_000), [10_000, 160_000]);
        assert_eq!(stages(1_000, 200_000), [1 << 18, 1 << 19]);
        assert_eq!(stages(1_000, 4_000_000), [4_080_000, 1_020_000]);

        let told = SieveOptions::default().expected_keys(Items::new(100));
        let summary = told.shared_by(1_000).summary(Items::new(0), Bits::new(0));
        assert_eq!(summary.first, Items::new(100));
    }

    /// What could never be built would be looked for again and again.
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
                // So many bits make no stage that could stand beside a static one.
                let options = with(bits).unwrap().static_filters(true);
                assert_eq!(options.rate_out_of_reach(), None, "{bits}");
            }
        }
    }
}

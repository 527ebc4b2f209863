//! The settings. Each has a default, and the reason for it is given here or in `front::options`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, TransactionDBOptions};

use crate::hash::HashId;
use crate::math::Items;
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::health::FilterMemory;
use lsm_sieve_front::options::{Access, FilterSize, FrontOptions, sizes_for};
use lsm_sieve_front::prefix::{Prefix, Prefixes};
use lsm_sieve_front::ranges::RangeKeys;

/// Settings of a [`SieveDb`](super::SieveDb). Their order does not matter.
///
/// ```
/// use lsm_sieve::{FilterSize, Items, SieveOptions};
///
/// let options = SieveOptions::default()
///     .filter_size(FilterSize::rate(0.001)?)
///     .expected_keys(Items::new(50_000_000));
/// # Ok::<(), lsm_sieve::FilterSizeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct SieveOptions {
    filters: FilterOptions,
    folder: Option<PathBuf>,
    excluded: BTreeSet<String>,
    /// By column family.
    prefixes: BTreeMap<String, Vec<Prefix>>,
    /// A function for prefixes, and bits per key.
    ranges: BTreeMap<String, (Prefix, u32)>,
    /// Names of comparators.
    injective: BTreeSet<String>,
    isolation: Option<Isolation>,
    read_only_filters: bool,
    access: Access,
}

/// How transactions are isolated.
#[derive(Clone)]
#[non_exhaustive]
pub enum Isolation {
    /// As in an `OptimisticTransactionDB` of `rocksdb`: a commit that finds a conflict fails.
    ///
    /// Flushed memtables are kept in memory, so that a commit can check them for conflicts. Per
    /// column family this is one memtable more than fit into `max_write_buffer_number` times
    /// `write_buffer_size`, or as much as `max_write_buffer_size_to_maintain` says.
    /// A `WriteBufferManager` counts these
    /// memtables too: one that stalls writers needs room for all of them.
    ///
    /// Databases with `unordered_write` are refused, because a transaction could not tell what was
    /// written before it read. Column families with `enable_blob_direct_write` are refused too.
    Optimistic,
    /// As in a `TransactionDB` of `rocksdb`: a transaction locks each key that it writes or reads
    /// for update. Memtables are kept and databases are refused as with `Optimistic`.
    ///
    /// Writes of the [`SieveDb`](super::SieveDb) outside of transactions lock their keys too, for
    /// as long as they take. They wait for the transaction that holds a lock, at most as long as
    /// `set_default_lock_timeout` says, and then fail with an error of the kind `TimedOut`. This
    /// also happens to a write of the thread whose own transaction holds the lock. Deleted ranges,
    /// ingested files and deleted files take no locks. RocksDB refuses batches that
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
    Locks(Arc<TransactionDBOptions>),
}

impl Isolation {
    /// [`Isolation::Locks`] with these options.
    pub fn locks(options: TransactionDBOptions) -> Self {
        Self::Locks(Arc::new(options))
    }
}

impl fmt::Debug for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Optimistic => "Optimistic",
            Self::Locks(_) => "Locks(..)",
        })
    }
}

impl Default for SieveOptions {
    /// One percent false positives, XXH3, no memory budget.
    fn default() -> Self {
        Self {
            filters: FilterOptions::default().static_filters(true),
            folder: None,
            excluded: BTreeSet::new(),
            prefixes: BTreeMap::new(),
            ranges: BTreeMap::new(),
            injective: BTreeSet::new(),
            isolation: None,
            read_only_filters: false,
            access: Access::Write,
        }
    }
}

impl SieveOptions {
    /// The default folder of the filters, inside the database's own folder.
    pub const FOLDER: &str = "sieve";

    /// The ranges that are asked for of a column family.
    pub(crate) fn ranges_of(&self, cf: &str) -> Option<RangeKeys> {
        let (prefix, bits_per_key) = self.ranges.get(cf)?;
        RangeKeys::new(prefix.clone(), *bits_per_key).ok()
    }

    /// The functions for the prefixes of a column family.
    pub(crate) fn prefixes_of(&self, cf: &str) -> &[Prefix] {
        self.prefixes.get(cf).map_or(&[], Vec::as_slice)
    }

    /// Sets the size of the filters: [`FilterSize::ONE_PERCENT`] by default.
    ///
    /// If it is a false-positive rate, this share of the lookups of absent keys passes the first
    /// stage of the summary filter while it grows. Once it hardly grows, one twentieth does. The
    /// segment filters get twice the rate. One percent takes 10.3 bits per key for the summary
    /// filter while it grows, 11 at rest, and 8.7 for a segment filter.
    ///
    /// If it is a number of bits per key, the consolidated summary filter and the segment filters
    /// take this many each.
    #[must_use]
    pub fn filter_size(mut self, size: FilterSize) -> Self {
        self.filters = self.filters.filter_size(size);
        self
    }

    /// Sets the size of the segment filters alone. RocksDB checks them SST by SST. `None` builds no
    /// segment filters and leaves RocksDB's own in place. By default the size follows from
    /// [`SieveOptions::filter_size`].
    #[must_use]
    pub fn segment_filters(mut self, size: Option<FilterSize>) -> Self {
        self.filters = self.filters.segment_filters(size);
        self
    }

    /// Whether speed comes before memory: 24 bits per key instead of 12. Off by default.
    ///
    /// By default the filters follow the shape of the database. A summary filter that hardly grows
    /// is rebuilt as a static one, a bumped ribbon filter
    /// ([`Stage::ribbon`](crate::filter::Stage::ribbon)): fewer bits for fewer false positives, but
    /// two adjacent cache lines for a probe. Later keys go to a growing stage beside it. With leveled
    /// compaction, the SSTs of the last level get no segment filters: nine keys in ten are there, and
    /// behind the summary filter their filters would answer almost no lookup absent. A column
    /// family with [prefixes](SieveOptions::prefixes) has segment filters on every level.
    ///
    /// With speed before memory, a summary filter is a blocked Bloom filter at all times: one cache
    /// line for a probe, and 5 ns less for a miss. Every SST gets a segment filter.
    #[must_use]
    pub fn speed_over_memory(mut self, speed: bool) -> Self {
        self.filters = self.filters.static_filters(!speed);
        self
    }

    /// How many keys each column family will hold. The summary filter of every column family then
    /// has this size from the start. Not set by default: a summary filter starts with room for
    /// 262,144 keys (0.4 MB) and grows.
    #[must_use]
    pub fn expected_keys(mut self, keys: Items) -> Self {
        self.filters = self.filters.expected_keys(keys);
        self
    }

    /// The most memory that all filters and their hooks may take. Not set by default: they take what
    /// [`SieveOptions::memory_for`] says.
    ///
    /// Over the budget whole filters are dropped, first those of the SSTs that the fewest lookups
    /// reach. A summary filter that would have to grow answers *maybe*. Writes never fail because
    /// of the budget.
    ///
    /// The budget can be exceeded for a while. The segment filter of a new SST counts only after
    /// the next maintenance run. While a summary filter is rebuilt, lookups use the old one, which
    /// is not counted. Neither are the hashes that a static summary filter is built from.
    #[must_use]
    pub fn memory_budget(mut self, bytes: u64) -> Self {
        self.filters = self.filters.memory_budget(bytes);
        self
    }

    /// The folder of the filters, which is created; the folder that it is in must exist. The default
    /// is `sieve` inside the database's folder, so that a copied or moved database takes its filters
    /// along.
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

    /// Lets the filters of a column family also answer whether there are keys with a prefix
    /// ([`SieveDb::prefix_exists_cf`](super::SieveDb::prefix_exists_cf)). Adds to the functions that
    /// were given before. None is given by default; a `prefix_extractor` in RocksDB's options is
    /// used without being named here.
    ///
    /// A prefix takes the memory of one more key in each filter, once, however many keys have it. A
    /// column family may have 8 functions, RocksDB's own among them; with more the open is refused.
    ///
    /// If other functions are given for an existing database, its filters are rebuilt in the
    /// background from the keys of its SSTs. No SST is rewritten, and until then the answer is
    /// *maybe*.
    ///
    /// ```
    /// use lsm_sieve::{Prefix, SieveOptions};
    ///
    /// let by_tenant = SieveOptions::default().prefixes("default", [Prefix::until(b'/')]);
    /// ```
    #[must_use]
    pub fn prefixes(
        mut self,
        cf: impl Into<String>,
        prefixes: impl IntoIterator<Item = Prefix>,
    ) -> Self {
        self.prefixes.entry(cf.into()).or_default().extend(prefixes);
        self
    }

    /// Lets the filters of a column family also answer whether there is a key in a range
    /// ([`SieveDb::range_exists_cf`](super::SieveDb::range_exists_cf)), if all its keys have one prefix by
    /// this function: of a tenant between two times, of a stream from an offset on. None is given by
    /// default; a second call for a column family replaces the first.
    ///
    /// The eight bytes behind the prefix are read as a big-endian number. An empty range of w numbers
    /// passes the filters with a probability of at most w / 2^(`bits_per_key` - 2), whatever the keys and
    /// the range: 0.6 % for 100 numbers at 16 bits. So does one near which the summary filter has a false
    /// positive. A range of more than 2^16 numbers is left to RocksDB.
    ///
    /// It takes `bits_per_key`, from 10 to 34, and 1.1 more beside the summary filter, which takes one more
    /// entry for 2^16 numbers that are written to; and 20 bytes per key while it is built, with the summary
    /// filter, from the keys of all SSTs. It is not stored: after an open it is built once writers pause, and
    /// until then each range is left to RocksDB. It is built again when about a quarter of the keys is new;
    /// until then ranges within 2^16 numbers of a new key are left to RocksDB. A memory budget serves the
    /// summary filter first, and segment filters last.
    ///
    /// ```
    /// use lsm_sieve::{Prefix, SieveOptions};
    ///
    /// // Keys of a stream's id and an offset, eight bytes each.
    /// let by_stream = SieveOptions::default().ranges("default", Prefix::fixed(8), 16);
    /// ```
    #[must_use]
    pub fn ranges(mut self, cf: impl Into<String>, prefix: Prefix, bits_per_key: u32) -> Self {
        self.ranges.insert(cf.into(), (prefix, bits_per_key));
        self
    }

    /// Promises that the comparator with this name calls no two keys equal whose bytes differ. Then
    /// column families that use it can have filters; their iterators check none for bounds.
    ///
    /// RocksDB's own comparators promise it themselves, with user-defined timestamps too, as does one
    /// in C++ whose `CanKeysWithDifferentByteContentsBeEqual` returns false. Those that are set
    /// through C or `rocksdb` cannot. Of a comparator with timestamps, it is a promise about keys
    /// without them.
    ///
    /// If the promise is wrong, lookups lose keys: `get("ADA")` answers that it is absent although a
    /// comparator that ignores case would find `ada`. RocksDB's own Bloom filters rely on the same.
    ///
    /// ```
    /// # use lsm_sieve::SieveOptions;
    /// let by_length_then_bytes = SieveOptions::default().comparator_is_injective("by-length");
    /// ```
    #[must_use]
    pub fn comparator_is_injective(mut self, name: impl Into<String>) -> Self {
        self.injective.insert(name.into());
        self
    }

    /// Makes [transactions](super::SieveDb::transaction) possible. They are not by default.
    ///
    /// ```no_run
    /// # use lsm_sieve::{Isolation, SieveDb, SieveOptions, rocksdb::TransactionDBOptions};
    /// # let options = rocksdb::Options::default();
    /// let locks = Isolation::locks(TransactionDBOptions::default());
    /// let sieve = SieveOptions::default().transactions(locks);
    /// let db = SieveDb::open(&options, &sieve, "/tmp/accounts")?;
    /// let transaction = db.transaction()?;
    /// if transaction.get_for_update(b"ada", true)?.is_none() {
    ///     transaction.put(b"ada", b"100")?; // no other writer can have inserted the key meanwhile
    /// }
    /// transaction.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn transactions(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// The memory that filters for `keys` keys take, in a column family whose summary filter is
    /// consolidated and whose SSTs hold each key once. It is more while the summary filter grows or
    /// SSTs overlap, and for few keys: a summary filter starts with room for 262,144 (0.4 MB).
    pub fn memory_for(&self, keys: Items) -> FilterMemory {
        FilterMemory::of_cf(sizes_for(&self.resolved(), keys))
    }
}

/// # Settings that few need
impl SieveOptions {
    /// The hash function of the keys, by default XXH3. Filters that were built with another are
    /// rebuilt.
    #[must_use]
    pub fn hash(mut self, hash: HashId) -> Self {
        self.filters = self.filters.hash(hash);
        self
    }

    /// The most memory for hashes while a static summary filter is built; a hash has 8 bytes. The
    /// hashes of all keys are in a temporary file meanwhile; if there are more of them, the filter is
    /// built in parts. The default is one byte for each key, or 1 MiB if that is more.
    #[must_use]
    pub fn build_memory(mut self, bytes: u64) -> Self {
        self.filters = self.filters.build_memory(bytes);
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
    /// Other reads, such as those of many keys, [`Sieve::answer`](crate::Sieve::answer)
    /// and those of differential stores, always check the summary filter. If this is off, every read
    /// does.
    #[must_use]
    pub fn adaptive_hits(mut self, adaptive: bool) -> Self {
        self.filters = self.filters.adaptive_hits(adaptive);
        self
    }

    /// Audits one negative in `one_in`: it is read from the engine all the same, to verify that the
    /// key does not exist. 0 audits none. If the key exists, all filters of the database are
    /// distrusted until it is opened again: see
    /// [`Filters::false_negative`](crate::Filters::false_negative).
    ///
    /// The default is one in 8,192, throttled so that the audits of a column family take at
    /// most 1% of the time. A value that is set here is not throttled.
    #[must_use]
    pub fn audit(mut self, one_in: u32) -> Self {
        self.filters = self.filters.audit(one_in);
        self
    }

    /// How often the filters in memory are scrubbed in the background, to find flipped bits. The
    /// default is one hour; `None` turns it off. [`Filters::scrub`](crate::Filters::scrub) scrubs
    /// at once.
    #[must_use]
    pub fn scrub_every(mut self, interval: Option<Duration>) -> Self {
        self.filters = self.filters.scrub_every(interval);
        self
    }

    /// Whether existing filters are only read: none is rebuilt, stored or removed. Off by default.
    /// For tools that inspect a database as it is.
    #[must_use]
    pub fn read_only_filters(mut self, read_only_filters: bool) -> Self {
        self.read_only_filters = read_only_filters;
        self
    }
}

impl SieveOptions {
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

    /// What is wrong with these settings, whatever the database.
    pub(super) fn refusal(&self) -> Option<String> {
        let path = self.folder.as_deref();
        if path.is_some_and(|path| path.as_os_str().is_empty()) {
            let reason = "the folder of the filters has no name; give its path, or leave it unset: \
                          then it is `sieve` inside the database's folder";
            return Some(reason.to_owned());
        }
        if self.is_excluded(DEFAULT_COLUMN_FAMILY_NAME) {
            let reason = "the default column family cannot be left out; while it is empty, its \
                          filters are small";
            return Some(reason.to_owned());
        }
        let too_many = |(cf, given): (&String, &Vec<Prefix>)| {
            let error = Prefixes::new(given.iter().cloned()).err()?;
            Some(format!("of column family {cf:?} {error}"))
        };
        let no_filter = |(cf, (prefix, bits)): (&String, &(Prefix, u32))| {
            let error = RangeKeys::new(prefix.clone(), *bits).err()?;
            Some(format!("of column family {cf:?}: {error}"))
        };
        let too_many = self.prefixes.iter().find_map(too_many);
        too_many.or_else(|| self.ranges.iter().find_map(no_filter))
    }

    pub(super) fn injective_comparators(&self) -> impl Iterator<Item = &str> {
        self.injective.iter().map(String::as_str)
    }

    pub(super) fn excluded(&self) -> impl Iterator<Item = &str> {
        self.excluded.iter().map(String::as_str)
    }

    pub(super) fn is_excluded(&self, cf: &str) -> bool {
        self.excluded.contains(cf)
    }

    pub(super) fn isolation(&self) -> Option<&Isolation> {
        self.isolation.as_ref()
    }

    pub(super) fn has_read_only_filters(&self) -> bool {
        self.read_only_filters
    }

    /// The setting of [`SieveOptions::audit`].
    #[doc(hidden)]
    pub fn audit_one_in(&self) -> Option<u32> {
        self.filters.audit_one_in()
    }

    pub(super) fn get_hash(&self) -> HashId {
        self.filters.get_hash()
    }

    pub(super) fn folder_of(&self, database: &Path) -> PathBuf {
        let inside = || database.join(Self::FOLDER);
        self.folder.clone().unwrap_or_else(inside)
    }

    /// The settings of the filters of one column family.
    pub(crate) fn resolved(&self) -> FrontOptions {
        FrontOptions {
            read_only_filters: self.read_only_filters,
            access: self.access,
            ..self.filters.resolved()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::Rate;

    fn bits_per_key(options: &SieveOptions) -> [f64; 2] {
        let keys = Items::new(4_000_000);
        let memory = options.memory_for(keys);
        [memory.summary, memory.segments].map(|bits| bits.per_key(keys))
    }

    #[test]
    fn by_default_a_leveled_tree_takes_twelve_bits_a_key_and_twice_that_for_speed() {
        let [summary, segments] = bits_per_key(&SieveOptions::default());
        assert!((10.9..=11.1).contains(&summary), "{summary}");
        assert!((0.8..=0.9).contains(&segments), "{segments}");
        let fast = SieveOptions::default().speed_over_memory(true);
        let [summary, segments] = bits_per_key(&fast);
        assert!((13.4..=13.7).contains(&summary), "{summary}");
        assert!((10.2..=10.3).contains(&segments), "{segments}");
    }

    #[test]
    fn summary_filter_at_rest_takes_the_bits_that_it_is_given_and_no_more() {
        for bits in [2.2, 4.8, 7.2, 9.6, 12.0, 16.0] {
            let size = FilterSize::bits_per_key(bits).unwrap();
            let [summary, segments] = bits_per_key(&SieveOptions::default().filter_size(size));
            assert!((bits - 0.1..=bits).contains(&summary), "{bits}: {summary}");
            assert!(segments <= bits / 10.0 + 0.01, "{bits}: {segments}");
        }
    }

    #[test]
    fn segment_filters_follow_the_filter_size_unless_they_are_set() {
        let tenth = FilterSize::rate(0.1).unwrap();
        let options = SieveOptions::default().filter_size(tenth);
        let rate = |options: &SieveOptions| options.resolved().segment_rate;
        assert_eq!(rate(&options), Some(Rate::new(0.2).unwrap()));
        let fast = options.speed_over_memory(true);
        assert_eq!(rate(&fast), Some(Rate::new(0.1).unwrap()));
        let off = SieveOptions::default().segment_filters(None);
        assert_eq!(rate(&off.filter_size(tenth)), None);
        let set = SieveOptions::default().segment_filters(Some(FilterSize::ONE_PERCENT));
        assert_eq!(rate(&set.filter_size(tenth)), Some(Rate::ONE_PERCENT));
    }
}

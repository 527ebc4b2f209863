//! Measures the latency of lookups on a database.
//!
//! The database is read without its own options, and other processes may use it meanwhile. Keys are
//! sampled at random positions. Each absent key sorts directly after a present one, so that a miss
//! reaches the same SSTs as a hit. Each round times misses, hits and a summary filter of the
//! database's size in turn; the result is the median over the rounds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_cli::advise::statistics::Counts;
use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_cli::workload::store::column_families;
use lsm_sieve_filter::filter::{Kind, Stage};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, ESTIMATE_NUM_KEYS};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamily, DB, ErrorKind, LiveFile, Options, ReadOptions,
};
use serde::Serialize;

use crate::engine;
use crate::outcome::Stop;
use crate::progress::Progress;

/// A database without filters of this crate, opened read-only.
pub(super) struct Database {
    engine: DB,
    family: String,
    /// Whether its keys have timestamps. Then the latest versions are read.
    has_timestamps: bool,
    /// RocksDB's estimate.
    pub(super) keys: Items,
}

/// The size of RocksDB's own timestamps.
const TIMESTAMP_SIZE: usize = 8;

/// Makes options read any database of their comparator. Filters in the database's own OPTIONS file
/// are not used: it does not name those that were set through RocksDB's C interface, and misses
/// would be timed without them.
fn for_reading(mut options: Options, cache_mib: u64) -> Options {
    const BLOCK_BASED: bool = false;
    let mut table = BlockBasedOptions::default();
    // Any of RocksDB's filters can read all of them.
    table.set_bloom_filter(10.0, BLOCK_BASED);
    let cache = usize::try_from(cache_mib << 20).unwrap_or(usize::MAX);
    table.set_block_cache(&Cache::new_lru_cache(cache));
    table.set_cache_index_and_filter_blocks(false);
    options.set_block_based_table_factory(&table);
    // RocksDB 11.8.1 crashes without it if the manifest lists logs.
    options.set_track_and_verify_wals_in_manifest(true);
    // The merged value does not matter, only that it exists.
    options.set_merge_operator_associative("any", |_, _, _| Some(Vec::new()));
    options
}

/// Mean latencies of lookups and filters, in nanoseconds.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Times {
    pub(super) miss_ns: f64,
    pub(super) hit_ns: f64,
    pub(super) front_ns: f64,
    /// What a write pays: it inserts its key into the summary filter and into the memtable's.
    pub(super) write_ns: f64,
}

type Key = Box<[u8]>;

/// Rounds that the median is over. One more round runs first, to fill the caches.
const ROUNDS: usize = 5;

/// Insertions between two checks for Ctrl-C.
const STEPS: u64 = 1 << 16;

impl Database {
    /// Opens one column family, with a block cache of `cache_mib` MiB.
    pub(super) fn open(path: &Path, family: &str, cache_mib: u64) -> Result<Self, Stop> {
        let (family, families) = (family.to_owned(), column_families(path)?);
        if !families.contains(&family) {
            let families = families.join(", ");
            return Err(Stop::input(format!(
                "there is no column family {family}; the database has {families}"
            )));
        }
        if path.join(SieveOptions::FOLDER).is_dir() {
            let path = path.display();
            return Err(Stop::input(format!(
                "{path} has filters already; `lsm-sieve inspect {path}` shows their size"
            )));
        }
        let open = |of_family: Options| {
            let opened = [(&family, for_reading(of_family, cache_mib))];
            let options = for_reading(Options::default(), cache_mib);
            DB::open_cf_with_opts_for_read_only(&options, path, opened, false)
        };
        // RocksDB refuses another comparator than the family has. Its name is in the OPTIONS file.
        let engine = open(Options::default()).or_else(|refused| {
            let latest = SieveDb::latest_options(&Options::default(), path);
            let families = latest.map_or_else(|_| Vec::new(), |(_, families)| families);
            let of_family = families.into_iter().find(|(name, _)| *name == family);
            of_family.map_or(Err(refused), |(_, options)| open(options))
        })?;
        let mut database = Self {
            engine,
            family,
            has_timestamps: false,
            keys: Items::new(0),
        };
        // RocksDB refuses a read without a timestamp of a family that has them.
        let read = database.engine.get_pinned_cf(database.family()?, b"");
        database.has_timestamps = match read.map(|_| ()) {
            Ok(()) => false,
            Err(refused) if refused.kind() == ErrorKind::InvalidArgument => true,
            Err(error) => return Err(error.into()),
        };
        let keys = database
            .engine
            .property_int_value_cf(database.family()?, ESTIMATE_NUM_KEYS)?;
        database.keys = Items::new(keys.unwrap_or(0));
        Ok(database)
    }

    fn family(&self) -> Result<&ColumnFamily, Stop> {
        let family = self.engine.cf_handle(&self.family);
        family.ok_or_else(|| Stop::input("the column family is gone; open the database again"))
    }

    fn has(&self, key: &[u8]) -> Result<bool, Stop> {
        let read = self.read_options();
        let value = self.engine.get_pinned_cf_opt(self.family()?, key, &read)?;
        Ok(value.is_some())
    }

    fn read_options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        if self.has_timestamps {
            options.set_timestamp([u8::MAX; TIMESTAMP_SIZE]);
        }
        options
    }

    /// Bytes of the engine's own filters.
    pub(super) fn filter_bytes(&self) -> Result<u64, Stop> {
        let properties = self
            .engine
            .property_value_cf(self.family()?, AGGREGATED_TABLE_PROPERTIES)?;
        let bytes = engine::aggregated(&properties.unwrap_or_default(), "filter block size");
        Ok(bytes.map_or(0, |bytes| bytes as u64))
    }

    /// The share of the keys that are in the last level; 0 if it is level 0.
    pub(super) fn last_level_share(&self) -> Result<f64, Stop> {
        let files = self.engine.live_files()?;
        let of_family = |file: &&LiveFile| file.column_family_name == self.family;
        let mut levels = BTreeMap::new();
        for file in files.iter().filter(of_family) {
            *levels.entry(file.level).or_default() += file.num_entries;
        }
        let all: u64 = levels.values().sum();
        Ok(match levels.last_key_value() {
            Some((&level, &last)) if level > 0 => last as f64 / all.max(1) as f64,
            _ => 0.0,
        })
    }

    /// Looks up every line of a text.
    pub(super) fn look_up_lines(&self, text: &[u8]) -> Result<Counts, Stop> {
        let mut lookups = Counts::default();
        let mut progress = Progress::unbounded("looking up the keys");
        for key in text
            .split(|&byte| byte == b'\n')
            .filter(|key| !key.is_empty())
        {
            lookups.reads += 1;
            lookups.misses += u64::from(!self.has(key)?);
            progress.advance(1)?;
        }
        Ok(lookups)
    }

    /// Times lookups of `samples` present keys and of absent keys; and probes of a summary filter of
    /// this false-positive rate, and insertions into it.
    pub(super) fn times(&self, samples: u64, rate: Rate) -> Result<Times, Stop> {
        let loaded = self.sample(samples)?;
        let mut absent = Vec::new();
        let mut progress = Progress::new("finding absent keys", loaded.len() as u64);
        for key in &loaded {
            // Sorts directly after a present key, so that a lookup reaches the same SSTs.
            let beside: Key = [key, &[0][..]].concat().into();
            if !self.has(&beside)? {
                absent.push(beside);
            }
            progress.advance(1)?;
        }
        drop(progress);
        if absent.is_empty() {
            let family = &self.family;
            return Err(Stop::input(format!(
                "column family {family} has no key to time; name one that has keys"
            )));
        }
        let (hasher, filter) = self.build_filter(rate)?;
        let mut rounds = Vec::new();
        let mut progress = Progress::new("looking up", ROUNDS as u64 + 1);
        for _ in 0..=ROUNDS {
            let miss = mean_ns(&absent, |key| self.has(key))?;
            let hit = mean_ns(&loaded, |key| self.has(key))?;
            let probe = mean_ns(&absent, |key| Ok(filter.may_contain(hasher.hash(key))))?;
            rounds.push([miss, hit, probe]);
            progress.advance(1)?;
        }
        let [miss_ns, hit_ns, front_ns] = medians(&rounds[1..]);
        // Last, because the filter has the absent keys afterwards.
        let insert_ns = mean_ns(&absent, |key| Ok(filter.insert(hasher.hash(key))))?;
        Ok(Times {
            miss_ns,
            hit_ns,
            front_ns,
            write_ns: insert_ns,
        })
    }

    /// Samples keys at random positions between the first and the last.
    fn sample(&self, samples: u64) -> Result<Vec<Key>, Stop> {
        let read = self.read_options();
        let mut iterator = self.engine.raw_iterator_cf_opt(self.family()?, read);
        iterator.seek_to_last();
        let last: Key = iterator.key().unwrap_or_default().into();
        iterator.seek_to_first();
        let first: Key = iterator.key().unwrap_or_default().into();
        let places = Places::between((&first).min(&last), (&first).max(&last));
        let mut keys = Vec::new();
        let mut progress = Progress::new("finding keys", samples);
        for draw in 0..samples {
            iterator.seek(places.draw(draw));
            keys.extend(iterator.key().map(Key::from));
            progress.advance(1)?;
        }
        iterator.status()?;
        Ok(keys)
    }

    /// A full filter of the size of the summary filter.
    fn build_filter(&self, rate: Rate) -> Result<(KeyHasher, Stage), Stop> {
        let hasher = random();
        let filter = Stage::with_rate(Kind::Blocked, self.keys, rate)?;
        let mut progress = Progress::new("filling a filter", self.keys.get());
        for key in 0..self.keys.get() {
            filter.insert(hasher.hash(&key.to_be_bytes()));
            if key.is_multiple_of(STEPS) {
                progress.advance(STEPS)?;
            }
        }
        Ok((hasher, filter))
    }
}

/// A source of pseudo-random numbers that are the same in every run.
fn random() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"would it pay off"))
}

/// The range of the keys: the common prefix of the first and the last key, and the eight bytes
/// after it as numbers.
struct Places {
    common: Key,
    first: u64,
    last: u64,
}

impl Places {
    fn between(first: &[u8], last: &[u8]) -> Self {
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let number = |key: &[u8]| {
            let mut bytes = [0; 8];
            bytes
                .iter_mut()
                .zip(&key[common..])
                .for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        };
        Self {
            common: first[..common].into(),
            first: number(first),
            last: number(last),
        }
    }

    /// A pseudo-random position from the first key to the last.
    fn draw(&self, draw: u64) -> Vec<u8> {
        let span = self.last.saturating_sub(self.first).saturating_add(1);
        let place = self.first + random().hash(&draw.to_be_bytes()).get() % span;
        [&self.common[..], &place.to_be_bytes()].concat()
    }
}

fn mean_ns(keys: &[Key], lookup: impl Fn(&[u8]) -> Result<bool, Stop>) -> Result<f64, Stop> {
    let start = Instant::now();
    for key in keys {
        std::hint::black_box(lookup(std::hint::black_box(key))?);
    }
    Ok(start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn medians(rounds: &[[f64; 3]]) -> [f64; 3] {
    std::array::from_fn(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    })
}

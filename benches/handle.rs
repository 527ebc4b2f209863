//! Reads and writes by `rocksdb`'s own type, behind whose C handle the filters are, compared with
//! RocksDB alone with a Bloom filter of 10 bits per key. All is cached; no compaction runs.
//!
//! ```text
//! native   rocksdb's database            get_pinned of an absent, of a present key; put
//! handle   rocksdb's database, filtered  the same calls
//! get      SieveDb                       its own get_pinned
//! ```
//!
//! Prints one line of JSON for each number of sorted runs: nanoseconds per call as medians over
//! the rounds, in which the contestants take turns; `ratio_miss` is native through handle, the
//! others handle through native; and the bits per key of all filters, by RocksDB's table properties
//! and by the filters' health. Run with `cargo bench --bench handle`; `-- 1000000` for another number
//! of keys, `-- timestamps` for keys with timestamps, `-- partitions` for partitioned filters,
//! `-- kvrocks` for the options of Kvrocks.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;
#[path = "common/database.rs"]
mod database;

use std::hint::black_box;
use std::time::{Duration, Instant};

use common::{key, keys_asked_for, median};
use database::options;
use lsm_sieve::{RocksDb, SieveDb, SieveOptions};
use rocksdb::{Error, IteratorMode, Options, ReadOptions};

const ROUNDS: u64 = 9;
const LOOKUPS: u64 = 50_000;

/// Too few to fill a memtable, so that nothing is flushed meanwhile.
const WRITES: u64 = 20_000;

/// The first id of absent keys, and that of keys that the measured writes bring.
const ABSENT: u64 = 1 << 40;
const WRITTEN: u64 = 1 << 41;

/// What is special about the keys or their filters, if anything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Timestamps,
    Partitions,
    Kvrocks,
}

/// What Kvrocks sets beside the options of all forms.
const KVROCKS: &str = "block_based_table_factory={format_version=5;\
    index_type=kTwoLevelIndexSearch;partition_filters=true;optimize_filters_for_memory=true;\
    metadata_block_size=4096;data_block_index_type=kDataBlockBinaryAndHash;\
    data_block_hash_table_util_ratio=0.75;block_size=16384;\
    cache_index_and_filter_blocks=true;cache_index_and_filter_blocks_with_high_priority=true;\
    pin_l0_filter_and_index_blocks_in_cache=true};\
    min_write_buffer_number_to_merge=2;max_write_buffer_number=4;\
    memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.1";

impl Form {
    fn asked_for() -> Self {
        let form = |word: String| match word.as_str() {
            "timestamps" => Some(Self::Timestamps),
            "partitions" => Some(Self::Partitions),
            "kvrocks" => Some(Self::Kvrocks),
            _ => None,
        };
        std::env::args().find_map(form).unwrap_or(Self::Plain)
    }

    fn options(self) -> Result<Options, Error> {
        let mut options = options();
        let text = match self {
            Self::Plain => "",
            Self::Timestamps => "comparator=leveldb.BytewiseComparator.u64ts",
            Self::Partitions => {
                "block_based_table_factory={index_type=kTwoLevelIndexSearch;partition_filters=true}"
            }
            Self::Kvrocks => KVROCKS,
        };
        options.get_options_from_string(text)
    }

    /// As of the latest time, if keys have one.
    fn reading(self) -> ReadOptions {
        let mut options = ReadOptions::default();
        if self == Self::Timestamps {
            options.set_timestamp(u64::MAX.to_le_bytes());
        }
        options
    }

    fn put(self, db: &RocksDb, key: &[u8; 16]) -> Result<(), Error> {
        match self {
            Self::Timestamps => db.put_with_ts(key, 1_u64.to_le_bytes(), [b'v'; 100]),
            _ => db.put(key, [b'v'; 100]),
        }
    }
}

/// The bits of RocksDB's filters in all SSTs.
fn filter_bits(db: &RocksDb) -> Result<u64, Error> {
    let properties = db.property_value("rocksdb.aggregated-table-properties")?;
    let properties = properties.unwrap_or_default();
    let size = properties.split("filter block size=").nth(1);
    let size = size.and_then(|rest| rest.split(';').next()?.trim().parse::<u64>().ok());
    Ok(8 * size.unwrap_or_default())
}

fn fill(db: &RocksDb, form: Form, keys: u64, runs: u64) -> Result<(), Error> {
    for run in 0..runs {
        for id in (run..keys).step_by(runs as usize) {
            form.put(db, &key(id))?;
        }
        db.flush()?;
    }
    let count = db.iterator_opt(IteratorMode::Start, form.reading()).count();
    assert_eq!(count as u64, keys, "every key is read");
    Ok(())
}

/// Nanoseconds per key with an id from `first` on, each `step` further.
fn ns_each(first: u64, count: u64, step: u64, mut work: impl FnMut(&[u8; 16])) -> f64 {
    let keys: Vec<_> = (0..count).map(|at| key(first + at * step)).collect();
    let start = Instant::now();
    keys.iter().for_each(&mut work);
    start.elapsed().as_nanos() as f64 / count as f64
}

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = keys_asked_for(1_000_000) as u64;
    let form = Form::asked_for();
    let reading = form.reading();
    for runs in [1, 4, 8] {
        let folder = tempfile::tempdir()?;
        let native = RocksDb::open(&form.options()?, folder.path().join("native"))?;
        let sieve = SieveOptions::default();
        let db = SieveDb::open(&form.options()?, &sieve, folder.path().join("filtered"))?;
        let handle: &RocksDb = &db;
        fill(&native, form, keys, runs)?;
        fill(handle, form, keys, runs)?;
        db.filters().consolidate()?;

        assert!(db.filters().wait_for_maintenance(Duration::from_secs(600)));
        let memory = db.filters().health().memory;
        let ours = memory.summary.get() + memory.segments.get();
        let bits_per_key = |bits: u64| bits as f64 / keys as f64;
        let get = |db: &RocksDb, key: &[u8; 16]| _ = black_box(db.get_pinned_opt(key, &reading));
        let put = |db: &RocksDb, key: &[u8; 16]| form.put(db, key).expect("a put");
        let mut times = [(); 7].map(|()| Vec::new());
        for round in 0..ROUNDS {
            // Each of its own, or one would warm the caches for the next.
            let absent = |of: u64| ABSENT + (3 * round + of) * LOOKUPS;
            let (there, step) = (round, keys / LOOKUPS);
            let written = WRITTEN + round * WRITES;
            let measure = |which: usize| match which {
                0 => ns_each(absent(0), LOOKUPS, 1, |key| get(&native, key)),
                1 => ns_each(absent(1), LOOKUPS, 1, |key| get(handle, key)),
                2 => ns_each(absent(2), LOOKUPS, 1, |key| {
                    _ = black_box(db.get_pinned(key))
                }),
                3 => ns_each(there, LOOKUPS, step, |key| get(&native, key)),
                4 => ns_each(there, LOOKUPS, step, |key| get(handle, key)),
                5 => ns_each(written, WRITES, 1, |key| put(&native, key)),
                _ => ns_each(written, WRITES, 1, |key| put(handle, key)),
            };
            // The first of two finds cooler caches than the second, so they change places.
            let order = match round % 2 {
                0 => [0, 1, 2, 3, 4, 5, 6],
                _ => [2, 1, 0, 4, 3, 6, 5],
            };
            for which in order {
                times[which].push(measure(which));
            }
        }
        let [
            native_miss,
            handle_miss,
            get_miss,
            native_hit,
            handle_hit,
            native_put,
            handle_put,
        ] = times.map(median);
        let line = serde_json::json!({
            "runs": runs,
            "native_miss_ns": native_miss,
            "handle_miss_ns": handle_miss,
            "get_miss_ns": get_miss,
            "native_hit_ns": native_hit,
            "handle_hit_ns": handle_hit,
            "ratio_miss": native_miss / handle_miss,
            "ratio_hit": handle_hit / native_hit,
            "ratio_fill": handle_put / native_put,
            "native_bits_per_key": bits_per_key(filter_bits(&native)?),
            "bits_per_key": bits_per_key(ours + filter_bits(handle)?),
        });
        println!("{line}");
    }
    Ok(())
}

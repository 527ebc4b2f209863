//! RocksDB options that both sides of a comparison share, and functions that wait for the engine.

use std::path::Path;
use std::time::Duration;

use crate::workload::Watch;
use lsm_sieve::{FilterSize, SieveDb};
use lsm_sieve_filter::math::Rate;
use rocksdb::properties::PropName;
use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, DBWithThreadMode, Options, ThreadMode};

use crate::outcome::Stop;

/// RocksDB's own filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Native {
    /// RocksDB's Bloom filter.
    Bloom,
    /// RocksDB's Ribbon filter: fewer bits, more CPU time.
    Ribbon,
    /// No filter.
    None,
}

impl Native {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bloom => "bloom",
            Self::Ribbon => "ribbon",
            Self::None => "none",
        }
    }
}

/// How the sorted runs of a database are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One run per explicit flush; compactions are disabled.
    Runs(u64),
    /// RocksDB's default levels.
    Leveled,
}

/// Where the blocks of a lookup come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// All are in RocksDB's block cache.
    Cached,
    /// From a block cache of `cache_bytes`; other blocks are read from disk with direct I/O.
    OnDisk { cache_bytes: u64 },
}

/// The database of a comparison: filters in memory, no compression.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub keys: u64,
    pub shape: Shape,
    pub native: Native,
    pub bits_per_key: f64,
    pub blocks: Blocks,
}

/// A key, its value and the overhead of a memtable.
const MEMTABLE_BYTES_PER_KEY: u64 = 200;
/// A key and its value in a block, rounded up generously.
const BLOCK_BYTES_PER_KEY: u64 = 128;

/// More keys than fit on the disk of one machine.
pub const KEYS_MAX: u64 = 1 << 40;

pub const MIB: u64 = 1 << 20;

impl Setting {
    pub fn options(self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_compression_type(DBCompressionType::None);
        options.set_block_based_table_factory(&self.table());
        options.set_use_direct_reads(self.blocks != Blocks::Cached);
        if let Shape::Runs(_) = self.shape {
            options.set_disable_auto_compactions(true);
            options.set_level_zero_slowdown_writes_trigger(i32::MAX);
            options.set_level_zero_stop_writes_trigger(i32::MAX);
        }
        options.set_write_buffer_size(size(self.run_bytes().max(64 * MIB)));
        options
    }

    /// Refuses to fill two databases in temporary folders if the disk has no room for them.
    pub fn check_room(self) -> Result<(), Stop> {
        // RocksDB preallocates a log of 1.1 memtables.
        let log = self.run_bytes().saturating_mul(11) / 10;
        let tables = self.keys.saturating_mul(BLOCK_BYTES_PER_KEY);
        let wanted = log.saturating_add(tables).saturating_mul(2);
        let folder = std::env::temp_dir();
        let free = free_bytes(&folder).unwrap_or(u64::MAX);
        if wanted <= free {
            return Ok(());
        }
        Err(Stop::input(format!(
            "{} keys need up to {} MiB in {}, but only {} MiB are free: ask for fewer keys, or set \
             TMPDIR to a folder on a larger disk",
            self.keys,
            wanted / MIB,
            folder.display(),
            free / MIB
        )))
    }

    /// Size of the memtable that holds one run.
    fn run_bytes(self) -> u64 {
        let keys = match self.shape {
            Shape::Runs(runs) => self.keys.div_ceil(runs.max(1)),
            Shape::Leveled => 0,
        };
        keys.saturating_mul(MEMTABLE_BYTES_PER_KEY)
    }

    fn table(self) -> BlockBasedOptions {
        const BLOCK_BASED: bool = false;
        let mut table = BlockBasedOptions::default();
        let cache_bytes = match self.blocks {
            Blocks::Cached => self
                .keys
                .saturating_mul(BLOCK_BYTES_PER_KEY)
                .saturating_add(256 * MIB),
            Blocks::OnDisk { cache_bytes } => cache_bytes,
        };
        table.set_block_cache(&Cache::new_lru_cache(size(cache_bytes)));
        table.set_cache_index_and_filter_blocks(false);
        match self.native {
            Native::Bloom => table.set_bloom_filter(self.bits_per_key, BLOCK_BASED),
            Native::Ribbon => table.set_ribbon_filter(self.bits_per_key),
            Native::None => {}
        }
        table
    }
}

/// Free bytes on the disk of a folder, if the system reports them.
#[cfg(target_os = "linux")]
fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(target_os = "linux"))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Parses a false-positive rate from the command line.
pub fn parse_rate(text: &str) -> Result<Rate, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "not a number, for example 0.01".to_owned())?;
    Rate::new(number).map_err(|error| error.to_string())
}

/// Parses a false-positive rate that a database's filters can have.
pub fn parse_front_rate(text: &str) -> Result<Rate, String> {
    let rate = parse_rate(text)?;
    let size = FilterSize::rate(rate.get());
    size.map_err(|error| error.to_string()).map(|_| rate)
}

/// Time between two checks for Ctrl-C in a wait.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// Waits until all flushes and compactions are done, since they would disturb a measurement.
///
/// `property` reads an integer property of RocksDB.
pub fn settle(
    property: impl Fn(&PropName) -> Result<Option<u64>, rocksdb::Error>,
    watch: &mut impl Watch,
) -> Result<(), Stop> {
    while busy(&property)? {
        watch.advance(0)?;
        std::thread::sleep(PATIENCE);
    }
    Ok(())
}

fn busy(
    property: &impl Fn(&PropName) -> Result<Option<u64>, rocksdb::Error>,
) -> Result<bool, rocksdb::Error> {
    let signs = [
        rocksdb::properties::NUM_RUNNING_FLUSHES,
        rocksdb::properties::MEM_TABLE_FLUSH_PENDING,
        rocksdb::properties::NUM_RUNNING_COMPACTIONS,
        rocksdb::properties::COMPACTION_PENDING,
    ];
    for sign in signs {
        if property(sign)?.is_some_and(|value| value > 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until coverage is complete.
pub fn cover(db: &SieveDb, watch: &mut impl Watch) -> Result<(), Stop> {
    while !db.filters().wait_until_complete(PATIENCE) {
        watch.advance(0)?;
    }
    Ok(())
}

/// Bits per key of RocksDB's own filters in the default column family.
pub fn native_bits_per_key<T: ThreadMode>(
    engine: &DBWithThreadMode<T>,
) -> Result<f64, rocksdb::Error> {
    let properties = engine.property_value(rocksdb::properties::AGGREGATED_TABLE_PROPERTIES)?;
    let properties = properties.unwrap_or_default();
    let field = |name: &str| aggregated(&properties, name).unwrap_or(0.0);
    let entries = field("# entries");
    let bytes = field("filter block size");
    Ok(if entries > 0.0 {
        bytes * 8.0 / entries
    } else {
        0.0
    })
}

/// Reads one field of RocksDB's text `name=value; name=value; ...`.
pub fn aggregated(properties: &str, name: &str) -> Option<f64> {
    let fields = properties
        .split(';')
        .filter_map(|field| field.split_once('='));
    let mut values = fields
        .filter(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim());
    values.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_the_table_properties_is_found() {
        let text = "# data blocks=2; # entries=400; filter block size=500; filter policy name=N/A";
        assert_eq!(aggregated(text, "# entries"), Some(400.0));
        assert_eq!(aggregated(text, "filter block size"), Some(500.0));
        assert_eq!(aggregated(text, "block size"), None);
    }
}

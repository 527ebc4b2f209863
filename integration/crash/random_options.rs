//! The setup of a database: drawn from a seed, the same at every open of one folder.
//!
//! Everything is small, so that a second of work flushes and compacts many times.

use std::path::Path;

use lsm_sieve::{FilterSize, HashId, Items, OpenError, RocksDb, SieveDb, SieveOptions};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rocksdb::{
    BlockBasedOptions, DBCompactionStyle, DBCompressionType, LogLevel, MemtableFactory,
    MergeOperands, Options,
};

use super::workload::{self, FAMILIES};
use crate::support::model_db::{always_filtered, with_filter_budget};

/// The options of one folder.
#[derive(Clone, Debug)]
pub(super) struct RandomOptions {
    /// The family that is written without a write-ahead log.
    pub(super) unlogged: Option<usize>,
    universal: bool,
    vector: bool,
    pipelined: bool,
    atomic_flush: bool,
    sparse_last_level: bool,
    inner_filter: bool,
    /// None, a plain one, one with a dictionary, one on two threads: each writes SSTs in its own
    /// way.
    compression: u8,
    hash: HashId,
}

impl RandomOptions {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut chance = |share| random.random_bool(share);
        Self {
            unlogged: chance(0.4).then_some(2),
            universal: chance(0.25),
            vector: chance(0.1),
            pipelined: chance(0.25),
            atomic_flush: chance(0.15),
            sparse_last_level: chance(0.2),
            inner_filter: chance(0.3),
            hash: if chance(0.2) {
                HashId::SipHash13
            } else {
                HashId::Xxh3
            },
            compression: random.random_range(0..4),
        }
    }

    /// RocksDB's options, without hooks.
    pub(super) fn options(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_write_buffer_size(64 << 10);
        options.set_arena_block_size(8 << 10);
        options.set_target_file_size_base(32 << 10);
        options.set_max_bytes_for_level_base(128 << 10);
        options.set_level_zero_file_num_compaction_trigger(2);
        options.set_max_write_buffer_number(3);
        options.set_max_total_wal_size(512 << 10);
        options.set_max_background_jobs(2);
        options.set_keep_log_file_num(1);
        options.set_log_level(LogLevel::Fatal);
        options.set_merge_operator_associative("sum", sum);
        options.set_optimize_filters_for_hits(self.sparse_last_level);
        options.set_atomic_flush(self.atomic_flush);
        options.set_compression_type(match self.compression {
            0 => DBCompressionType::None,
            1 => DBCompressionType::Lz4,
            _ => DBCompressionType::Zstd,
        });
        match self.compression {
            2 => options.set_compression_options(-14, 1, 0, 4 << 10),
            3 => options.set_compression_options_parallel_threads(2),
            _ => {}
        }
        options.set_enable_pipelined_write(self.pipelined && !self.atomic_flush);
        if self.universal {
            options.set_compaction_style(DBCompactionStyle::Universal);
        }
        if self.vector {
            options.set_allow_concurrent_memtable_write(false);
            options.set_memtable_factory(MemtableFactory::Vector);
        }
        if self.inner_filter {
            let mut table = BlockBasedOptions::default();
            table.set_bloom_filter(10.0, false);
            options.set_block_based_table_factory(&table);
        }
        options
    }

    /// Settings of the filters, drawn again for each open.
    pub(super) fn sieve(&self, seed: u64) -> SieveOptions {
        let mut random = StdRng::seed_from_u64(seed);
        let mut sieve = always_filtered();
        if let Ok(size) = FilterSize::rate(random.random_range(0.0005..0.1)) {
            sieve = sieve.filter_size(size);
        }
        if random.random_bool(0.8) {
            sieve = sieve.expected_keys(Items::new(random.random_range(16..2_000)));
        }
        if random.random_bool(0.1) {
            sieve = sieve.segment_filters(None);
        }
        if random.random_bool(0.1) {
            let filters = random.random_range(1_000..200_000);
            sieve = with_filter_budget(sieve, filters, FAMILIES.len() as u64);
        }
        sieve = sieve.speed_over_memory(random.random_bool(0.3));
        if random.random_bool(0.5) {
            let hashes = random.random_range(50..2_000);
            sieve = sieve.build_memory(8 * hashes);
        }
        let changed = random.random_bool(0.03);
        sieve.hash(match self.hash {
            HashId::Xxh3 if changed => HashId::SipHash13,
            hash => hash,
        })
    }

    /// The families of a database, including those that must exist.
    fn families(&self, path: &Path) -> Vec<(String, Options)> {
        let mut names = RocksDb::list_cf(&Options::default(), path).unwrap_or_default();
        for family in FAMILIES {
            if !names.iter().any(|name| name == family) {
                names.push(family.to_owned());
            }
        }
        let options = self.options();
        names
            .into_iter()
            .map(|name| (name, options.clone()))
            .collect()
    }

    /// Opens a database with filters.
    pub(super) fn open(&self, path: &Path, sieve: &SieveOptions) -> Result<SieveDb, OpenError> {
        SieveDb::open_cf_with_opts(&self.options(), sieve, path, self.families(path))
    }

    /// Opens a database without the plugin, for writing.
    pub(super) fn open_plain(&self, path: &Path) -> Result<RocksDb, rocksdb::Error> {
        RocksDb::open_cf_with_opts(&self.options(), path, self.families(path))
    }

    /// Opens a database without the plugin, read only. Changes nothing.
    pub(super) fn open_read_only(&self, path: &Path) -> Result<RocksDb, rocksdb::Error> {
        let options = self.options();
        let names = RocksDb::list_cf(&Options::default(), path)?;
        let families: Vec<_> = names
            .into_iter()
            .map(|name| (name, options.clone()))
            .collect();
        RocksDb::open_cf_with_opts_for_read_only(&options, path, families, false)
    }
}

fn sum(_: &[u8], held: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut total = held.map_or(Some(0), workload::number)?;
    for operand in operands {
        total = total.wrapping_add(workload::number(operand)?);
    }
    Some(workload::value(total))
}

//! What a case sets: the options of the engine, in RocksDB's own words, and those of the front.
//!
//! Options are texts, `name=value`, as RocksDB's option files have them: so a case file can be read
//! and edited, a new option is a line in a table here, and a failing case can be retried without
//! each of them.

use lsm_sieve::workload::random::Random;
use lsm_sieve::{Bits, HashId, Items, Rate, SieveOptions};
use rocksdb::{DBCompressionType, LogLevel, Options};
use serde::{Deserialize, Serialize};

use super::keys::KeySettings;
use super::model::{self, FAMILIES};

/// Options of one family, or of the database, each `name=value`.
pub(super) type Texts = Vec<String>;

/// Everything that is fixed before the first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) keys: KeySettings,
    pub(super) front: FrontSettings,
    pub(super) database: Texts,
    pub(super) families: [Texts; FAMILIES.len()],
}

/// How precise a filter is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Precision {
    Rate(f64),
    BitsPerKey(f64),
}

/// The front's options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FrontSettings {
    pub(super) summary: Precision,
    /// None leaves RocksDB its own filters.
    pub(super) segments: Option<Precision>,
    pub(super) expected_keys: u64,
    pub(super) budget_bits: Option<u64>,
    /// SipHash-1-3 instead of XXH3.
    pub(super) keyed: bool,
}

/// Ways to write, which exclude each other.
const WRITES: [&[&str]; 7] = [
    &[],
    &[],
    &["enable_pipelined_write=true"],
    &["unordered_write=true"],
    &[NO_CONCURRENCY],
    &[ATOMIC_FLUSH],
    &["manual_wal_flush=true"],
];

/// While it flushes, a RocksDB 11.8 with this set, and without the plugin too, shows a new table for a
/// moment beside the memtables that it was made of, and a reader meets merge operands twice.
const ATOMIC_FLUSH: &str = "atomic_flush=true";

/// What the vector memtable needs.
const NO_CONCURRENCY: &str = "allow_concurrent_memtable_write=false";

/// One of each line is set for the database.
const DATABASE: [&[&str]; 8] = [
    &["", "max_background_jobs=1", "max_background_jobs=4"],
    &["", "max_open_files=200"],
    &["", "", "max_total_wal_size=65536"],
    &["", "", "db_write_buffer_size=131072"],
    &["", "", "avoid_flush_during_recovery=true"],
    &["", "", "", "avoid_flush_during_shutdown=false"],
    &["", "", "max_subcompactions=3"],
    &["", "", "", "wal_recovery_mode=kAbsoluteConsistency"],
];

/// One of each line is set for a family.
///
/// Two options are left out under which a flush beside another can wait for ever, in RocksDB itself:
/// `min_write_buffer_number_to_merge` above 1 (facebook/rocksdb#12094) and
/// `experimental_mempurge_threshold` (facebook/rocksdb#11250).
const FAMILY: [&[&str]; 17] = [
    &[
        "",
        "compaction_style=kCompactionStyleUniversal",
        "level_compaction_dynamic_level_bytes=false",
    ],
    &[
        "write_buffer_size=16384",
        "write_buffer_size=65536",
        "write_buffer_size=262144",
        "write_buffer_size=1048576",
    ],
    &["", "max_write_buffer_number=4"],
    &["", "", "max_write_buffer_size_to_maintain=1048576"],
    &[
        "",
        "prefix_extractor=fixed:1",
        "prefix_extractor=capped:6",
        "",
        "",
        "",
    ],
    &["", "memtable_prefix_bloom_size_ratio=0.1"],
    &["", "memtable_whole_key_filtering=true"],
    &["", "optimize_filters_for_hits=true"],
    &["level0_file_num_compaction_trigger=2", ""],
    &[
        "target_file_size_base=16384",
        "target_file_size_base=65536",
        "",
    ],
    &["max_bytes_for_level_base=65536", ""],
    &["", "num_levels=3"],
    &["", "", "", "disable_auto_compactions=true"],
    &[
        "",
        "",
        "",
        "enable_blob_files=true;min_blob_size=100;enable_blob_garbage_collection=true",
    ],
    &[
        "",
        "",
        "",
        "",
        "comparator=rocksdb.ReverseBytewiseComparator",
    ],
    &["compression=kNoCompression", "", ""],
    &["", "", "bloom_locality=1"],
];

/// One of each line is set for the tables of a family.
const TABLE: [&[&str]; 9] = [
    &[
        "",
        "filter_policy=bloomfilter:10:false",
        "filter_policy=bloomfilter:1:false",
        "filter_policy=ribbonfilter:10:-1",
        "filter_policy=ribbonfilter:8:1",
    ],
    &["", "block_size=256", "block_size=1024"],
    &["", "", "", "whole_key_filtering=false"],
    &[
        "",
        "",
        "",
        "partition_filters=true;index_type=kTwoLevelIndexSearch;metadata_block_size=256",
    ],
    &["", "cache_index_and_filter_blocks=true"],
    &[
        "",
        "",
        "",
        "",
        "",
        "no_block_cache=true;cache_index_and_filter_blocks=false",
    ],
    &["", "data_block_index_type=kDataBlockBinaryAndHash"],
    &["", "optimize_filters_for_memory=true"],
    &["", "", "format_version=5"],
];

fn one_of_each(random: &mut Random, lines: &[&[&str]]) -> Texts {
    let chosen = lines.iter().map(|line| *random.pick(line));
    chosen
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

impl Settings {
    pub(super) fn draw(random: &mut Random) -> Self {
        let writes = *random.pick(&WRITES);
        let database = draw_database(random, writes);
        Self {
            keys: KeySettings::draw(random),
            front: FrontSettings::draw(random),
            families: FAMILIES.map(|_| draw_family(random, writes)),
            database,
        }
    }

    /// The same, for many threads that read beside flushes.
    pub(super) fn for_a_crowd(mut self) -> Self {
        self.database.retain(|text| text != ATOMIC_FLUSH);
        self
    }

    /// RocksDB's options of a family; those of the database are among them.
    pub(super) fn family(&self, family: usize) -> Result<Options, rocksdb::Error> {
        let own = &self.families[family];
        parse(&[&self.database[..], own].concat())
    }

    /// Whether a family sorts its keys from last to first.
    pub(super) fn is_reversed(&self, family: usize) -> bool {
        self.says(family, "ReverseBytewise")
    }

    /// Whether a family has a prefix extractor: its iterators then cross from prefix to prefix only
    /// if they are told to.
    pub(super) fn has_prefixes(&self, family: usize) -> bool {
        self.says(family, "prefix_extractor")
    }

    fn says(&self, family: usize, word: &str) -> bool {
        self.families[family].iter().any(|text| text.contains(word))
    }
}

/// Options of a database all of whose families are alike and sorted bytewise.
pub(super) fn draw_alike(random: &mut Random) -> Texts {
    let writes = *random.pick(&WRITES);
    let mut texts = draw_database(random, writes);
    texts.extend(draw_family(random, writes));
    texts.retain(|text| !text.contains("Reverse"));
    texts
}

fn draw_database(random: &mut Random, writes: &[&str]) -> Texts {
    let mut texts = one_of_each(random, &DATABASE);
    texts.extend(writes.iter().map(ToString::to_string));
    if writes.contains(&ATOMIC_FLUSH) {
        // It flushes while others write.
        texts.retain(|text| !text.starts_with("db_write_buffer_size"));
    }
    texts
}

fn draw_family(random: &mut Random, writes: &[&str]) -> Texts {
    let mut texts = one_of_each(random, &FAMILY);
    let table = one_of_each(random, &TABLE).join(";");
    if !table.is_empty() {
        texts.push(format!("block_based_table_factory={{{table}}}"));
    }
    if writes.contains(&NO_CONCURRENCY) && random.one_in(2) {
        texts.push("memtable=vector".to_owned());
    }
    if !writes.contains(&"unordered_write=true") && random.one_in(4) {
        texts.push("max_successive_merges=3".to_owned());
    }
    texts
}

/// RocksDB's options by these texts, or what it does not like about them.
pub(super) fn parse(texts: &[String]) -> Result<Options, rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_merge_operator_associative("add", model::add);
    // A case opens its database many times, and each log is a file more to list.
    options.set_log_level(LogLevel::Fatal);
    options.set_keep_log_file_num(1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.get_options_from_string(texts.join(";"))
}

/// A rate from a half to one in ten thousand, in millionths: a decimal so short is the same number
/// when it is read from a case file.
pub(super) fn draw_rate(random: &mut Random) -> f64 {
    const MILLION: f64 = 1e6;
    (0.5 * 2e-4_f64.powf(random.unit()) * MILLION).round() / MILLION
}

impl Precision {
    fn draw(random: &mut Random) -> Self {
        if random.one_in(2) {
            Self::Rate(draw_rate(random))
        } else {
            Self::BitsPerKey(1.0 + random.below(64) as f64)
        }
    }
}

impl FrontSettings {
    pub(super) fn draw(random: &mut Random) -> Self {
        const BUDGETS: [u64; 5] = [0, 511, 4_096, 40_000, 1 << 22];
        Self {
            summary: Precision::draw(random),
            segments: (!random.one_in(4)).then(|| Precision::draw(random)),
            expected_keys: 1 << random.below(13),
            budget_bits: random.one_in(4).then(|| *random.pick(&BUDGETS)),
            keyed: random.one_in(3),
        }
    }

    /// The front's options, or what is wrong with them.
    pub(super) fn options(&self) -> Result<SieveOptions, String> {
        let mut options = SieveOptions::default()
            .segment_rate(None)
            .expected_keys(Items::new(self.expected_keys))
            .hash(if self.keyed {
                HashId::SipHash13
            } else {
                HashId::Xxh3
            });
        if let Some(bits) = self.budget_bits {
            options = options.memory_budget(Bits::new(bits));
        }
        options = match self.summary {
            Precision::Rate(rate) => options.summary_rate(checked(rate)?),
            Precision::BitsPerKey(bits) => options.summary_bits_per_key(bits),
        };
        Ok(match self.segments {
            None => options,
            Some(Precision::Rate(rate)) => options.segment_rate(Some(checked(rate)?)),
            Some(Precision::BitsPerKey(bits)) => options.segment_bits_per_key(bits),
        })
    }
}

fn checked(rate: f64) -> Result<Rate, String> {
    Rate::new(rate).map_err(|error| error.to_string())
}

impl Settings {
    /// The same with one option less, or a default front, in every way.
    pub(super) fn simpler(&self) -> Vec<Self> {
        let plain = FrontSettings::default();
        let mut simpler = Vec::new();
        if self.front != plain {
            simpler.push(Self {
                front: plain,
                ..self.clone()
            });
        }
        for at in 0..self.database.len() {
            let mut less = self.clone();
            less.database.remove(at);
            simpler.push(less);
        }
        for family in 0..self.families.len() {
            for at in 0..self.families[family].len() {
                let mut less = self.clone();
                less.families[family].remove(at);
                simpler.push(less);
            }
        }
        simpler
    }
}

impl Default for FrontSettings {
    /// One percent, and stages small enough that a case fills some.
    fn default() -> Self {
        Self {
            summary: Precision::Rate(0.01),
            segments: Some(Precision::Rate(0.01)),
            expected_keys: 64,
            budget_bits: None,
            keyed: false,
        }
    }
}

//! Options of the engine as RocksDB's option strings.
//!
//! They are texts, `name=value`, as in RocksDB's option files. So a case file can be read and
//! edited, a new option is a line in a table here, and a failing case can be retried without each
//! of them.

use lsm_sieve_cli::workload::random::Random;
use rocksdb::{DBCompressionType, LogLevel, Options};

use super::model;

/// Options of one family, or of the database, each `name=value`.
pub type OptionStrings = Vec<String>;

/// Ways to write, which exclude each other.
pub const WRITES: [&[&str]; 7] = [
    &[],
    &[],
    &["enable_pipelined_write=true"],
    &[UNORDERED_WRITE],
    &[NO_CONCURRENCY],
    &[ATOMIC_FLUSH],
    &["manual_wal_flush=true"],
];

/// During a flush, RocksDB 11.8 with this option, even without the plugin, briefly shows a new SST
/// beside the memtables that it was made from, and a reader sees merge operands twice.
pub const ATOMIC_FLUSH: &str = "atomic_flush=true";

/// Snapshots may then change, and there are no transactions.
pub const UNORDERED_WRITE: &str = "unordered_write=true";

/// An option that the vector memtable needs.
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
/// Two options are left out because a flush beside another can wait for ever, in RocksDB itself:
/// `min_write_buffer_number_to_merge` above 1 (facebook/rocksdb#12094) and
/// `experimental_mempurge_threshold` (facebook/rocksdb#11250).
const FAMILY: [&[&str]; 17] = [
    &[
        "",
        "compaction_style=kCompactionStyleUniversal",
        "compaction_style=kCompactionStyleFIFO;ttl=0",
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

/// One of each line is set for the SSTs of a family.
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

/// Options of a differential store: all families have the same, are sorted bytewise, and drop
/// nothing by themselves.
pub fn draw_alike(random: &mut Random) -> OptionStrings {
    let writes = *random.pick(&WRITES);
    let mut texts = draw_database(random, writes);
    texts.extend(draw_family(random, writes));
    texts.retain(|text| !text.contains("Reverse") && !text.contains("FIFO"));
    texts
}

pub fn draw_database(random: &mut Random, writes: &[&str]) -> OptionStrings {
    let mut texts = one_of_each(random, &DATABASE);
    texts.extend(writes.iter().map(ToString::to_string));
    if writes.contains(&ATOMIC_FLUSH) {
        // It flushes during writes.
        texts.retain(|text| !text.starts_with("db_write_buffer_size"));
    }
    texts
}

pub fn draw_family(random: &mut Random, writes: &[&str]) -> OptionStrings {
    let mut texts = one_of_each(random, &FAMILY);
    let table = one_of_each(random, &TABLE).join(";");
    if !table.is_empty() {
        texts.push(format!("block_based_table_factory={{{table}}}"));
    }
    if writes.contains(&NO_CONCURRENCY) && random.one_in(2) {
        texts.push("memtable=vector".to_owned());
    }
    if !writes.contains(&UNORDERED_WRITE) && random.one_in(4) {
        texts.push("max_successive_merges=3".to_owned());
    }
    texts
}

fn one_of_each(random: &mut Random, lines: &[&[&str]]) -> OptionStrings {
    let chosen = lines.iter().map(|line| *random.pick(line));
    chosen
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

/// RocksDB's options from these texts, or its error.
pub fn parse(texts: &[String]) -> Result<Options, rocksdb::Error> {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_merge_operator_associative("add", model::add);
    // A case opens its database many times, and each log file makes listings longer.
    options.set_log_level(LogLevel::Fatal);
    options.set_keep_log_file_num(1);
    options.set_stats_dump_period_sec(0);
    options.set_stats_persist_period_sec(0);
    options.get_options_from_string(texts.join(";"))
}

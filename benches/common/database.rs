//! The databases of benchmarks over RocksDB.

use rocksdb::{BlockBasedOptions, Cache, DBCompressionType, Options};

/// All is cached, nothing is compressed, and no compaction runs. RocksDB's own Bloom filters have 10
/// bits per key.
pub(crate) fn options() -> Options {
    let mut tables = BlockBasedOptions::default();
    tables.set_block_cache(&Cache::new_lru_cache(4 << 30));
    tables.set_bloom_filter(10.0, false);
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_disable_auto_compactions(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_block_based_table_factory(&tables);
    options
}

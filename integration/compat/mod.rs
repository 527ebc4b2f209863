//! Databases that were written by others or otherwise: without the plugin, by an old RocksDB, with
//! another hash, and with every option of the engine: comparators, timestamps, partitioned filters.

mod adoption;
mod comparators;
mod engine_options;
mod expiry;
mod hash_change;
mod partitions;
mod ssts_without_id;
mod timestamps;

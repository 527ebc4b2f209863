//! Databases that were written by others or otherwise: without the plugin, by an old RocksDB, with
//! another hash, and with every option of the engine.

mod adoption;
mod engine_options;
mod expiry;
mod hash_change;
mod ssts_without_id;

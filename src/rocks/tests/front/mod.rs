//! Tests of `lsm-sieve-front` that need a RocksDB, by its modules.

mod audit;
mod cf_filter;
mod maintenance;

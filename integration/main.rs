//! The integration tests of the library, grouped by what must hold. One binary, because each binary
//! links RocksDB.
//!
//! The commands have their own tests, in `cli` and in `stress`.

mod audits;
mod column_families;
mod compat;
mod crash;
mod faults;
mod filter_files;
mod instances;
mod lifecycle;
mod maintenance;
mod reads;
mod resources;
mod structure;
mod support;
mod transactions;
mod writes;

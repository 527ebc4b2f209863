//! The integration tests of the library: one binary, because each binary links RocksDB.
//!
//! The shared modules are `twin` (a database beside its model), `copy` (the files of a database),
//! `environment` (variables that the tests read) and `skip` (tests that cannot run here). Every
//! other file checks one property. The commands have their own tests, in `cli` and in `stress`.
#![cfg(feature = "rocksdb")]

mod allocator;
mod arrows;
mod audit;
mod budget;
mod calls;
mod closing;
mod copy;
mod counts;
mod crash;
mod damage;
mod differential;
mod environment;
mod expiry;
mod families;
mod family_memory;
mod faults;
mod foreign;
mod ingestion;
mod left_out;
mod maintenance;
mod old_tables;
mod opening;
mod rate;
mod read_only;
mod recovery;
mod second_look;
mod secondary;
mod security;
mod settings;
mod skip;
mod soak;
mod static_filters;
mod transactions;
mod twin;
mod verification;
mod writes;

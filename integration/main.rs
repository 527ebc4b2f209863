//! The integration tests: one binary, because each would link RocksDB anew.
//!
//! `twin` (a database beside its model), `copy` (the files of a database), `environment` (what it asks
//! for) and `skip` (what is missing here) are what the others stand on; every other file is about one
//! thing that must hold. The commands have tests of their own, in `cli` and in `stress`.
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

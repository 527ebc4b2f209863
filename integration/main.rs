//! The integration tests: one binary, because each would link RocksDB anew.
//!
//! `twin` (a database beside its model), `copy` (the files of a database), `cli` (the command) and
//! `skip` (what is missing here) are what the others stand on; every other file is about one thing
//! that must hold.
#![cfg(all(feature = "rocksdb", feature = "cli"))]

mod advise;
mod allocator;
mod arrows;
mod audit;
mod budget;
mod cli;
mod closing;
mod command;
mod copy;
mod crash;
mod damage;
mod differential;
mod examples;
mod expiry;
mod families;
mod faults;
mod figures;
mod foreign;
mod fuzz;
mod gremillion;
mod ingestion;
mod left_out;
mod page;
mod rate;
mod read_only;
mod recovery;
mod reorganize;
mod second_look;
mod secondary;
mod security;
mod settings;
mod skip;
mod static_filters;
mod stress;
mod traces;
mod transactions;
mod twin;
mod verification;
mod writes;

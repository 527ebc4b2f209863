//! The integration tests: one binary, because each would link RocksDB anew.
//!
//! `twin` (a database beside its model) and `copy` (the files of a database) are what the others
//! stand on; every other file is about one thing that must hold.
#![cfg(all(feature = "rocksdb", feature = "cli"))]

mod arrows;
mod budget;
mod command;
mod copy;
mod crash;
mod damage;
mod differential;
mod families;
mod foreign;
mod gremillion;
mod ingestion;
mod model;
mod rate;
mod recovery;
mod reorganize;
mod second_look;
mod settings;
mod twin;
mod verification;
mod writes;

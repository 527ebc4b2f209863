//! A front of scalable Bloom filters for LSM stores: a miss is answered before the engine is entered.
//!
//! A key that was added is never answered absent; a filter is derived, so damage to it costs time,
//! never an answer; every doubt means *maybe*.
//!
//! ```no_run
//! # #[cfg(feature = "rocksdb")] {
//! use lsm_sieve::{SieveDb, SieveOptions};
//!
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let db = SieveDb::open(&options, &SieveOptions::default(), "/tmp/users")?;
//! db.put(b"ada", b"1815")?;
//! assert!(db.get(b"charles")?.is_none()); // hardly ever asks the engine
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! `planted` -> [`math`] -> [`hash`] -> `sync` -> `bits` -> [`filter`] -> `id` -> [`disk`] ->
//! [`mod@format`] -> `threads` -> `rcu` -> [`segment`] -> `stats` -> `rocks` -> `differential` ->
//! `advise` -> `chart` -> `workload`.

#[cfg(feature = "cli")]
pub mod advise;
mod bits;
#[cfg(feature = "cli")]
pub mod chart;
pub mod disk;
pub mod filter;
pub mod format;
pub mod hash;
mod id;
#[cfg(all(test, interleave))]
mod interleavings;
pub mod math;
mod planted;
mod rcu;
pub mod segment;
mod sync;
mod threads;

#[cfg(feature = "rocksdb")]
pub mod differential;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod stats;

pub use hash::HashId;
pub use math::{Bits, Items, Rate, RateError};
#[cfg(feature = "rocksdb")]
pub use rocks::*;
/// The binding whose options, batches and errors [`SieveDb`] takes and gives.
#[cfg(feature = "rocksdb")]
pub use rocksdb;
#[cfg(feature = "rocksdb")]
pub use stats::Stats;
#[cfg(feature = "cli")]
pub mod workload;

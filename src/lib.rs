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
//! It stands on `lsm-sieve-filter` ([`math`], [`hash`], [`filter`]), `lsm-sieve-format` ([`disk`],
//! [`mod@format`]) and `lsm-sieve-support` (fault points, atomics), which have maps of their own.
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! `threads` -> `rcu` -> [`segment`] -> `stats` -> `rocks` -> `differential`.

#[cfg(all(test, interleave))]
mod interleavings;
mod rcu;
pub mod segment;
mod threads;

#[cfg(feature = "rocksdb")]
pub mod differential;
#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod stats;

pub use hash::HashId;
#[doc(inline)]
pub use lsm_sieve_filter::{filter, hash, math};
#[doc(inline)]
pub use lsm_sieve_format::{disk, format};
use lsm_sieve_support::{planted, sync};
pub use math::{Bits, Items, Rate, RateError};
#[cfg(feature = "rocksdb")]
pub use rocks::*;
/// The binding whose options, batches and errors [`SieveDb`] takes and gives.
#[cfg(feature = "rocksdb")]
pub use rocksdb;
#[cfg(feature = "rocksdb")]
pub use stats::Stats;

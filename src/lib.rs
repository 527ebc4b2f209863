//! Scalable Bloom filters in front of an LSM store: a miss is answered before the engine is
//! entered.
//!
//! A key that was added is never answered absent. A filter is derived from the data, so damage to
//! it costs time, never an answer. Every doubt means *maybe*.
//!
//! ```no_run
//! # #[cfg(feature = "rocksdb")] {
//! use lsm_sieve::{SieveDb, SieveOptions};
//!
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let db = SieveDb::open(&options, &SieveOptions::default(), "/tmp/users")?;
//! db.put(b"ada", b"1815")?;
//! assert!(db.get(b"charles")?.is_none()); // almost never enters the engine
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - *A database that you have*: open it with [`SieveDb::open`]. Its SSTs are read in the background
//!   and none is rewritten; [`SieveDb::wait_until_complete`] waits until the filters answer for all
//!   keys.
//! - *Settings*: [`SieveOptions`]. *What the filters do*: [`SieveDb::health`] and [`SieveDb::stats`].
//! - *Taking the filters out*: close the database, open it with RocksDB alone, and remove the folder
//!   `sieve` in it. SSTs that were written meanwhile have no filter for RocksDB until a compaction,
//!   unless [`SieveOptions::segment_filters`] was `None`.
//! - Damaged filters, and filters that cannot be stored, are logged by `tracing` and rebuilt.
//!
//! The crate builds on `lsm-sieve-filter` (the filters), `lsm-sieve-format` (the files) and
//! `lsm-sieve-support` (fault points, atomics). Each of them has its own map.
//!
//! # Map
//!
//! Each module uses only what stands before it: `threads` -> `rcu` -> `prefix` -> `segment` ->
//! `predictor` -> `stats` -> `mutant` -> `front` -> `rocks` -> `differential` -> `lsm` -> `kv` -> `feed` ->
//! `laws`.

// docs.rs builds with nightly and shows which items need a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(feature = "rocksdb"),
    expect(dead_code, reason = "some of `front` serves RocksDB alone")
)]

#[cfg(all(test, interleave))]
mod interleavings;
mod prefix;
mod rcu;
mod segment;
mod threads;

#[cfg(feature = "rocksdb")]
pub mod differential;
pub mod feed;
mod front;
pub mod kv;
pub mod laws;
pub mod lsm;
mod mutant;
mod predictor;
#[cfg(feature = "rocksdb")]
mod rocks;
mod stats;

pub use filter::StageError;
pub use format::PrefixId;
pub use front::audit::FalseNegative;
pub use front::filter_options::FilterOptions;
pub use front::filters::MaintenanceError;
pub use front::health::{CfHealth, PrefixHealth};
pub use front::maintenance::planning::FilterPlan;
pub use front::maintenance::scrub::Scrubbed;
#[cfg(feature = "metrics")]
pub use front::metrics::describe_metrics;
pub use front::opening::FilterFolderError;
pub use front::options::{FilterSize, FilterSizeError};
pub use front::view::{AbsenceProof, Answer};
pub use hash::HashId;
use lsm_sieve_filter::{filter, hash, math};
pub use lsm_sieve_format::segment::{IdentityError, SegmentId, SidecarError};
use lsm_sieve_format::{disk, format};
use lsm_sieve_support::{fault, sync};
pub use math::{Bits, Items, Probes, Rate, RateError};
pub use prefix::{Prefix, PrefixNameError};
#[cfg(feature = "rocksdb")]
pub use rocks::*;
/// The RocksDB binding whose options, batches and errors [`SieveDb`] accepts and returns.
#[cfg(feature = "rocksdb")]
pub use rocksdb;
pub use stats::Stats;

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
//! The crate builds on `lsm-sieve-front` (the filters in front of an engine), `lsm-sieve-filter` (the
//! filters alone), `lsm-sieve-format` (the files) and `lsm-sieve-support` (fault points, atomics).
//! Each of them has its own map.
//!
//! # Map
//!
//! One module: `rocks`.

// docs.rs builds with nightly and shows which items need a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "rocksdb")]
mod rocks;

pub use filter::StageError;
pub use format::PrefixId;
pub use hash::HashId;
use lsm_sieve_filter::{filter, hash, math};
pub use lsm_sieve_format::segment::{IdentityError, SegmentId, SidecarError};
use lsm_sieve_format::{disk, format};
pub use lsm_sieve_front::audit::FalseNegative;
pub use lsm_sieve_front::filter_options::FilterOptions;
pub use lsm_sieve_front::filters::MaintenanceError;
pub use lsm_sieve_front::health::{CfHealth, PrefixHealth};
pub use lsm_sieve_front::maintenance::planning::FilterPlan;
pub use lsm_sieve_front::maintenance::scrub::Scrubbed;
#[cfg(feature = "metrics")]
pub use lsm_sieve_front::metrics::describe_metrics;
pub use lsm_sieve_front::opening::FilterFolderError;
pub use lsm_sieve_front::options::{FilterSize, FilterSizeError};
pub use lsm_sieve_front::prefix::{Prefix, PrefixNameError};
pub use lsm_sieve_front::stats::Stats;
pub use lsm_sieve_front::view::{AbsenceProof, Answer};
use lsm_sieve_support::{fault, sync};
pub use math::{Bits, Items, Probes, Rate, RateError};
#[cfg(feature = "rocksdb")]
pub use rocks::*;
/// The RocksDB binding whose options, batches and errors [`SieveDb`] accepts and returns.
#[cfg(feature = "rocksdb")]
pub use rocksdb;

//! Scalable Bloom filters in front of an LSM store: a miss is answered before the engine is
//! entered.
//!
//! A key that was added is never answered absent. A filter is derived from the data, so damage to
//! it costs time, never an answer. Every doubt means *maybe*.
//!
//! ```no_run
//! use lsm_sieve::{SieveDb, SieveOptions};
//!
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let db = SieveDb::open(&options, &SieveOptions::default(), "/tmp/users")?;
//! db.put(b"ada", b"1815")?;
//! assert!(db.get(b"charles")?.is_none()); // almost never enters the engine
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - *A database that you have*: open it with [`SieveDb::open`]. Its SSTs are read in the background
//!   and none is rewritten; [`Filters::wait_until_complete`] waits until the filters answer for all
//!   keys.
//! - *Settings*: [`SieveOptions`]. *What the filters do*: [`SieveDb::filters`] has their
//!   [`health`](Filters::health) and [`stats`](Filters::stats), and their maintenance.
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
//! Each module uses only what stands before it.
//!
//! | module | contents |
//! |---|---|
//! | `binding` | the database type of `rocksdb`; options of instances that only read |
//! | `options` | [`SieveOptions`]: every setting |
//! | `error` | errors of open, maintenance and reports |
//! | `hooks` | the hooks inside RocksDB and behind its handle, and their self-check; with `db/access`, the only unsafe code |
//! | `engine` | RocksDB as `front` asks it |
//! | `db` | [`SieveDb`]: open, its own reads, transactions; what the filters alone answer |
//! | `report` | inspect, verify: every filter in full, and checked against all keys |
//! | `tests` | tests that need a whole database: blocked flushes, power cuts |

// docs.rs builds with nightly and shows which items need a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod binding;
mod db;
mod engine;
mod error;
pub(crate) mod hooks;
mod options;
mod report;
#[cfg(test)]
pub(crate) mod tests;

pub use binding::RocksDb;
#[doc(hidden)]
pub use binding::read_only;
#[doc(hidden)]
pub use db::CfReader;
pub use db::{Builder, SieveDb, Snapshot, Transaction, TransactionSettings};
pub use error::{InspectError, OpenError};
pub use format::PrefixId;
pub use hash::HashId;
#[doc(hidden)]
pub use hooks::drops_entries;
pub use hooks::sieve::Sieve;
#[doc(hidden)]
pub use hooks::{RawDb, raw_handle, raw_options};
use lsm_sieve_filter::{filter, hash, math};
pub use lsm_sieve_format::segment::{IdentityError, SegmentId, SidecarError};
use lsm_sieve_format::{disk, format};
pub use lsm_sieve_front::audit::FalseNegative;
pub use lsm_sieve_front::filters::{Filters, MaintenanceError};
pub use lsm_sieve_front::health::{CfHealth, FilterMemory, Health, PrefixHealth};
pub use lsm_sieve_front::maintenance::scrub::Scrubbed;
pub use lsm_sieve_front::maintenance::segment_plan::FilterPlan;
#[cfg(feature = "metrics")]
pub use lsm_sieve_front::metrics::describe_metrics;
pub use lsm_sieve_front::opening::FilterFolderError;
pub use lsm_sieve_front::options::{FilterSize, FilterSizeError};
pub use lsm_sieve_front::prefix::{Prefix, PrefixNameError};
pub use lsm_sieve_front::stats::Stats;
pub use lsm_sieve_front::view::{AbsenceProof, Answer};
use lsm_sieve_support::{fault, reach, sync};
pub use math::{Bits, Items, Probes, Rate, RateError};
pub use options::{Isolation, SieveOptions};
pub use report::{CfReport, FilterReport, Inspection, LostKey, SegmentReport, VerifyReport};
/// The RocksDB binding whose options, batches and errors [`SieveDb`] accepts and returns.
pub use rocksdb;

//! Filters for [SlateDB](https://slatedb.io), an LSM store whose SSTs lie in an object store: a
//! reader answers "not there" in a fraction of a microsecond and without a request, from one object
//! per checkpoint beside the data.
//!
//! # Why *absent* is exact
//!
//! A pinned reader reads one manifest `m`, which never changes. Its `get(k)` returns a value only if
//! a row of `k` is in an SST of `m`, or in the log that it replayed while it was opened. The summary
//! of `m` holds every key of every SST of `m`, tombstones included, and names those SSTs by their
//! ids; SSTs never change either. So a reader and a summary that match once match forever, whatever
//! is written, compacted, deleted or collected meanwhile. They are one value ([`PinnedReader`]) and
//! are replaced together. A key is denied only if every SST of the manifest is covered; whatever is
//! missing, damaged, foreign or newer leaves an SST uncovered, and the answer is *maybe*.
//!
//! # Layers
//!
//! 1. [`SievePolicy`]: a filter of this crate inside each SST, in place of SlateDB's own.
//!    [`ScanPolicy`] puts one for scans beside it: of prefixes, and of ranges within one.
//! 2. The filters of all SSTs of a [`SieveReader`] stay in memory. Each new SST takes one request.
//! 3. [`Publisher`] stores one summary filter per checkpoint, so that a new [`SieveReader`] takes
//!    one request for all SSTs.
//!
//! ```text
//!  writer                                     bucket                       readers
//!  put -> log -> memtable                     wal/ compacted/ manifest/
//!     flush: SievePolicy ------------------>  L0 SST with a filter
//!  compactor: SievePolicy ----------------->  SSTs of sorted runs
//!  checkpoint: manifest m
//!     Publisher: every key of m ----------->  sieve/m.sieve (created)      GET sieve/current
//!                                             sieve/current (m, epoch) ->  open DbReader at m, and
//!                                             sieve/identity (seed)        GET sieve/m.sieve
//!                                                                          swap both at once
//! ```
//!
//! A writer that reads its own database has [`SieveWriter`], which feeds each key to a filter before
//! the key is written.
//!
//! ```
//! use lsm_sieve_slatedb::slatedb::config::{CheckpointOptions, CheckpointScope};
//! use lsm_sieve_slatedb::slatedb::{Db, object_store::memory::InMemory};
//! use lsm_sieve_slatedb::{Bucket, Options, Publisher, SieveReader};
//! use std::sync::Arc;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(InMemory::new());
//!
//! // The writer.
//! let bucket = Bucket::create("users", store.clone()).await?;
//! let publisher = Publisher::new(bucket, Options::default());
//! let db = Db::builder("users", store.clone())
//!     .with_filter_policies(vec![Arc::new(publisher.policy())])
//!     .build()
//!     .await?;
//! db.put(b"ada", b"1815").await?;
//! let options = CheckpointOptions::default();
//! let checkpoint = db.create_checkpoint(CheckpointScope::All, &options).await?;
//! publisher.publish(&checkpoint).await?;
//!
//! // A reader, on another machine as a rule.
//! let bucket = Bucket::open("users", store).await?;
//! let reader = SieveReader::open(bucket, Options::default()).await?;
//! assert!(reader.get(b"ada").await?.is_some());
//! assert!(reader.get(b"charles").await?.is_none()); // nearly always without a request
//! reader.refresh().await?; // moves to what is published by now
//! # db.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Not for readers that follow by themselves
//!
//! A `DbReader` in the modes `ManagedCheckpoint` or `FollowLatest` installs a new manifest first and
//! tells of it afterwards. A filter of the manifest before would deny a key that the reader already
//! has, or, with two keys, show the later write and hide the earlier. So no type of this crate takes
//! a `DbReader`: [`SieveReader`] opens pinned ones and moves on by itself.
//!
//! # Map
//!
//! Each module uses only the modules before it: `error`, `answer`, `binding` -> `bucket`,
//! `keys` -> `policy`, `scan_policy`, `ssts`, `current`, `log`, `options` -> `coverage` -> `source` -> `pinned` -> `reader`,
//! `publisher` -> `writer`, `report`. Start with `pinned` and `coverage`.

mod answer;
mod binding;
mod bucket;
mod coverage;
mod current;
mod error;
mod keys;
mod log;
mod options;
mod pinned;
mod policy;
mod publisher;
mod reader;
mod report;
mod scan_policy;
mod source;
mod ssts;
mod writer;

pub use answer::Answer;
pub use bucket::Bucket;
pub use current::Publication;
pub use error::{BucketError, OpenError, PublishError, WriteError};
pub use lsm_sieve_filter::math::Rate;
pub use lsm_sieve_filter::range::RangeError;
pub use options::Options;
pub use pinned::PinnedReader;
pub use policy::SievePolicy;
pub use publisher::{Cleaned, Publisher};
pub use reader::{SieveReader, Stats};
pub use report::{Inspection, Verification, inspect, verify};
pub use scan_policy::ScanPolicy;
pub use slatedb;
pub use writer::{SieveBatch, SieveWriter};

//! A differential file before a main file, in one RocksDB (Severance & Lohman, "Differential Files:
//! Their Application to the Maintenance of Large Databases", ACM TODS 1(3), 1976).
//!
//! The *main file* does not change between reorganisations; the *differential file* takes every
//! update since. Whoever reads must know whether a record has been updated, and the differential
//! file's filter says so: for most records it says no, and the main file is read at once.
//!
//! ```text
//!   put, delete                            get
//!       |                                   |
//!       v                                   v
//!   differential file -- newest -------> filter: maybe? -> read it -> found
//!   differential file -- frozen -------> filter: maybe? -> read it -> found
//!       |  reorganize                       |  absent, all of them: the rule
//!       v                                   v
//!   main file ---------------------------> read it
//! ```
//!
//! Unlike a filter, these files are *data*, and are held to a database's rules.
//!
//! # Files
//!
//! Each file is a column family: `main`, and `differential-<n>` for every *generation* n of the
//! differential file. Writes go to the newest. [`DifferentialStore::freeze`] starts another;
//! [`DifferentialStore::reorganize`] moves the frozen ones into the main file, oldest first, and
//! drops them with their filters. A delete is a record like any other, so it is in the filter: were
//! it not, the reader would be sent to the main file and find what was deleted there.
//!
//! The main file may instead belong to another RocksDB, opened read-only ([`MainFile::Elsewhere`]).
//! Such a store cannot be reorganised, and says so: whoever owns the main file opens it for that.
//!
//! # Filters
//!
//! A generation's filter is the front that [`SieveDb`](crate::SieveDb) gives its column family
//! ([`FilterChoice::Scalable`]). It takes each key on its way into the memtable, on recovery from
//! the log too; it is kept beside the data; and while it is not complete it answers *maybe*. There
//! is no second filter to keep in step, so there is no order of two things to get wrong.
//!
//! [`FilterChoice::Fixed`] is a filter of N bits and m functions, for experiments and for tight
//! memory. The store inserts a key before it writes the record, and reads the keys of the
//! differential file again at each open: it is not kept on disk, so it cannot be stale there.
//!
//! Several generations are asked one after the other and never ORed: the answer must say *which*
//! file to read, and each filter dies with its own file.
//!
//! The main file has a front too, as every column family has. [`DifferentialOptions::ask_main`] says
//! whether reads ask it: it pays where many keys are in no file at all.
//!
//! # Moving records
//!
//! Records are moved in batches that write them to the main file. The generation itself stays whole, and
//! before the main file, until its last record is there; so a reader sees one value before, during and
//! after, a snapshot that is older keeps the file it needs, and to move a record twice does no harm. Now and
//! then, and when a reorganisation is stopped, the store notes up to which key a generation is moved:
//! whoever is killed goes on from there. What was moved is made durable before it is noted, and the note
//! before the generation is dropped.
//!
//! Writers stop only for the moment in which a new generation takes the place of the old; readers
//! never do.
//!
//! ```no_run
//! use lsm_sieve::differential::{DifferentialOptions, DifferentialStore};
//! use std::ops::ControlFlow;
//!
//! let mut options = rocksdb::Options::default();
//! options.create_if_missing(true);
//! let store = DifferentialStore::open(&options, &DifferentialOptions::default(), "/tmp/students")?;
//! store.put(b"ada", b"1815")?;
//! store.reorganize(|_| ControlFlow::Continue(()))?; // now in the main file
//! store.delete(b"ada")?; // in the differential file, and in its filter
//! assert!(store.get(b"ada")?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod batch;
mod error;
mod extent;
mod generation;
mod open;
mod options;
mod read;
mod record;
mod reorganize;
mod scan;
mod snapshot;
mod state;
mod stats;
mod store;

pub use batch::Batch;
pub use error::{DifferentialError, OpenDifferentialError};
pub use extent::Extent;
pub use options::{DifferentialOptions, FilterChoice, MainFile, Trigger};
pub use reorganize::{Progress, Reorganized};
pub use scan::Scan;
pub use snapshot::Snapshot;
pub use stats::DifferentialStats;
pub use store::DifferentialStore;

/// The column family of the main file.
const MAIN: &str = "main";

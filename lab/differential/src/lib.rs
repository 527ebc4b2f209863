//! A differential file in front of a main file, in one RocksDB (Severance & Lohman, "Differential
//! Files: Their Application to the Maintenance of Large Databases", ACM TODS 1(3), 1976).
//!
//! The *main file* does not change between reorganisations. The *differential file* takes every
//! update since the last one. A read must know whether the record has been updated. The filter of
//! the differential file tells: for most records it answers absent, and the main file is read at
//! once.
//!
//! ```text
//!   put, delete                            get
//!       |                                   |
//!       v                                   v
//!   differential file -- newest -------> filter: maybe? -> read it -> found
//!   differential file -- frozen -------> filter: maybe? -> read it -> found
//!       |  reorganize                       |  all absent: the usual case
//!       v                                   v
//!   main file ---------------------------> read it
//! ```
//!
//! Unlike a filter, these files are *data* and are held to a database's rules.
//!
//! # Files
//!
//! Each file is a column family: `main`, and `differential-<n>` for every *generation* n of the
//! differential file. Writes go to the newest generation. [`DifferentialStore::freeze`] starts
//! another. [`DifferentialStore::reorganize`] moves the frozen ones into the main file, oldest
//! first, and drops them with their filters. A delete is a record like any other, so its key is in
//! the filter. Otherwise a reader would go to the main file and find the deleted record there.
//!
//! The main file may instead belong to another RocksDB, opened read-only ([`MainFile::Elsewhere`]).
//! Such a store cannot be reorganised and returns an error. The store that owns the main file can.
//!
//! # Filters
//!
//! By default, a generation's filters are those that [`SieveDb`](lsm_sieve::SieveDb) keeps for its
//! column family ([`FilterChoice::Scalable`]). They take each key on its way into the memtable,
//! also during recovery from the log. They are stored beside the data, and answer *maybe* while
//! they are not complete. The store itself keeps no second filter in step with the data, so it has
//! no order of updates to get wrong.
//!
//! [`FilterChoice::Fixed`] is a filter of N bits and m functions, for experiments and for little
//! memory. The store inserts a key before it writes the record, and reads all keys of the
//! differential file at each open: the filter is not stored on disk, so it cannot be stale there.
//!
//! Several generations are checked one after the other, and their filters are never ORed: the
//! answer must say *which* file to read, and each filter is dropped with its own file.
//!
//! The main file has filters too, as every column family has. [`DifferentialOptions::ask_main`]
//! says whether reads check them. That pays off if many keys are in no file at all.
//!
//! # Moving records
//!
//! Records are moved in batches that write them to the main file. The generation itself stays
//! whole, and in front of the main file, until its last record has been moved. So a reader sees one
//! value before, during and after the move, an older snapshot keeps the file it needs, and moving a
//! record twice does no harm. From time to time, and when a reorganisation is stopped, the store
//! notes up to which key a generation has been moved. If the process is killed, the next
//! reorganisation continues there. The moved records are made durable before the note, and the note
//! before the generation is dropped.
//!
//! Writers wait only while a new generation replaces the old one as the target of writes. Readers
//! never wait.
//!
//! ```no_run
//! use lsm_sieve_differential::{DifferentialOptions, DifferentialStore};
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
mod read_options;
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

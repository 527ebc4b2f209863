//! Errors of opening a store and of operations on an open one.

use std::path::PathBuf;

use lsm_sieve::OpenError;
use lsm_sieve_filter::filter::StageError;

/// A differential store could not be opened. Its records are unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDifferentialError {
    /// There is no database.
    #[error(
        "there is no database at {}: check the path, or set `create_if_missing` to create one",
        path.display()
    )]
    Missing {
        /// Where it was expected.
        path: PathBuf,
    },
    /// The database is not a differential store.
    #[error("{} is not a differential store: {reason}; name another folder", path.display())]
    NotAStore {
        /// The database.
        path: PathBuf,
        /// How it was recognised.
        reason: String,
    },
    /// Another process or handle has the store open for writing.
    #[error("{} is open elsewhere: a store has one writer at a time; close the other first", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
    /// The store's files contradict each other or themselves.
    #[error("{} is damaged: {reason}; restore it from a checkpoint", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The store was written by a later release.
    #[error("{} has layout {found}, newer than this release's {known}: upgrade lsm-sieve", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// The layout version of the store.
        found: u8,
        /// The newest layout version that this release reads.
        known: u8,
    },
    /// The options name another main file than the store was created with.
    #[error(
        "the main file of {} is {kept}, the options say {asked}: open it with the main file that it was created with",
        path.display()
    )]
    OtherMain {
        /// The database.
        path: PathBuf,
        /// Where the store has its main file.
        kept: &'static str,
        /// Where the options place it.
        asked: &'static str,
    },
    /// A compaction filter would drop or change the store's records, including its own state. FIFO
    /// compaction would drop the oldest SSTs, and a dropped delete brings the main file's value
    /// back.
    #[error(
        "{}: the options have a compaction filter or FIFO compaction, which would drop or change the \
         store's records; open it without",
        path.display()
    )]
    DropsEntries {
        /// The database.
        path: PathBuf,
    },
    /// The main file in another database cannot be opened.
    #[error("cannot open the main file, column family {family:?} of {}, read-only", path.display())]
    MainElsewhere {
        /// The other database.
        path: PathBuf,
        /// The column family.
        family: String,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
    /// The comparator does not sort in bytewise order, which scans need for merging.
    #[error("{}: scans need keys in bytewise order: use the default comparator", path.display())]
    Order {
        /// The database.
        path: PathBuf,
    },
    /// The fixed filter could not be created with this size.
    #[error("cannot create the fixed filter")]
    Filter(#[from] StageError),
    /// The engine, or the filters in front of it, could not be opened.
    #[error("cannot open the differential store")]
    Front(#[source] OpenError),
    /// The engine failed while the store's own records were read or written.
    #[error("cannot {operation} while opening {}", path.display())]
    Engine {
        /// The operation that failed.
        operation: &'static str,
        /// The database.
        path: PathBuf,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
}

/// An operation on an open store failed. Writes that were acknowledged before are kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DifferentialError {
    /// A file could not be read.
    #[error("cannot read the {file} file")]
    Read {
        /// Which file.
        file: &'static str,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
    /// The disk is full. RocksDB does not always report it: a write that finds the memtables full,
    /// and no space for an SST, waits until space is freed.
    #[error(
        "the disk is full, and this write is not acknowledged: free space and open the store again \
         to see whether it was kept"
    )]
    DiskFull(#[source] rocksdb::Error),
    /// A write failed.
    #[error(
        "cannot {operation}, and it is not acknowledged: fix the cause and open the store again to \
         see whether it was kept"
    )]
    Write {
        /// The operation that failed.
        operation: &'static str,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
    /// A record of the differential file cannot be decoded.
    #[error(
        "generation {generation} of the differential file is damaged at key {key}: {reason}; \
         restore the store from a checkpoint"
    )]
    Damaged {
        /// The generation.
        generation: u64,
        /// The key, in hexadecimal digits.
        key: String,
        /// What is wrong with its record.
        reason: String,
    },
    /// The main file belongs to another database.
    #[error(
        "the main file is {} and open read-only: reorganise in a store that owns its main file",
        path.display()
    )]
    MainReadOnly {
        /// The other database.
        path: PathBuf,
    },
    /// A new generation could not be started; writes go to the old one as before. If the engine
    /// created its column family and failed afterwards, no other can be started until the store is
    /// opened again.
    #[error("cannot start generation {generation} of the differential file")]
    Freeze {
        /// The number of the new generation.
        generation: u64,
        /// The error of the database.
        source: rocksdb::Error,
    },
    /// The filter of the new generation could not be created; writes go to the old one as before.
    #[error("cannot create the filter of a new generation")]
    Filter(#[from] StageError),
    /// The checkpoint could not be written.
    #[error("cannot write a checkpoint to {}: it must not exist, and must be on the same file system for its files to be linked", path.display())]
    Checkpoint {
        /// The folder of the checkpoint.
        path: PathBuf,
        /// The error of RocksDB.
        source: rocksdb::Error,
    },
}

impl DifferentialError {
    pub(super) fn read(file: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| Self::Read { file, source }
    }

    pub(super) fn write(operation: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| {
            // RocksDB has no error kind for it. The text is the system's.
            if source.as_ref().contains("No space left on device") {
                Self::DiskFull(source)
            } else {
                Self::Write { operation, source }
            }
        }
    }
}

//! What can go wrong: when a store is opened, and afterwards.

use std::path::PathBuf;

use crate::OpenError;
use crate::filter::StageError;

/// A differential store could not be opened. Its records are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenDifferentialError {
    /// There is nothing to open.
    #[error(
        "there is no database at {}: check the path, or set `create_if_missing` to make one",
        path.display()
    )]
    Missing {
        /// Where one was expected.
        path: PathBuf,
    },
    /// The database holds something else.
    #[error("{} is not a differential store: {reason}; name another folder", path.display())]
    NotAStore {
        /// The database.
        path: PathBuf,
        /// What gave it away.
        reason: String,
    },
    /// Someone else has it open for writing.
    #[error("{} is open elsewhere: a store has one writer at a time; close the other first", path.display())]
    Locked {
        /// The database.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// Its files contradict each other or themselves.
    #[error("{} is damaged: {reason}; restore it from a checkpoint", path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// It was written by a later release.
    #[error("{} has layout {found}, newer than this release's {known}: upgrade lsm-sieve", path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// The layout that it names.
        found: u8,
        /// The newest layout that this release reads.
        known: u8,
    },
    /// The main file is not where the options say.
    #[error(
        "the main file of {} is {kept}, the options say {asked}: open it with the main file that it was made with",
        path.display()
    )]
    OtherMain {
        /// The database.
        path: PathBuf,
        /// Where the store was made with its main file.
        kept: &'static str,
        /// Where the options look for it.
        asked: &'static str,
    },
    /// A compaction filter would drop or change what the store has written, its own state too, and FIFO
    /// compaction drops it with the oldest tables: a delete that goes brings the main file's value back.
    #[error(
        "{}: the options have a compaction filter or FIFO compaction, which would drop or change the \
         store's records; open it without",
        path.display()
    )]
    DropsEntries {
        /// The database.
        path: PathBuf,
    },
    /// The main file of another database cannot be read.
    #[error("cannot open the main file, column family {family:?} of {}, read-only", path.display())]
    MainElsewhere {
        /// The other database.
        path: PathBuf,
        /// The column family.
        family: String,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The comparator sorts in another order than the scans merge.
    #[error("{}: scans need keys in bytewise order: use the default comparator", path.display())]
    Order {
        /// The database.
        path: PathBuf,
    },
    /// There is no filter of this size.
    #[error("the fixed filter cannot be made")]
    Filter(#[from] StageError),
    /// The front or the engine refuses.
    #[error("cannot open the differential store")]
    Front(#[source] OpenError),
    /// The engine failed while the store's own records were read or made.
    #[error("cannot {operation} while opening {}", path.display())]
    Engine {
        /// What was being done.
        operation: &'static str,
        /// The database.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
}

/// An operation on an open store failed. What was acknowledged before is kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DifferentialError {
    /// A file could not be read.
    #[error("cannot read the {file} file")]
    Read {
        /// Which one.
        file: &'static str,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The disk is full. RocksDB does not always say so: a write that finds its memory full, and no
    /// room for a table, waits until space is freed.
    #[error(
        "the disk is full, and this write is not acknowledged: free space and open the store again, \
         which shows whether it is kept"
    )]
    DiskFull(#[source] rocksdb::Error),
    /// A write was not taken.
    #[error(
        "cannot {operation}, and it is not acknowledged: see to the cause and open the store again, \
         which shows whether it is kept"
    )]
    Write {
        /// What was being done.
        operation: &'static str,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// A record of the differential file cannot be understood.
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
    /// A new generation could not be started; writes go to the old one as before. Where the engine made
    /// its column family and failed afterwards, none can be until the store is opened again.
    #[error("cannot start generation {generation} of the differential file")]
    Freeze {
        /// Its number.
        generation: u64,
        /// What the front or the engine says.
        source: OpenError,
    },
    /// The new generation's filter could not be made; writes go to the old one as before.
    #[error("cannot make the filter of a new generation")]
    Filter(#[from] StageError),
    /// No copy was made.
    #[error("cannot write a checkpoint to {}: it must not exist, on the same file system for links", path.display())]
    Checkpoint {
        /// Where to.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
}

impl DifferentialError {
    pub(super) fn read(file: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| Self::Read { file, source }
    }

    pub(super) fn write(operation: &'static str) -> impl FnOnce(rocksdb::Error) -> Self {
        move |source| {
            // RocksDB names no kind for it; the text is the system's.
            if source.as_ref().contains("No space left on device") {
                Self::DiskFull(source)
            } else {
                Self::Write { operation, source }
            }
        }
    }
}

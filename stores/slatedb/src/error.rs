//! Errors by operation. Each names the object and the remedy, and keeps its cause.

use lsm_sieve_filter::math::Items;
use lsm_sieve_format::format::FormatError;
use slatedb::object_store::{self, path::Path};
use std::io;

/// Why an object of `sieve/` could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// The object store reported an error.
    #[error("cannot {action} {path}; try again once the store answers")]
    Store {
        /// What was tried.
        action: &'static str,
        /// The object.
        path: Path,
        /// The store's error.
        source: Box<object_store::Error>,
    },
    /// The object is damaged, or of a newer version.
    #[error("{path} is of no use")]
    Format {
        /// The object.
        path: Path,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The object is larger than it may be.
    #[error("{path} has {found} bytes, more than the {most} that are read; see `Options`")]
    TooLarge {
        /// The object.
        path: Path,
        /// Its size.
        found: u64,
        /// The largest size that is read.
        most: u64,
    },
    /// The operating system supplied no random bytes for a new identity.
    #[error("no random bytes for a new identity")]
    Random(#[from] io::Error),
    /// The database has no identity.
    #[error("{0} does not exist; publish a summary first, for example with `sieve-bucket attach`")]
    NoIdentity(Path),
}

/// Why a reader could not be opened or moved to a newer checkpoint. A reader that is open stays at
/// its checkpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nothing was published for this database.
    #[error("{0} does not exist; publish a summary first, for example with `sieve-bucket attach`")]
    NotPublished(Path),
    /// `sieve/current` is of another database.
    #[error(
        "{0} is of another identity than this reader; open the bucket again if the database was \
         made anew, or delete the object if only `sieve/identity` was"
    )]
    Foreign(Path),
    /// An object of `sieve/` could not be read.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// SlateDB could not open the checkpoint.
    #[error(
        "SlateDB cannot open checkpoint {checkpoint}; if it has expired, publish a new one with a \
         longer lifetime"
    )]
    Engine {
        /// The checkpoint.
        checkpoint: uuid::Uuid,
        /// SlateDB's error.
        source: slatedb::Error,
    },
}

/// Why a summary could not be published. Publishing again is always safe.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// A newer checkpoint is published already.
    #[error(
        "manifest {manifest} of epoch {epoch} is published already, which is newer; another writer \
         has taken over"
    )]
    Superseded {
        /// The epoch of the writer that is published.
        epoch: u64,
        /// The manifest that is published.
        manifest: u64,
    },
    /// `sieve/current` is of another database.
    #[error(
        "{0} is of another identity than this publisher; open the bucket again if the database was \
         made anew, or delete the object if only `sieve/identity` was"
    )]
    Foreign(Path),
    /// The manifest of the checkpoint is gone.
    #[error("manifest {0} does not exist; the checkpoint has expired, so create another")]
    NoManifest(u64),
    /// Other publishers were faster each time.
    #[error("{0} was changed by others at each of {1} tries; let one publisher do it")]
    Contended(Path, u32),
    /// The filter could not be made.
    #[error("no memory for a summary of {0} keys; raise the rate, or `Options::max_summary_keys`")]
    Memory(Items),
    /// An object of `sieve/` could not be read or written.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// SlateDB could not read a manifest or an SST.
    #[error("SlateDB cannot read what the checkpoint consists of; try again")]
    Engine(#[from] slatedb::Error),
}

/// Why a write failed, or a writer could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// SlateDB reported an error. Whether the write took place is as with SlateDB alone.
    #[error(transparent)]
    Engine(#[from] slatedb::Error),
    /// A summary could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

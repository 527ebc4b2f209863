//! What can go wrong when a database is opened.

use std::error::Error;
use std::path::PathBuf;

use super::options::SieveOptions;
use crate::math::Rate;
use crate::segment::{IdentityError, SidecarError};

/// A database or a column family could not be opened behind filters. No key was touched.
///
/// Its text says why, down to the last cause; [`source`](Error::source) gives the causes one by one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options ask for something that filters over key bytes cannot serve, or that has not
    /// been proved to work with them.
    #[error(
        "column family {column:?} cannot be fronted: {reason}; any but the default one can be left out \
         (`SieveOptions::leave_out`)"
    )]
    Unsupported {
        /// The column family.
        column: String,
        /// Why, and what to do.
        reason: String,
    },
    /// No filter keeps such a rate.
    #[error("no filter keeps the rate {0}; ask for {least} or more", least = SieveOptions::LEAST_RATE)]
    Rate(Rate),
    /// A database is a folder.
    #[error("cannot open {}: it is a file, and a database is a folder", path.display())]
    IsAFile {
        /// What is no folder.
        path: PathBuf,
    },
    /// RocksDB did not open the database.
    #[error("RocksDB cannot open {}: {source}", path.display())]
    Engine {
        /// The database.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// RocksDB did not create the column family.
    #[error("RocksDB cannot create column family {column:?}: {source}")]
    Create {
        /// The column family.
        column: String,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The folder of filters cannot be used.
    #[error("cannot use the filter folder: {}", with_causes(.0))]
    Folder(#[source] Box<SidecarError>),
    /// Who the database is cannot be read or written down.
    #[error("cannot use the identity of the filters: {}", with_causes(.0))]
    Identity(#[source] Box<IdentityError>),
    /// This RocksDB is not the one that the plugin was built for.
    #[error(
        "the private layout of this RocksDB is not the one that lsm-sieve was built for; build \
         with exactly the versions of `rocksdb` and `librocksdb-sys` that its Cargo.toml names"
    )]
    Layout,
    /// A hook was installed and does not fire.
    #[error(
        "{what} does not fire: RocksDB was built from other sources than lsm-sieve expects; build \
         with exactly the versions of `rocksdb` and `librocksdb-sys` that its Cargo.toml names"
    )]
    HooksSilent {
        /// Which one.
        what: &'static str,
    },
    /// The scratch database of the self-check could not be used.
    #[error(
        "RocksDB cannot make a temporary database, which the self-check of the hooks needs: {0}"
    )]
    Probe(#[source] rocksdb::Error),
    /// The upkeep thread could not be started.
    #[error("cannot start the upkeep thread: {0}")]
    Thread(#[source] std::io::Error),
}

/// The state of the filters could not be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// RocksDB could not list the tables of a column family.
    #[error("cannot list the live tables of column family {column:?}: {reason}")]
    List {
        /// The column family.
        column: String,
        /// What RocksDB says.
        reason: String,
    },
    /// RocksDB could not read the keys of a table.
    #[error("cannot read the keys of {path}: {reason}")]
    Read {
        /// The table's file.
        path: String,
        /// What RocksDB says.
        reason: String,
    },
    /// A table gave another number of entries than it says it holds.
    #[error("{path} holds {expected} entries but {found} were read")]
    Miscount {
        /// The table's file.
        path: String,
        /// The entries that it says it holds.
        expected: u64,
        /// Those that were read.
        found: u64,
    },
    /// Whoever was asked whether to go on said no.
    #[error("stopped before all was checked; nothing was changed")]
    Stopped,
}

/// Upkeep could not finish what it was asked for; what may come right it tries again by itself.
#[derive(Clone, Debug, thiserror::Error)]
#[error("upkeep did not finish, and tries again what may come right: {0}")]
pub struct UpkeepFailed(pub(crate) String);

/// An error, and what caused it, down to the last.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

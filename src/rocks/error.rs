//! What can go wrong when a database is opened.

use std::path::PathBuf;

use crate::segment::{IdentityError, SidecarError};

/// A database could not be opened behind filters. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The options ask for something that filters over key bytes cannot serve, or that has not
    /// been proved to work with them.
    #[error("column family {column:?} cannot be fronted: {reason}")]
    Unsupported {
        /// The column family.
        column: String,
        /// Why, and what to do.
        reason: String,
    },
    /// RocksDB did not open the database.
    #[error("RocksDB cannot open {}: {source}", path.display())]
    Engine {
        /// The database.
        path: PathBuf,
        /// What RocksDB says.
        source: rocksdb::Error,
    },
    /// The folder of filters cannot be used.
    #[error("cannot use the filter folder")]
    Folder(#[source] Box<SidecarError>),
    /// Who the database is cannot be read or written down.
    #[error("cannot use the identity of the filters")]
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
    #[error("the self-check of the hooks failed: {0}")]
    Probe(rocksdb::Error),
    /// The upkeep thread could not be started.
    #[error("cannot start the upkeep thread")]
    Thread(#[source] std::io::Error),
}

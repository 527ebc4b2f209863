//! Errors of open, maintenance and reports.

use std::error::Error;
use std::path::PathBuf;

use lsm_sieve_front::segment::{IdentityError, SidecarError};

/// A database or a column family could not be opened with filters. No key was touched.
///
/// The text gives the reason with all its causes. [`source`](Error::source) gives the causes one by
/// one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The options ask for something that filters over key bytes cannot serve, or that has not been
    /// proved to work with them.
    #[error(
        "column family {cf:?} cannot have filters: {reason}; any but the default one can be \
         excluded (`SieveOptions::exclude_cfs`)"
    )]
    Unsupported {
        /// The column family.
        cf: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The settings of the filters do not go together, or not with this way to open.
    #[error("cannot open with these settings: {reason}")]
    Settings {
        /// Why, and what to do.
        reason: String,
    },
    /// No file can have this path.
    #[error("cannot open {}: {source}", path.display())]
    Path {
        /// The path of the database.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The function that was to open RocksDB opened it otherwise than requested.
    #[error(
        "the function that opened RocksDB {what}; let it open with exactly the options, the column \
         families and the access that it is given"
    )]
    Opener {
        /// What it did instead.
        what: &'static str,
    },
    /// The path is a file, and a database is a folder.
    #[error("cannot open {}: it is a file; give the folder of a database", path.display())]
    IsAFile {
        /// The path.
        path: PathBuf,
    },
    /// RocksDB could not open the database.
    #[error("RocksDB cannot open {}: {source}{}", path.display(), remedy(source))]
    Engine {
        /// The path of the database.
        path: PathBuf,
        /// RocksDB's error.
        source: rocksdb::Error,
    },
    /// The folder of filters cannot be used.
    #[error("cannot use the filter folder: {}", with_causes(.0))]
    Folder(#[source] Box<SidecarError>),
    /// The identity of the database cannot be read or written.
    #[error("cannot read or write the identity of the filters: {}", with_causes(.0))]
    Identity(#[source] Box<IdentityError>),
    /// This is not the RocksDB that the plugin was built for.
    #[error(
        "this RocksDB does not have the private layout that lsm-sieve was built for; build with \
         exactly the versions of `rocksdb` and `librocksdb-sys` that its Cargo.toml names"
    )]
    Layout,
    /// A hook was installed but does not fire.
    #[error(
        "{what} does not fire: RocksDB was built from other sources than lsm-sieve expects; build \
         with exactly the versions of `rocksdb` and `librocksdb-sys` that its Cargo.toml names"
    )]
    HooksSilent {
        /// The hook.
        what: &'static str,
    },
    /// The handle of the database was not found in its object, or more than one was.
    #[error(
        "the C handle of the database cannot be told apart in `rocksdb`'s object: `rocksdb` is not \
         the version that lsm-sieve was built for; build with exactly the one that its Cargo.toml \
         names"
    )]
    Handle,
    /// The self-check could not use its scratch database.
    #[error("RocksDB cannot create the in-memory database for the self-check of the hooks: {0}")]
    Probe(#[source] rocksdb::Error),
    /// The maintenance thread could not be started.
    #[error("cannot start the maintenance thread: {0}")]
    Thread(#[source] std::io::Error),
}

impl OpenError {
    /// Why a column family is not supported.
    pub(super) fn unsupported(cf: &str, reason: String) -> Self {
        Self::Unsupported {
            cf: cf.to_owned(),
            reason,
        }
    }

    /// Settings that are not supported, for this reason.
    pub(super) fn settings(reason: impl ToString) -> Self {
        Self::Settings {
            reason: reason.to_string(),
        }
    }

    /// An error if there is a reason to refuse a column family.
    pub(super) fn refuse(cf: &str, reason: Option<String>) -> Result<(), Self> {
        reason.map_or(Ok(()), |reason| Err(Self::unsupported(cf, reason)))
    }
}

/// The state of the filters could not be reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// RocksDB could not list the SSTs of a column family.
    #[error("cannot list the live SSTs of column family {cf:?}: {reason}")]
    List {
        /// The column family.
        cf: String,
        /// RocksDB's error.
        reason: String,
    },
    /// RocksDB could not read the keys of an SST.
    #[error("cannot read the keys of {path}: {reason}")]
    Read {
        /// The file of the SST.
        path: String,
        /// RocksDB's error.
        reason: String,
    },
    /// An SST does not have the number of entries that its properties give.
    #[error("{path} holds {expected} entries but {found} were read")]
    Miscount {
        /// The file of the SST.
        path: String,
        /// The entries by its properties.
        expected: u64,
        /// The entries that were read.
        found: u64,
    },
    /// The caller's callback stopped the work.
    #[error("stopped before all was checked; nothing was changed")]
    Stopped,
}

/// What to do about the errors of RocksDB that everybody meets, whose text does not say it. A path in
/// the text may contain such a phrase as well.
fn remedy(error: &rocksdb::Error) -> &'static str {
    let remedies = [
        (
            "Column families not opened",
            "; name them all: `SieveDb::list_cf` lists them, the builder's `cfs` opens them",
        ),
        (
            "create_if_missing is false",
            "; check the path, or set `Options::create_if_missing`",
        ),
        (
            "While lock file",
            "; another process has it open: stop it, or follow it as a secondary (`Builder::secondary`)",
        ),
        (
            "lock hold by",
            "; this process has it open already: close that one, or share it in an `Arc`",
        ),
    ];
    let text: &str = error.as_ref();
    let known = remedies.iter().find(|(sign, _)| text.contains(sign));
    known.map_or("", |(_, remedy)| remedy)
}

/// The text of an error with all its causes.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

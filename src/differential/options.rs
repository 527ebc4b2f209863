//! What a differential store may be told.

use std::path::PathBuf;

use crate::math::{Bits, Items, Probes, Rate};
use crate::rocks::SieveOptions;

/// Settings of a [`DifferentialStore`](super::DifferentialStore).
#[derive(Clone, Debug)]
pub struct DifferentialOptions {
    /// How the filters of all files are made and kept.
    pub front: SieveOptions,
    /// The filter of the differential file.
    pub filter: FilterChoice,
    /// Where the main file is.
    pub main: MainFile,
    /// Whether the main file's front is asked before the main file is read. It spares the engine
    /// the reads of records that are in no file, and costs those of all others a cache line or two.
    pub ask_main: bool,
    /// Whether a write waits until the disk has it. Without, an acknowledged write survives the
    /// death of the process, but not always that of the machine.
    pub sync: bool,
    /// The bytes after which a batch of a reorganisation or a load is written; one record more
    /// may be in it, so that 0 writes each by itself. Writers wait for the one that is being
    /// written.
    pub batch_bytes: usize,
}

impl Default for DifferentialOptions {
    fn default() -> Self {
        Self {
            front: SieveOptions::default(),
            filter: FilterChoice::default(),
            main: MainFile::default(),
            ask_main: true,
            sync: false,
            batch_bytes: 1 << 19,
        }
    }
}

/// The filter that says whether the differential file must be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterChoice {
    /// Grows with the file and keeps the front's rate.
    #[default]
    Scalable,
    /// N bits and m functions, whatever comes: Gremillion's and Mullin's filter. Reads that it
    /// sends straight to the main file are audited, one in so many as [`SieveOptions::audit`] says;
    /// one that is refuted is asked no more until the store is opened again, the others are.
    Fixed {
        /// N, a multiple of 64.
        bits: Bits,
        /// m, from 1 to 64.
        probes: Probes,
    },
}

/// Where the main file is. A store keeps to the one that it was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MainFile {
    /// In the store's own database.
    #[default]
    Here,
    /// A column family of another RocksDB, read as it is when the store is opened.
    Elsewhere {
        /// The other database.
        path: PathBuf,
        /// The column family: `default`, or `main` for that of another store.
        family: String,
    },
}

impl MainFile {
    pub(super) const fn place(&self) -> &'static str {
        match self {
            Self::Here => "its own",
            Self::Elsewhere { .. } => "another database's",
        }
    }
}

/// When it is time to reorganise; see [`DifferentialStore::is_due`](super::DifferentialStore::is_due).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// When someone says so.
    ByHand,
    /// When the differential file takes so many bytes, in memory and on disk.
    Bytes(u64),
    /// When it holds so many keys.
    Records(Items),
    /// When so large a share of the reads of unmodified records would search it in vain.
    FilterRate(Rate),
    /// After so many transactions since the last reorganisation, or since the store was opened: the
    /// interval of a cost model's plan, such as `math::differential::Advice` of `lsm-sieve-classics`.
    Transactions(u64),
}

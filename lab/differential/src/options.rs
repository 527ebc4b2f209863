//! The options of a differential store.

use std::path::PathBuf;

use lsm_sieve::SieveOptions;
use lsm_sieve_filter::math::{Bits, Items, Probes, Rate};

/// Options of a [`DifferentialStore`](super::DifferentialStore).
#[derive(Clone, Debug)]
pub struct DifferentialOptions {
    /// Options for the filters of all files.
    pub filters: SieveOptions,
    /// The kind of filter for the differential file.
    pub filter: FilterChoice,
    /// Where the main file is.
    pub main: MainFile,
    /// Whether the filters of the main file are checked before it is read. That saves reads of
    /// records that are in no file, and costs all other reads a cache line or two.
    pub ask_main: bool,
    /// Whether a write waits until it is on the disk. If not, an acknowledged write survives a
    /// crash of the process, but not always one of the machine.
    pub sync: bool,
    /// A batch of a reorganisation or of a load is written once it has this many bytes. It may have
    /// one record more, so 0 writes each record by itself. Other writers wait while a batch is
    /// being written.
    pub batch_bytes: usize,
}

impl Default for DifferentialOptions {
    fn default() -> Self {
        Self {
            filters: SieveOptions::default(),
            filter: FilterChoice::default(),
            main: MainFile::default(),
            ask_main: true,
            sync: false,
            batch_bytes: 1 << 19,
        }
    }
}

/// The filter that decides whether the differential file must be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FilterChoice {
    /// Grows with the file and keeps the false-positive rate of [`SieveOptions`].
    #[default]
    Scalable,
    /// N bits and m functions, however many keys come: the filter of Gremillion and of Mullin. A
    /// sample of the reads that it sends straight to the main file is audited, as
    /// [`SieveOptions::audit`] says. A filter with a false negative is not used until the store is
    /// opened again; the others still are.
    Fixed {
        /// N, a multiple of 64.
        bits: Bits,
        /// m, from 1 to 64.
        probes: Probes,
    },
}

/// Where the main file is. A store keeps the main file that it was created with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MainFile {
    /// In the store's own database.
    #[default]
    Here,
    /// In a column family of another RocksDB, in its state when the store is opened.
    Elsewhere {
        /// The other database.
        path: PathBuf,
        /// The column family: `default`, or `main` if the other database is a store as well.
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

/// When it is time to reorganise; see
/// [`DifferentialStore::is_due`](super::DifferentialStore::is_due).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Never; the caller decides.
    ByHand,
    /// If the differential file has this many bytes, in memory and on disk.
    Bytes(u64),
    /// If it has this many keys.
    Records(Items),
    /// If this share of the reads of unmodified records would search it and find nothing.
    FilterRate(Rate),
    /// After this many transactions since the last reorganisation, or since the store was opened.
    /// Such an interval comes from a cost model's plan, for instance `math::differential::Advice`
    /// of `lsm-sieve-classics`.
    Transactions(u64),
}

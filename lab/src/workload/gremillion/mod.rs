//! Gremillion's experiment (CACM 25(9), 1982): how often a Bloom filter causes an unnecessary
//! search of the differential file.
//!
//! ```text
//! 100,000 transactions, each reads one record        ~30,000 records are read
//! some of them then update it                          7,000 records are updated
//! filters of 16,384 to 65,536 bits, 4, 6, 8 functions     21 cells
//! ```
//!
//! [`transactions`] draws the transactions, and [`target`] answers them. [`run`] runs them on every cell
//! for every seed and compares the means with the exact rates of [`crate::math::differential`].
//! [`published`] has the printed rates, and [`error_floor`] the model that explains them. What is not
//! known of the original (order, skew, hash functions, whether the filter started empty) is an
//! option here: [`Access`], [`Start`] and [`Hashing`].

pub mod error_floor;
pub mod published;
pub mod report;
pub mod run;
#[cfg(feature = "rocksdb")]
pub mod stored;
pub mod target;

mod interval;

pub use interval::Interval;
pub use lsm_sieve_cli::workload::gremillion::{self as transactions, Access, Scale, Script};
pub use run::{Cell, Experiment, Outcome, Trial};
pub use target::{Hashing, Target};

/// The keys in the filter before the first transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// All records that will be updated.
    Preloaded,
    /// None: each update adds its record.
    Empty,
}

//! Stores that only the benchmarks work on.

#[cfg(feature = "rocksdb")]
mod differential;
#[cfg(test)]
#[path = "../../../../crates/cli/src/workload/store/map.rs"]
pub(crate) mod map;
#[cfg(feature = "rocksdb")]
mod transactions;

#[cfg(feature = "rocksdb")]
pub use differential::Differential;
#[cfg(feature = "rocksdb")]
pub use transactions::{PlainTransactions, SieveTransactions};

#[cfg(any(test, feature = "rocksdb"))]
use lsm_sieve_cli::workload::store::{Space, Store, WithFilters};

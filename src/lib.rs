//! A front of scalable Bloom filters for LSM stores: a miss is answered before the engine is entered.
//!
//! A key that was added is never answered absent; a filter is derived, so damage to it costs time,
//! never an answer; every doubt means *maybe*.
//!
//! Each module uses only what stands before it:
//! [`math`] -> [`hash`] -> `bits` -> [`filter`] -> [`disk`] -> [`format`] -> [`segment`] -> `stats`
//! -> `rocks`.

mod bits;
pub mod disk;
pub mod filter;
pub mod format;
pub mod hash;
pub mod math;
mod rcu;
pub mod segment;
mod threads;

#[cfg(feature = "rocksdb")]
mod rocks;
#[cfg(feature = "rocksdb")]
mod stats;

pub use hash::HashId;
pub use math::{Bits, Items, Rate, RateError};
#[cfg(feature = "rocksdb")]
pub use rocks::*;
#[cfg(feature = "rocksdb")]
pub use stats::Stats;
#[cfg(feature = "cli")]
pub mod workload;

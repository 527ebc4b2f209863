//! A front of scalable Bloom filters for LSM stores: a miss is answered before the engine is entered.
//!
//! A key that was added is never answered absent; a filter is derived, so damage to it costs time,
//! never an answer; every doubt means *maybe*.
//!
//! Each module uses only what stands before it:
//! [`math`] -> [`hash`] -> `bits` -> [`filter`] -> `disk` -> [`format`] -> [`segment`].

pub mod filter;
pub mod hash;
pub mod math;
pub mod segment;
#[cfg(feature = "cli")]
pub mod workload;

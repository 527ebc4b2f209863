//! Bloom filters that grow, merge and are stored: the filters that lsm-sieve puts in front of an
//! LSM store.
//!
//! A key that was added is never answered absent; every doubt means *maybe*.
//!
//! # Map
//!
//! Each module uses only the modules before it: [`math`] -> [`hash`] -> `bits` -> [`filter`] ->
//! [`range`] -> `id`.

#[doc(hidden)]
pub mod bits;
pub mod filter;
pub mod hash;
#[doc(hidden)]
pub mod id;
pub mod math;
pub mod range;

pub use id::SegmentId;

use lsm_sieve_support::{fault, reach, sync};

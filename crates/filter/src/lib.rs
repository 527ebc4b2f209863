//! Bloom filters that grow, merge and are stored: what lsm-sieve puts before an LSM store.
//!
//! A key that was added is never answered absent; every doubt means *maybe*.
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! [`math`] -> [`hash`] -> `bits` -> [`filter`] -> `id` -> [`plan`].

#[doc(hidden)]
pub mod bits;
pub mod filter;
pub mod hash;
#[doc(hidden)]
pub mod id;
pub mod math;
pub mod plan;

pub use id::SegmentId;

use lsm_sieve_support::{planted, sync};

//! The parts of the command `lsm-sieve`, for its tests, its examples and the workspace's tools.
//!
//! This crate is not part of the library and makes no promise of stability.
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! [`advise`] -> [`chart`] -> [`workload`] -> `outcome` -> `output` -> `progress`.

pub mod advise;
pub mod chart;
#[doc(hidden)]
pub mod outcome;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod progress;
pub mod workload;

#[cfg(feature = "rocksdb")]
use lsm_sieve::differential;
use lsm_sieve_classics::{filter, math};
use lsm_sieve_filter::hash;

//! What the command `lsm-sieve` is made of, for its tests, its examples and the tools beside it: no
//! part of the library, and of no promise.
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
use lsm_sieve::hash;
use lsm_sieve_classics::{filter, math};

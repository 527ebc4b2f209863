//! The files that lsm-sieve keeps: filters beside the data that they speak for. No engine here.
//!
//! # Map
//!
//! Each module uses only what stands before it: [`disk`] -> [`mod@format`] -> [`segment`].

pub mod disk;
pub mod format;
pub mod segment;

use lsm_sieve_filter::{filter, hash, id, math};
use lsm_sieve_support::planted;
#[cfg(any(test, feature = "memory-disk"))]
use lsm_sieve_support::sync;

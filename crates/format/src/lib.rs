//! The files of lsm-sieve: filters stored beside the data that they cover. No engine is used here.
//!
//! # Map
//!
//! Each module uses only modules to its left: [`disk`] -> [`mod@format`] -> [`segment`].

pub mod disk;
pub mod format;
pub mod segment;

use lsm_sieve_filter::{filter, hash, id, math};
use lsm_sieve_support::fault;
#[cfg(any(test, feature = "memory-disk"))]
use lsm_sieve_support::sync;

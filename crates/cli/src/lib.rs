//! The parts of the command `lsm-sieve`, for its tests, its examples, the workspace's tools and the
//! command of `lab`.
//!
//! This crate is not part of the library and makes no promise of stability.
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! [`advise`] -> [`workload`] -> `outcome` -> `output` -> `progress` -> `output_file` ->
//! `database_folder` -> `engine` -> `weight` -> `replaying`.

pub mod advise;
#[doc(hidden)]
pub mod database_folder;
#[cfg(feature = "rocksdb")]
#[doc(hidden)]
pub mod engine;
#[doc(hidden)]
pub mod outcome;
#[doc(hidden)]
pub mod output;
#[doc(hidden)]
pub mod output_file;
#[doc(hidden)]
pub mod progress;
#[cfg(feature = "rocksdb")]
#[doc(hidden)]
pub mod replaying;
#[cfg(feature = "rocksdb")]
#[doc(hidden)]
pub mod weight;
pub mod workload;

use lsm_sieve_filter::math;

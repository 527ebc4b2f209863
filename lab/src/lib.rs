//! The parts of the command `lsm-sieve-lab`, for its tests and examples.
//!
//! # Map
//!
//! Each module uses only what stands before it:
//! [`advise`] -> [`chart`] -> [`workload`].

pub mod advise;
pub mod chart;
pub mod workload;

use lsm_sieve_classics::{filter, math};

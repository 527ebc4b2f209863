//! Filters and formulas of the literature that lsm-sieve itself does not use for lookups.
//!
//! - [`filter`]: filters of counters, which can remove and count keys; tables of hash codes;
//!   filters over a sliding window.
//! - [`math`]: formulas of papers and textbooks on filters and differential files.
//!
//! # Map
//!
//! Each module uses only what stands before it: [`math`] -> [`filter`].

pub mod filter;
pub mod math;

use lsm_sieve_filter::{bits, hash};
use lsm_sieve_support::fault;

//! Filters and formulas of the literature, beside the ones that lsm-sieve answers with.
//!
//! - [`filter`]: filters of counters, which remove and count; of codes; over a window.
//! - [`math`]: what papers and textbooks say of filters, and of differential files.
//!
//! # Map
//!
//! Each module uses only what stands before it: [`math`] -> [`filter`].

pub mod filter;
pub mod math;

use lsm_sieve_filter::{bits, hash};
use lsm_sieve_support::planted;

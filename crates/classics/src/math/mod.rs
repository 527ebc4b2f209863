//! The formulas of the literature, beside those of [`lsm_sieve_filter::math`] that size the filters;
//! its symbols, and its sources.

pub mod counting;
pub mod differential;
pub mod hash_coding;
pub mod ladder;
pub mod textbook;
pub mod window;

#[doc(no_inline)]
pub use lsm_sieve_filter::math::*;

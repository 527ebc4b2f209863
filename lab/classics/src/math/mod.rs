//! The formulas of the literature, in addition to those of [`lsm_sieve_filter::math`] that size the
//! filters. Symbols and sources are the same as there.

pub mod classic;
pub mod counting;
pub mod differential;
pub mod grandi;
pub mod hash_coding;
pub mod ladder;
pub mod partitioned;
pub mod standard;
pub mod textbook;
pub mod window;

#[doc(no_inline)]
pub use lsm_sieve_filter::math::*;

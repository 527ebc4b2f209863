//! The mathematics of the filters: pure, in `f64`, one function a formula.
//!
//! | symbol | type | meaning |
//! |---|---|---|
//! | p | [`Rate`] | probability that an absent key is answered *maybe* |
//! | n | [`Items`] | distinct keys inserted |
//! | m | [`Bits`] | bits of a filter (or of one slice, where a formula says so) |
//! | k | [`Probes`] | bits a key sets |
//!
//! No other module calls `ln`, `exp` or `powf`.

mod units;

pub use units::{Bits, Items, Probes, Rate, RateError};

//! Advice before filters are put before an engine: whether they pay.
//!
//! The answer is plain data with its reasons. It is computed by [`crate::math`] alone.

pub mod front;
pub mod statistics;

//! Advice before a filter is built: how large it is.
//!
//! The answer is plain data with its reasons. It is computed by [`crate::math`] alone.

pub mod design;
pub mod filter;

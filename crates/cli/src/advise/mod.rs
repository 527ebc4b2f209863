//! Advice before a filter is built: how large it is, and whether filters before an engine pay.
//!
//! Both answers are plain data with their reasons. They are computed by [`crate::math`] alone.

pub mod design;
pub mod filter;
pub mod front;
pub mod statistics;

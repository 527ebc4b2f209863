//! Advice before anything is built: how large a filter is, and whether a front pays.
//!
//! Both answers are plain data with their reasons, computed by [`crate::math`] alone.

pub mod design;
pub mod filter;
pub mod front;
pub mod statistics;

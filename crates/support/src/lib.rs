//! What the crates of lsm-sieve share, not meant for other users: fault points, states that searches
//! should reach, and atomics and locks that a checker of interleavings can replace.
//!
//! # Map
//!
//! `fault` -> `reach` -> `sync`.

#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod reach;
#[doc(hidden)]
pub mod sync;

//! What the crates of lsm-sieve share, not meant for other users: fault points, and atomics and
//! locks that a checker of interleavings can replace.
//!
//! # Map
//!
//! `fault` -> `sync`.

#[doc(hidden)]
pub mod fault;
#[doc(hidden)]
pub mod sync;

//! Tests that need a whole database, and what they share.

pub(crate) mod blocked_flush;
mod power;

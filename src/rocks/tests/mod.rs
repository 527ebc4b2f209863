//! Tests that need a whole database, and what they share.

mod announcements;
pub(crate) mod blocked_flush;
mod power;
mod view_changes;

//! Tests that need a whole database, and what they share.

mod announcements;
pub(crate) mod blocked_flush;
mod front;
mod memtable_keys;
mod power;
mod view_changes;

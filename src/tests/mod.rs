//! Tests that need a whole database, and what they share.

mod announcements;
pub(crate) mod blocked_flush;
mod cached_readers;
mod memtable_keys;
mod power;
mod table_origin;
mod view_changes;

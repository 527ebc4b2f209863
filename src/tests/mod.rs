//! Tests that need a whole database, and what they share.

mod announcements;
pub(crate) mod blocked_flush;
mod cached_readers;
mod half_catch_up;
mod health;
mod memtable_keys;
#[cfg(feature = "metrics")]
mod metrics;
mod power;
mod table_origin;
mod view_changes;

//! Filters for an LSM store of your own.
//!
//! The store keeps its log, memtables, segments and versions. [`LsmFilters`] keeps one summary
//! filter over all keys and one filter per segment, in a folder beside the data. A lookup consults
//! them before it reads anything:
//!
//! ```text
//! write      Memtable::insert ──► the store's memtable            (before a reader can see the key)
//! flush,     begin_segment ─► add every entry ─► seal ─► install  (its id is stored in the segment)
//! merge
//! lookup     LsmFilters::get ── absent ──► not found
//!                │ maybe
//!            memtables, then each segment whose SegmentFilter says *maybe*
//! ```
//!
//! # When *absent* is exact
//!
//! A key is answered absent only if the store keeps these rules. The module `laws` tests them.
//!
//! 1. **Fed before visible.** A key is in [`Memtable::insert`] before any reader can find it.
//! 2. **Complete before trusted.** [`Lsm::segments`] lists every segment that a reader may read,
//!    from before the [`Memtable`] of its keys is dropped until no reader uses it. Until all of
//!    them are covered, no key is denied.
//! 3. **A segment never changes.** Its 16-byte id is random ([`SegmentBuild::id`]), is stored in
//!    the segment itself, and never names other bytes.
//! 4. **A merge brings no key.** Flush, compaction, expiry and range deletes only move or remove
//!    keys.
//! 5. **External writes are announced.** [`LsmFilters::external_writes`] is held while keys arrive
//!    without a [`Memtable`]: ingestion, restore, a copied file.
//! 6. **Keys are equal if and only if their bytes are.** A comparator that calls more keys equal
//!    must be given canonical bytes.
//! 7. **Only stored keys are looked up.** A read that returns what is not stored, such as a default
//!    value, a view, or a merge that creates, does not use the filter.
//! 8. **One owner.** One process at a time has the folder open for writing.
//! 9. **A read is one state.** A lookup at an old snapshot may check the filters only if the live
//!    segments still hold every entry that the snapshot sees.
//!
//! # Map
//!
//! `segment_info` -> `mutants` -> `engine` -> `memtable` -> `segment` -> `merge` -> `filters`

mod engine;
mod filters;
mod memtable;
mod merge;
#[cfg_attr(not(feature = "laws"), path = "no_mutants.rs")]
mod mutants;
mod segment;
mod segment_info;
#[cfg(test)]
#[cfg(not(interleave))]
mod tests;

pub use engine::Lsm;
pub use filters::{ExternalWrites, LsmFilters};
pub use memtable::Memtable;
pub use merge::{MergeReport, MergedFilter};
pub use segment::{SegmentBuild, SegmentFilter};
pub use segment_info::SegmentInfo;

//! A filter before any key-value store, all of whose writes come through here.
//!
//! A B-tree or another store without segments gets one summary filter over all its keys, in a
//! folder beside the data. [`FilteredStore`] owns the [`Store`]: it adds the keys of each write to
//! the filter before the write is committed, and answers an absent key without a read.
//!
//! # After a restart
//!
//! The stored filter may be trusted only if it holds every key that the store has. [`Recovery`]
//! says how that is known:
//!
//! ```text
//!            in each commit                    at the next open
//! Scan       nothing                           all keys are read, in the background
//! Position   one record of 16 bytes            trusted if the store is as it was when the filter
//!                                              was saved (after a close); otherwise as Scan
//! Journal    and the hashes of the new keys    trusted after the hashes since then were added
//! ```
//!
//! Until the filter is trusted, every key is read from the store.
//!
//! The records are part of the store's own atomic commit, so commits need no sync for them: a store
//! that loses its last commits in a crash loses their records with them. A state of the store has
//! a random name, so a state that comes after such a loss is not taken for another.
//!
//! A store may go back to an earlier state, with its records: a savepoint is restored, or an older
//! copy of its files is put back while it is closed. The stored filter does not go back with it. It
//! is removed before external writes begin, and an open that trusts no filter gives the store's state
//! a new name. So no filter is bound to a name under which the store had other keys.
//!
//! # When *absent* is exact
//!
//! A key is answered absent only if the store keeps these rules. The module `laws` tests them.
//!
//! 1. **Fed before visible.** [`Store::keys_of`] names every key that a batch may bring; in
//!    [`FilteredStore::write`], [`Write::insert`] comes before the commit.
//! 2. **Complete before trusted.** [`Store::scan`] passes every key that was committed before it
//!    was called. An early end is an error.
//! 3. **Records are part of the commit.** A commit stores its records and its keys, or neither, and
//!    commits are lost in their order.
//! 4. **Nothing else brings a key.** Expiry and range deletes only remove keys.
//! 5. **Other writes are announced**: restore, import, a second handle, by
//!    [`FilteredStore::external_writes`]. They begin after that returned, and end before its value is
//!    dropped.
//! 6. **Keys are equal if and only if their bytes are.**
//! 7. **Only stored keys are looked up.** A read that returns what is not stored, such as a default
//!    value, a view, or a merge that creates, does not use the filter.
//! 8. **One owner, one folder.** One process at a time has the store and the folder open. An older copy
//!    of the folder is not put back once external writes came, unless with a copy of the store from
//!    the same moment. Nor do two folders take turns on a store that restores savepoints: the records
//!    that come back would make the other's filter trusted. Remove the folder instead.
//! 9. **A read is one state.** Lookups answer for the current state. What reads an old snapshot
//!    reads the store.
//!
//! # Map
//!
//! `batch` -> `store` -> `recovery` -> `link` -> `write` -> `filtered`

mod batch;
mod filtered;
mod link;
mod recovery;
mod store;
#[cfg(test)]
#[cfg(not(interleave))]
mod tests;
mod write;

pub use batch::Batch;
pub use filtered::{ExternalWrites, FilteredStore, OpenError};
pub use link::DistrustError;
pub use recovery::Recovery;
pub use store::{Record, Store};
pub use write::Write;

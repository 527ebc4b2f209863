//! A filter that follows the change feed of a store that others write to.
//!
//! *"This key did not exist at position P or later"*: the answer is causal, **not linearizable**.
//! The filter knows the store up to the position that it has followed it to. A key that another
//! client wrote a moment ago may be answered absent, unless the caller asks for the position of
//! that write.
//!
//! A position is what the store numbers its changes by: etcd's revision, a sequence number, an
//! offset. [`Follower`] takes the changes in their order; [`FeedFilter`] answers lookups on any
//! number of threads. A caller passes the newest position that it knows of, for instance of its own
//! last write or of the message that made it ask:
//!
//! ```
//! use lsm_sieve_stores::{FilterOptions, Items};
//! use lsm_sieve_stores::feed::Follower;
//!
//! # let folder = tempfile::tempdir()?;
//! let mut follower = Follower::open(folder.path(), 1, &FilterOptions::default())?;
//! let filter = follower.filter();
//! assert!(!filter.is_absent(b"ada", 0)); // nothing is known yet
//!
//! let snapshot = follower.snapshot(Items::new(1));
//! snapshot.insert(b"ada");
//! follower.install(snapshot, 7); // the store had these keys at position 7
//! assert!(filter.is_absent(b"charles", 7));
//! assert!(!filter.is_absent(b"charles", 8)); // not that far yet
//!
//! follower.apply(7, 8, ["charles"])?;
//! assert!(!filter.is_absent(b"charles", 8));
//! assert!(filter.is_absent(b"emmy", 8));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # When *absent* is exact
//!
//! 1. **A snapshot has every key** that the store had at its position. An early end is no snapshot.
//! 2. **A position is applied whole**: [`Follower::apply`] gets every key that its changes may have
//!    brought.
//! 3. **No hole.** Each change says which position it comes after, by the numbers of the feed and
//!    not by those of the filter. If the filter is not that far, it is distrusted until the next
//!    snapshot. So is a feed that says that it lost changes, by [`Follower::distrust`].
//! 4. **The feed covers all keys that are looked up.** A feed of one prefix shows no changes
//!    elsewhere; look up only keys with that prefix.
//! 5. **Positions of one feed never restart.** A store that is restored from a backup is another
//!    feed, and has another number. If the number was not changed and the store is behind
//!    [`Follower::position`], call [`Follower::distrust`] or install a snapshot: either removes
//!    the stored filter durably. If the store has passed that position, the restore cannot be
//!    detected.
//! 6. **Keys are equal if and only if their bytes are.**
//! 7. **Only stored keys are looked up**, not ranges, defaults or views.
//! 8. **One follower** has the folder open.
//!
//! After a restart the filter is at the position that it was saved for. `at_least` 0 is then answered
//! as of that position, so it may deny what this very program wrote later.
//!
//! # Map
//!
//! `filter` -> `follower`

pub(crate) mod filter;
mod follower;
#[cfg(all(test, interleave))]
mod interleavings;
#[cfg(test)]
#[cfg(not(interleave))]
mod tests;

pub use filter::{FeedFilter, FeedStats};
pub use follower::{FeedError, Follower, Snapshot};

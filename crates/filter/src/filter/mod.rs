//! The filters: sets of key hashes that answer *absent* or *maybe*, never *absent* for a member.
//!
//! - [`Stage`]: a filter of fixed size, in one of five layouts ([`Kind`]); its [`Shape`] and its
//!   words are all there is to it, so that it can be stored, ORed, folded and expanded. One layout is
//!   static and takes all keys at once, in a third fewer bits: [`Stage::ribbon`].
//! - [`Scalable`]: stages that open one after another while keys arrive, with one promised rate.
//! - [`Chain`]: stages that are sealed and tied to a hash function and a seed.
//!
//! All are a [`Filter`], and those that take every key at any time an [`Insert`].
//!
//! Insertion into stages takes `&self` and any number of threads. A key is in the filter for
//! whoever learns of it after its `insert` returned, by whatever synchronisation they learn of it.
//!
//! Space may run out: a [`Scalable`] then turns *saturated* and answers *maybe* to everything.

mod blocked;
mod chain;
mod classic;
mod glance;
mod layout;
mod lens;
#[doc(hidden)]
pub mod merge;
mod partitioned;
#[doc(hidden)]
pub mod probe;
mod ribbon;
mod scalable;
mod shape;
mod stage;
mod standard;

#[cfg(any(test, feature = "laws"))]
#[doc(hidden)]
pub mod laws;
#[cfg(any(test, feature = "laws"))]
#[doc(hidden)]
pub mod naive;

pub use chain::Chain;
#[doc(hidden)]
pub use glance::{AtLine, AtWindow, Glance};
#[doc(hidden)]
pub use lens::{ByWords, Lens, Look, through_best};
pub use merge::{Mismatch, ResizeError};
pub use ribbon::RibbonBuilder;
pub use scalable::{Scalable, ScalableOptions};
pub use shape::{Kind, Shape, ShapeError};
pub use stage::{Stage, StageError};

use crate::hash::KeyHash;
use crate::math::{Bits, Items};

/// What every filter answers, however it came by its keys; the laws that bind them are in the tests.
pub trait Filter {
    /// False only for a key that was never inserted, or validly removed as often as it was.
    fn may_contain(&self, hash: KeyHash) -> bool;

    /// Keys inserted, without those that looked as if they were in already; a key that two threads
    /// insert at the same moment may count for both. A filter that removes counts insertions less removals.
    fn items(&self) -> Items;

    /// Memory taken by bits, counters or cells.
    fn size(&self) -> Bits;

    /// The chance that a key never inserted is answered *maybe*, computed from [`Filter::items`],
    /// and from the counters where these count insertions.
    fn predicted_rate(&self) -> f64;
}

/// Filters that take every key, at any time.
///
/// With one writer as a rule. Of a filter that any number of threads fill the reference is an
/// `Insert` too, as `&File` is a `Write`. A [`Chain`] is none, for it is sealed, nor is a table
/// that refuses keys when it is full.
pub trait Insert {
    /// Adds a key; false when the filter already answered *maybe* for it.
    fn insert(&mut self, hash: KeyHash) -> bool;
}

/// The traits by the types' own methods of the same names.
#[doc(hidden)]
#[macro_export]
macro_rules! filters {
    ($($filter:ty $(where $generic:ident: $bound:ident)?),*) => {$(
        impl$(<$generic: $bound>)? $crate::filter::Filter for $filter {
            fn may_contain(&self, hash: $crate::hash::KeyHash) -> bool {
                <$filter>::may_contain(self, hash)
            }

            fn items(&self) -> $crate::math::Items {
                <$filter>::items(self)
            }

            fn size(&self) -> $crate::math::Bits {
                <$filter>::size(self)
            }

            fn predicted_rate(&self) -> f64 {
                <$filter>::predicted_rate(self)
            }
        }
    )*};
}

/// The same of [`Insert`].
#[doc(hidden)]
#[macro_export]
macro_rules! inserts {
    ($($filter:ty $(where $generic:ident: $bound:ident)?),*) => {$(
        impl$(<$generic: $bound>)? $crate::filter::Insert for $filter {
            fn insert(&mut self, hash: $crate::hash::KeyHash) -> bool {
                <$filter>::insert(self, hash)
            }
        }
    )*};
}

filters!(Stage, Scalable, Chain);
inserts!(Stage, Scalable);

impl Insert for &Stage {
    fn insert(&mut self, hash: KeyHash) -> bool {
        Stage::insert(self, hash)
    }
}

impl Insert for &Scalable {
    fn insert(&mut self, hash: KeyHash) -> bool {
        Scalable::insert(self, hash)
    }
}

impl<F: Insert + ?Sized> Insert for &mut F {
    fn insert(&mut self, hash: KeyHash) -> bool {
        F::insert(self, hash)
    }
}

/// As many keys as are looked up before the first of them is finished: enough to keep every miss
/// buffer of a core busy, few enough that no line leaves the first-level cache before it is looked
/// at.
const BATCH: usize = 32;

/// Answers `hashes` into `answers` a batch at a time: first all prefetches, then all tests.
///
/// The layout is chosen once a batch and not once a key, which is half of the time.
///
/// # Panics
/// When the slices differ in length.
fn test_many<'a>(
    stages: impl Iterator<Item = &'a Stage> + Clone,
    hashes: &[KeyHash],
    answers: &mut [bool],
) {
    assert_eq!(hashes.len(), answers.len(), "one answer a hash");
    answers.fill(false);
    for (hashes, answers) in hashes.chunks(BATCH).zip(answers.chunks_mut(BATCH)) {
        stages.clone().for_each(|stage| stage.prefetch_each(hashes));
        stages
            .clone()
            .for_each(|stage| stage.test_each(hashes, answers));
    }
}

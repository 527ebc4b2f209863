//! The filters: sets of key hashes that answer *absent* or *maybe*, never *absent* for a member.
//!
//! - [`Stage`]: a filter of fixed size. It consists of its [`Shape`] and its words, so it can be
//!   stored and ORed. Its layout is blocked, or static: that takes all keys at once and needs a
//!   third fewer bits ([`Stage::ribbon`]).
//! - [`Scalable`]: stages that open one after another while keys arrive, with one false-positive
//!   rate for all of them.
//! - [`Chain`]: stages that are sealed and tied to a hash function and a seed.
//!
//! All of them are a [`Filter`]. Those that take any key at any time are an [`Insert`].
//!
//! Any number of threads may insert into a stage through `&self`. If another thread synchronises
//! with the inserting one after `insert` returned, by whatever means, the filter answers *maybe* to
//! it.
//!
//! If a [`Scalable`] runs out of space, it becomes *saturated* and answers *maybe* to everything.

mod blocked;
#[doc(hidden)]
pub mod chain;
#[doc(hidden)]
pub mod layout;
#[doc(hidden)]
pub mod merge;
#[doc(hidden)]
pub mod probe;
mod ribbon;
#[doc(hidden)]
pub mod scalable;
mod shape;
mod simd;
#[doc(hidden)]
pub mod stage;

#[cfg(any(test, feature = "laws"))]
#[doc(hidden)]
pub mod laws;
#[cfg(any(test, feature = "laws"))]
#[doc(hidden)]
pub mod naive;
#[cfg(any(test, feature = "laws"))]
mod subjects;

pub use merge::Mismatch;
pub use ribbon::RibbonBuilder;
pub use scalable::ScalableOptions;
pub use shape::{Kind, Shape, ShapeError};
#[doc(hidden)]
pub use simd::{Scalar, Simd, WithSimd, dispatch};
pub use stage::StageError;

use crate::hash::KeyHash;
use crate::math::{Bits, Items};
use layout::{Layout, StoreLayout};

/// A filter of fixed size, in a layout of [`Kind::Blocked`] or [`Kind::Ribbon`].
pub type Stage = stage::Stage<StoreLayout>;
/// A filter that grows, of stages of those layouts.
pub type Scalable = scalable::Scalable<StoreLayout>;
/// A sealed filter, of stages of those layouts.
pub type Chain = chain::Chain<StoreLayout>;

/// The interface of every filter, however it was filled. The laws that all filters obey are in the
/// tests.
pub trait Filter {
    /// False only for a key that was never inserted, or was validly removed as often as it was
    /// inserted.
    fn may_contain(&self, hash: KeyHash) -> bool;

    /// The number of keys inserted. A key that was already answered *maybe* when it was inserted is
    /// not counted. A key that two threads insert at the same time may be counted twice. A filter
    /// that supports removal counts insertions less removals.
    fn items(&self) -> Items;

    /// The memory taken by bits, counters or cells.
    fn size(&self) -> Bits;

    /// The probability that a key that was never inserted is answered *maybe*. Computed from
    /// [`Filter::items`], and from the counters if the filter counts insertions.
    fn predicted_rate(&self) -> f64;
}

/// Filters that take any key at any time.
///
/// As a rule they need one writer. If any number of threads may fill a filter, a reference to it is
/// an `Insert` too, as `&File` is a `Write`. A [`Chain`] is not an `Insert`, because it is sealed,
/// nor is a table that refuses keys when it is full.
pub trait Insert {
    /// Adds a key; false if the filter already answered *maybe* for it.
    fn insert(&mut self, hash: KeyHash) -> bool;
}

/// Implements [`Filter`] by the types' own methods of the same names.
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

/// Implements [`Insert`] by the types' own methods of the same names.
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

filters!(stage::Stage<L> where L: Layout, scalable::Scalable<L> where L: Layout);
filters!(chain::Chain<L> where L: Layout);
inserts!(stage::Stage<L> where L: Layout, scalable::Scalable<L> where L: Layout);

impl<L: Layout> Insert for &stage::Stage<L> {
    fn insert(&mut self, hash: KeyHash) -> bool {
        stage::Stage::insert(self, hash)
    }
}

impl<L: Layout> Insert for &scalable::Scalable<L> {
    fn insert(&mut self, hash: KeyHash) -> bool {
        scalable::Scalable::insert(self, hash)
    }
}

impl<F: Insert + ?Sized> Insert for &mut F {
    fn insert(&mut self, hash: KeyHash) -> bool {
        F::insert(self, hash)
    }
}

/// The number of keys that are prefetched before the first of them is probed: enough to keep every
/// miss buffer of a core busy, few enough that no line leaves the L1 cache before it is probed.
const BATCH: usize = 32;

/// Answers `hashes` into `answers` in batches: first all prefetches, then all probes.
///
/// The layout is matched once per batch instead of once per key, which halves the time.
///
/// # Panics
/// If the slices differ in length.
fn test_many<'a, L: Layout + 'a>(
    stages: impl Iterator<Item = &'a stage::Stage<L>> + Clone,
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

//! The filters of the literature, in addition to those of [`lsm_sieve_filter::filter`].
//!
//! Filters of counters take four times the bits or more and allow one writer:
//!
//! - [`Counting`] can remove inserted keys.
//! - [`Spectral`] and [`MinimalIncrease`] estimate how often a key was inserted; the estimate is
//!   never too low. [`RecurringMinimum`] is more exact, but can also be too low.
//! - [`Growing`] is a scalable filter with stages of any of the first three.
//!
//! Two filters do not keep the promise that an inserted key is never answered *absent*, and say so
//! at the top of their files: [`Composite`] can deny an inserted key, and [`Sliding`] forgets keys
//! by design. All others implement [`Filter`], and those that take every key at any time also
//! [`Insert`]. [`HashCoding`] is the method of 1970 with which Bloom compared his filter.
//!

mod composite;
mod counters;
mod counting;
mod growing;
mod hash_coding;
pub mod layout;
mod probe;
mod recurring;
pub mod resize;
mod sliding;
mod spectral;

#[cfg(test)]
mod laws;
#[cfg(test)]
#[allow(
    unreachable_pub,
    dead_code,
    reason = "they are public beside the stages of a store"
)]
#[path = "../../../../crates/filter/src/filter/laws/mod.rs"]
mod laws_of_filters;
#[cfg(test)]
mod subjects;

pub use composite::{Composite, Membership, RemovedForEver};
pub use counters::CounterWidth;
pub use counting::{Counting, NotInserted};
pub use growing::{Countable, Growing, Growth, RemoveError};
pub use hash_coding::{Full, HashCoding, MAX_CODE_BITS};
pub use recurring::RecurringMinimum;
pub use resize::ResizeError;
pub use sliding::{Sliding, SlidingOptions, Turn};
pub use spectral::{MinimalIncrease, Multiset, RaiseAll, RaiseLeast, Rule, Spectral};

/// A filter of fixed size, in any layout.
pub type Stage = lsm_sieve_filter::filter::stage::Stage<AnyLayout>;
/// A filter that grows, of stages of any layout.
pub type Scalable = lsm_sieve_filter::filter::scalable::Scalable<AnyLayout>;
/// A sealed filter, of stages of any layout.
pub type Chain = lsm_sieve_filter::filter::chain::Chain<AnyLayout>;

use layout::AnyLayout;
use lsm_sieve_filter::filter::merge;
#[cfg(test)]
use lsm_sieve_filter::filter::naive;
#[doc(no_inline)]
pub use lsm_sieve_filter::filter::{
    Filter, Insert, Kind, Mismatch, ScalableOptions, Shape, ShapeError, StageError,
};

lsm_sieve_filter::filters!(HashCoding, Counting, RecurringMinimum);
lsm_sieve_filter::filters!(Multiset<R> where R: Rule, Growing<S> where S: Countable);
lsm_sieve_filter::inserts!(Counting, RecurringMinimum);
lsm_sieve_filter::inserts!(Multiset<R> where R: Rule, Growing<S> where S: Countable);

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
mod recurring;
mod sliding;
mod spectral;

#[cfg(test)]
mod laws;

pub use composite::{Composite, Membership, RemovedForEver};
pub use counters::CounterWidth;
pub use counting::{Counting, NotInserted};
pub use growing::{Countable, Growing, Growth, RemoveError};
pub use hash_coding::{Full, HashCoding, MAX_CODE_BITS};
pub use recurring::RecurringMinimum;
pub use sliding::{Sliding, SlidingOptions, Turn};
pub use spectral::{MinimalIncrease, Multiset, RaiseAll, RaiseLeast, Rule, Spectral};

#[doc(no_inline)]
pub use lsm_sieve_filter::filter::{
    Chain, Filter, Insert, Kind, Mismatch, ResizeError, Scalable, ScalableOptions, Shape,
    ShapeError, Stage, StageError,
};
#[cfg(test)]
use lsm_sieve_filter::filter::{laws as laws_of_filters, naive};
use lsm_sieve_filter::filter::{merge, probe};

lsm_sieve_filter::filters!(HashCoding, Counting, RecurringMinimum);
lsm_sieve_filter::filters!(Multiset<R> where R: Rule, Growing<S> where S: Countable);
lsm_sieve_filter::inserts!(Counting, RecurringMinimum);
lsm_sieve_filter::inserts!(Multiset<R> where R: Rule, Growing<S> where S: Countable);

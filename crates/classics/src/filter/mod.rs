//! The filters of the literature, beside those of [`lsm_sieve_filter::filter`].
//!
//! Filters of counters, four times the size and more, with one writer:
//!
//! - [`Counting`] can remove what was inserted.
//! - [`Spectral`] and [`MinimalIncrease`] estimate how often a key was inserted, never too low;
//!   [`RecurringMinimum`] more closely, on either side.
//! - [`Growing`] makes stages of any of the first three.
//!
//! And what bends the promise, and says so at its top: [`Composite`] can deny a member, [`Sliding`]
//! forgets by design. All but these two are a [`Filter`], and those that take every key at any time
//! an [`Insert`]. [`HashCoding`] is the reference of 1970.
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

//! A listing of live segments, with the point in the history of external writes at which it began.

use std::ops::Deref;

use crate::cf_filter::CfFilter;
use crate::fault::fault;

/// The live segments of a column family, as of an epoch of external writes.
///
/// Invariant 5, H22: what is learnt from a listing is published with it, and not if external writes
/// began or ended since. Only [`CfFilter::list`] makes one: the epoch is never younger than the
/// list.
#[derive(Debug)]
pub struct Listing<S> {
    pub(super) epoch: CoverageEpoch,
    segments: S,
}

/// The epoch in which a listing began, and whether no external write ran in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoverageEpoch {
    pub(super) number: u64,
    pub(super) quiet: bool,
}

impl CfFilter {
    /// Lists segments, after the epoch was noted.
    pub fn list<S>(&self, segments: impl FnOnce() -> S) -> Listing<S> {
        let epoch = self.coverage.epoch();
        let segments = segments();
        fault!(EpochAfterListing, {
            std::thread::sleep(std::time::Duration::from_millis(50));
            return Listing {
                epoch: self.coverage.epoch(),
                segments,
            };
        });
        Listing { epoch, segments }
    }
}

impl<S, E> Listing<Result<S, E>> {
    /// The listing, or why there is none.
    pub fn transpose(self) -> Result<Listing<S>, E> {
        let epoch = self.epoch;
        self.segments.map(|segments| Listing { epoch, segments })
    }
}

impl<T> Listing<Vec<T>> {
    /// Takes out the segments for which this is false.
    pub(crate) fn take_out(&mut self, stays: impl FnMut(&T) -> bool) -> Vec<T> {
        let (stay, out) = std::mem::take(&mut self.segments)
            .into_iter()
            .partition(stays);
        self.segments = stay;
        out
    }
}

impl<S: IntoIterator> IntoIterator for Listing<S> {
    type Item = S::Item;
    type IntoIter = S::IntoIter;

    fn into_iter(self) -> S::IntoIter {
        self.segments.into_iter()
    }
}

impl<S> Deref for Listing<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.segments
    }
}

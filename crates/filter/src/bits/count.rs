//! A counter that many threads increment.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A count on a cache line of its own, so that an increment evicts no data of readers. A thread
/// that reads a count sees what was done before the count was raised to that value.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Count(AtomicU64);

impl Count {
    #[inline]
    pub fn new(count: u64) -> Self {
        Self(AtomicU64::new(count))
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    #[inline]
    pub fn increment(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }

    /// Adds `more`, saturating.
    #[inline]
    pub fn add(&self, more: u64) {
        let sum = |count: u64| Some(count.saturating_add(more));
        // The closure never declines, so there is no failure to report.
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, sum);
    }
}

//! A counter that many threads raise.

use crate::sync::atomic::{AtomicU64, Ordering};

/// A count on a cache line of its own: whoever raises it evicts no reader's data. Whoever reads it
/// sees what was done before it was raised to that.
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

    /// Adds as much as fits.
    #[inline]
    pub fn add(&self, more: u64) {
        let sum = |count: u64| Some(count.saturating_add(more));
        // The closure never declines, so there is no failure to report.
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, sum);
    }
}

//! What the follower did.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lsm_sieve_stores::feed::FeedStats;

use crate::error::FollowError;

/// The state of a follower, and what it did since it was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// The filter; `None` until the next snapshot is complete.
    pub filter: Option<FeedStats>,
    /// Snapshots that were taken.
    pub snapshots: u64,
    /// Times that changes were missing in the feed.
    pub holes: u64,
    /// Times that the revisions to watch were compacted.
    pub compactions: u64,
    /// Times that an endpoint was left after an error.
    pub reconnects: u64,
    /// The last error.
    pub last_error: Option<Arc<FollowError>>,
}

impl Stats {
    pub(crate) fn count(&mut self, error: FollowError) {
        match &error {
            FollowError::Hole(_) => self.holes += 1,
            FollowError::Compacted(_) => self.compactions += 1,
            _ => {}
        }
        self.reconnects += 1;
        self.last_error = Some(Arc::new(error));
    }
}

/// The value, also after a panic of another thread that held it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

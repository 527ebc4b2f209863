//! What lookups read.

use std::sync::Arc;

use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::{Bits, Items};
use crate::reach::reached;
use crate::sync::atomic::{AtomicU64, Ordering};
use lsm_sieve_front::rcu::Published;

/// A filter, and how far it has followed the feed.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) filter: Scalable,
    /// All keys of all positions up to here are in the filter.
    position: AtomicU64,
}

impl Followed {
    pub(crate) fn new(filter: Scalable, position: u64) -> Self {
        Self {
            filter,
            position: AtomicU64::new(position),
        }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Inserts the keys that the changes up to a position may have brought. The position of the
    /// filter stays if it is further. One thread at a time.
    pub(crate) fn apply(&self, hashes: impl IntoIterator<Item = KeyHash>, position: u64) {
        let position = position.max(self.position());
        fault!(FeedAdvancedFirst, self.advance(position));
        for hash in hashes {
            self.filter.insert(hash);
        }
        // Last: who sees the position finds its keys.
        self.advance(position);
    }

    fn advance(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    /// Whether the filter is at `at_least` or beyond, and lacks the key at its position.
    fn is_absent(&self, hash: KeyHash, at_least: u64) -> bool {
        let is_missing = || !self.filter.may_contain(hash);
        fault!(
            FeedPositionReadLast,
            return is_missing() && self.position() >= at_least
        );
        // Before the filter is probed: what is applied meanwhile may be missed then.
        let mut has_reached = self.position() >= at_least;
        fault!(FeedPositionIgnored, has_reached = true);
        reached!(FeedNotThatFar, !has_reached);
        has_reached && is_missing()
    }
}

/// The filter of a feed, for lookups. A clone is the same filter.
#[derive(Clone, Debug)]
pub struct FeedFilter(pub(crate) Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hasher: KeyHasher,
    /// `None` while nothing is known.
    pub(crate) followed: Published<Option<Arc<Followed>>>,
}

/// The state of the filter of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedStats {
    /// How far the feed was followed.
    pub position: u64,
    /// Keys that the filter holds, those of deleted keys among them. If it is far more than the
    /// store has, take a new snapshot.
    pub keys: Items,
    /// Its memory.
    pub size: Bits,
    /// Whether the memory budget has no room for more keys. No key is answered absent then.
    pub is_saturated: bool,
}

impl FeedFilter {
    /// True if the feed was followed to `at_least` or beyond, and the key did not exist at the
    /// position that it was followed to. False if the key may have existed, if the feed was not
    /// followed that far, and if the [`Follower`](super::Follower) is gone.
    pub fn is_absent(&self, key: &[u8], at_least: u64) -> bool {
        let hash = self.0.hasher.hash(key).for_summary();
        self.0.followed.with(|followed| {
            let followed = followed.as_ref();
            followed.is_some_and(|followed| followed.is_absent(hash, at_least))
        })
    }

    /// The value of a key: `None` if [`FeedFilter::is_absent`], else what `read` returns.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn get<V, E>(
        &self,
        key: &[u8],
        at_least: u64,
        read: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let mut at_least = at_least;
        fault!(FeedReadAtAnyPosition, at_least = 0);
        match self.is_absent(key, at_least) {
            true => Ok(None),
            false => read(),
        }
    }

    /// How far the feed was followed; `None` while nothing is known.
    pub fn position(&self) -> Option<u64> {
        self.0
            .followed
            .with(|followed| followed.as_ref().map(|followed| followed.position()))
    }

    /// The state of the filter; `None` while nothing is known.
    pub fn stats(&self) -> Option<FeedStats> {
        self.0.followed.with(|followed| {
            followed.as_ref().map(|followed| FeedStats {
                position: followed.position(),
                keys: followed.filter.items(),
                size: followed.filter.size(),
                is_saturated: followed.filter.is_saturated(),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::disk::MemoryDisk;
    use crate::feed::Follower;
    use lsm_sieve_front::filter_options::FilterOptions;

    /// Readers may keep their clones of it for as long as the process runs.
    #[test]
    fn filter_that_was_replaced_or_lost_its_follower_is_freed() {
        let (disk, options) = (Arc::new(MemoryDisk::new()), FilterOptions::default());
        let mut follower =
            Follower::open_on(disk, Path::new("/filter"), 1, &options, None).unwrap();
        let filter = follower.filter();
        let followed = |filter: &FeedFilter| {
            let followed = filter.0.followed.with(Clone::clone);
            followed.as_ref().map(Arc::downgrade)
        };
        let mut last = None;
        for position in 1..4 {
            follower.install(follower.snapshot(Items::new(100)), position);
            let now = followed(&filter).unwrap();
            assert!(last.is_none_or(|last: std::sync::Weak<_>| last.strong_count() == 0));
            last = Some(now);
        }
        drop(follower);
        assert_eq!(last.unwrap().strong_count(), 0);
        assert!(followed(&filter).is_none());
    }
}

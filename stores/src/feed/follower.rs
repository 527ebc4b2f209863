//! Who takes the changes of a feed.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{Disk, RealDisk};
use crate::fault::fault;
use crate::feed::filter::{FeedFilter, FeedStats, Followed, Shared};
use crate::filter::Scalable;
use crate::hash::KeyHasher;
use crate::math::{Bits, Items};
use crate::reach::reached;
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::filter_store::FilterStore;
use lsm_sieve_front::opening::{FilterFolderError, FolderLock, Opening};
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::rcu::Published;
use lsm_sieve_front::segment::SegmentId;

/// The name of the filter in its folder.
const FEED: &str = "feed";

/// The feed cannot be followed from here: take a new snapshot. Until then no key is answered
/// absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedError {
    /// Changes are missing.
    #[error(
        "changes between the positions {position} and {after} are missing; take a new snapshot"
    )]
    Hole {
        /// The position that the change comes after.
        after: u64,
        /// How far the feed was followed.
        position: u64,
    },
    /// There was no snapshot yet, or what followed it was distrusted.
    #[error("nothing is known of the keys up to position {after}; take a snapshot")]
    NoSnapshot {
        /// The position that the change comes after.
        after: u64,
    },
}

/// Follows a feed, and keeps its filter. The [module](super) has the rules. When it is dropped, its
/// filter answers no key absent any more.
#[derive(Debug)]
pub struct Follower {
    shared: Arc<Shared>,
    feed: u64,
    options: FrontOptions,
    filter_store: Arc<FilterStore>,
    /// Declared last: released when nothing is written any more.
    _lock: Option<FolderLock>,
}

/// The keys that the store has at one position, while they are read.
#[derive(Debug)]
pub struct Snapshot {
    hasher: KeyHasher,
    filter: Scalable,
}

impl Snapshot {
    /// Adds a key that the store has.
    pub fn insert(&self, key: &[u8]) {
        self.filter.insert(self.hasher.hash(key).for_summary());
    }
}

impl Follower {
    /// Opens the folder of the filter, which is created if it does not exist. A filter of this feed
    /// that an earlier run [saved](Follower::save) is used at once: follow the feed from
    /// [`Follower::position`].
    ///
    /// `feed` names the feed: a number that is drawn anew when the store is created, and when it is
    /// restored from a backup. (etcd's cluster id is none: a restored cluster may have it again.) Of
    /// the options, the size of the filter, the expected keys, the memory budget and the hash have
    /// an effect.
    ///
    /// # Errors
    /// If the folder is in use, or it or the identity in it cannot be used. A filter that cannot be
    /// read is ignored.
    pub fn open(
        folder: &Path,
        feed: u64,
        options: &FilterOptions,
    ) -> Result<Self, FilterFolderError> {
        let lock = FolderLock::of(folder)?;
        Self::open_on(Arc::new(RealDisk), folder, feed, options, Some(lock))
    }

    pub(super) fn open_on(
        disk: Arc<dyn Disk>,
        folder: &Path,
        feed: u64,
        options: &FilterOptions,
        lock: Option<FolderLock>,
    ) -> Result<Self, FilterFolderError> {
        let hash = options.get_hash();
        let options = options.clone().static_filters(false).resolved();
        let opening = Opening::of_own_folder(disk, folder, &options, hash)?;
        let shared = Shared {
            hasher: opening.hasher,
            followed: Published::new(None),
        };
        let follower = Self {
            shared: Arc::new(shared),
            feed,
            options,
            filter_store: opening.filter_store,
            _lock: lock,
        };
        follower.load();
        Ok(follower)
    }

    /// The filter, for lookups.
    pub fn filter(&self) -> FeedFilter {
        FeedFilter(Arc::clone(&self.shared))
    }

    /// How far the feed was followed; `None` if a snapshot is needed. If the store is not that far,
    /// it was restored under the number of the feed: call [`Follower::distrust`] before any lookup.
    pub fn position(&self) -> Option<u64> {
        self.filter().position()
    }

    /// The state of the filter; `None` if a snapshot is needed.
    pub fn stats(&self) -> Option<FeedStats> {
        self.filter().stats()
    }

    /// Begins a new filter for as many keys as the store has now; 0 if that is not known. More keys
    /// open further stages, all of which a lookup probes. The present filter goes on until
    /// [`Follower::install`], so both take memory meanwhile.
    pub fn snapshot(&self, keys: Items) -> Snapshot {
        let options = self.options.summary(keys, Bits::new(0));
        Snapshot {
            hasher: self.shared.hasher,
            filter: Scalable::new(self.shared.hasher.imprint().for_summary(), options),
        }
    }

    /// Replaces the filter by a snapshot that has every key that the store had at `position`. The
    /// feed is followed from there. If the filter was further, or none was loaded, the filter that
    /// is stored is removed, durably: the store may have gone back.
    ///
    /// # Panics
    /// If the snapshot was begun by another follower.
    pub fn install(&mut self, snapshot: Snapshot, position: u64) {
        let is_own = snapshot.filter.imprint() == self.shared.hasher.imprint().for_summary();
        assert!(
            is_own,
            "a snapshot is installed in the follower that began it"
        );
        let known = self.position();
        // A stored filter that could not be loaded may be of any position.
        let mut may_go_back = known.is_none_or(|known| known > position);
        fault!(StoredFeedAheadOfSnapshot, may_go_back = false);
        if may_go_back {
            reached!(SnapshotGoesBack, known.is_some());
            self.distrust();
        }
        self.take(snapshot.filter, position);
    }

    /// Applies the changes after one position up to another: `keys` are all that they may have
    /// brought. Changes that were applied before may come again: they add their keys, and the
    /// filter stays where it is. A store that went back looks the same; only the caller can tell,
    /// and must call [`Follower::distrust`].
    ///
    /// # Errors
    /// If changes are missing between the filter and these; the filter is distrusted then.
    pub fn apply<K: AsRef<[u8]>>(
        &mut self,
        after: u64,
        position: u64,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<(), FeedError> {
        let followed = self.followed().ok_or(FeedError::NoSnapshot { after })?;
        let so_far = followed.position();
        let mut is_hole = after > so_far;
        fault!(FeedHoleAccepted, is_hole = false);
        if is_hole {
            reached!(FeedHole);
            self.distrust();
            return Err(FeedError::Hole {
                after,
                position: so_far,
            });
        }
        let hash = |key: K| self.shared.hasher.hash(key.as_ref()).for_summary();
        followed.apply(keys.into_iter().map(hash), position);
        Ok(())
    }

    /// No key is answered absent from here on, until the next snapshot: changes were lost. The
    /// filter that is stored is removed too, durably.
    pub fn distrust(&mut self) {
        fault!(FeedTrustedForEver, return);
        self.publish(None);
        fault!(StoredFeedStaysTrusted, return);
        // Logged.
        _ = self.filter_store.forget_summary(FEED);
    }

    /// Saves the filter with its position, for the next open; false if it could not, or if there is
    /// nothing to save. Verifies the stages that took no key since they were last verified; if the
    /// memory of one changed, the filter is distrusted.
    #[must_use = "false if it is not saved"]
    pub fn save(&mut self) -> bool {
        let Some(followed) = self.followed() else {
            return false;
        };
        let covered = HashSet::from([self.state(followed.position())]);
        let mut is_intact = true;
        let is_saved = !followed.filter.is_saturated()
            && self
                .filter_store
                .save_summary(FEED, &followed.filter, &covered, Vec::new(), || {
                    is_intact = followed.filter.is_intact();
                    is_intact
                });
        if !is_intact {
            tracing::error!("the filter of a feed changed in memory; it is distrusted");
            self.distrust();
        }
        is_saved
    }

    /// Takes the filter that is stored, if it is one of this feed.
    fn load(&self) {
        let room = self
            .options
            .memory_budget
            .get()
            .unwrap_or(Bits::new(u64::MAX));
        let Some(stored) = self.filter_store.load_summary(FEED, room) else {
            return;
        };
        let mut states = stored.covered.into_iter();
        if let (Some(state), None) = (states.next(), states.next())
            && let Some(position) = self.position_of(state)
        {
            reached!(StoredFeedLoaded);
            let keys = stored.chain.stages().iter().map(|stage| stage.items());
            let options = self.options.summary(keys.sum(), Bits::new(0));
            let imprint = self.shared.hasher.imprint().for_summary();
            self.take(
                Scalable::starting_with(imprint, options, stored.chain),
                position,
            );
        }
    }

    fn take(&self, filter: Scalable, position: u64) {
        // The first check records what later ones compare with.
        filter.is_intact();
        self.publish(Some(Followed::new(filter, position)));
    }

    /// The id of the feed's state at a position. A stored filter names the state that it was made
    /// of.
    fn state(&self, position: u64) -> SegmentId {
        let name = u128::from(self.feed) << 64 | u128::from(position);
        SegmentId::from_bytes(name.to_be_bytes())
    }

    fn position_of(&self, state: SegmentId) -> Option<u64> {
        let name = u128::from_be_bytes(*state.as_bytes());
        let mut is_this_feed = (name >> 64) as u64 == self.feed;
        fault!(FilterOfAnyFeed, is_this_feed = true);
        is_this_feed.then_some(name as u64)
    }

    fn followed(&self) -> Option<Arc<Followed>> {
        self.shared.followed.with(Option::clone)
    }

    fn publish(&self, followed: Option<Followed>) {
        self.shared.followed.publish(followed.map(Arc::new));
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        fault!(FilterOutlivesFollower, return);
        self.publish(None);
    }
}

//! Removes what is left of SSTs that are gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::engine::Engine;
use crate::fault::fault;
use crate::filter_store::FilterStore;
use crate::reach::reached;
use crate::segment::{Registry, SegmentId};

/// Number of runs without a live SST after which a built filter is stored and dropped.
const RUNS_UNTIL_DROPPED: u32 = 8;

/// Removes the filters of dead SSTs from memory and from the folder.
pub(super) struct Sweeper {
    registry: Arc<Registry>,
    /// `None` if no file may be changed.
    filter_store: Option<Arc<FilterStore>>,
    /// Sidecars that had no live SST in the last run.
    dead: HashSet<SegmentId>,
    /// Segments that were live in some run and still have a filter or a sidecar.
    seen: HashSet<SegmentId>,
    /// For each known segment that is not live, in how many runs in a row it was not.
    missing: HashMap<SegmentId, u32>,
}

impl Sweeper {
    pub(super) fn new(registry: Arc<Registry>, filter_store: Option<Arc<FilterStore>>) -> Self {
        Self {
            registry,
            filter_store,
            dead: HashSet::new(),
            seen: HashSet::new(),
            missing: HashMap::new(),
        }
    }

    /// Segments that were known before the listing, if no SST was being written then. Otherwise
    /// `None`, because an SST under construction is not live yet.
    pub(super) fn idle_segments(&self, engine: &dyn Engine) -> Option<HashSet<SegmentId>> {
        fault!(SweptWhileBuilt, return Some(self.registry.ids()));
        // First: a segment that begins meanwhile is not among them.
        let known = self.registry.ids();
        engine.is_idle().then_some(known)
    }

    /// Removes what belongs to no live SST: segments at once, sidecars in the second run. Returns
    /// whether sidecars remain for the next run.
    ///
    /// An SST that was live once does not come back. One that never was may be under construction,
    /// unless its segment was known (`built`) while nothing was being written.
    pub(super) fn sweep(
        &mut self,
        live: &HashSet<SegmentId>,
        built: Option<HashSet<SegmentId>>,
    ) -> bool {
        let is_idle = built.is_some();
        let built = built.unwrap_or_default();
        let known = self.registry.ids();
        let mut gone = HashSet::new();
        let mut missing = HashMap::new();
        for &id in known.difference(live) {
            let times = self.missing.get(&id).copied().unwrap_or_default() + 1;
            let over = self.seen.contains(&id) || built.contains(&id);
            if over || (times >= RUNS_UNTIL_DROPPED && self.save_or_drop(id)) {
                reached!(AbandonedFilterDropped, !over);
                gone.insert(id);
            } else {
                missing.insert(id, times);
            }
        }
        // The engine holds the segment of an SST whose file is not deleted yet. It delays the
        // deletion while an older compaction runs.
        let held = gone.iter().filter_map(|&id| self.registry.get(id));
        held.for_each(|segment| segment.drop_filter());
        self.registry.retain(|id| {
            fault!(DeadSegmentsKept, return true);
            !gone.contains(&id)
        });
        self.missing = missing;
        let mut some_wait = false;
        if let Some(filter_store) = &self.filter_store {
            let is_dead = |id: &SegmentId| {
                fault!(DeadSidecarsKept, return false);
                !live.contains(id) && (is_idle || self.seen.contains(id))
            };
            let dead: HashSet<SegmentId> =
                filter_store.list().into_iter().filter(is_dead).collect();
            // In two runs in a row (H62, H9).
            for &id in dead.intersection(&self.dead) {
                reached!(SidecarRemoved);
                filter_store.remove(id);
            }
            some_wait = !dead.is_subset(&self.dead);
            self.dead = dead;
        }
        let has_anything = |id: &SegmentId| {
            fault!(DeadSegmentsRemembered, return true);
            self.dead.contains(id) || self.registry.get(*id).is_some()
        };
        self.seen.retain(has_anything);
        self.seen.extend(live);
        some_wait
    }

    /// Stores a filter whose SST has not become live for long: the output of a long compaction, or
    /// of one that failed. It is loaded again with the SST. False if nothing may be stored.
    fn save_or_drop(&self, id: SegmentId) -> bool {
        let Some(filter_store) = &self.filter_store else {
            return false;
        };
        if let Some(segment) = self.registry.get(id)
            && let Some(filter) = segment.filter()
            && !segment.is_saved()
            && !filter_store.save(id, &filter)
        {
            tracing::warn!(segment = %id, "a filter was dropped unsaved; its SST will be read again");
        }
        true
    }
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::Sweeper;
    use crate::hash::{HashId, KeyHasher, Seed};
    use crate::segment::{Registry, SegmentId};
    use std::collections::HashSet;
    use std::sync::Arc;

    /// After a thousand runs it remembers only the SSTs of the last few.
    #[test]
    fn sweeper_forgets_segments_that_are_gone() {
        const LIVE: u64 = 3;
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([9; 16]));
        let registry = Arc::new(Registry::new(hasher));
        let mut sweeper = Sweeper::new(Arc::clone(&registry), None);
        for pass in 0..1_000_u64 {
            let id = |number: u64| SegmentId::from_bytes(u128::from(number).to_be_bytes());
            let live: HashSet<_> = (pass..pass + LIVE).map(id).collect();
            for &id in &live {
                registry.open(id);
            }
            // One that never gets an SST.
            registry.open(id(pass + (1 << 32)));
            let built = (pass % 2 == 0).then(|| registry.ids());
            sweeper.sweep(&live, built);
            let remembered = [sweeper.seen.len(), sweeper.missing.len(), registry.count()];
            assert!(remembered.iter().all(|&ids| ids <= 10), "{remembered:?}");
        }
    }
}

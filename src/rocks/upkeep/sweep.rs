//! What is left of tables that are gone.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::planted::planted;
use crate::rocks::Engine;
use crate::rocks::shelf::Shelf;
use crate::segment::{Registry, SegmentId};

/// Passes that look in vain for a table whose filter was built, before the filter is stored away.
const PASSES_IN_VAIN: u32 = 8;

/// Removes the filters of tables that are gone, from memory and from the folder.
pub(super) struct Sweeper {
    registry: Arc<Registry>,
    /// `None` where no file may be changed.
    shelf: Option<Arc<Shelf>>,
    /// Sidecars without a live table in the pass before.
    dead: HashSet<SegmentId>,
    /// Segments that were live in some pass and still have a filter or a sidecar.
    seen: HashSet<SegmentId>,
    /// In how many passes in turn a known segment was not live.
    missing: HashMap<SegmentId, u32>,
}

impl Sweeper {
    pub(super) fn new(registry: Arc<Registry>, shelf: Option<Arc<Shelf>>) -> Self {
        Self {
            registry,
            shelf,
            dead: HashSet::new(),
            seen: HashSet::new(),
            missing: HashMap::new(),
        }
    }

    /// Segments that were known before the listing, if no table was being written then; `None`
    /// otherwise: a table under construction is no live table yet.
    pub(super) fn idle_segments(&self, engine: &Engine) -> Option<HashSet<SegmentId>> {
        let running = [
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
        ];
        let idle = running
            .iter()
            .all(|name| matches!(engine.property_int_value(*name), Ok(Some(0))));
        idle.then(|| self.registry.ids())
    }

    /// Removes what belongs to no live table: segments at once, sidecars in the second pass. Returns whether
    /// some sidecars wait for that.
    ///
    /// A table that was live once does not come back. One that never was may be under construction,
    /// unless it was known (`built`) while nothing was being written.
    pub(super) fn sweep(
        &mut self,
        live: &HashSet<SegmentId>,
        built: Option<HashSet<SegmentId>>,
    ) -> bool {
        let idle = built.is_some();
        let built = built.unwrap_or_default();
        let known = self.registry.ids();
        let mut gone = HashSet::new();
        let mut missing = HashMap::new();
        for &id in known.difference(live) {
            let times = self.missing.get(&id).copied().unwrap_or_default() + 1;
            let over = self.seen.contains(&id) || built.contains(&id);
            if over || (times >= PASSES_IN_VAIN && self.store_away(id)) {
                gone.insert(id);
            } else {
                missing.insert(id, times);
            }
        }
        // The engine holds the segment of a table whose file it has not deleted yet, which it puts
        // off while an older compaction runs.
        let held = gone.iter().filter_map(|&id| self.registry.get(id));
        held.for_each(|segment| segment.drop_filter());
        let is_kept = |id| !gone.contains(&id) || planted!(DeadSegmentsKept);
        self.registry.retain(is_kept);
        self.missing = missing;
        let mut some_wait = false;
        if let Some(shelf) = &self.shelf {
            let dead = |id: &SegmentId| !live.contains(id) && (idle || self.seen.contains(id));
            let mut dead: HashSet<SegmentId> = shelf.list().into_iter().filter(dead).collect();
            if planted!(DeadSidecarsKept) {
                dead.clear();
            }
            for &id in dead.intersection(&self.dead) {
                shelf.remove(id);
            }
            some_wait = !dead.is_subset(&self.dead);
            self.dead = dead;
        }
        let has_anything = |id: &SegmentId| {
            let is_known = self.dead.contains(id) || self.registry.get(*id).is_some();
            is_known || planted!(DeadSegmentsRemembered)
        };
        self.seen.retain(has_anything);
        self.seen.extend(live);
        some_wait
    }

    /// Stores a filter whose table is long in coming: the output of a long compaction, or of one
    /// that failed. It is loaded again with the table. False where nothing may be stored.
    fn store_away(&self, id: SegmentId) -> bool {
        let Some(shelf) = &self.shelf else {
            return false;
        };
        if let Some(segment) = self.registry.get(id)
            && let Some(filter) = segment.filter()
            && !segment.is_saved()
            && !shelf.save(id, &filter)
        {
            tracing::warn!(segment = %id, "a filter is forgotten unsaved; its table will be read");
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use rocksdb::{CompactionDecision, Options};

    use super::Sweeper;
    use crate::hash::{HashId, KeyHasher, Seed};
    use crate::rocks::{SieveDb, SieveOptions};
    use crate::segment::{Registry, SegmentId};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Of the tables of a thousand passes it remembers those of the last few.
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
            // One that never gets a table.
            registry.open(id(pass + (1 << 32)));
            let built = (pass % 2 == 0).then(|| registry.ids());
            sweeper.sweep(&live, built);
            let remembered = [sweeper.seen.len(), sweeper.missing.len(), registry.count()];
            assert!(remembered.iter().all(|&ids| ids <= 10), "{remembered:?}");
        }
    }

    /// Filters were forgotten only when no compaction ran as a pass began. Beside a long one those
    /// of dead tables stayed, and took the budget from the living.
    #[test]
    fn the_filters_of_dead_tables_go_while_a_compaction_runs() {
        const ROUNDS: u32 = 50;
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_max_background_jobs(8);
        let (entered, running) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let mut slow = options.clone();
        slow.set_compaction_filter("held", move |_, _, _| {
            entered.send(()).unwrap();
            // Until the test is over, whatever way it ends.
            _ = held.recv();
            CompactionDecision::Keep
        });
        let families = [("default", options.clone()), ("slow", slow)];
        let sieve = SieveOptions::default();
        let db = SieveDb::open_cf_with_opts(&options, &sieve, home.path(), families).unwrap();
        thread::scope(|scope| {
            let release = release;
            let cf = db.cf_handle("slow").unwrap();
            db.put_cf(&cf, b"one", b"value").unwrap();
            db.flush_cf(&cf).unwrap();
            scope.spawn(|| {
                let cf = db.cf_handle("slow").unwrap();
                db.compact_range_cf::<&[u8], &[u8]>(&cf, None, None);
            });
            running.recv_timeout(PATIENCE).unwrap();
            for round in 0..ROUNDS {
                db.put(b"first", round.to_be_bytes()).unwrap();
                db.put(b"last", round.to_be_bytes()).unwrap();
                db.flush().unwrap();
                db.compact_range::<&[u8], &[u8]>(None, None);
                assert!(db.wait_until_known(PATIENCE));
            }
            let known = db.registry().ids().into_iter();
            let segments = known.filter_map(|id| db.registry().get(id));
            let filters = segments.filter(|segment| segment.filter().is_some());
            let filters = filters.count();
            drop(release);
            assert!(filters <= 20, "{filters} filters, two tables are live");
        });
        assert!(db.verify(true).unwrap().lost.is_empty());
    }
}

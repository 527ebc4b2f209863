//! The memory budget: what filters may take, and which are dropped if it is exceeded.

use super::Maintenance;
use crate::fault::fault;
use crate::front::cf_filters::CfFilters;
use crate::front::engine::LiveSegment;
use crate::front::maintenance::planning::{self, ResidentFilter};
use crate::front::options::FrontOptions;
use crate::math::Bits;
use crate::segment::Registry;

impl Maintenance {
    /// Memory available to a filter that now takes `own`, which is counted as available.
    pub(super) fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.cf_filters, &self.registry, own)
    }

    /// The budget for filters, less the other memory of the column families' filters.
    pub(super) fn filter_budget(&self) -> Option<Bits> {
        filter_budget(&self.options, &self.cf_filters)
    }

    /// Drops whole filters until the rest fits the budget: segment filters before summary filters,
    /// of which each bit saves more engine reads.
    pub(super) fn keep_within_budget(&self) {
        let Some(budget) = self.filter_budget() else {
            return;
        };
        while self.cf_filters.size_of_summaries(None) > budget
            && let Some(cf_filter) = self.cf_filters.largest()
            && cf_filter.drop_summary()
        {
            tracing::warn!(
                cf_filter = cf_filter.name(),
                "the memory budget has no room for the summary filter; dropped it"
            );
            // A smaller one may fit, and segment filters for which there was no room.
            cf_filter.note_consolidated(None);
            fault!(NoWakeAfterSummaryDrop, continue);
            self.wakeup.notify();
        }
        let taken = self.registry.size().get() + self.cf_filters.size_without(None).get();
        let over = Bits::new(taken.saturating_sub(budget.get()));
        if over == Bits::new(0) {
            return;
        }
        let dropped = planning::lowest_ranked(self.held(), over);
        for &id in &dropped {
            self.registry.open(id).drop_filter();
        }
        // Lookups prefetch dropped filters, which keeps them alive, until the next maintenance run.
        // If nothing could be dropped, another run would find the same.
        if !dropped.is_empty() {
            fault!(NoWakeAfterFilterDrop, return);
            self.wakeup.notify();
        }
    }

    /// The live SSTs that have a filter.
    fn held(&self) -> Vec<ResidentFilter> {
        let cf_filters = self.cf_filters.all();
        let tables = cf_filters
            .iter()
            .filter_map(|cf_filter| self.list(cf_filter).ok());
        let held = |table: LiveSegment| {
            let id = table.id()?;
            let size = self.registry.get(id)?.filter()?.chain.size();
            Some(ResidentFilter {
                id,
                level: table.level,
                size,
            })
        };
        tables.flatten().filter_map(held).collect()
    }
}

fn filter_budget(options: &FrontOptions, cf_filters: &CfFilters) -> Option<Bits> {
    options.filter_budget_beside(cf_filters.overhead())
}

/// What the memory budget leaves for a segment filter that now takes `own`.
pub(crate) fn room(
    options: &FrontOptions,
    cf_filters: &CfFilters,
    registry: &Registry,
    own: Bits,
) -> Bits {
    let Some(budget) = filter_budget(options, cf_filters) else {
        return Bits::new(u64::MAX);
    };
    let summaries = cf_filters.size_without(None).get();
    Bits::new(
        budget
            .get()
            .saturating_sub(registry.size().get().saturating_sub(own.get()))
            .saturating_sub(summaries),
    )
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests {
    use std::time::Duration;

    use rocksdb::Options;

    use crate::math::{Bits, Items};
    use crate::rocks::{SieveDb, SieveOptions};

    const FAMILIES: usize = 40;
    const BUDGET: Bits = Bits::new(6_500_000);
    const LIMIT: Duration = Duration::from_secs(60);

    fn options() -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options
    }

    #[test]
    fn a_budget_for_a_summary_alone_has_room_for_one() {
        let home = tempfile::tempdir().unwrap();
        let keys = Items::new(50_000);
        let sieve = SieveOptions::default()
            .segment_filters(None)
            .expected_keys(keys);
        let alone = sieve.memory_for(keys);
        let sieve = sieve.memory_budget(alone.summary + alone.overhead);
        let open = || SieveDb::open(&options(), &sieve, home.path()).unwrap();
        let is_saturated = |db: &SieveDb| {
            let cf_filter = db.cf_filters().all().remove(0);
            cf_filter.view().summary.is_saturated()
        };
        for _ in 0..2 {
            let db = open();
            (0..keys.get()).for_each(|key| db.put(key.to_be_bytes(), b"value").unwrap());
            db.flush().unwrap();
            assert!(db.wait_until_complete(LIMIT));
            db.consolidate().unwrap();
            assert!(!is_saturated(&db));
        }
    }

    #[test]
    fn many_families_within_a_budget_keep_their_summaries() {
        let home = tempfile::tempdir().unwrap();
        let sieve = SieveOptions::default()
            .expected_keys(Items::new(100))
            .memory_budget(BUDGET);
        let names = (0..FAMILIES).map(|i| format!("family-{i}"));
        let db = SieveDb::builder(home.path())
            .options(&options())
            .filters(&sieve)
            .cfs(names)
            .open()
            .unwrap();
        assert!(db.wait_until_complete(LIMIT));
        for cf_filter in db.cf_filters().all() {
            let cf = db.cf_handle(cf_filter.name()).unwrap();
            db.put_cf(&cf, b"key", b"value").unwrap();
        }
        for _ in 0..3 {
            assert!(db.wait_for_maintenance(LIMIT));
        }
        for cf_filter in db.cf_filters().all() {
            assert!(
                !cf_filter.view().summary.is_saturated(),
                "{}",
                cf_filter.name()
            );
        }
        let memory = db.health().memory;
        assert!(memory.summary + memory.overhead <= BUDGET, "{memory:?}");
    }
}

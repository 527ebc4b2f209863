//! Memory for filters, and which go when there is too little.

use super::Upkeep;
use crate::math::Bits;
use crate::planted::planted;
use crate::rocks::column::Column;
use crate::rocks::columns::Columns;
use crate::rocks::ffi::LiveTable;
use crate::rocks::options::SieveOptions;
use crate::rocks::planning::{self, Held};
use crate::segment::Registry;

impl Upkeep {
    /// Memory that a filter may take which takes `own` of it now.
    pub(super) fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.columns, &self.registry, own)
    }

    /// What the fronts leave of the budget for filters.
    pub(super) fn filter_budget(&self) -> Option<Bits> {
        filter_budget(&self.options, &self.columns)
    }

    /// Whether memtables have filters for a second look, and there is room for them beside all summaries.
    pub(super) fn second_look_fits(&self, column: &Column) -> bool {
        if !column.memtables().may_have_recent() {
            return false;
        }
        let Some(budget) = self.filter_budget() else {
            return true;
        };
        let others = self.columns.size_without(Some(column)).get();
        let next = column.view().summary.size().get() + self.options.recent_budget().get();
        let own = next.max(column.size().get());
        others + own <= budget.get()
    }

    /// Drops whole filters until all that are left fit the budget. Those of tables go before summaries,
    /// of which each bit spares more of the engine's work; second looks go before these.
    pub(super) fn keep_within_budget(&self) {
        let Some(budget) = self.filter_budget() else {
            return;
        };
        for column in self.columns.all() {
            if self.columns.size_without(None) <= budget {
                break;
            }
            column.drop_inventory();
        }
        // Not for the sake of the latest memtables' filters, which no drop frees.
        let of_summaries = || match planted!(SummariesGoFirst) {
            true => self.columns.size_without(None),
            false => self.columns.size_of_summaries(None),
        };
        while of_summaries() > budget
            && let Some(column) = self.columns.largest()
            && column.drop_summary()
        {
            tracing::warn!(
                column = column.name(),
                "the budget has no room for its summary"
            );
        }
        let taken = self.registry.size().get() + self.columns.size_without(None).get();
        let over = Bits::new(taken.saturating_sub(budget.get()));
        if over == Bits::new(0) {
            return;
        }
        let dropped = planning::least_worth(self.held(), over);
        for &id in &dropped {
            self.registry.open(id).drop_filter();
        }
        // Inventories hold what was dropped until they are taken anew. Where nothing could be, another
        // pass would find the same.
        if !dropped.is_empty() && !planted!(NoWakeAfterDrop) {
            self.bell.ring();
        }
    }

    /// The live tables that have a filter.
    fn held(&self) -> Vec<Held> {
        let columns = self.columns.all();
        let tables = columns.iter().filter_map(|column| self.list(column).ok());
        let held = |table: LiveTable| {
            let id = table.id()?;
            let size = self.registry.get(id)?.filter()?.chain.size();
            Some(Held {
                id,
                level: table.level,
                size,
            })
        };
        tables.flatten().filter_map(held).collect()
    }
}

fn filter_budget(options: &SieveOptions, columns: &Columns) -> Option<Bits> {
    options.filter_budget_beside(columns.size_of_fronts())
}

/// What the memory budget leaves for a segment's filter that takes `own` of it now.
pub(crate) fn room(
    options: &SieveOptions,
    columns: &Columns,
    registry: &Registry,
    own: Bits,
) -> Bits {
    let Some(budget) = filter_budget(options, columns) else {
        return Bits::new(u64::MAX);
    };
    let summaries = columns.size_without(None).get();
    Bits::new(
        budget
            .get()
            .saturating_sub(registry.size().get().saturating_sub(own.get()))
            .saturating_sub(summaries),
    )
}

#[cfg(test)]
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
            .segment_rate(None)
            .expected_keys(keys);
        let alone = sieve.memory_for(keys);
        let sieve = sieve.memory_budget(alone.summary + alone.fronts);
        let open = || SieveDb::open(&options(), &sieve, home.path()).unwrap();
        let is_saturated = |db: &SieveDb| {
            let column = db.columns().all().remove(0);
            column.view().summary.is_saturated()
        };
        for _ in 0..2 {
            let db = open();
            (0..keys.get()).for_each(|key| db.put(key.to_be_bytes(), b"value").unwrap());
            db.flush().unwrap();
            assert!(db.wait_until_covered(LIMIT));
            db.consolidate().unwrap();
            assert!(!is_saturated(&db));
        }
    }

    #[test]
    fn memtables_that_wait_to_be_flushed_cost_no_summary() {
        let home = tempfile::tempdir().unwrap();
        let sieve = SieveOptions::default()
            .expected_keys(Items::new(500_000))
            .memory_budget(BUDGET);
        let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
        assert!(db.wait_until_covered(LIMIT));
        let column = db.columns().all().remove(0);
        let wait = |_| {
            let waiting = column.memtables().bind();
            column.retarget(waiting.summaries().to_vec());
            waiting
        };
        let waiting: Vec<_> = (0..100).map(wait).collect();
        assert!(column.size() > BUDGET);
        for _ in 0..3 {
            assert!(db.wait_until_known(LIMIT));
        }
        assert!(!column.view().summary.is_saturated());
        waiting.iter().for_each(|memtable| memtable.seal());
    }

    /// The filters of their memtables alone would be too much.
    #[test]
    fn many_families_within_a_budget_keep_their_summaries() {
        let home = tempfile::tempdir().unwrap();
        let sieve = SieveOptions::default()
            .expected_keys(Items::new(100))
            .memory_budget(BUDGET);
        let names = (0..FAMILIES).map(|i| format!("family-{i}"));
        let db = SieveDb::open_cf(&options(), &sieve, home.path(), names).unwrap();
        assert!(db.wait_until_covered(LIMIT));
        for column in db.columns().all() {
            let family = db.cf_handle(column.name()).unwrap();
            db.put_cf(&family, b"key", b"value").unwrap();
        }
        for _ in 0..3 {
            assert!(db.wait_until_known(LIMIT));
        }
        for column in db.columns().all() {
            assert!(!column.view().summary.is_saturated(), "{}", column.name());
        }
        let memory = db.health().memory;
        assert!(memory.summary + memory.fronts <= BUDGET, "{memory:?}");
    }
}

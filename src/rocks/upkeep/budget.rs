//! Memory for filters, and which go when there is too little.

use super::Upkeep;
use crate::math::Bits;
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

    /// Drops whole filters until all that are left fit the budget: those of tables first, since a
    /// summary spares more of the engine's work with each bit.
    pub(super) fn keep_within_budget(&self) {
        let Some(budget) = self.options.get_memory_budget() else {
            return;
        };
        while self.columns.size_without(None) > budget
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
        for id in planning::least_worth(self.held(), over) {
            self.registry.open(id).drop_filter();
        }
        // Inventories hold what was dropped until they are taken anew.
        self.bell.ring();
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

/// What the memory budget leaves for a segment's filter that takes `own` of it now.
pub(crate) fn room(
    options: &SieveOptions,
    columns: &Columns,
    registry: &Registry,
    own: Bits,
) -> Bits {
    let Some(budget) = options.get_memory_budget() else {
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

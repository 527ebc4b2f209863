//! The memory budget: what filters may take, and which are dropped if it is exceeded.

use super::Maintenance;
use crate::cf_filters::CfFilters;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::maintenance::segment_plan::{self, ResidentFilter};
use crate::math::Bits;
use crate::options::FrontOptions;
use crate::reach::reached;
use crate::segment::Registry;

impl Maintenance {
    /// Memory available to a filter that now takes `own`, which is counted as available.
    pub(super) fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.cf_filters, &self.registry, own)
    }

    /// Drops whole filters until the rest fits the budget: summary filters only if they do not fit
    /// alone, range filters if they do not fit beside these, and segment filters before both. Each bit of
    /// a summary filter saves more engine reads than one of another.
    pub(super) fn keep_within_budget(&self) {
        let Some(budget) = filter_budget(&self.options, &self.cf_filters) else {
            return;
        };
        let is_over = || self.cf_filters.size_of_published(None) > budget;
        for cf_filter in self.cf_filters.all() {
            if is_over() && cf_filter.drop_ranges() {
                tracing::warn!(
                    cf_filter = cf_filter.name(),
                    "the memory budget has no room for the range filter; dropped it"
                );
            }
        }
        while is_over()
            && let Some(cf_filter) = self.cf_filters.largest()
            && cf_filter.drop_summary()
        {
            tracing::warn!(
                cf_filter = cf_filter.name(),
                "the memory budget has no room for the summary filter; dropped it"
            );
            // A smaller one may fit, and segment filters for which there was no room.
            cf_filter.coverage().end_rest();
            fault!(NoWakeAfterSummaryDrop, continue);
            self.wakeup.notify();
        }
        let taken = self.registry.size().get() + self.cf_filters.size_of_summaries().get();
        let over = Bits::new(taken.saturating_sub(budget.get()));
        if over == Bits::new(0) {
            return;
        }
        let dropped = segment_plan::lowest_ranked(self.held(), over);
        for &id in &dropped {
            self.registry.open(id).drop_filter();
        }
        // Lookups prefetch dropped filters, which keeps them alive, until the next maintenance run.
        // If nothing could be dropped, another run would find the same.
        if !dropped.is_empty() {
            reached!(SegmentFiltersDropped);
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

/// The budget for filters, less the other memory of the column families' filters.
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
    let summaries = cf_filters.size_of_summaries().get();
    Bits::new(
        budget
            .get()
            .saturating_sub(registry.size().get().saturating_sub(own.get()))
            .saturating_sub(summaries),
    )
}

//! Coverage of the summary filter.

use std::collections::HashSet;
use std::sync::Arc;

use super::reading::NewRanges;
use super::{CfRun, Maintenance, Tables, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::options::SummarySaves;
use crate::reach::reached;
use crate::segment::SegmentId;
use crate::sorted_runs::WithRange;
use crate::view::{Coverage, Summary, View};

impl Maintenance {
    /// Publishes what a listing shows without reading an SST.
    pub(super) fn publish_listing(&self, cf_filter: &CfFilter, tables: &Tables) {
        let summary = cf_filter.view().summary;
        let ids = tables.iter().filter_map(LiveSegment::id);
        if covers_by_construction(cf_filter) {
            // Only the list of SSTs has changed. What a compaction elsewhere wrote has no key that
            // its inputs had not (H33).
            cf_filter.publish(tables, summary, Coverage::Complete, ids.collect());
        } else {
            // An SST that the summary filter is not known to have is uncovered (H7).
            let covered = cf_filter.coverage().covered_among(ids);
            reached!(
                SummaryOfEarlierState,
                !covered.is_empty() && covered.len() < tables.len()
            );
            reached!(
                SummaryLoaded,
                !covered.is_empty() && covered.len() == tables.len()
            );
            self.publish_partial(cf_filter, tables, summary, covered, tables);
        }
    }

    /// Publishes that the summary filter has the keys of all SSTs but those of `tables` that are not
    /// in `covered`. Returns whether it did: see [`CfFilter::publish`] (invariant 5).
    pub(super) fn publish_partial(
        &self,
        cf_filter: &CfFilter,
        listed: &Tables,
        summary: impl Into<Summary>,
        covered: HashSet<SegmentId>,
        tables: &[LiveSegment],
    ) -> bool {
        let uncovered = tables.iter().filter(|table| !is_covered(table, &covered));
        let uncovered = uncovered.map(|table| WithRange {
            filter: table.id().map(|id| self.registry.open(id)),
            range: table.range.as_ref(),
        });
        let coverage = Coverage::all_but(uncovered.collect());
        cf_filter.publish(listed, summary, coverage, covered)
    }

    /// Saves the summary filter, unless it is already saved in its present state.
    pub(super) fn save_summary(&self, cf_filter: &CfFilter) {
        let View {
            summary,
            summary_prefixes,
            ..
        } = cf_filter.view();
        // Taken first: keys that come from here on count as not saved. A store whose earlier states
        // may come back also forgets what is saved when external writes begin (invariant 5).
        let saved = cf_filter.coverage().to_save(&summary);
        if !cf_filter.coverage().is_complete_by_construction()
            || cf_filter.is_saved()
            || summary.is_saturated()
            || self.options.read_only_filters
            || self.options.summary_saves == SummarySaves::Never
        {
            return;
        }
        let (name, mut covered) = (cf_filter.name(), cf_filter.coverage().covered());
        cf_filter.instance_ids().remove_from(&mut covered);
        let is_wanted = || {
            fault!(SavedAcrossExternalWrites, return true);
            cf_filter.coverage().may_be_saved(&saved)
        };
        // H60.
        let is_good = || {
            fault!(DamagedSummaryStored, return true);
            is_wanted() && self.scrubber.scrub_growing(cf_filter, &summary)
        };
        let prefixes = cf_filter.prefixes().ids_of(summary_prefixes);
        let store = &self.filter_store;
        if store.save_summary(name, &summary, &covered, prefixes, is_good) {
            cf_filter.coverage().note_saved(saved);
            self.engine.summary_saved(cf_filter.key_space(), &covered);
            if cf_filter.coverage().is_disabled() {
                // Its column family was dropped meanwhile, and its file removed before.
                store.remove_summary(name);
            }
        }
    }
}

impl CfRun<'_> {
    /// Adds the keys of the SSTs at these places to the summary filter.
    pub(super) fn cover(&mut self, places: &[usize]) -> Result<(), TaskError> {
        let (maintenance, cf_filter, tables) = (self.maintenance, self.cf_filter, self.tables);
        let summary = cf_filter.view().summary;
        let insert_keys = |table: &LiveSegment| {
            fault!(CoveredUnread, return Ok(()));
            let blocks = NewRanges::built();
            maintenance.read_keys_into(cf_filter, table, &blocks, |keys| summary.insert_many(keys))
        };
        let mut covered = cf_filter.coverage().covered();
        for table in places.iter().map(|&place| &tables[place]) {
            let _span = tracing::info_span!("cover", sst = %table.path).entered();
            if let Err(error) = insert_keys(table) {
                self.quarantine(table, error)?;
                continue;
            }
            covered.extend(table.id());
            // Only now that all its keys are in it (E3).
            cf_filter.mark_covered(&summary, table.id());
            reached!(SegmentCovered);
            let (summary, covered) = (Arc::clone(&summary), covered.clone());
            if !maintenance.publish_partial(cf_filter, tables, summary, covered, tables) {
                return Err(self.not_published());
            }
        }
        Ok(())
    }
}

/// Whether the summary filter has the keys of every SST, those to come too.
fn covers_by_construction(cf_filter: &CfFilter) -> bool {
    fault!(CoveredWhenListed, return true);
    cf_filter.coverage().is_complete_by_construction()
}

/// Whether a summary filter that covers these SSTs has the keys of this one; never of one without an
/// id (H44).
pub(super) fn is_covered(table: &LiveSegment, covered: &HashSet<SegmentId>) -> bool {
    table.id().is_some_and(|id| covered.contains(&id))
}

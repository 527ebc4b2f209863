//! What the summary covers.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::{Upkeep, UpkeepError};
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::planted::planted;
use crate::rocks::column::{Column, Epoch};
use crate::rocks::coverage::Coverage;
use crate::rocks::ffi::LiveTable;
use crate::rocks::runs::Spanning;
use crate::rocks::setback::Setback;
use crate::segment::SegmentId;

/// Keys of a table that go into a summary together: it waits for its lines of many at a time.
const TOGETHER: usize = 256;

impl Upkeep {
    /// Publishes what is known without reading a table.
    pub(super) fn publish_known(&self, column: &Column, epoch: Epoch, tables: &[LiveTable]) {
        let summary = Arc::clone(&column.view().summary);
        if column.is_settled() || planted!(CoveredWhenListed) {
            // Every table is covered by construction; only the list of them has changed.
            let covers = tables.iter().filter_map(LiveTable::id).collect();
            column.publish(epoch, summary, Coverage::Complete, covers);
        } else {
            let covers = column.covers_among(tables.iter().filter_map(LiveTable::id));
            self.publish_partial(column, epoch, summary, covers, tables);
        }
    }

    pub(super) fn publish_partial(
        &self,
        column: &Column,
        epoch: Epoch,
        summary: Arc<Scalable>,
        covers: HashSet<SegmentId>,
        tables: &[LiveTable],
    ) -> bool {
        let uncovered = tables.iter().filter(|table| !is_covered(table, &covers));
        let uncovered = uncovered.map(|table| Spanning {
            filter: table.id().map(|id| self.registry.open(id)),
            range: table.range.as_ref(),
        });
        let coverage = Coverage::all_but(uncovered.collect());
        column.publish(epoch, summary, coverage, covers)
    }

    /// Brings the keys of all uncovered tables into the summary.
    pub(super) fn cover(
        &self,
        column: &Column,
        epoch: Epoch,
        tables: &[LiveTable],
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        let summary = Arc::clone(&column.view().summary);
        let mut covers = column.covers();
        // One without an id stays uncovered until it is rewritten: of a secondary, or where the system had no
        // randomness for an id.
        let missing = tables
            .iter()
            .filter(|table| table.id().is_some_and(|id| !covers.contains(&id)))
            .filter(|table| !setback.leaves_alone(&table.path));
        let missing: Vec<&LiveTable> = missing.collect();
        // No new summary for tables that would only be found unreadable once more.
        let fresh = missing
            .iter()
            .filter(|table| !setback.failed_before(&table.path));
        let entries: u64 = fresh.map(|table| table.entries).sum();
        let mut many = entries > summary.items().get() / 2 && entries > 0;
        many &= !planted!(NoConsolidationAtAdoption);
        if many && self.may_consolidate() && !planted!(CoveredUnread) {
            // In a wait it is this that failed, or would fail.
            if setback.is_waiting() {
                return Ok(());
            }
            if self.flush_would_wait(column) {
                setback.postpone(Instant::now());
                return Ok(());
            }
            return self.consolidate(column, setback);
        }
        for table in missing {
            if !planted!(CoveredUnread)
                && let Err(error) = self.absorb(column, table, |keys| {
                    summary.insert_many(keys);
                })
            {
                self.set_aside(column, table, error, setback)?;
                continue;
            }
            covers.extend(table.id());
            column.note_covered(&summary, table.id());
            if !self.publish_partial(column, epoch, Arc::clone(&summary), covers.clone(), tables) {
                return Err(UpkeepError::Overtaken);
            }
        }
        // Else a small file that is ingested now and then would have a large summary written each time.
        if column.is_settled() && !column.is_nearly_stored() {
            self.save_summary(column);
        }
        Ok(())
    }

    /// Leaves a table that cannot be read for later, and errs when something else is wrong. Returns
    /// whether the table is still there.
    pub(super) fn set_aside(
        &self,
        column: &Column,
        table: &LiveTable,
        error: UpkeepError,
        setback: &mut Setback,
    ) -> Result<bool, UpkeepError> {
        let (UpkeepError::Read { .. } | UpkeepError::Miscount { .. }) = error else {
            return Err(error);
        };
        let is_live = self.list(column)?.iter().any(|t| t.path == table.path);
        if is_live {
            tracing::warn!(column = column.name(), %error, "the table is set aside for a while");
            setback.set_aside(Instant::now(), &table.path, error.to_string());
        } else {
            // Compacted away since the listing; what took its place has to be looked at.
            self.bell.ring();
        }
        Ok(is_live)
    }

    /// Gives a summary's hashes of a table's keys to `take`, up to [`TOGETHER`] at a time, and builds the
    /// table's filter on the way where it has none. Without tombstones: nowhere is a key whose newest entry is
    /// one, and older entries speak for themselves.
    pub(super) fn absorb(
        &self,
        column: &Column,
        table: &LiveTable,
        mut take: impl FnMut(&[KeyHash]),
    ) -> Result<(), UpkeepError> {
        let hasher = column.hasher();
        let mut hashes = Vec::with_capacity(TOGETHER);
        let mut builder = self.builder_for_missing(column, table);
        self.scan(column, table, |key, deletion| {
            if let Some(builder) = &mut builder {
                builder.add(key);
            }
            if !deletion {
                hashes.push(hasher.hash(key).remixed());
            }
            if hashes.len() == TOGETHER {
                take(&hashes);
                hashes.clear();
            }
        })?;
        take(&hashes);
        if let Some(builder) = builder {
            self.adopt(builder, table);
        }
        Ok(())
    }

    /// Stores the summary, unless it is stored as it is.
    pub(super) fn save_summary(&self, column: &Column) {
        let summary = column.view().summary;
        if column.is_settled()
            && !column.is_stored()
            && !summary.is_saturated()
            && !self.options.is_frozen()
        {
            let stored = column.to_store(&summary);
            let (name, mut covers) = (column.name(), column.covers());
            column.instance_ids().remove_from(&mut covers);
            let is_good =
                || planted!(DamagedSummaryStored) || self.scrubber.scrub_growing(column, &summary);
            if self.shelf.save_summary(name, &summary, covers, is_good) {
                column.note_stored(stored);
            }
        }
    }
}

/// Whether a summary that covers these tables holds the keys of this one.
pub(super) fn is_covered(table: &LiveTable, covers: &HashSet<SegmentId>) -> bool {
    table.id().is_some_and(|id| covers.contains(&id))
}

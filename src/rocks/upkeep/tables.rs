//! The tables' own filters.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Upkeep, UpkeepError};
use crate::format::Source;
use crate::math::{Bits, Items};
use crate::planted::planted;
use crate::rocks::column::Column;
use crate::rocks::ffi::{self, LiveTable};
use crate::rocks::inventory::{Inventory, in_runs};
use crate::rocks::planning::FilterPlan;
use crate::rocks::runs::Spanning;
use crate::rocks::setback::Setback;
use crate::segment::{SealedFilter, SegmentBuilder};

/// No table's filter takes more: what a file claims beyond, no memory is asked for.
const MOST_BITS: u64 = 1 << 16;
const MOST_BITS_AN_ENTRY: u64 = 1 << 10;

fn most_bits(entries: u64) -> Bits {
    if planted!(AnySizeLoaded) {
        return Bits::new(u64::MAX);
    }
    let bits = entries.saturating_mul(MOST_BITS_AN_ENTRY);
    Bits::new(bits.saturating_add(MOST_BITS))
}

impl Upkeep {
    pub(super) fn load_filters(&self, tables: &[LiveTable]) {
        for table in tables {
            let Some(id) = table.id() else { continue };
            let segment = self.registry.open(id);
            if segment.filter().is_some() {
                continue;
            }
            let room = self.room(Bits::new(0)).min(most_bits(table.entries));
            if let Some(filter) = self.shelf.load_within(id, room) {
                segment.set_filter(filter, true);
            }
        }
    }

    pub(super) fn save_filters(&self, tables: &[LiveTable]) {
        if self.options.is_frozen() {
            return;
        }
        let id_of = match planted!(InstanceFilterStored) {
            true => LiveTable::id,
            false => LiveTable::lasting_id,
        };
        for id in tables.iter().filter_map(id_of) {
            let Some(segment) = self.registry.get(id) else {
                continue;
            };
            if let Some(filter) = segment.filter()
                && !segment.is_saved()
                && self.shelf.save(id, &filter)
            {
                segment.mark_saved();
            }
        }
    }

    /// Gives each table that lacks one, or has one of another rate, a filter from its raw keys.
    pub(super) fn rebuild_filters(
        &self,
        column: &Column,
        tables: &[LiveTable],
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        for table in tables {
            if setback.leaves_alone(&table.path) {
                continue;
            }
            let Some(mut builder) = self.builder_for_missing(column, table) else {
                continue;
            };
            match self.scan(column, table, |key, _| builder.add(key)) {
                Ok(()) => self.adopt(builder, table),
                Err(error) => _ = self.set_aside(column, table, error, setback)?,
            }
        }
        Ok(())
    }

    /// A builder for the filter of a table that has none, or one that breaks the promise; what the
    /// budget has no room for is dropped.
    pub(super) fn builder_for_missing(
        &self,
        column: &Column,
        table: &LiveTable,
    ) -> Option<SegmentBuilder> {
        let rate = column.segment_rate()?;
        let id = table.id()?;
        let segment = self.registry.open(id);
        let filter = segment.filter();
        let own = filter.as_ref().map(|filter| filter.chain.size());
        let entries = Items::new(table.entries);
        let needed = self.options.segment_size(entries, rate);
        let room = || self.room(own.unwrap_or_default());
        match FilterPlan::of(filter.as_deref(), rate, needed, room) {
            FilterPlan::Keep => None,
            FilterPlan::Rebuild => {
                tracing::info!(segment = %id, "a table's filter is rebuilt");
                let builder = SegmentBuilder::for_entries(id, column.hasher(), rate, entries);
                Some(builder.made_static(self.options.has_static_filters()))
            }
            FilterPlan::Drop => {
                if filter.is_some() {
                    segment.drop_filter();
                }
                None
            }
        }
    }

    pub(super) fn adopt(&self, builder: SegmentBuilder, table: &LiveTable) {
        let id = builder.id();
        if let Some(filter) = builder.seal(table.entries, Source::RawKeys) {
            self.registry.open(id).set_filter(filter, false);
        }
    }

    /// Calls `each(key, is_deletion)` for every raw entry of a table; errs unless it saw all.
    pub(super) fn scan(
        &self,
        column: &Column,
        table: &LiveTable,
        mut each: impl FnMut(&[u8], bool),
    ) -> Result<(), UpkeepError> {
        let mut found = 0;
        let mut stopped = false;
        let handle = self.handle(column)?;
        let scanned = ffi::raw_keys(&handle, table, |key, deletion| {
            let unread = deletion && planted!(DeletionsUnread);
            each(if unread { &[] } else { key }, deletion);
            found += 1;
            stopped = found % 4096 == 0 && self.bell.stopping();
            !stopped
        });
        if planted!(ScanErrorIgnored) {
            return Ok(());
        }
        scanned.map_err(|reason| UpkeepError::Read {
            path: table.path.clone(),
            reason,
        })?;
        match found {
            _ if stopped => Err(UpkeepError::Stopped),
            found if found == table.entries || planted!(ShortScanAccepted) => Ok(()),
            found => Err(UpkeepError::Miscount {
                path: table.path.clone(),
                expected: table.entries,
                found,
            }),
        }
    }

    /// Lets readers ask the tables' own filters where the summary says *maybe*, if all tables have one,
    /// few lie over one another, and the budget has room for those of memtables.
    pub(super) fn take_inventory(&self, column: &Column) -> Result<(), UpkeepError> {
        let inventory = column.view().inventory;
        let (epoch, tables) = self.list_in_epoch(column)?;
        let spanning = self.spanning(&tables);
        let known = inventory.as_ref().zip(spanning.as_ref());
        if known.is_some_and(|(inventory, tables)| {
            inventory.lists(tables) && inventory.generations() == 1
        }) {
            return Ok(());
        }
        if spanning.and_then(in_runs).is_none() || !self.second_look_fits(column) {
            column.drop_inventory();
            return Ok(());
        }
        let mut recent = column.collect_recent();
        let tables = self.list(column)?;
        if planted!(RecentAfterListing) {
            thread::sleep(Duration::from_millis(10));
            recent = column.collect_recent();
        }
        match self.spanning(&tables).and_then(in_runs) {
            Some(runs) => column.publish_inventory(epoch, Inventory::new(runs, recent)),
            None => column.drop_inventory(),
        }
        Ok(())
    }

    /// The filters of these tables, and what they span; `None` when one has no filter.
    fn spanning<'a>(
        &self,
        tables: &'a [LiveTable],
    ) -> Option<Vec<Spanning<'a, Arc<SealedFilter>>>> {
        let spanning = |table: &'a LiveTable| {
            let filter = self.registry.get(table.id()?)?.filter()?;
            let range = table.range.as_ref();
            Some(Spanning { filter, range })
        };
        tables.iter().map(spanning).collect()
    }
}

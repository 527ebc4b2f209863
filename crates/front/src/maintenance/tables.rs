//! Segment filters: load, save, rebuild, and prefetch.

use std::sync::Arc;

use super::{CfRun, Maintenance, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::{EngineError, LiveSegment};
use crate::fault::fault;
use crate::format::Source;
use crate::maintenance::segment_plan::FilterPlan;
use crate::math::{Bits, Items};
use crate::reach::reached;
use crate::segment::SegmentBuilder;
use crate::sorted_runs::{SortedRuns, WithRange};

/// If more SSTs than this overlap at one key, no line is prefetched: sorting them into runs takes
/// quadratic time.
const MOST_RUNS: usize = 256;

/// No segment filter is larger; no memory is allocated for what a file claims beyond (H77).
const MOST_BITS: u64 = 1 << 16;
const MOST_BITS_AN_ENTRY: u64 = 1 << 10;

fn most_bits(entries: u64) -> Bits {
    fault!(AnySizeLoaded, return Bits::new(u64::MAX));
    let bits = entries.saturating_mul(MOST_BITS_AN_ENTRY);
    Bits::new(bits.saturating_add(MOST_BITS))
}

impl Maintenance {
    /// Loads the segment filters that are stored, and drops those of SSTs that came into the last
    /// level with one.
    pub(super) fn load_filters(&self, cf_filter: &CfFilter, tables: &[LiveSegment]) {
        for table in tables {
            let Some(id) = table.id() else { continue };
            let segment = self.registry.open(id);
            if !cf_filter
                .intake()
                .segments()
                .wants_filter(table.is_in_last_level)
            {
                segment.drop_filter();
                continue;
            }
            if segment.filter().is_some() {
                continue;
            }
            let room = self.room(Bits::new(0)).min(most_bits(table.entries));
            if let Some(filter) = self.filter_store.load_within(id, room) {
                reached!(SidecarLoaded);
                segment.set_filter(filter, true);
            }
        }
    }

    pub(super) fn save_filters(&self, tables: &[LiveSegment]) {
        if self.options.read_only_filters {
            return;
        }
        let id_of = |segment: &LiveSegment| {
            fault!(InstanceFilterStored, return segment.id());
            segment.lasting_id
        };
        for id in tables.iter().filter_map(id_of) {
            let Some(segment) = self.registry.get(id) else {
                continue;
            };
            if let Some(filter) = segment.filter()
                && !segment.is_saved()
                && self.filter_store.save(id, &filter)
            {
                segment.mark_saved();
            }
        }
    }

    /// A builder for a segment filter that is missing or exceeds its false-positive rate: it is built
    /// from keys, never by a union of others (H12). Drops a filter that the budget has no room for.
    pub(super) fn builder_for_missing(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
    ) -> Option<SegmentBuilder> {
        let rate = cf_filter.intake().segments().rate()?;
        let id = table.id()?;
        let segment = self.registry.open(id);
        let filter = segment.filter();
        let own = filter.as_ref().map(|filter| filter.chain.size());
        let room = || self.room(own.unwrap_or_default());
        match FilterPlan::of_segment(cf_filter, table, filter.as_deref(), rate, room) {
            FilterPlan::Keep | FilterPlan::None => None,
            FilterPlan::Rebuild => {
                reached!(SegmentFilterRebuilt);
                tracing::info!(segment = %id, "rebuilding a segment filter");
                let builder = SegmentBuilder::new(id, cf_filter.hasher(), rate)
                    .with_prefixes(cf_filter.prefixes())
                    .for_entries(Items::new(table.entries));
                Some(builder)
            }
            FilterPlan::Drop => {
                if filter.is_some() {
                    segment.drop_filter();
                }
                None
            }
        }
    }

    pub(super) fn adopt(&self, builder: SegmentBuilder, table: &LiveSegment) {
        let id = builder.id();
        if let Some(filter) = builder.seal(table.entries, Source::RawKeys) {
            self.registry.open(id).set_filter(filter, false);
        }
    }

    /// Calls `each(key, is_deletion)` for every raw entry of an SST; fails unless it saw all.
    pub(super) fn scan(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        mut each: impl FnMut(&[u8], bool),
    ) -> Result<(), TaskError> {
        let (mut found, mut stopped) = (0, false);
        let mut take = |key: &[u8], is_deletion| {
            each(as_read(key, is_deletion), is_deletion);
            found += 1;
            stopped = found % 4096 == 0 && self.wakeup.stopping();
            !stopped
        };
        let scanned = self
            .engine
            .raw_keys(cf_filter.key_space(), table, &mut take);
        fault!(ScanErrorIgnored, return Ok(()));
        scanned.map_err(|error| match error {
            EngineError::Gone => TaskError::CfGone(cf_filter.name().to_owned()),
            EngineError::Failed(reason) => TaskError::Read {
                path: table.path.clone(),
                reason,
            },
        })?;
        if stopped {
            return Err(TaskError::Stopped);
        }
        fault!(ShortScanAccepted, return Ok(()));
        // Invariant 7 (H18, E3).
        if table.are_entries_exact && found != table.entries {
            return Err(TaskError::Miscount {
                path: table.path.clone(),
                expected: table.entries,
                found,
            });
        }
        Ok(())
    }

    /// Lets lookups prefetch the lines of the segment filters that there are.
    pub(super) fn prefetch_filters(&self, cf_filter: &CfFilter) -> Result<(), TaskError> {
        let tables = self.list(cf_filter)?;
        let with_filter = tables.iter().filter_map(|table| {
            let filter = self.registry.get(table.id()?)?.filter()?;
            let range = table.range.as_ref();
            Some(WithRange { filter, range })
        });
        let with_filter: Vec<_> = with_filter.collect();
        let filters: Vec<_> = with_filter
            .iter()
            .map(|table| Arc::clone(&table.filter))
            .collect();
        if !cf_filter.lookups().prefetches(&filters) {
            cf_filter
                .lookups()
                .prefetch_from_now_on(SortedRuns::new(with_filter, MOST_RUNS));
        }
        Ok(())
    }
}

impl CfRun<'_> {
    /// Builds segment filters from raw keys, for SSTs whose filter is missing or of another rate.
    pub(super) fn rebuild_filters(&mut self) -> Result<(), TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        for table in self.tables.iter() {
            if self.backoff.is_quarantined(&table.path) {
                continue;
            }
            let Some(mut builder) = maintenance.builder_for_missing(cf_filter, table) else {
                continue;
            };
            let _span = tracing::info_span!("rebuild_segment_filter", sst = %table.path).entered();
            match maintenance.scan(cf_filter, table, |key, _| builder.add(key)) {
                Ok(()) => maintenance.adopt(builder, table),
                Err(error) => _ = self.quarantine(table, error)?,
            }
        }
        Ok(())
    }
}

/// A key of an SST. Segment filters have those of tombstones too.
fn as_read(key: &[u8], is_deletion: bool) -> &[u8] {
    fault!(
        TombstonesUnread,
        if is_deletion {
            return &[];
        }
    );
    key
}

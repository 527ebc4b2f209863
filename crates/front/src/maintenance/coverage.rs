//! Coverage of the summary filter.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::{Maintenance, Tables, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::maintenance::backoff::Backoff;
use crate::options::SummarySaves;
use crate::segment::SegmentId;
use crate::sorted_runs::WithRange;
use crate::view::{Coverage, View};

/// Keys of an SST that are inserted into a summary filter together, so that their cache misses
/// overlap.
const TOGETHER: usize = 256;

impl Maintenance {
    /// Publishes what is known without reading an SST.
    pub(super) fn publish_known(&self, cf_filter: &CfFilter, tables: &Tables) {
        let summary = Arc::clone(&cf_filter.view().summary);
        let mut is_complete = cf_filter.coverage().is_complete_by_construction();
        fault!(CoveredWhenListed, is_complete = true);
        if is_complete {
            // Every SST is covered by construction; only the list of them has changed.
            let covered = tables.iter().filter_map(LiveSegment::id).collect();
            cf_filter.publish(tables, summary, Coverage::Complete, covered);
        } else {
            let covered = cf_filter
                .coverage()
                .covered_among(tables.iter().filter_map(LiveSegment::id));
            self.publish_partial(cf_filter, tables, summary, covered, tables);
        }
    }

    pub(super) fn publish_partial(
        &self,
        cf_filter: &CfFilter,
        listed: &Tables,
        summary: Arc<Scalable>,
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

    /// Adds the keys of all uncovered SSTs to the summary filter.
    pub(super) fn cover(
        &self,
        cf_filter: &CfFilter,
        tables: &Tables,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        let summary = Arc::clone(&cf_filter.view().summary);
        let mut covered = cf_filter.coverage().covered();
        // An SST without an id stays uncovered until it is rewritten. Such SSTs come with a
        // secondary, or if the system had no randomness for an id.
        let missing = tables
            .iter()
            .filter(|table| table.id().is_some_and(|id| !covered.contains(&id)))
            .filter(|table| !backoff.is_quarantined(&table.path));
        let missing: Vec<&LiveSegment> = missing.collect();
        // No consolidation only because of SSTs that would be found unreadable again.
        let fresh = missing
            .iter()
            .filter(|table| !backoff.failed_twice(&table.path));
        let entries: u64 = fresh.map(|table| table.entries).sum();
        let mut many = entries > summary.items().get() / 2 && entries > 0;
        fault!(NoConsolidationForUncovered, many = false);
        fault!(CoveredUnread, many = false);
        if many && self.may_consolidate() {
            // The consolidation is what failed, or would fail.
            if backoff.is_waiting() {
                return Ok(());
            }
            return self.consolidate(cf_filter, false, backoff);
        }
        for table in missing {
            let _span = tracing::info_span!("cover", sst = %table.path).entered();
            if let Err(error) = self.insert_keys(cf_filter, &summary, table) {
                self.quarantine(cf_filter, table, error, backoff)?;
                continue;
            }
            covered.extend(table.id());
            cf_filter.mark_covered(&summary, table.id());
            if !self.publish_partial(
                cf_filter,
                tables,
                Arc::clone(&summary),
                covered.clone(),
                tables,
            ) {
                return Err(TaskError::Overtaken);
            }
        }
        self.save_unless_nearly_stored(cf_filter);
        Ok(())
    }

    /// Saves a summary filter that has become complete. A large one is not written for each small
    /// ingested file.
    pub(super) fn save_unless_nearly_stored(&self, cf_filter: &CfFilter) {
        if cf_filter.coverage().is_complete_by_construction() && !cf_filter.is_nearly_stored() {
            self.save_summary(cf_filter);
        }
    }

    /// Inserts the keys of an SST into the summary filter that lookups probe.
    fn insert_keys(
        &self,
        cf_filter: &CfFilter,
        summary: &Scalable,
        table: &LiveSegment,
    ) -> Result<(), TaskError> {
        fault!(CoveredUnread, return Ok(()));
        self.read_keys_into(cf_filter, table, |keys| summary.insert_many(keys))
    }

    /// Quarantines an SST that cannot be read; returns any other error. Returns whether the SST is
    /// still live.
    pub(super) fn quarantine(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        error: TaskError,
        backoff: &mut Backoff,
    ) -> Result<bool, TaskError> {
        let (TaskError::Read { .. } | TaskError::Miscount { .. }) = error else {
            return Err(error);
        };
        let is_live = self.list(cf_filter)?.iter().any(|t| t.path == table.path);
        if is_live {
            tracing::warn!(cf_filter = cf_filter.name(), %error, "the SST is quarantined");
            backoff.quarantine(Instant::now(), &table.path, error.to_string());
        } else {
            // Compacted away since the listing; its successor must be listed.
            fault!(NoWakeForSuccessor, return Ok(false));
            self.wakeup.notify();
        }
        Ok(is_live)
    }

    /// Passes the summary hashes of an SST's keys and their prefixes to `take`, some [`TOGETHER`] at
    /// a time, and builds the segment filter on the way if it is missing. Tombstones are left out: a
    /// key whose newest entry is a tombstone is absent, and older entries of the key are inserted
    /// themselves.
    pub(super) fn read_keys_into(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        take: impl FnMut(&[KeyHash]),
    ) -> Result<(), TaskError> {
        let mut builder = self.builder_for_missing(cf_filter, table);
        let mut hashes = Hashes::new(cf_filter, take);
        self.scan(cf_filter, table, |key, deletion| {
            if let Some(builder) = &mut builder {
                builder.add(key);
            }
            if !deletion {
                hashes.add(key);
            }
        })?;
        hashes.finish();
        if let Some(builder) = builder {
            self.adopt(builder, table);
        }
        Ok(())
    }

    /// Saves the summary filter, unless it is already saved in its present state.
    pub(super) fn save_summary(&self, cf_filter: &CfFilter) {
        let View {
            summary,
            summary_prefixes,
            ..
        } = cf_filter.view();
        // Taken first: if external writes begin from here on, it may not be stored.
        let stored = cf_filter.coverage().to_store(&summary);
        if cf_filter.coverage().is_complete_by_construction()
            && !cf_filter.is_stored()
            && !summary.is_saturated()
            && !self.options.read_only_filters
            && self.options.summary_saves == SummarySaves::WhenUseful
        {
            let (name, mut covered) = (cf_filter.name(), cf_filter.coverage().covered());
            cf_filter.instance_ids().remove_from(&mut covered);
            let is_good = || {
                fault!(DamagedSummaryStored, return true);
                let mut is_wanted = cf_filter.coverage().may_be_stored(&stored);
                fault!(SavedAcrossExternalWrites, is_wanted = true);
                is_wanted && self.scrubber.scrub_growing(cf_filter, &summary)
            };
            let prefixes = cf_filter.prefixes().ids_of(summary_prefixes);
            let store = &self.filter_store;
            if store.save_summary(name, &summary, &covered, prefixes, is_good) {
                cf_filter.coverage().note_stored(stored);
                self.engine.summary_stored(cf_filter.key_space(), &covered);
                if cf_filter.coverage().is_disabled() {
                    // Its column family was dropped meanwhile, and its file removed before.
                    self.filter_store.remove_summary(name);
                }
            }
        }
    }
}

/// The summary hashes of keys and of their prefixes, in ascending order of keys, passed on many at a
/// time.
pub(super) struct Hashes<'a, F> {
    cf_filter: &'a CfFilter,
    take: F,
    hashes: Vec<KeyHash>,
    last: Vec<Option<KeyHash>>,
}

impl<'a, F: FnMut(&[KeyHash])> Hashes<'a, F> {
    pub(super) fn new(cf_filter: &'a CfFilter, take: F) -> Self {
        let prefixes = cf_filter.prefixes().len();
        Self {
            cf_filter,
            take,
            hashes: Vec::with_capacity(TOGETHER + prefixes),
            last: vec![None; prefixes],
        }
    }

    pub(super) fn add(&mut self, key: &[u8]) {
        let hasher = self.cf_filter.hasher();
        let hashes = &mut self.hashes;
        let prefixes = self.cf_filter.prefixes();
        prefixes.each_new_hash(key, hasher, &mut self.last, |hash| {
            hashes.push(hash.for_summary());
        });
        hashes.push(hasher.hash(key).for_summary());
        if hashes.len() >= TOGETHER {
            (self.take)(hashes);
            hashes.clear();
        }
    }

    pub(super) fn finish(mut self) {
        (self.take)(&self.hashes);
    }
}

/// Whether a summary filter that covers these SSTs has the keys of this one.
pub(super) fn is_covered(table: &LiveSegment, covered: &HashSet<SegmentId>) -> bool {
    table.id().is_some_and(|id| covered.contains(&id))
}

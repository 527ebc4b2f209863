//! Consolidation: replaces a grown summary filter with one of the right size, without stopping
//! anybody. Writes feed it beside the old one, the memtables and then the SSTs are read, and the
//! view is swapped: see [`crate::intake`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::plan::KeySource;
use super::reading::{Hashes, NewRanges, ReadSegments};
use super::static_stage::StaticKeys;
use super::{CfRun, Maintenance, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};
use crate::options::FrontOptions;
use crate::rcu;
use crate::reach::reached;
use crate::segment::SegmentId;
use crate::view::{Coverage, Summary};

/// A summary filter that is being built, which every write feeds.
struct Rebuild {
    new: Arc<Scalable>,
    ranges: NewRanges,
    /// The rate of its static first stage, if that is still to come.
    static_rate: Option<Rate>,
    source: KeySource,
}

/// The keys that share a prefix, as long as nothing has counted them.
const KEYS_OF_A_PREFIX: u64 = 8;

/// A summary filter that is rebuilt while it grows has room for this part of its keys again.
const ROOM: u64 = 4;

impl Maintenance {
    /// The settings with the current summary rate and number of column families.
    pub(super) fn summary_options(&self) -> FrontOptions {
        FrontOptions {
            summary: self.cf_filters.summary_rates(),
            ..self.options.clone()
        }
        .shared_by(self.cf_filters.all().len(), self.cf_filters.overhead())
    }

    fn new_summary(
        &self,
        cf_filter: &CfFilter,
        old: &Scalable,
        source: KeySource,
        is_growing: bool,
    ) -> Result<Rebuild, TaskError> {
        let entries = self.entries(cf_filter)?;
        let hashes = entries + self.estimated_prefixes(cf_filter)?;
        // A summary filter that is complete by construction took every key once, unless it is
        // saturated; SSTs count each version of a key. At high false-positive rates its own count
        // misses the keys that set no new bit.
        let options = self.summary_options();
        let is_counted = cf_filter.coverage().is_complete_by_construction() && !old.is_saturated();
        let keys = if is_counted && !cf_filter.lookups().lacks_prefixes() {
            let most = 1 + cf_filter.prefixes().len() as u64;
            old.estimated_items()
                .get()
                .min(entries.saturating_mul(most))
        } else {
            hashes
        };
        let options = match is_growing {
            true => options.growing(),
            false => options,
        };
        let room = match options.summary.at_rest {
            // The count may be a little too low, and a static stage takes what its keys need.
            Some(_) => keys / 64,
            None if is_growing => room_to_grow(keys),
            None => 0,
        };
        let keys = Items::new(keys + room);
        let others = self.cf_filters.size_of_published(Some(cf_filter));
        let (others, ranges) = beside_ranges(cf_filter, &options, keys, others);
        let options = options.fitting(keys, others);
        let imprint = cf_filter.hasher().imprint().for_summary();
        let static_rate = options.summary.at_rest;
        let new = if static_rate.is_some() {
            let size = options.summary_size(keys);
            Scalable::with_pending_first(imprint, options.static_summary(keys, others), size)
        } else {
            Scalable::new(imprint, options.summary(options.with_room(keys), others))
        };
        Ok(Rebuild {
            new: Arc::new(new),
            ranges,
            static_rate,
            source: match source {
                KeySource::Tables { logged: true } => KeySource::Tables {
                    logged: self.begin_log(cf_filter),
                },
                source => source,
            },
        })
    }

    /// The number of entries in SSTs and memtables; each version of a key counts.
    pub(super) fn entries(&self, cf_filter: &CfFilter) -> Result<u64, TaskError> {
        let in_memtables = self.engine.entries_in_memtables(cf_filter.key_space());
        let in_memtables = in_memtables.map_err(|error| TaskError::list(cf_filter, error))?;
        let tables = self.list(cf_filter)?;
        let in_tables: u64 = tables.iter().map(|table| table.entries).sum();
        Ok(in_memtables + in_tables)
    }

    /// How many prefixes the SSTs have, at least: those of the sorted run that has most. If there
    /// are more, the next consolidation has counted them.
    fn estimated_prefixes(&self, cf_filter: &CfFilter) -> Result<u64, TaskError> {
        let prefixes = cf_filter.prefixes();
        if prefixes.is_empty() {
            return Ok(0);
        }
        let in_table = |table: &LiveSegment| {
            let segment = table.id().and_then(|id| self.registry.get(id));
            let filter = segment.and_then(|segment| segment.filter());
            let counted =
                filter.filter(|filter| prefixes.among(&filter.prefixes) == prefixes.all());
            match counted {
                Some(filter) => filter.chain.items().get().saturating_sub(table.entries),
                None => table.entries / KEYS_OF_A_PREFIX * prefixes.len() as u64,
            }
        };
        let mut runs = HashMap::<_, u64>::new();
        for table in self.list(cf_filter)? {
            let run = match table.level {
                Some(level) if level > 0 => (Some(level), None),
                _ => (None, Some(table.path.clone())),
            };
            *runs.entry(run).or_default() += in_table(&table);
        }
        Ok(runs.into_values().max().unwrap_or_default())
    }

    /// Inserts the keys of all memtables into a summary filter that every write feeds; returns them
    /// if they are for its static stage, which is still to come. Waits for the writes that began
    /// before and whose keys no memtable shows.
    fn memtable_hashes(
        &self,
        cf_filter: &CfFilter,
        rebuild: &Rebuild,
    ) -> Result<Vec<KeyHash>, TaskError> {
        fault!(MemtablesUnread, return Ok(Vec::new()));
        let Rebuild {
            new,
            ranges,
            source,
            ..
        } = rebuild;
        let is_for_later = new.is_first_pending();
        let (mut for_later, mut room) = (Vec::new(), Ok(()));
        let is_logged = are_memtables_logged(*source);
        let mut hashes = Hashes::new(cf_filter, ranges, |hashes: &[KeyHash]| {
            if is_logged {
                cf_filter.key_log().append(hashes.iter().copied());
            }
            if !is_for_later {
                new.insert_many(hashes);
                return;
            }
            if room.is_ok() {
                room = for_later.try_reserve(hashes.len());
            }
            if room.is_ok() {
                for_later.extend_from_slice(hashes);
            }
        });
        let (mut found, mut stopped) = (0_u64, false);
        let mut take = |key: &[u8], is_deletion: bool| {
            if !is_deletion {
                hashes.add(key);
            }
            found += 1;
            stopped = found.is_multiple_of(4096) && self.wakeup.stopping();
            !stopped
        };
        // None is flushed (H87).
        let read = self.engine.memtable_keys(cf_filter.key_space(), &mut take);
        read.map_err(|error| TaskError::list(cf_filter, error))?;
        hashes.finish();
        room.map_err(|source| TaskError::Hashes {
            cf: cf_filter.name().to_owned(),
            source,
        })?;
        if stopped {
            return Err(TaskError::Stopped);
        }
        // H100: after the memtables.
        self.wait_for(TaskError::StillHeld(cf_filter.name().to_owned()), || {
            fault!(HeldKeysOverlooked, return Ok(true));
            let is_held = cf_filter.intake().is_held_from_before();
            reached!(HeldKeysAwaited, is_held);
            Ok(!is_held)
        })?;
        Ok(for_later)
    }

    /// Publishes a summary filter with these SSTs' keys, unless external writes happened since the
    /// listing (invariant 5). Returns whether it did.
    fn publish_consolidated(
        &self,
        cf_filter: &CfFilter,
        summary: Summary,
        segments: &ReadSegments,
    ) -> Result<bool, TaskError> {
        let ReadSegments { read, quarantine } = segments;
        let covered: HashSet<SegmentId> = read.iter().filter_map(LiveSegment::id).collect();
        if quarantine.is_empty() {
            return Ok(cf_filter.publish(read, summary, Coverage::Complete, covered));
        }
        reached!(PublishedWithoutSegment);
        // It lacks the keys of the SSTs that could not be read, and so does a log (H48).
        cf_filter.key_log().end();
        segments.check_needed_segments(cf_filter)?;
        Ok(self.publish_partial(cf_filter, read, summary, covered, quarantine))
    }
}

impl CfRun<'_> {
    /// Builds a summary filter of the right size while reads and writes continue; with room for more
    /// keys if it is growing.
    pub(super) fn consolidate(
        &mut self,
        source: KeySource,
        is_growing: bool,
    ) -> Result<(), TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        let _span = tracing::info_span!("consolidate", cf = cf_filter.name()).entered();
        // Each try would leave a set behind that nobody can free, and with it a summary filter.
        if !rcu::tells_when_reads_end() {
            return Err(TaskError::Unawaited(cf_filter.name().to_owned()));
        }
        let now = maintenance.write_position(cf_filter);
        cf_filter.coverage().end_rest();
        let old = cf_filter.view().summary;
        let rebuild = maintenance.new_summary(cf_filter, &old, source, is_growing)?;
        if has_no_room(cf_filter, &rebuild.new) {
            reached!(NoRoomForSummary);
            // The budget has no room for another one. Keep the old one: what it still denies costs
            // no more memory. Drop it if it denies nothing, since it takes budget from the segment
            // filters.
            cf_filter.coverage().rest_at(now);
            if old.is_saturated() && cf_filter.drop_summary() {
                fault!(NoWakeAfterSummaryDrop, return Ok(()));
                maintenance.wakeup.notify();
            }
            return Ok(());
        }
        // Invariant 3: from here on, no key goes to the old one alone, and the insertions that began
        // before are over (H95, H101).
        let outcome = match cf_filter.feed(fed_meanwhile(&old, &rebuild.new)) {
            true => self.fill_and_publish(&rebuild),
            false if cf_filter.coverage().is_disabled() => Err(TaskError::Disabled),
            false => Err(TaskError::Unawaited(cf_filter.name().to_owned())),
        };
        if rebuild.source == (KeySource::Tables { logged: true }) {
            // Invariant 4: only now has it the keys of all memtables and SSTs (H48).
            match &outcome {
                Ok(()) => cf_filter.key_log().complete(),
                Err(_) => cf_filter.key_log().end(),
            }
        }
        // After the new one was published: lookups probe a filter that is still fed (H2, H43).
        fault!(UnfinishedSummaryFed, {
            cf_filter.feed(vec![Arc::clone(&rebuild.new)]);
            return outcome;
        });
        reached!(
            ConsolidationStopped,
            matches!(outcome, Err(TaskError::Stopped))
        );
        reached!(
            ConsolidationOvertaken,
            matches!(outcome, Err(TaskError::Overtaken))
        );
        reached!(
            DisabledInConsolidation,
            matches!(outcome, Err(TaskError::Disabled))
        );
        cf_filter.feed(vec![match outcome {
            Ok(()) => rebuild.new,
            Err(_) => old,
        }]);
        if outcome.is_ok() {
            cf_filter.coverage().rest_at(now);
            tracing::info!(
                cf_filter = cf_filter.name(),
                items = cf_filter.view().summary.items().get(),
                "consolidated the summary filter"
            );
            maintenance.save_summary(cf_filter);
        }
        outcome
    }

    /// Inserts the keys of all memtables and SSTs into a summary filter that every write feeds, and
    /// publishes it.
    fn fill_and_publish(&mut self, rebuild: &Rebuild) -> Result<(), TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        fault!(MemtablesReadLast, {
            let Rebuild {
                new,
                ranges,
                source,
                ..
            } = rebuild;
            let read = self.insert_all_keys(new, ranges, *source, HashSet::new())?;
            maintenance.memtable_hashes(cf_filter, rebuild)?;
            let summary = Arc::clone(new).into();
            return match maintenance.publish_consolidated(cf_filter, summary, &read)? {
                true => Ok(()),
                false => Err(TaskError::Overtaken),
            };
        });
        // Invariant 3: memtables first; a flush in between moves keys to an SST that is listed (H95).
        let in_memtables = maintenance.memtable_hashes(cf_filter, rebuild)?;
        self.insert_ssts_and_publish(rebuild, &in_memtables)
    }

    /// Inserts the keys of all SSTs into a summary filter that every write feeds, and publishes it.
    /// It has those of the memtables already, unless they are for its static stage.
    fn insert_ssts_and_publish(
        &mut self,
        rebuild: &Rebuild,
        in_memtables: &[KeyHash],
    ) -> Result<(), TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        let (new, ranges, source) = (&rebuild.new, &rebuild.ranges, rebuild.source);
        let static_rate = rebuild.static_rate;
        let static_keys = static_rate.map(|rate| StaticKeys { rate, in_memtables });
        let replayed = match source {
            KeySource::Log => maintenance.insert_logged_keys(cf_filter, new)?,
            KeySource::Tables { .. } => None,
        };
        let mut first = Some(match (replayed, static_keys) {
            (Some(segments), _) => {
                reached!(BuiltFromLog);
                segments
            }
            (None, Some(keys)) => self.complete(new, ranges, &keys)?,
            (None, None) => self.insert_all_keys(new, ranges, source, HashSet::new())?,
        });
        let summary = Summary {
            filter: Arc::clone(new),
            ranges: ranges.finish(cf_filter, new),
        };
        // External writes that arrived meanwhile are read too, without reading the other SSTs
        // again.
        let mut read = HashSet::new();
        maintenance.wait_for(TaskError::Overtaken, || {
            let segments = match first.take() {
                Some(segments) => segments,
                None => self.insert_all_keys(new, ranges, source, std::mem::take(&mut read))?,
            };
            reached!(
                SegmentsChangedMeanwhile,
                segments.read.len() != self.tables.len()
            );
            if maintenance.publish_consolidated(cf_filter, summary.clone(), &segments)? {
                return Ok(true);
            }
            reached!(ConsolidationReadOn);
            fault!(ConsolidationStartsOver, return Err(TaskError::Overtaken));
            if let error @ TaskError::Disabled = self.not_published() {
                return Err(error);
            }
            read = segments.read.into_iter().map(|table| table.path).collect();
            Ok(false)
        })
    }
}

/// The memory that is taken beside a summary filter, and the range filter that comes with it, if it is asked
/// for. The budget serves keys first: there is none if it would cost the summary filter bits.
fn beside_ranges(
    cf_filter: &CfFilter,
    options: &FrontOptions,
    keys: Items,
    others: Bits,
) -> (Bits, NewRanges) {
    let Some(ranges) = cf_filter.lookups().ranges() else {
        return (others, NewRanges::omitted());
    };
    let beside = others + ranges.size(keys);
    let fitting = |others| options.clone().fitting(keys, others);
    let (with, without) = (fitting(beside), fitting(others));
    // For a few bits per key nothing is fitted, and the summary filter would get none.
    let room = options.room_beside(beside);
    let has_room = room.is_none_or(|room| with.summary_size(keys) <= room);
    match has_room && with.summary == without.summary {
        true => (beside, NewRanges::being_built(cf_filter.hasher())),
        false => (others, NewRanges::omitted()),
    }
}

/// Whether the budget left no memory to a summary filter that is to replace a complete one.
fn has_no_room(cf_filter: &CfFilter, new: &Scalable) -> bool {
    fault!(RebuiltWithoutRoom, return false);
    new.is_saturated() && cf_filter.coverage().is_complete_by_construction()
}

/// What writes feed while a summary filter is being built (H2).
fn fed_meanwhile(old: &Arc<Scalable>, new: &Arc<Scalable>) -> Vec<Arc<Scalable>> {
    fault!(OldSummaryNotFed, return vec![Arc::clone(new)]);
    vec![Arc::clone(old), Arc::clone(new)]
}

/// Whether the keys of memtables go into the log: one may have been written to an SST before the log
/// began, and the SST be installed later (H48).
fn are_memtables_logged(source: KeySource) -> bool {
    fault!(MemtablesNotLogged, return false);
    source == KeySource::Tables { logged: true }
}

/// The keys that a summary filter of `keys` keys has room for besides, if it grows.
fn room_to_grow(keys: u64) -> u64 {
    fault!(NoRoomToGrow, return 0);
    keys / ROOM
}

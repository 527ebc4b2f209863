//! Consolidation: replaces a grown summary filter with one of the right size, without stopping
//! anybody. Writes feed it beside the old one, the memtables and then the SSTs are read, and the
//! view is swapped: see [`crate::intake`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::coverage::{Hashes, is_covered};
use super::growth::{self, KeySource};
use super::static_stage::StaticKeys;
use super::{Maintenance, Tables, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::maintenance::backoff::Backoff;
use crate::math::{Items, Rate};
use crate::options::FrontOptions;
use crate::rcu;
use crate::segment::SegmentId;
use crate::view::Coverage;

/// All live SSTs of a column family in one epoch.
pub(super) struct ReadSegments {
    /// SSTs whose keys were read.
    pub(super) read: Tables,
    /// SSTs that could not be read.
    pub(super) quarantine: Vec<LiveSegment>,
}

impl ReadSegments {
    /// Fails if an SST could not be read whose keys the current summary filter has.
    pub(super) fn check_needed_segments(&self, cf_filter: &CfFilter) -> Result<(), TaskError> {
        let known = cf_filter.coverage().covered();
        let needed = |table: &&LiveSegment| is_covered(table, &known);
        match self.quarantine.iter().find(needed) {
            None => Ok(()),
            Some(table) => Err(TaskError::Needed {
                path: table.path.clone(),
            }),
        }
    }
}

/// A summary filter that is being built, which every write feeds.
struct Rebuild {
    new: Arc<Scalable>,
    /// The rate of its static first stage, if that is still to come.
    static_rate: Option<Rate>,
    source: KeySource,
}

/// The keys that share a prefix, as long as nothing has counted them.
const KEYS_OF_A_PREFIX: u64 = 8;

/// How often maintenance polls whether external writes, or writes of before, are over.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Polls of what does not end: three seconds.
const MAX_POLLS: u32 = 150;

impl Maintenance {
    /// Filters that are opened to be read, and those of a secondary, take no memory of their own.
    pub(super) fn may_consolidate(&self) -> bool {
        !self.options.read_only_filters
    }

    pub(super) fn consolidation_is_due(&self, cf_filter: &CfFilter, quiet: bool) -> bool {
        let now = self.write_position(cf_filter);
        // If the budget limits the rate of a summary filter, a rebuilt one would be no better.
        if !self.may_consolidate()
            || !cf_filter.coverage().is_complete_by_construction()
            || cf_filter.coverage().is_consolidated(now)
        {
            return false;
        }
        let summary = cf_filter.view().summary;
        growth::end_useless_log(cf_filter, &summary, quiet);
        let mut lacks_prefixes = cf_filter.lookups().lacks_prefixes();
        fault!(PrefixesNeverCompleted, lacks_prefixes = false);
        let due = growth::is_outgrown(&summary, cf_filter.key_log())
            || lacks_prefixes
            || (self.hardly_grows(cf_filter, quiet) && self.would_shrink(cf_filter, &summary))
            || (summary.is_saturated() && self.has_room_again(cf_filter));
        if quiet && !due && !summary.is_saturated() {
            // Skips the check until the next write; it may have to list all SSTs.
            cf_filter.coverage().note_consolidated(Some(now));
        }
        due
    }

    /// Whether a rebuilt summary filter would be smaller, have fewer false positives, or be of the
    /// configured kind.
    fn would_shrink(&self, cf_filter: &CfFilter, summary: &Scalable) -> bool {
        fault!(NoConsolidationAtPause, return false);
        let others = self.cf_filters.size_of_summaries(Some(cf_filter));
        let options = self.summary_options().fitting(summary.items(), others);
        let is_another_kind = options.summary.at_rest.is_some() != summary.begins_static();
        is_oversized(summary, &options) || (summary.items() > Items::new(0) && is_another_kind)
    }

    /// Whether the budget has room for all keys of a saturated summary filter and a quarter more.
    /// Otherwise the next one would soon be saturated as well.
    fn has_room_again(&self, cf_filter: &CfFilter) -> bool {
        fault!(NoConsolidationWhenRoomAgain, return false);
        let Some(budget) = self.filter_budget() else {
            return true;
        };
        let Ok(entries) = self.entries(cf_filter) else {
            return false;
        };
        let grown = Items::new(entries.saturating_add(entries / 4));
        let others = self.cf_filters.size_of_summaries(Some(cf_filter));
        let options = self.summary_options().fitting(grown, others);
        let needed = options.summary_size(grown);
        others + needed <= budget
    }

    /// The settings with the current summary rate and number of column families.
    pub(super) fn summary_options(&self) -> FrontOptions {
        FrontOptions {
            summary: self.cf_filters.summary_rates(),
            ..self.options.clone()
        }
        .shared_by(self.cf_filters.all().len(), self.cf_filters.overhead())
    }

    /// Builds a summary filter of the right size while reads and writes continue; with room for more
    /// keys if it has outgrown its size and the writers are busy.
    pub(super) fn consolidate(
        &self,
        cf_filter: &CfFilter,
        are_writers_busy: bool,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        let _span = tracing::info_span!("consolidate", cf = cf_filter.name()).entered();
        // Each try would leave a set behind that nobody can free, and with it a summary filter.
        if !rcu::tells_when_reads_end() {
            return Err(TaskError::Unawaited(cf_filter.name().to_owned()));
        }
        let now = self.write_position(cf_filter);
        cf_filter.coverage().note_consolidated(None);
        let old = Arc::clone(&cf_filter.view().summary);
        let is_growing = are_writers_busy && growth::is_outgrown(&old, cf_filter.key_log());
        let rebuild = self.new_summary(cf_filter, &old, is_growing)?;
        let new = &rebuild.new;
        let mut has_no_room =
            new.is_saturated() && cf_filter.coverage().is_complete_by_construction();
        fault!(RebuiltWithoutRoom, has_no_room = false);
        if has_no_room {
            // The budget has no room for another one. Keep the old one: what it still denies costs
            // no more memory. Drop it if it denies nothing, since it takes budget from the segment
            // filters.
            cf_filter.coverage().note_consolidated(Some(now));
            if old.is_saturated() && cf_filter.drop_summary() {
                fault!(NoWakeAfterSummaryDrop, return Ok(()));
                self.wakeup.notify();
            }
            return Ok(());
        }
        let mut fed = vec![Arc::clone(&old), Arc::clone(new)];
        fault!(OldSummaryNotFed, fed = vec![Arc::clone(new)]);
        let outcome = match cf_filter.feed(fed) {
            true => self.fill_and_publish(cf_filter, &rebuild, backoff),
            false => Err(TaskError::Unawaited(cf_filter.name().to_owned())),
        };
        if rebuild.source == (KeySource::Tables { logged: true }) {
            match &outcome {
                Ok(()) => cf_filter.key_log().complete(),
                Err(_) => cf_filter.key_log().end(),
            }
        }
        let mut kept = if outcome.is_ok() { new } else { &old };
        fault!(UnfinishedSummaryFed, kept = new);
        cf_filter.feed(vec![Arc::clone(kept)]);
        if outcome.is_ok() {
            cf_filter.coverage().note_consolidated(Some(now));
            tracing::info!(
                cf_filter = cf_filter.name(),
                items = cf_filter.view().summary.items().get(),
                "consolidated the summary filter"
            );
            self.save_summary(cf_filter);
        }
        outcome
    }

    fn new_summary(
        &self,
        cf_filter: &CfFilter,
        old: &Scalable,
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
            entries
                .saturating_mul(most)
                .min(old.estimated_items().get())
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
            None if is_growing => growth::room(keys),
            None => 0,
        };
        let (keys, others) = (
            Items::new(keys + room),
            self.cf_filters.size_of_summaries(Some(cf_filter)),
        );
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
            static_rate,
            source: match is_growing {
                true => self.source_to_grow(cf_filter),
                false => KeySource::Tables { logged: false },
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

    /// Inserts the keys of all memtables and SSTs into a summary filter that every write feeds, and
    /// publishes it.
    fn fill_and_publish(
        &self,
        cf_filter: &CfFilter,
        rebuild: &Rebuild,
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        fault!(MemtablesReadLast, {
            let Rebuild { new, source, .. } = rebuild;
            let read = self.insert_all_keys(new, cf_filter, backoff, HashSet::new(), *source)?;
            self.memtable_hashes(cf_filter, rebuild)?;
            return match self.publish_consolidated(cf_filter, new, &read)? {
                true => Ok(()),
                false => Err(TaskError::Overtaken),
            };
        });
        // Memtables first: a flush in between moves keys to an SST that is listed.
        let in_memtables = self.memtable_hashes(cf_filter, rebuild)?;
        self.insert_ssts_and_publish(cf_filter, rebuild, &in_memtables, backoff)
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
        let Rebuild { new, source, .. } = rebuild;
        let is_for_later = new.is_first_pending();
        let (mut for_later, mut room) = (Vec::new(), Ok(()));
        // One may have been written to an SST before the log began, and the SST be installed later.
        let mut is_logged = *source == KeySource::Tables { logged: true };
        fault!(MemtablesNotLogged, is_logged = false);
        let mut hashes = Hashes::new(cf_filter, |hashes: &[KeyHash]| {
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
        let mut found = 0_u64;
        let mut stopped = false;
        let read = self
            .engine
            .memtable_keys(cf_filter.key_space(), &mut |key, is_deletion| {
                if !is_deletion {
                    hashes.add(key);
                }
                found += 1;
                stopped = found.is_multiple_of(4096) && self.wakeup.stopping();
                !stopped
            });
        read.map_err(|error| TaskError::list(cf_filter, error))?;
        hashes.finish();
        room.map_err(|source| TaskError::Hashes {
            cf: cf_filter.name().to_owned(),
            source,
        })?;
        let mut looks = 0..MAX_POLLS;
        let is_held = || {
            fault!(HeldKeysOverlooked, return false);
            cf_filter.intake().is_held_from_before()
        };
        while !stopped && is_held() {
            if looks.next().is_none() {
                return Err(TaskError::StillHeld(cf_filter.name().to_owned()));
            }
            stopped = self.wakeup.is_stopped_within(POLL_INTERVAL);
        }
        match stopped {
            true => Err(TaskError::Stopped),
            false => Ok(for_later),
        }
    }

    /// Inserts the keys of all SSTs into a summary filter that every write feeds, and publishes it.
    /// It has those of the memtables already, unless they are for its static stage.
    fn insert_ssts_and_publish(
        &self,
        cf_filter: &CfFilter,
        rebuild: &Rebuild,
        in_memtables: &[KeyHash],
        backoff: &mut Backoff,
    ) -> Result<(), TaskError> {
        let (new, source) = (&rebuild.new, rebuild.source);
        let static_keys = rebuild
            .static_rate
            .map(|rate| StaticKeys { rate, in_memtables });
        let replayed = match source {
            KeySource::Log => self.insert_logged_keys(new, cf_filter)?,
            KeySource::Tables { .. } => None,
        };
        let mut absorbed = match (replayed, static_keys) {
            (Some(absorbed), _) => absorbed,
            (None, Some(keys)) => self.complete(cf_filter, new, &keys, backoff)?,
            (None, None) => {
                self.insert_all_keys(new, cf_filter, backoff, HashSet::new(), source)?
            }
        };
        // External writes that arrived meanwhile are read too, without reading the other SSTs
        // again.
        let mut looks = 0..MAX_POLLS;
        while !self.publish_consolidated(cf_filter, new, &absorbed)? {
            fault!(ConsolidationStartsOver, return Err(TaskError::Overtaken));
            if cf_filter.coverage().is_disabled() || looks.next().is_none() {
                return Err(TaskError::Overtaken);
            }
            if self.wakeup.is_stopped_within(POLL_INTERVAL) {
                return Err(TaskError::Stopped);
            }
            let read = absorbed.read.into_iter().map(|table| table.path);
            absorbed = self.insert_all_keys(new, cf_filter, backoff, read.collect(), source)?;
        }
        Ok(())
    }

    /// Publishes a summary filter with these SSTs' keys, unless external writes happened since the
    /// listing. Returns whether it did.
    fn publish_consolidated(
        &self,
        cf_filter: &CfFilter,
        new: &Arc<Scalable>,
        absorbed: &ReadSegments,
    ) -> Result<bool, TaskError> {
        let ReadSegments { read, quarantine } = absorbed;
        let covered: HashSet<SegmentId> = read.iter().filter_map(LiveSegment::id).collect();
        let summary = Arc::clone(new);
        if quarantine.is_empty() {
            return Ok(cf_filter.publish(read, summary, Coverage::Complete, covered));
        }
        // It lacks the keys of the SSTs that could not be read.
        cf_filter.key_log().end();
        absorbed.check_needed_segments(cf_filter)?;
        Ok(self.publish_partial(cf_filter, read, summary, covered, quarantine))
    }

    /// Inserts the keys of all live SSTs into a summary filter, except those whose paths are in
    /// `read`.
    pub(super) fn insert_all_keys(
        &self,
        new: &Scalable,
        cf_filter: &CfFilter,
        backoff: &mut Backoff,
        read: HashSet<String>,
        source: KeySource,
    ) -> Result<ReadSegments, TaskError> {
        let is_logged = source == KeySource::Tables { logged: true };
        let insert = |_: &LiveSegment, keys: &[KeyHash]| {
            new.insert_many(keys);
            if is_logged {
                cf_filter.key_log().append(keys.iter().copied());
            }
        };
        self.read_all_keys(cf_filter, backoff, read, insert)
    }

    /// Passes the summary hashes of the keys of all live SSTs to `take`, except those whose paths
    /// are in `read`. Repeats until a listing has only SSTs that were read or quarantined. `take`
    /// may have got some keys of a quarantined SST.
    pub(super) fn read_all_keys(
        &self,
        cf_filter: &CfFilter,
        backoff: &mut Backoff,
        mut read: HashSet<String>,
        mut take: impl FnMut(&LiveSegment, &[KeyHash]),
    ) -> Result<ReadSegments, TaskError> {
        loop {
            let mut tables = self.list(cf_filter)?;
            let mut all_there = true;
            for table in tables.iter() {
                if read.contains(&table.path) || backoff.is_quarantined(&table.path) {
                    continue;
                }
                if self.wakeup.stopping() {
                    return Err(TaskError::Stopped);
                }
                match self.read_keys_into(cf_filter, table, |keys| take(table, keys)) {
                    Ok(()) => _ = read.insert(table.path.clone()),
                    Err(error) => all_there = self.quarantine(cf_filter, table, error, backoff)?,
                }
                if !all_there {
                    break;
                }
            }
            if all_there {
                let quarantine = tables.take_out(|table| read.contains(&table.path));
                return Ok(ReadSegments {
                    read: tables,
                    quarantine,
                });
            }
        }
    }
}

/// How much higher than the rate of one stage that of several may be. A second stage that is full
/// brings 1.74 times.
const RATE_OF_STAGES: f64 = 1.7;

/// Whether a summary filter exceeds its false-positive rate; or whether one of the right size would
/// have much fewer false positives, or take a quarter less memory. Second stages are a quarter of the
/// first, so all keys are read once for each quarter of growth.
fn is_oversized(summary: &Scalable, options: &FrontOptions) -> bool {
    let rates = options.summary;
    let is_at_rest = summary.begins_static() && summary.stages() == 1;
    let most = match rates.at_rest.filter(|_| is_at_rest) {
        Some(rate) => rate.get() * RATE_OF_STAGES,
        None => rates.growing.get() * 1.01,
    };
    if summary.predicted_rate() > most {
        return true;
    }
    summary.stages() > growth::planned_stages(summary) && {
        let right = options.summary_size(summary.items());
        summary.begins_static()
            || summary.size().get() > right.get() + right.get() / 3
            || summary.predicted_rate() > rates.first().get() * RATE_OF_STAGES
    }
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::is_oversized;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Scalable, Stage};
    use crate::filter_options::FilterOptions;
    use crate::math::{Bits, Items};
    use crate::options::FrontOptions;

    /// With stages that double, the first key past the headroom would triple the memory, and all
    /// keys would be read again for each fiftieth of growth.
    #[test]
    fn a_large_summary_is_outgrown_by_a_quarter_of_its_keys_and_not_before() {
        const FIRST: u64 = 4_000_000;
        let options = FrontOptions::default();
        let summary = options.summary(Items::new(FIRST), Bits::new(0));
        let summary = Scalable::new(imprint(1), summary);
        let mut keys = hashes(1);
        let mut grow_to = |share: f64| {
            let more = (FIRST as f64 * share) as u64 - summary.items().get();
            keys.by_ref()
                .take(more as usize)
                .for_each(|key| summary.append(key));
            (summary.stages(), is_oversized(&summary, &options))
        };
        assert_eq!(grow_to(0.99), (1, false));
        assert_eq!(grow_to(1.03), (2, false));
        assert_eq!(grow_to(1.20), (2, false));
        assert_eq!(grow_to(1.30), (3, true));
    }

    /// Otherwise the first key after a pause would cause all keys to be read again, forever.
    #[test]
    fn static_summary_is_oversized_with_a_quarter_of_its_keys_more_and_not_with_one() {
        const FIRST: u64 = 1_200_000;
        let options = FilterOptions::default().static_filters(true).resolved();
        let rate = options.summary.at_rest.unwrap();
        let keys = Items::new(FIRST);
        let size = options.summary_size(keys);
        let summary = options.static_summary(keys, Bits::new(0));
        let summary = Scalable::with_pending_first(imprint(1), summary, size);
        let mut keys = hashes(1);
        let first = keys.by_ref().take(FIRST as usize);
        summary.complete(Stage::ribbon(first.collect(), rate).unwrap());
        let mut grow_by = |more: u64| {
            let more = keys.by_ref().take(more as usize);
            more.for_each(|key| summary.append(key));
            (summary.stages(), is_oversized(&summary, &options))
        };
        assert_eq!(grow_by(0), (1, false));
        assert_eq!(grow_by(1), (2, false));
        assert_eq!(grow_by(FIRST / 5), (2, false));
        assert_eq!(grow_by(FIRST / 10), (3, true));
    }
}

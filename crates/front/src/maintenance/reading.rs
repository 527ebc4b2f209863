//! The keys of SSTs and of the log, as a summary filter takes them.

use std::cell::RefCell;
use std::collections::HashSet;
use std::time::Instant;

use super::coverage::is_covered;
use super::plan::KeySource;
use super::{CfRun, Maintenance, Tables, TaskError};
use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::filter::Scalable;
use crate::hash::{KeyHash, KeyHasher};
use crate::ranges::Ranges;
use crate::reach::reached;
use lsm_sieve_filter::range::RangeBuilder;

/// Keys that are inserted into a summary filter together, so that their cache misses overlap.
const TOGETHER: usize = 256;

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

impl Maintenance {
    /// Passes the summary hashes of an SST's keys and their prefixes to `take`, and what ranges need of
    /// them to `ranges` or to `take`, some [`TOGETHER`] at a time. Builds the segment filter on the way if it
    /// is missing. Tombstones are left out: a key whose newest entry is a tombstone is absent, and older
    /// entries of the key are inserted themselves. Raw entries are read: an iterator applies deletions that
    /// a crash undoes (H16).
    pub(super) fn read_keys_into(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        ranges: &NewRanges,
        take: impl FnMut(&[KeyHash]),
    ) -> Result<(), TaskError> {
        let mut builder = self.builder_for_missing(cf_filter, table);
        let mut hashes = Hashes::new(cf_filter, ranges, take);
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

    /// Inserts all keys of the log into a summary filter that has those of the memtables. `None` if
    /// the log has ended.
    pub(super) fn insert_logged_keys(
        &self,
        cf_filter: &CfFilter,
        new: &Scalable,
    ) -> Result<Option<ReadSegments>, TaskError> {
        let replay = || cf_filter.key_log().replay(|hashes| new.insert_many(hashes));
        let all_read = |read| ReadSegments {
            read,
            quarantine: Vec::new(),
        };
        fault!(
            ListedAfterReplay,
            return match replay() {
                true => Ok(Some(all_read(self.list(cf_filter)?))),
                false => Ok(None),
            }
        );
        // Invariant 4: listed before the log is read. External writes that come meanwhile are not in
        // it, and the listing is then past (invariant 5).
        let read = self.list(cf_filter)?;
        let is_replayed = replay();
        reached!(LogEndedBeforeRead, !is_replayed);
        Ok(is_replayed.then(|| all_read(read)))
    }
}

impl CfRun<'_> {
    /// Quarantines an SST that cannot be read; returns any other error. Returns whether the SST is
    /// still live.
    pub(super) fn quarantine(
        &mut self,
        table: &LiveSegment,
        error: TaskError,
    ) -> Result<bool, TaskError> {
        let (TaskError::Read { .. } | TaskError::Miscount { .. }) = error else {
            return Err(error);
        };
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        let tables = maintenance.list(cf_filter)?;
        let is_live = tables.iter().any(|t| t.path == table.path);
        reached!(SegmentUnreadable, is_live);
        reached!(SegmentGoneBeforeRead, !is_live);
        if is_live {
            tracing::warn!(cf_filter = cf_filter.name(), %error, "the SST is quarantined");
            let now = Instant::now();
            self.backoff.quarantine(now, &table.path, error.to_string());
        } else {
            // Compacted away since the listing; its successor must be listed.
            fault!(NoWakeForSuccessor, return Ok(false));
            maintenance.wakeup.notify();
        }
        Ok(is_live)
    }

    /// Inserts the keys of all live SSTs into a summary filter, except those whose paths are in
    /// `read`.
    pub(super) fn insert_all_keys(
        &mut self,
        new: &Scalable,
        ranges: &NewRanges,
        source: KeySource,
        read: HashSet<String>,
    ) -> Result<ReadSegments, TaskError> {
        let cf_filter = self.cf_filter;
        let is_logged = source == KeySource::Tables { logged: true };
        self.read_all_keys(ranges, read, |keys| {
            new.insert_many(keys);
            if is_logged {
                cf_filter.key_log().append(keys.iter().copied());
            }
        })
    }

    /// Passes the summary hashes of the keys of all live SSTs to `take`, except those whose paths
    /// are in `read`. Repeats until a listing has only SSTs that were read or quarantined. `take`
    /// may have got some keys of a quarantined SST.
    pub(super) fn read_all_keys(
        &mut self,
        ranges: &NewRanges,
        mut read: HashSet<String>,
        mut take: impl FnMut(&[KeyHash]),
    ) -> Result<ReadSegments, TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        'listing: loop {
            let mut tables = maintenance.list(cf_filter)?;
            for table in tables.iter() {
                if read.contains(&table.path) || self.backoff.is_quarantined(&table.path) {
                    continue;
                }
                if maintenance.wakeup.stopping() {
                    return Err(TaskError::Stopped);
                }
                match maintenance.read_keys_into(cf_filter, table, ranges, &mut take) {
                    Ok(()) => _ = read.insert(table.path.clone()),
                    Err(error) => {
                        if !self.quarantine(table, error)? {
                            continue 'listing;
                        }
                    }
                }
            }
            let quarantine = tables.take_out(|table| read.contains(&table.path));
            return Ok(ReadSegments {
                read: tables,
                quarantine,
            });
        }
    }
}

/// The keys of a range filter that is being built.
pub(super) struct NewRanges(RefCell<Takes>);

/// What takes the keys.
enum Takes {
    Builder(RangeBuilder),
    /// The summary filter takes their blocks.
    Summary,
    /// No range will be answered.
    Nothing,
}

impl NewRanges {
    pub(super) fn being_built(hasher: KeyHasher) -> Self {
        Self(RefCell::new(Takes::Builder(RangeBuilder::new(hasher))))
    }

    /// There is one already: the summary filter takes the blocks of all keys.
    pub(super) fn built() -> Self {
        Self(RefCell::new(Takes::Summary))
    }

    /// There is no room for one.
    pub(super) fn omitted() -> Self {
        Self(RefCell::new(Takes::Nothing))
    }

    /// The range filter of the keys so far. The blocks of those that come later go to the summary filter
    /// (invariant 11).
    pub(super) fn finish(&self, cf_filter: &CfFilter, summary: &Scalable) -> Ranges {
        let ranges = match (self.0.replace(Takes::Nothing), cf_filter.lookups().ranges()) {
            (Takes::Builder(builder), Some(ranges)) => ranges.finish(builder, summary.items()),
            _ => Ranges::Omitted,
        };
        if let Ranges::Known(_) = ranges {
            self.0.replace(Takes::Summary);
        }
        ranges
    }

    /// Takes a key; returns its block if that is for the summary filter.
    fn add(&self, cf_filter: &CfFilter, key: &[u8]) -> Option<KeyHash> {
        let ranges = cf_filter.lookups().ranges()?;
        match &mut *self.0.borrow_mut() {
            Takes::Builder(builder) => {
                let (prefix, rest) = ranges.split(key)?;
                builder.insert(prefix, rest);
                None
            }
            Takes::Nothing => None,
            Takes::Summary => {
                fault!(BlockOfSstNotAdded, return None);
                ranges.block(cf_filter.hasher(), key)
            }
        }
    }
}

/// The summary hashes of keys and of their prefixes (H80), in ascending order of keys, passed on many
/// at a time.
pub(super) struct Hashes<'a, F> {
    cf_filter: &'a CfFilter,
    ranges: &'a NewRanges,
    take: F,
    hashes: Vec<KeyHash>,
    last: Vec<Option<KeyHash>>,
}

impl<'a, F: FnMut(&[KeyHash])> Hashes<'a, F> {
    pub(super) fn new(cf_filter: &'a CfFilter, ranges: &'a NewRanges, take: F) -> Self {
        let prefixes = cf_filter.prefixes().len();
        Self {
            cf_filter,
            ranges,
            take,
            // A key, its block and its prefixes.
            hashes: Vec::with_capacity(TOGETHER + 1 + prefixes),
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
        hashes.extend(self.ranges.add(self.cf_filter, key));
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

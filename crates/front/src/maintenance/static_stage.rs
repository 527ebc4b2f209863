//! Builds the static first stage of a summary filter from the keys of memtables and SSTs. If memory
//! does not hold all hashes at once, those of the SSTs go to a file first. The stage is then built
//! in parts, and the file is read once for each part.
//!
//! The log of keys is not used: it has the keys of deletions, and keys that are gone.

use std::collections::{HashSet, TryReserveError};

use super::reading::{NewRanges, ReadSegments};
use super::{CfRun, Maintenance, TaskError};
use crate::cf_filter::CfFilter;
use crate::fault::fault;
use crate::filter::{RibbonBuilder, Scalable, Stage, StageError};
use crate::hash::KeyHash;
use crate::intake::KeyLog;
use crate::math::Rate;
use crate::reach::reached;

/// What a static stage gets beside the keys of SSTs.
pub(super) struct StaticKeys<'a> {
    pub(super) rate: Rate,
    pub(super) in_memtables: &'a [KeyHash],
}

impl StaticKeys<'_> {
    fn of_memtables(&self) -> &[KeyHash] {
        fault!(StaticStageWithoutMemtables, return &[]);
        self.in_memtables
    }
}

/// The hashes of the keys of all SSTs.
enum Spool {
    Memory(Vec<KeyHash>),
    File(KeyLog),
}

impl Spool {
    fn append(&mut self, hashes: impl Iterator<Item = KeyHash>) -> Result<(), TryReserveError> {
        match self {
            Self::Memory(kept) => {
                for hash in hashes {
                    kept.try_reserve(1)?;
                    kept.push(hash);
                }
            }
            Self::File(log) => log.append(hashes),
        }
        Ok(())
    }

    /// `None` if the file could not be written.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Memory(kept) => Some(kept.len() as u64),
            Self::File(log) => log.hashes(),
        }
    }

    /// Passes all hashes to `take`; false if the file cannot be read.
    fn replay(&self, mut take: impl FnMut(&[KeyHash])) -> bool {
        match self {
            Self::Memory(kept) => {
                take(kept);
                true
            }
            Self::File(log) => {
                log.complete();
                log.replay(take)
            }
        }
    }
}

impl CfRun<'_> {
    /// Puts the static first stage into a summary filter, with the keys of memtables and of all live
    /// SSTs.
    pub(super) fn complete(
        &mut self,
        new: &Scalable,
        ranges: &NewRanges,
        keys: &StaticKeys<'_>,
    ) -> Result<ReadSegments, TaskError> {
        let (maintenance, cf_filter) = (self.maintenance, self.cf_filter);
        let mut spool = maintenance.spool(maintenance.entries(cf_filter)?);
        let (mut last, mut room) = (None, Ok(()));
        let segments = self.read_all_keys(ranges, HashSet::new(), |hashes| {
            // All versions of a key are adjacent in an SST.
            let new = hashes.iter().copied();
            let new = new.filter(|&hash| last.replace(hash) != Some(hash));
            if room.is_ok() {
                room = spool.append(new);
            }
        })?;
        // The stage takes no further key: it comes when all SSTs have been read (H22).
        segments.check_needed_segments(cf_filter)?;
        let cf = || cf_filter.name().to_owned();
        room.map_err(|source| TaskError::Hashes { cf: cf(), source })?;
        let stage = maintenance.static_stage(cf_filter, &spool, keys)?;
        reached!(StaticStageBuilt, matches!(spool, Spool::Memory(_)));
        reached!(StaticStageOfFile, matches!(spool, Spool::File(_)));
        new.complete(stage.ok_or_else(|| TaskError::Spool(cf()))?);
        Ok(segments)
    }
}

impl Maintenance {
    /// In memory for few entries, and where no file can be created.
    fn spool(&self, entries: u64) -> Spool {
        let log = KeyLog::default();
        let are_few = self.options.static_parts(entries).get() == 1;
        match !are_few && log.begin(self.filter_store.folder().path()) {
            true => Spool::File(log),
            false => Spool::Memory(Vec::new()),
        }
    }

    /// A static stage of these keys and of those in a file. `None` if that cannot be read.
    fn static_stage(
        &self,
        cf_filter: &CfFilter,
        spool: &Spool,
        keys: &StaticKeys<'_>,
    ) -> Result<Option<Stage>, TaskError> {
        let cf = || cf_filter.name().to_owned();
        let no_stage = |source: StageError| TaskError::Static { cf: cf(), source };
        let no_room = |source| TaskError::Hashes { cf: cf(), source };
        let Some(spooled) = spool.len() else {
            return Ok(None);
        };
        let most = spooled + keys.in_memtables.len() as u64;
        let parts = self.options.static_parts(most);
        let share = usize::try_from(most / parts).unwrap_or(usize::MAX);
        let mut builder = RibbonBuilder::new(parts, keys.rate);
        while !builder.is_complete() {
            if self.wakeup.stopping() {
                return Err(TaskError::Stopped);
            }
            let mut part = Vec::new();
            // Fallibly (H77). One hash over the capacity would move them all, and a part may exceed its
            // share a little.
            let mut room = part.try_reserve_exact(share.saturating_add(share / 64));
            let mut take = |hashes: &[KeyHash]| {
                for &hash in hashes.iter().filter(|&&hash| builder.is_next(hash)) {
                    if room.is_ok() {
                        room = part.try_reserve(1);
                    }
                    if room.is_ok() {
                        part.push(hash);
                    }
                }
            };
            take(keys.of_memtables());
            if !spool.replay(take) {
                return Ok(None);
            }
            room.map_err(no_room)?;
            if parts.get() == 1 {
                // The number of keys is known exactly, so the stage is sized for it.
                return Stage::ribbon(part, keys.rate).map(Some).map_err(no_stage);
            }
            builder = builder.with_part(part).map_err(no_stage)?;
        }
        builder.finish().map(Some).map_err(no_stage)
    }
}

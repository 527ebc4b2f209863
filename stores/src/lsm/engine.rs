//! The store behind the filters.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, OnceLock, Weak};

use crate::lsm::mutants::Mutated;
use crate::lsm::segment_info::SegmentInfo;
use crate::sync::{Mutex, unpoisoned};
use lsm_sieve_front::engine::{Engine, EngineError, KeySpace, LiveSegment};
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::segment::SegmentId;

/// An LSM store, as maintenance and audits of its filters use it. No lookup waits for any of these.
pub trait Lsm: Send + Sync + 'static {
    /// The live segments: those of the version that readers use, or are about to use.
    ///
    /// # Errors
    /// If they cannot be listed now. Maintenance tries again later.
    fn segments(&self) -> io::Result<Vec<SegmentInfo>>;

    /// Calls `each(key, is_tombstone)` for every entry of a segment, older versions and tombstones
    /// too, until it returns false.
    ///
    /// # Errors
    /// If not every entry was read. An early end must not be reported as success.
    fn entries(
        &self,
        segment: &SegmentInfo,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> io::Result<()>;

    /// Writes the memtables to segments, and returns when these are installed and the [`Memtable`]s
    /// dropped. Called rarely, before the summary filter is rebuilt.
    ///
    /// [`Memtable`]: super::Memtable
    ///
    /// # Errors
    /// If it failed; the old summary filter stays.
    fn flush(&self) -> io::Result<()>;

    /// Whether the store has the key now, whatever the filters say. It must not skip segments by
    /// their filters: this read checks them.
    ///
    /// # Errors
    /// If it cannot be read; then nothing is concluded.
    fn contains(&self, key: &[u8]) -> io::Result<bool>;

    /// Entries in memtables, more or less: the size of the next summary filter depends on it.
    fn entries_in_memtables(&self) -> u64;

    /// A number that grows with each write. Maintenance rebuilds filters when writers pause.
    fn last_sequence(&self) -> u64;
}

/// Connects the filters with the store, once that is open.
#[derive(Default)]
pub(super) struct Link {
    /// Weak, because the store holds the filters.
    lsm: OnceLock<Weak<dyn Lsm>>,
    /// Segments that were begun and not yet listed.
    unlisted: Mutex<HashSet<SegmentId>>,
    pub(super) mutated: Mutated,
}

impl Link {
    pub(super) fn new(options: &FilterOptions) -> Self {
        Self {
            mutated: Mutated::by(options),
            ..Self::default()
        }
    }

    /// The first call counts.
    pub(super) fn connect(&self, lsm: Weak<dyn Lsm>) {
        self.lsm.get_or_init(|| lsm);
    }

    /// The segment is written, or is the output of a merge, and is not installed yet.
    pub(super) fn begin(&self, id: SegmentId) {
        unpoisoned(self.unlisted.lock()).insert(id);
    }

    /// The segment was listed, or will not be.
    pub(super) fn end(&self, id: SegmentId) {
        unpoisoned(self.unlisted.lock()).remove(&id);
    }

    fn list(&self, lsm: &dyn Lsm) -> Result<Vec<SegmentInfo>, EngineError> {
        let mut listed = lsm.segments().map_err(failed)?;
        self.mutated.change_listing(&mut listed);
        Ok(listed)
    }

    fn lsm(&self) -> Result<Arc<dyn Lsm>, EngineError> {
        self.lsm
            .get()
            .and_then(Weak::upgrade)
            .ok_or(EngineError::Gone)
    }
}

impl Engine for Link {
    fn segments(&self, _: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        let listed = self.list(&*self.lsm()?)?;
        let ids = listed.iter().filter_map(|segment| segment.id);
        ids.for_each(|id| self.end(id));
        Ok(listed.iter().map(SegmentInfo::to_live).collect())
    }

    fn raw_keys(
        &self,
        _: &KeySpace,
        segment: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        let lsm = self.lsm()?;
        let live = self.list(&*lsm)?;
        let Some(info) = live.iter().find(|live| live.path() == segment.path) else {
            return Err(EngineError::Failed("it was merged meanwhile".to_owned()));
        };
        let mut read = 0;
        let mut each = |key: &[u8], is_tombstone: bool| {
            read += 1;
            !self.mutated.ends_after(read) && each(key, is_tombstone)
        };
        lsm.entries(info, &mut each).map_err(failed)
    }

    fn entries_in_memtables(&self, _: &KeySpace) -> Result<u64, EngineError> {
        Ok(self.lsm()?.entries_in_memtables())
    }

    /// Each memtable has a hold until it is dropped.
    fn memtable_keys(
        &self,
        _: &KeySpace,
        _: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        if self.mutated.drops_memtables_early() {
            return Ok(());
        }
        self.lsm()?.flush().map_err(failed)
    }

    fn is_idle(&self) -> bool {
        unpoisoned(self.unlisted.lock()).is_empty()
    }

    fn latest_sequence_number(&self) -> u64 {
        self.lsm().map_or(0, |lsm| lsm.last_sequence())
    }

    fn contains(&self, _: &KeySpace, key: &[u8]) -> Option<bool> {
        self.lsm().ok()?.contains(key).ok()
    }
}

fn failed(error: io::Error) -> EngineError {
    EngineError::Failed(error.to_string())
}

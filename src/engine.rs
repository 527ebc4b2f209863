//! RocksDB as the engine behind the filters.

use std::sync::Arc;

use crate::fault::fault;
use crate::hooks::{self, Base, BaseCf};
use lsm_sieve_front::engine::{self, EngineError, KeySpace, LiveSegment};

/// The most entries that [`engine::Engine::contains`] skips while it seeks a key.
const MOST_SKIPPED: u64 = 1_000;

/// An open RocksDB instance, past its filters.
pub(crate) struct RocksEngine {
    base: Arc<Base>,
    is_secondary: bool,
}

impl RocksEngine {
    pub(crate) fn new(base: Arc<Base>, is_secondary: bool) -> Self {
        Self { base, is_secondary }
    }

    /// Calls `act` with the column family of these filters, unless it was dropped.
    fn with_cf<R>(
        &self,
        of: &KeySpace,
        act: impl FnOnce(&BaseCf) -> Result<R, String>,
    ) -> Result<R, EngineError> {
        let done = with_cf_of(of, &self.base, act).ok_or(EngineError::Gone)?;
        done.map_err(EngineError::Failed)
    }
}

/// Calls `act` with the column family of these filters; `None` if it was dropped, even if another
/// has its name now.
pub(crate) fn with_cf_of<R>(
    of: &KeySpace,
    base: &Base,
    act: impl FnOnce(&BaseCf) -> R,
) -> Option<R> {
    base.with_cf(of.id()?, act)
}

impl engine::Engine for RocksEngine {
    fn segments(&self, of: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        let mut for_readers = self.is_secondary;
        fault!(SstsAheadOfReaders, for_readers = false);
        self.with_cf(of, |cf| match for_readers {
            true => hooks::tables_of_readers(cf),
            false => hooks::live_tables(cf),
        })
    }

    fn raw_keys(
        &self,
        of: &KeySpace,
        segment: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        self.with_cf(of, |cf| hooks::raw_keys(cf, segment, each))
    }

    fn entries_in_memtables(&self, of: &KeySpace) -> Result<u64, EngineError> {
        const NAMES: [&str; 2] = [
            "rocksdb.num-entries-active-mem-table",
            "rocksdb.num-entries-imm-mem-tables",
        ];
        self.with_cf(of, |cf| {
            Ok(NAMES.iter().map(|name| cf.int_property(name)).sum())
        })
    }

    fn memtable_keys(
        &self,
        of: &KeySpace,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        self.with_cf(of, |cf| hooks::memtable_keys(cf, each))
    }

    fn is_idle(&self) -> bool {
        let running = [
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
        ];
        running.iter().all(|name| self.base.int_property(name) == 0)
    }

    fn latest_sequence_number(&self) -> u64 {
        self.base.latest_sequence_number()
    }

    fn contains(&self, of: &KeySpace, key: &[u8]) -> Option<bool> {
        with_cf_of(of, &self.base, |cf| cf.contains(key, MOST_SKIPPED)).flatten()
    }

    fn contains_prefix(&self, of: &KeySpace, start: &[u8]) -> Option<bool> {
        // Not by the filters of SSTs, which may have had a part in what is audited.
        let contains = |cf: &BaseCf| hooks::contains_prefix(cf, start, false, MOST_SKIPPED);
        with_cf_of(of, &self.base, contains)?.ok()
    }
}

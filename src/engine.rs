//! RocksDB as the engine behind the filters.

use std::sync::Arc;

use crate::fault::fault;
use crate::hooks::{self, BareCf, BareEngine};
use lsm_sieve_front::engine::{self, EngineError, KeySpace, LiveSegment};

/// The most entries that [`engine::Engine::contains`] skips while it seeks a key.
const MOST_SKIPPED: u64 = 1_000;

/// An open RocksDB instance, past its filters.
pub(crate) struct RocksEngine {
    engine: Arc<BareEngine>,
    is_secondary: bool,
}

impl RocksEngine {
    pub(crate) fn new(engine: Arc<BareEngine>, is_secondary: bool) -> Self {
        Self {
            engine,
            is_secondary,
        }
    }

    /// Calls `act` with the column family of these filters, unless it was dropped.
    fn with_cf<R>(
        &self,
        of: &KeySpace,
        act: impl FnOnce(&BareCf) -> Result<R, String>,
    ) -> Result<R, EngineError> {
        let done = with_cf_of(of, &self.engine, act).ok_or(EngineError::Gone)?;
        done.map_err(EngineError::Failed)
    }
}

/// Calls `act` with the column family of these filters; `None` if it was dropped, even if another
/// has its name now.
pub(crate) fn with_cf_of<R>(
    of: &KeySpace,
    engine: &BareEngine,
    act: impl FnOnce(&BareCf) -> R,
) -> Option<R> {
    engine.with_cf(of.id()?, act)
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
        running
            .iter()
            .all(|name| self.engine.int_property(name) == 0)
    }

    fn latest_sequence_number(&self) -> u64 {
        self.engine.latest_sequence_number()
    }

    fn contains(&self, of: &KeySpace, key: &[u8]) -> Option<bool> {
        with_cf_of(of, &self.engine, |cf| cf.contains(key, MOST_SKIPPED)).flatten()
    }

    fn contains_prefix(&self, of: &KeySpace, start: &[u8]) -> Option<bool> {
        // Not by the filters of SSTs, which may have had a part in what is audited.
        let contains = |cf: &BareCf| hooks::contains_prefix(cf, start, false, MOST_SKIPPED);
        with_cf_of(of, &self.engine, contains)?.ok()
    }

    fn contains_range(&self, of: &KeySpace, from: &[u8], end: &[u8]) -> Option<bool> {
        let contains = |cf: &BareCf| hooks::contains_range(cf, from, end, MOST_SKIPPED);
        with_cf_of(of, &self.engine, contains)?.ok()
    }
}

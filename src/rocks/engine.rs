//! RocksDB as the engine behind the filters.

use std::sync::Arc;

use rocksdb::properties::{NUM_ENTRIES_ACTIVE_MEM_TABLE, NUM_ENTRIES_IMM_MEM_TABLES};
use rocksdb::{BoundColumnFamily, ReadOptions};

use crate::fault::fault;
use crate::front::engine::{self, EngineError, KeySpace, LiveSegment};
use crate::rocks::binding::Engine;
use crate::rocks::hooks;

/// The most entries that [`engine::Engine::contains`] skips while it seeks a key.
const MOST_SKIPPED: u64 = 1_000;

/// An open RocksDB instance.
pub(crate) struct RocksEngine {
    db: Arc<Engine>,
    is_secondary: bool,
}

impl RocksEngine {
    pub(crate) fn new(db: Arc<Engine>, is_secondary: bool) -> Self {
        Self { db, is_secondary }
    }

    fn cf(&self, of: &KeySpace) -> Result<Arc<BoundColumnFamily<'_>>, EngineError> {
        cf_of(of, &self.db).ok_or(EngineError::Gone)
    }
}

/// The column family of these filters; `None` if it was dropped, even if another has its name now.
pub(crate) fn cf_of<'e>(of: &KeySpace, db: &'e Engine) -> Option<Arc<BoundColumnFamily<'e>>> {
    let named = db.cf_handle(of.name())?;
    of.is(hooks::cf_id(&named)).then_some(named)
}

impl engine::Engine for RocksEngine {
    fn segments(&self, of: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        let cf = self.cf(of)?;
        let mut for_readers = self.is_secondary;
        fault!(SstsAheadOfReaders, for_readers = false);
        let listed = if for_readers {
            hooks::tables_of_readers(&cf)
        } else {
            hooks::live_tables(&cf)
        };
        listed.map_err(EngineError::Failed)
    }

    fn raw_keys(
        &self,
        of: &KeySpace,
        segment: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        hooks::raw_keys(&self.cf(of)?, segment, each).map_err(EngineError::Failed)
    }

    fn entries_in_memtables(&self, of: &KeySpace) -> Result<u64, EngineError> {
        let cf = self.cf(of)?;
        let entries = [NUM_ENTRIES_ACTIVE_MEM_TABLE, NUM_ENTRIES_IMM_MEM_TABLES]
            .map(|name| self.db.property_int_value_cf(&cf, name));
        Ok(entries.into_iter().filter_map(|n| n.ok().flatten()).sum())
    }

    fn flush(&self, of: &KeySpace) -> Result<(), EngineError> {
        hooks::flush(&self.cf(of)?).map_err(EngineError::Failed)
    }

    fn flush_would_wait(&self, of: &KeySpace) -> bool {
        let cf = self.cf(of);
        cf.is_ok_and(|cf| hooks::flush_would_wait(&cf))
    }

    fn is_idle(&self) -> bool {
        let running = [
            "rocksdb.num-running-compactions",
            "rocksdb.num-running-flushes",
        ];
        running
            .iter()
            .all(|name| matches!(self.db.property_int_value(*name), Ok(Some(0))))
    }

    fn latest_sequence_number(&self) -> u64 {
        self.db.latest_sequence_number()
    }

    /// Reads by an iterator: a point lookup would trust the segment filters.
    fn contains(&self, of: &KeySpace, key: &[u8]) -> Option<bool> {
        let cf = cf_of(of, &self.db)?;
        let mut options = ReadOptions::default();
        // With a prefix extractor of the user's, RocksDB would check the filters of its SSTs for
        // the prefix.
        options.set_total_order_seek(true);
        options.set_max_skippable_internal_keys(MOST_SKIPPED);
        let mut entries = self.db.raw_iterator_cf_opt(&cf, options);
        entries.seek(key);
        if entries.status().is_ok() {
            return Some(entries.key() == Some(key));
        }
        // More tombstones follow the key's position than a read of one key is worth.
        let value = self.db.get_pinned_cf(&cf, key).ok()?;
        Some(value.is_some())
    }
}

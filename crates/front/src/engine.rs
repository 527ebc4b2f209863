//! The functions of the engine that the filters need, none of them on the read path.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fault::fault;
use crate::key_range::KeyRange;
use crate::segment::SegmentId;

/// The engine, as maintenance and audits use it.
///
/// What the hooks of the engine report comes the other way: a memtable takes a key, a segment is
/// being written, external writes begin, something changed.
pub trait Engine: Send + Sync {
    /// The live segments of a key space, as of one version of the engine: the one that readers
    /// use, or are about to use.
    fn segments(&self, of: &KeySpace) -> Result<Vec<LiveSegment>, EngineError>;

    /// Calls `each(key, is_deletion)` for every raw entry of a segment, until it returns false:
    /// old versions, tombstones and merge operands too.
    fn raw_keys(
        &self,
        of: &KeySpace,
        segment: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError>;

    /// Entries in memtables; each version of a key counts.
    fn entries_in_memtables(&self, of: &KeySpace) -> Result<u64, EngineError>;

    /// Calls `each(key, is_deletion)` for every entry of the memtables, until it returns false.
    ///
    /// An entry that a memtable had before the call is passed, or is in a segment that
    /// [`Engine::segments`] lists from here on, or its writer has a hold (`Intake::hold`). Those that
    /// come meanwhile may be passed or not. Neither writers nor flushes wait.
    fn memtable_keys(
        &self,
        of: &KeySpace,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError>;

    /// Whether no segment is being written now.
    fn is_idle(&self) -> bool;

    /// A number that grows with each write.
    fn latest_sequence_number(&self) -> u64;

    /// Whether the engine has the key, whatever the filters say; `None` if that cannot be read.
    fn contains(&self, of: &KeySpace, key: &[u8]) -> Option<bool>;

    /// Whether the engine has a key that starts with these bytes, whatever the filters say; `None`
    /// if that cannot be read.
    fn contains_prefix(&self, _of: &KeySpace, _start: &[u8]) -> Option<bool> {
        None
    }

    /// Whether the engine has a key from `from` on that is below `end`, whatever the filters say; `None`
    /// if that cannot be read.
    fn contains_range(&self, _of: &KeySpace, _from: &[u8], _end: &[u8]) -> Option<bool> {
        None
    }

    /// Whether the summary filter should be saved now, and not only when it is rebuilt and when
    /// the engine closes.
    fn wants_summary_saved(&self, _of: &KeySpace) -> bool {
        false
    }

    /// The summary filter was saved. It has all keys of these segments.
    fn summary_saved(&self, _of: &KeySpace, _covered: &HashSet<SegmentId>) {}
}

/// Why a function of the engine failed.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the column family is gone")]
    Gone,
    #[error("{0}")]
    Failed(String),
}

/// The keys that one set of filters is for: in RocksDB, a column family.
#[derive(Debug)]
pub struct KeySpace {
    name: String,
    /// The engine's id, once it has a memtable.
    id: AtomicU32,
}

/// No key space has this id: RocksDB counts column families from 0.
const NO_ID: u32 = u32::MAX;

impl KeySpace {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            id: AtomicU32::new(NO_ID),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The engine's id; `None` means that it has not created a memtable yet.
    pub fn id(&self) -> Option<u32> {
        Some(self.id.load(Ordering::Acquire)).filter(|&id| id != NO_ID)
    }

    /// The engine created a memtable for the key space with this id. The latest call counts: during
    /// open, RocksDB also creates memtables for dropped column families that had the same name (H28).
    pub fn memtable_created(&self, id: u32) {
        fault!(
            CfFilterBoundByName,
            if self.id().is_some() {
                return;
            }
        );
        self.id.store(id, Ordering::Release);
    }
}

/// A live segment as the engine describes it: in RocksDB, an SST.
#[derive(Clone, Debug)]
pub struct LiveSegment {
    /// Path of the file, for display and to tell segments apart.
    pub path: String,
    /// The path's bytes.
    pub file: Vec<u8>,
    /// The id in the segment itself, which binds a filter to it forever: never its name, number or
    /// time.
    pub lasting_id: Option<SegmentId>,
    /// A substitute for a missing id while the database is open: see `instance_ids`.
    pub instance_id: Option<SegmentId>,
    /// Whether the engine itself checks the segment filter.
    pub is_checked_by_engine: bool,
    /// Point entries, including old versions and tombstones.
    pub entries: u64,
    /// Whether a read that finds another number of entries is incomplete.
    pub are_entries_exact: bool,
    /// Level of the segment, if it is still in a level.
    pub level: Option<u32>,
    /// Whether that is the last level of a leveled tree.
    pub is_in_last_level: bool,
    /// From its smallest key to its largest, if known.
    pub range: Option<KeyRange>,
}

impl LiveSegment {
    /// The id that binds a filter in memory to this segment: H29.
    pub fn id(&self) -> Option<SegmentId> {
        self.lasting_id.or(self.instance_id)
    }

    /// A segment with this path and nothing else.
    #[cfg(test)]
    pub(crate) fn without_id(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            file: path.into(),
            lasting_id: None,
            instance_id: None,
            is_checked_by_engine: false,
            entries: 0,
            are_entries_exact: true,
            level: None,
            is_in_last_level: false,
            range: None,
        }
    }
}

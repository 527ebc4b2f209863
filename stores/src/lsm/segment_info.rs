//! What a store says of a segment.

use crate::fault::fault;
use lsm_sieve_front::engine::LiveSegment;
use lsm_sieve_front::key_range::KeyRange;
use lsm_sieve_front::segment::SegmentId;

/// A live segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// A name for error messages, unique among the live segments. If the segment has an id, the name
    /// may have been that of another before.
    pub name: String,
    /// The id that is stored in the segment. `None` if it was written without one; it is then
    /// identified by its name, which must not name other bytes while the store is open.
    pub id: Option<SegmentId>,
    /// Entries, older versions and tombstones too.
    pub entries: u64,
    /// The smallest key and the largest. `None` if they are not known: the segment may then hold
    /// any key.
    pub range: Option<(Vec<u8>, Vec<u8>)>,
    /// Its level, 0 being the newest. Over a memory budget, filters of high levels are dropped
    /// first.
    pub level: Option<u32>,
}

impl SegmentInfo {
    /// What tells the segment from all others while the store is open: those that are gone, too.
    pub(super) fn path(&self) -> String {
        fault!(SegmentKnownByName, return self.name.clone());
        match self.id {
            Some(id) => format!("{} ({id})", self.name),
            None => self.name.clone(),
        }
    }

    pub(super) fn to_live(&self) -> LiveSegment {
        let range = self.range.as_ref();
        LiveSegment {
            path: self.path(),
            file: self.name.clone().into_bytes(),
            lasting_id: self.id,
            instance_id: None,
            is_checked_by_engine: false,
            entries: self.entries,
            are_entries_exact: true,
            level: self.level,
            is_in_last_level: false,
            range: range.map(|(first, last)| KeyRange::new(first, last)),
        }
    }
}

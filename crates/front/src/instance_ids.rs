//! Ids of SSTs that carry none. They were written by a RocksDB before 6.24, and their properties
//! lack the parts of a unique id.
//!
//! Such a segment is identified by its file, but only while the database is open. While a database is
//! open to be written, RocksDB 11.8.1 uses no file number twice: `VersionSet::next_file_number_`
//! only grows, by `NewFileNumber` and `FetchAddFileNumber`, and code that stores another value runs
//! only during open. So a live file has the contents that it had when it was listed first. After a
//! crash a number may come back with other contents. Therefore these ids are random and never
//! stored, and the next open reads such a segment again.
//!
//! A secondary gives none of these ids: another process assigns the file numbers, and it may crash.

use std::collections::{HashMap, HashSet};

use crate::engine::LiveSegment;
use crate::fault::fault;
use crate::segment::SegmentId;
use crate::sync::{Mutex, unpoisoned};

/// The ids of one column family, by the paths of the files.
#[derive(Debug, Default)]
pub struct InstanceIds(Mutex<HashMap<String, SegmentId>>);

impl InstanceIds {
    /// Gives an id to each of these segments that has none. `segments` are all live segments;
    /// others are forgotten.
    pub(crate) fn assign(&self, segments: &mut [LiveSegment]) {
        let mut ids = unpoisoned(self.0.lock());
        let mut live = HashMap::new();
        for segment in segments
            .iter_mut()
            .filter(|segment| segment.lasting_id.is_none())
        {
            let known = ids.remove(&segment.path);
            segment.instance_id = known.or_else(|| new_id(&segment.path));
            live.extend(segment.instance_id.map(|id| (segment.path.clone(), id)));
        }
        *ids = live;
    }

    /// Sets the ids of these segments that were given before.
    pub fn recall(&self, segments: &mut [LiveSegment]) {
        let ids = unpoisoned(self.0.lock());
        for segment in segments
            .iter_mut()
            .filter(|segment| segment.lasting_id.is_none())
        {
            segment.instance_id = ids.get(&segment.path).copied();
        }
    }

    /// Removes them from what is to be stored.
    pub(crate) fn remove_from(&self, ids: &mut HashSet<SegmentId>) {
        fault!(InstanceIdFromFileNumber, return);
        for id in unpoisoned(self.0.lock()).values() {
            ids.remove(id);
        }
    }
}

/// `None` if the system has no randomness: the segment then stays uncovered.
fn new_id(path: &str) -> Option<SegmentId> {
    fault!(SstsWithoutIdUncovered, return None);
    fault!(InstanceIdFromFileNumber, {
        let mut bytes = [0; 16];
        let name = path.rsplit('/').next().unwrap_or(path);
        name.bytes()
            .zip(&mut bytes)
            .for_each(|(byte, to)| *to = byte);
        return Some(SegmentId::from_bytes(bytes));
    });
    SegmentId::random().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(paths: &[&str]) -> Vec<LiveSegment> {
        let segment = |path: &&str| LiveSegment::without_id(path);
        paths.iter().map(segment).collect()
    }

    fn ids(segments: &[LiveSegment]) -> Vec<Option<SegmentId>> {
        segments.iter().map(LiveSegment::id).collect()
    }

    #[test]
    fn instance_id_is_kept_only_while_its_segment_is_live() {
        let given = InstanceIds::default();
        let mut two = segments(&["/a", "/b"]);
        given.recall(&mut two);
        assert_eq!(ids(&two), [None, None]);
        given.assign(&mut two);
        let [Some(a), Some(b)] = ids(&two)[..] else {
            panic!("{two:?}");
        };
        assert_ne!(a, b);
        let mut again = segments(&["/b", "/a"]);
        given.recall(&mut again);
        assert_eq!(ids(&again), [Some(b), Some(a)]);
        given.assign(&mut segments(&["/b"]));
        let mut back = segments(&["/a", "/b"]);
        given.assign(&mut back);
        assert!(ids(&back)[0] != Some(a) && ids(&back)[1] == Some(b));
    }

    #[test]
    fn instance_ids_are_left_out_of_what_is_stored() {
        let own = SegmentId::from_bytes([7; 16]);
        let mut two = segments(&["/a", "/b"]);
        two[0].lasting_id = Some(own);
        let given = InstanceIds::default();
        given.assign(&mut two);
        assert_eq!((two[0].id(), two[0].lasting_id), (Some(own), Some(own)));
        assert_eq!(two[1].lasting_id, None);
        let mut covered: HashSet<_> = two.iter().filter_map(LiveSegment::id).collect();
        assert_eq!(covered.len(), 2);
        given.remove_from(&mut covered);
        assert_eq!(covered, HashSet::from([own]));
    }
}

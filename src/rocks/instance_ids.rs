//! Ids of SSTs that carry none: those of a RocksDB before 6.24, whose properties lack what a unique id is
//! made of.
//!
//! Such an SST is bound by its file, for as long as the database is open and no longer. While a database is
//! open to be written, RocksDB 11.8.1 gives no number twice: `VersionSet::next_file_number_` only grows, by
//! `NewFileNumber` and `FetchAddFileNumber`; what stores another value runs while the database opens. So a file
//! that is live has the contents that it had when it was listed first. After a crash a number may come back
//! with other contents: ids are random, and none is stored. The next open reads such an SST once more.
//!
//! A secondary has none of these ids: the numbers that it sees are given by another process, which may crash.

use std::collections::{HashMap, HashSet};

use super::ffi::LiveTable;
use crate::planted::planted;
use crate::segment::SegmentId;
use crate::sync::{Mutex, unpoisoned};

/// Those of one column family, by the paths of the files.
#[derive(Debug, Default)]
pub(crate) struct InstanceIds(Mutex<HashMap<String, SegmentId>>);

impl InstanceIds {
    /// Gives each of these SSTs an id that has none. They are all that are live: what is not among them is
    /// forgotten.
    pub(crate) fn assign(&self, tables: &mut [LiveTable]) {
        let mut ids = unpoisoned(self.0.lock());
        let mut live = HashMap::new();
        for table in tables.iter_mut().filter(|table| table.has_no_id()) {
            let known = ids.remove(&table.path);
            table.instance = known.or_else(|| new_id(&table.path));
            live.extend(table.instance.map(|id| (table.path.clone(), id)));
        }
        *ids = live;
    }

    /// Tells the ids of these SSTs that were given before.
    pub(crate) fn recall(&self, tables: &mut [LiveTable]) {
        let ids = unpoisoned(self.0.lock());
        for table in tables.iter_mut().filter(|table| table.has_no_id()) {
            table.instance = ids.get(&table.path).copied();
        }
    }

    /// Takes them out of what is to be stored.
    pub(crate) fn remove_from(&self, ids: &mut HashSet<SegmentId>) {
        if planted!(NumberBindsForEver) {
            return;
        }
        for id in unpoisoned(self.0.lock()).values() {
            ids.remove(id);
        }
    }
}

/// `None` where the system has no randomness to give: the SST then stays uncovered.
fn new_id(path: &str) -> Option<SegmentId> {
    if planted!(OldTablesUnbound) {
        return None;
    }
    if planted!(NumberBindsForEver) {
        let mut bytes = [0; 16];
        let name = path.bytes().rev().zip(&mut bytes);
        name.for_each(|(byte, to)| *to = byte);
        return Some(SegmentId::from_bytes(bytes));
    }
    SegmentId::random().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables(paths: &[&str]) -> Vec<LiveTable> {
        let table = |path: &&str| LiveTable::without_id(path);
        paths.iter().map(table).collect()
    }

    fn ids(tables: &[LiveTable]) -> Vec<Option<SegmentId>> {
        tables.iter().map(LiveTable::id).collect()
    }

    #[test]
    fn an_id_lasts_as_long_as_its_sst_is_live_and_no_longer() {
        let given = InstanceIds::default();
        let mut two = tables(&["/a", "/b"]);
        given.recall(&mut two);
        assert_eq!(ids(&two), [None, None]);
        given.assign(&mut two);
        let [Some(a), Some(b)] = ids(&two)[..] else {
            panic!("{two:?}");
        };
        assert_ne!(a, b);
        let mut again = tables(&["/b", "/a"]);
        given.recall(&mut again);
        assert_eq!(ids(&again), [Some(b), Some(a)]);
        given.assign(&mut tables(&["/b"]));
        let mut back = tables(&["/a", "/b"]);
        given.assign(&mut back);
        assert!(ids(&back)[0] != Some(a) && ids(&back)[1] == Some(b));
    }

    #[test]
    fn what_is_stored_names_ssts_with_ids_of_their_own() {
        let own = SegmentId::from_bytes([7; 16]);
        let mut two = tables(&["/a", "/b"]);
        two[0].unique = Some(own);
        let given = InstanceIds::default();
        given.assign(&mut two);
        assert_eq!((two[0].id(), two[0].lasting_id()), (Some(own), Some(own)));
        assert_eq!(two[1].lasting_id(), None);
        let mut covers: HashSet<_> = two.iter().filter_map(LiveTable::id).collect();
        assert_eq!(covers.len(), 2);
        given.remove_from(&mut covers);
        assert_eq!(covers, HashSet::from([own]));
    }
}

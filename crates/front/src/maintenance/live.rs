//! Which SSTs are live, as far as RocksDB lists them.

use std::collections::{HashMap, HashSet};

use crate::fault::fault;
use crate::segment::SegmentId;

/// The SSTs of each column family at its last listing.
#[derive(Debug, Default)]
pub(super) struct LiveSegments(HashMap<String, HashSet<SegmentId>>);

impl LiveSegments {
    /// Records the listing of a column family.
    pub(super) fn record(&mut self, cf: &str, tables: impl Iterator<Item = SegmentId>) {
        self.0.insert(cf.to_owned(), tables.collect());
    }

    /// The SSTs of these column families, which must be all; `None` if one was never listed. There is
    /// none if the engine was closed past its handle: then nothing is known either. A
    /// column family that can no longer be listed keeps its last listing. So one bad SST does not
    /// keep the filters of all dead SSTs in place.
    pub(super) fn of<'a>(
        &mut self,
        cfs: impl Iterator<Item = &'a str>,
    ) -> Option<HashSet<SegmentId>> {
        let cfs: HashSet<&str> = cfs.collect();
        self.0.retain(|name, _| cfs.contains(&**name));
        let mut are_listed = self.0.len() == cfs.len() && !cfs.is_empty();
        fault!(NoFamilyIsNoSst, are_listed = self.0.len() == cfs.len());
        are_listed.then(|| self.0.values().flatten().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(numbers: &[u8]) -> impl Iterator<Item = SegmentId> {
        numbers.iter().map(|&n| SegmentId::from_bytes([n; 16]))
    }

    #[test]
    fn a_family_that_cannot_be_listed_keeps_what_it_had() {
        let mut live = LiveSegments::default();
        live.record("one", ids(&[1, 2]));
        let both = ["one", "two"];
        assert_eq!(live.of(both.into_iter()), None, "never listed");
        live.record("two", ids(&[3]));
        assert_eq!(live.of(both.into_iter()), Some(ids(&[1, 2, 3]).collect()));
        live.record("one", ids(&[2, 4]));
        assert_eq!(live.of(both.into_iter()), Some(ids(&[2, 3, 4]).collect()));
        assert_eq!(live.of(["one"].into_iter()), Some(ids(&[2, 4]).collect()));
        assert_eq!(live.of(both.into_iter()), None, "it was gone meanwhile");
        assert_eq!(live.of([].into_iter()), None, "the engine was closed");
    }
}

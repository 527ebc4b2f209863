//! Which tables are live, as far as RocksDB lists them.

use std::collections::{HashMap, HashSet};

use crate::segment::SegmentId;

/// The tables of each family when it was listed last.
#[derive(Debug, Default)]
pub(super) struct Live(HashMap<String, HashSet<SegmentId>>);

impl Live {
    /// Notes what a listing of a family told.
    pub(super) fn note(&mut self, family: &str, tables: impl Iterator<Item = SegmentId>) {
        self.0.insert(family.to_owned(), tables.collect());
    }

    /// All tables of these families, which are all that there are; `None` where one was never listed. One that
    /// cannot be listed any more keeps what it had, so that one bad table does not leave the filters of all
    /// that are gone where they are.
    pub(super) fn of<'a>(
        &mut self,
        families: impl Iterator<Item = &'a str>,
    ) -> Option<HashSet<SegmentId>> {
        let families: HashSet<&str> = families.collect();
        self.0.retain(|name, _| families.contains(&**name));
        let are_listed = self.0.len() == families.len();
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
        let mut live = Live::default();
        live.note("one", ids(&[1, 2]));
        let both = ["one", "two"];
        assert_eq!(live.of(both.into_iter()), None, "never listed");
        live.note("two", ids(&[3]));
        assert_eq!(live.of(both.into_iter()), Some(ids(&[1, 2, 3]).collect()));
        live.note("one", ids(&[2, 4]));
        assert_eq!(live.of(both.into_iter()), Some(ids(&[2, 3, 4]).collect()));
        assert_eq!(live.of(["one"].into_iter()), Some(ids(&[2, 4]).collect()));
        assert_eq!(live.of(both.into_iter()), None, "it was gone meanwhile");
    }
}

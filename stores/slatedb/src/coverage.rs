//! Which SSTs of a manifest are covered, and by which filters.
//!
//! A [`Coverage`] exists only if every SST is covered: by the summary, or by a filter of its own.
//! Only a `Coverage` can deny a key.
//!
//! SSTs outside the summary are put into groups in which ranges of keys ascend and do not overlap,
//! as in a sorted run. At most a few SSTs of a group can hold a key.

use crate::answer::Answer;
use crate::binding::{Binding, SegmentFilter, Summary};
use crate::ssts::Sst;
use bytes::Bytes;
use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::filter::Scalable;
use lsm_sieve_filter::hash::KeyHash;
use std::collections::HashMap;
use std::sync::Arc;

/// The filters of SSTs, by the SST's id.
pub(crate) type Residents = HashMap<SegmentId, Arc<SegmentFilter>>;

/// Filters that hold every key of a manifest together.
#[derive(Debug)]
pub(crate) struct Coverage {
    binding: Binding,
    summary: Option<Arc<Summary>>,
    groups: Vec<Vec<Resident>>,
    log: Option<Arc<Scalable>>,
}

/// An SST outside the summary.
#[derive(Debug)]
struct Resident {
    first: Option<Bytes>,
    last: Option<Bytes>,
    filter: Arc<SegmentFilter>,
}

impl Coverage {
    /// Covers all of these SSTs and the keys of the log; `None` if an SST has no filter.
    pub(crate) fn complete(
        binding: Binding,
        ssts: &[Sst],
        summary: Option<Arc<Summary>>,
        residents: &Residents,
        log: Option<Arc<Scalable>>,
    ) -> Option<Self> {
        let mut groups: Vec<Vec<Resident>> = Vec::new();
        for sst in uncovered(ssts, summary.as_deref()) {
            let resident = Resident {
                first: sst.first().map(Bytes::copy_from_slice),
                last: sst.last().map(Bytes::copy_from_slice),
                filter: residents.get(&sst.id())?.clone(),
            };
            match groups.last_mut() {
                Some(group) if group.last().is_some_and(|last| resident.follows(last)) => {
                    group.push(resident);
                }
                _ => groups.push(vec![resident]),
            }
        }
        Some(Self {
            binding,
            summary,
            groups,
            log,
        })
    }

    /// The filters' answer.
    #[inline]
    pub(crate) fn answer(&self, key: &[u8]) -> Answer {
        let hash = self.binding.hash(key);
        let may_contain = self
            .summary
            .as_ref()
            .is_some_and(|summary| summary.chain.may_contain(hash.for_summary()))
            || self.log.as_ref().is_some_and(|log| log.may_contain(hash))
            || self.groups.iter().any(|group| may_hold(group, key, hash));
        if may_contain {
            Answer::Maybe
        } else {
            Answer::Absent
        }
    }

    /// Whether no bit of a filter has changed in memory. Filters that take keys are not checked.
    pub(crate) fn is_intact(&self) -> bool {
        let summary = self.summary.as_ref();
        let mut residents = self.groups.iter().flatten();
        summary.is_none_or(|summary| summary.is_intact())
            && residents.all(|resident| resident.filter.is_intact())
    }

    /// Clears a bit of the summary, as a memory fault would.
    #[cfg(test)]
    pub(crate) fn clear_one_bit(&self) {
        let summary = self.summary.as_ref();
        summary.unwrap().chain.stages()[0].clear_one_bit();
    }

    pub(crate) fn summary(&self) -> Option<Arc<Summary>> {
        self.summary.clone()
    }

    /// Bytes of the summary; 0 if there is none.
    pub(crate) fn summary_bytes(&self) -> u64 {
        self.summary.as_ref().map_or(0, |summary| summary.bytes)
    }

    /// SSTs that have a filter of their own.
    pub(crate) fn resident_filters(&self) -> usize {
        self.groups.iter().map(Vec::len).sum()
    }
}

/// The SSTs that are outside the summary.
pub(crate) fn uncovered<'s>(
    ssts: &'s [Sst],
    summary: Option<&'s Summary>,
) -> impl Iterator<Item = &'s Sst> {
    let is_covered = move |sst: &Sst| summary.is_some_and(|all| all.covered.contains(&sst.id()));
    ssts.iter().filter(move |sst| !is_covered(sst))
}

impl Resident {
    /// Whether all its keys are at or after those of another.
    fn follows(&self, before: &Self) -> bool {
        match (&before.last, &self.first) {
            (Some(last), Some(first)) => last <= first,
            _ => false,
        }
    }

    fn begins_by(&self, key: &[u8]) -> bool {
        self.first.as_ref().is_none_or(|first| first <= key)
    }

    fn reaches(&self, key: &[u8]) -> bool {
        self.last.as_ref().is_none_or(|last| last >= key)
    }
}

/// Whether an SST of the group may hold the key. Versions of one key may be in several SSTs, the
/// last key of one being the first of the next.
fn may_hold(group: &[Resident], key: &[u8], hash: KeyHash) -> bool {
    let begun = group.partition_point(|resident| resident.begins_by(key));
    let candidates = group[..begun].iter().rev();
    candidates
        .take_while(|resident| resident.reaches(key))
        .any(|resident| resident.filter.chain.may_contain(hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::KeyHashes;
    use lsm_sieve_filter::math::Rate;

    fn resident(keys: &[&'static str]) -> Resident {
        let mut hashes = KeyHashes::new(Binding::of_a_test());
        keys.iter().for_each(|key| hashes.add(key.as_bytes()));
        let id = SegmentId::from_bytes([3; 16]);
        Resident {
            first: keys.first().map(|key| Bytes::from_static(key.as_bytes())),
            last: keys.last().map(|key| Bytes::from_static(key.as_bytes())),
            filter: Arc::new(hashes.seal(id, Rate::ONE_PERCENT).unwrap()),
        }
    }

    /// A key whose versions are split over SSTs was denied where only the last SST was probed.
    #[test]
    fn a_key_at_a_boundary_is_looked_for_on_both_sides() {
        let group = [
            resident(&["a", "m"]),
            resident(&["m"]),
            resident(&["m", "z"]),
        ];
        for key in ["a", "m", "z"] {
            assert!(may_hold(
                &group,
                key.as_bytes(),
                Binding::of_a_test().hash(key.as_bytes())
            ));
        }
        let absent = (0..10_000).map(|i| format!("k{i}"));
        let maybe = absent.filter(|key| {
            may_hold(
                &group,
                key.as_bytes(),
                Binding::of_a_test().hash(key.as_bytes()),
            )
        });
        assert!(maybe.count() < 300);
    }

    #[test]
    fn without_bounds_every_key_is_in_range() {
        let mut open = resident(&["a", "m"]);
        (open.first, open.last) = (None, None);
        assert!(!open.follows(&resident(&["a"])) && !resident(&["z"]).follows(&open));
        let group = [open];
        assert!(may_hold(&group, b"m", Binding::of_a_test().hash(b"m")));
    }

    /// Without checksums in memory, a bit that flips hides keys until the process ends.
    #[test]
    fn a_bit_that_flips_in_memory_is_found() {
        let sound = Coverage {
            binding: Binding::of_a_test(),
            summary: None,
            groups: vec![vec![resident(&["a", "m"])]],
            log: None,
        };
        assert!(sound.is_intact());
        sound.groups[0][0].filter.chain.stages()[0].clear_one_bit();
        assert!(!sound.is_intact());
    }

    #[test]
    fn nothing_at_all_is_complete_and_denies() {
        let none =
            Coverage::complete(Binding::of_a_test(), &[], None, &Residents::new(), None).unwrap();
        assert_eq!(none.answer(b"key"), Answer::Absent);
    }
}

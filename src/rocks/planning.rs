//! The merge planner's word on the filter of one table.
//!
//! Flush and compaction hand every key of the table that they write to its builder, so its filter
//! is rebuilt at the right size for nothing. A table that came otherwise, or whose filter no longer
//! keeps the promise, has its keys on disk.

use std::cmp::Reverse;

use crate::filter::{Chain, Stage};
use crate::hash::Imprint;
use crate::math::{Bits, Items, Rate};
use crate::segment::{
    Budget, Decision, Facts, Fraction, Input, InputStage, Keys, SealedFilter, SegmentId, plan,
};

/// Stages that the filter of one table may have: each is a cache line of a look-up in it.
const STAGES: u32 = 4;

/// Limits that a decision must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The promised rate of a table's filter.
    pub(crate) rate: Rate,
    /// What a filter takes that is made anew.
    pub(crate) needed: Bits,
}

/// What to do about the filter of a table of so many entries, whose keys are on disk. `room` is the memory
/// for another one, what the table's filter takes now included; it is asked only if one may be made.
pub(crate) fn decide(
    id: SegmentId,
    filter: Option<&SealedFilter>,
    imprint: Imprint,
    entries: Items,
    limits: Limits,
    room: impl FnOnce() -> Bits,
) -> Decision {
    let kept = filter.filter(|filter| filter.rate == limits.rate);
    let filter = kept.map(|filter| &filter.chain);
    let items = filter.map_or(entries, Chain::items).max(Items::new(1));
    // Which filter goes when there are too many is not said by the order of the tables.
    let fits = kept.is_some() || limits.needed <= room();
    let input = Input {
        id,
        items,
        imprint: filter.map_or(imprint, Chain::imprint),
        stages: filter.map_or_else(Vec::new, |chain| chain.stages().iter().map(stage).collect()),
    };
    let budget = Budget {
        rate: limits.rate,
        probed_stages: STAGES,
        // The planner counts a filter of the textbook; ours must fit as it will be built, and is enough.
        bits: Bits::new(if fits { u64::MAX } else { 0 }),
    };
    plan(
        &[input],
        &Facts {
            keys: Keys::OnDisk,
            overlap: Fraction::NONE,
        },
        &budget,
    )
}

/// A filter in memory, as the budget sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) id: SegmentId,
    /// The table's level; `None` when it is not placed.
    pub(crate) level: Option<u32>,
    pub(crate) size: Bits,
}

/// What orders tables by the worth of a bit of their filters, the best first.
///
/// A look-up goes through one table a level, and through all of level 0. So the filter of a table in
/// level 0 is asked by each, that of one of a hundred tables by one in a hundred, for as many bits;
/// and where a look-up finds its key, that is mostly in the last level, whose filters then were asked
/// for nothing. (Dayan, Athanassoulis & Idreos, "Monkey", SIGMOD 2017, spend the fewest bits there
/// for the same reason.) Within a level a filter is asked as often as its table is large; the larger
/// goes first, so that fewer go.
pub(crate) fn worth(level: Option<u32>, size: u64) -> (u32, u64) {
    (level.unwrap_or(u32::MAX), size)
}

/// The filters to drop in order to take `over` bits less, those of the least worth.
pub(crate) fn least_worth(mut held: Vec<Held>, over: Bits) -> Vec<SegmentId> {
    held.sort_by_key(|filter| Reverse(worth(filter.level, filter.size.get())));
    let mut freed = 0_u64;
    let goes = held.iter().take_while(|filter| {
        let goes = freed < over.get();
        freed = freed.saturating_add(filter.size.get());
        goes
    });
    goes.map(|filter| filter.id).collect()
}

fn stage(stage: &Stage) -> InputStage {
    let rate = Fraction::new(stage.predicted_rate()).unwrap_or(Fraction::ALL);
    InputStage {
        shape: stage.shape(),
        rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::Action;

    fn held(id: u8, level: Option<u32>, bits: u64) -> Held {
        Held {
            id: SegmentId::from_bytes([id; 16]),
            level,
            size: Bits::new(bits),
        }
    }

    /// A static filter takes less than one of the textbook.
    #[test]
    fn what_a_filter_takes_as_it_is_built_decides_whether_it_fits() {
        let entries = Items::new(1_000_000);
        let rate = Rate::new(0.0044).unwrap();
        let imprint = crate::filter::naive::imprint(1);
        let id = SegmentId::from_bytes([1; 16]);
        let decide = |needed, room| {
            let (needed, room) = (Bits::new(needed), Bits::new(room));
            let limits = Limits { rate, needed };
            decide(id, None, imprint, entries, limits, || room).action
        };
        let rebuild = |action| matches!(action, Action::Rebuild { .. });
        assert!(rebuild(decide(8_000_000, 8_000_000)));
        assert!(!rebuild(decide(8_000_001, 8_000_000)));
        assert!(!rebuild(decide(12_000_000, 11_900_000)));
    }

    #[test]
    fn the_deepest_and_largest_filters_go_first_and_no_more_than_need_be() {
        let all = [
            held(1, Some(0), 900),
            held(2, Some(6), 100),
            held(3, Some(1), 500),
            held(4, Some(6), 300),
            held(5, None, 10),
        ];
        for (over, gone) in [
            (0, &[][..]),
            (1, &[5]),
            (10, &[5]),
            (11, &[5, 4]),
            (310, &[5, 4]),
            (311, &[5, 4, 2]),
            (911, &[5, 4, 2, 3, 1]),
            (u64::MAX, &[5, 4, 2, 3, 1]),
        ] {
            let dropped = least_worth(all.to_vec(), Bits::new(over));
            let expected: Vec<_> = gone
                .iter()
                .map(|&id| SegmentId::from_bytes([id; 16]))
                .collect();
            assert_eq!(dropped, expected, "{over} bits");
        }
    }
}

//! Plans for segment filters: which are rebuilt, and which are dropped if the budget is too small.
//!
//! Flush and compaction pass every key of the SST that they write to its filter builder, so its
//! filter is rebuilt at the right size for free. If an SST came another way, or its filter no
//! longer keeps the configured rate, the keys are read from disk.

use std::cmp::Reverse;
use std::fmt;

use crate::cf_filter::CfFilter;
use crate::engine::LiveSegment;
use crate::math::{Bits, Items, Rate, blocked};
use crate::prefix::Prefixes;
use crate::segment::{SealedFilter, SegmentId};

/// The most stages of a segment filter: each is a cache line of a probe.
const STAGES: usize = 4;

/// A rate that is higher than the configured one by at most this factor is a rounding error.
const ROUNDING: f64 = 1.0 + 1e-9;

/// What happens to the filter of an SST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterPlan {
    /// It keeps the configured rate.
    Keep,
    /// It is rebuilt from the keys on disk.
    Rebuild,
    /// The budget has no room for one: lookups read the SST.
    Drop,
    /// The SST is in the last level of a leveled tree, where filters do not pay.
    None,
}

impl FilterPlan {
    /// The plan for a live SST, where segment filters have this rate. `filter` and `room` are as for
    /// `FilterPlan::of`.
    pub fn of_segment(
        cf_filter: &CfFilter,
        table: &LiveSegment,
        filter: Option<&SealedFilter>,
        promised: Rate,
        room: impl FnOnce() -> Bits,
    ) -> Self {
        if !cf_filter
            .intake()
            .segments()
            .wants_filter(table.is_in_last_level)
        {
            return Self::None;
        }
        let needed = blocked::size_in_bits(Items::new(table.entries), promised);
        Self::of(filter, promised, cf_filter.prefixes(), needed, room)
    }

    /// The plan for an SST whose keys have these prefixes. `filter` is its filter, if it has one, and
    /// `needed` the size of a rebuilt one. `room` is the memory for a rebuilt one, including what the
    /// current filter takes. It is called only if a filter may be rebuilt.
    fn of(
        filter: Option<&SealedFilter>,
        promised: Rate,
        prefixes: &Prefixes,
        needed: Bits,
        room: impl FnOnce() -> Bits,
    ) -> Self {
        // A good filter is kept even over the budget: which ones are dropped is not left to the
        // order of the SSTs.
        if filter.is_some_and(|filter| keeps(filter, promised, prefixes)) {
            Self::Keep
        } else if needed <= room() {
            Self::Rebuild
        } else {
            Self::Drop
        }
    }
}

impl fmt::Display for FilterPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Keep => "keep",
            Self::Rebuild => "rebuild from the keys on disk",
            Self::Drop => "drop: the budget has no room",
            Self::None => "none: it is in the last level",
        })
    }
}

/// Whether a filter is as one that would be built for this rate, with all prefixes (H81).
fn keeps(filter: &SealedFilter, promised: Rate, prefixes: &Prefixes) -> bool {
    filter.rate == promised
        && prefixes.among(&filter.prefixes) == prefixes.all()
        && filter.chain.stages().len() <= STAGES
        && filter.chain.predicted_rate() <= promised.get() * ROUNDING
}

/// A filter in memory that the budget may drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResidentFilter {
    pub(crate) id: SegmentId,
    /// The level of the SST; `None` if it is unknown.
    pub(crate) level: Option<u32>,
    pub(crate) size: Bits,
}

/// Orders segment filters by what a bit of them is worth, the best first.
///
/// A lookup goes through one SST per level, and through all of level 0. So every lookup probes the
/// filter of an SST in level 0. The filter of one of a hundred SSTs is probed by one lookup in a
/// hundred, for as many bits. Hits are mostly found in the last level, whose filters were then
/// probed for nothing. (Dayan, Athanassoulis & Idreos, "Monkey", SIGMOD 2017, spend the fewest bits
/// there for the same reason.) Within a level, a filter is probed in proportion to the size of its
/// SST. The larger is dropped first, so that fewer are dropped.
pub(crate) fn eviction_rank(level: Option<u32>, size: u64) -> (u32, u64) {
    (level.unwrap_or(u32::MAX), size)
}

/// The filters of the least worth that must be dropped to free `over` bits.
pub(crate) fn lowest_ranked(mut held: Vec<ResidentFilter>, over: Bits) -> Vec<SegmentId> {
    held.sort_by_key(|filter| Reverse(eviction_rank(filter.level, filter.size.get())));
    let mut freed = 0_u64;
    let goes = held.iter().take_while(|filter| {
        let goes = freed < over.get();
        freed = freed.saturating_add(filter.size.get());
        goes
    });
    goes.map(|filter| filter.id).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Chain, Kind, Stage};
    use crate::format::Source;
    use crate::math::ribbon::{PARTS, rate};
    use crate::prefix::Prefix;

    fn held(id: u8, level: Option<u32>, bits: u64) -> ResidentFilter {
        ResidentFilter {
            id: SegmentId::from_bytes([id; 16]),
            level,
            size: Bits::new(bits),
        }
    }

    fn filter(kind: Kind, keys: u64, made_for: Rate) -> SealedFilter {
        let stage = Stage::with_rate(kind, Items::new(1_000), made_for).unwrap();
        hashes(1)
            .take(keys as usize)
            .for_each(|hash| _ = stage.insert(hash));
        let chain = Chain::new(imprint(1), vec![stage]);
        SealedFilter::new(chain, keys, made_for, Source::RawKeys)
    }

    #[test]
    fn a_filter_without_a_prefix_that_is_asked_for_is_rebuilt() {
        let prefixes =
            |lengths: &[usize]| Prefixes::new(lengths.iter().map(|&n| Prefix::fixed(n))).unwrap();
        let both = filter(Kind::Blocked, 1_000, Rate::ONE_PERCENT)
            .with_prefixes(Arc::clone(prefixes(&[4, 8]).ids()));
        let plan = |lengths: &[usize]| {
            let (one, prefixes) = (Bits::new(1), prefixes(lengths));
            FilterPlan::of(Some(&both), Rate::ONE_PERCENT, &prefixes, one, || one)
        };
        for kept in [&[][..], &[4], &[8, 4]] {
            assert_eq!(plan(kept), FilterPlan::Keep, "{kept:?}");
        }
        assert_eq!(plan(&[5]), FilterPlan::Rebuild);
        assert_eq!(plan(&[4, 5]), FilterPlan::Rebuild);
    }

    /// The room is not computed then.
    #[test]
    fn a_filter_of_the_promised_rate_is_kept() {
        let rate = Rate::ONE_PERCENT;
        let plan = |filter: &SealedFilter, promised| {
            let none = Prefixes::default();
            FilterPlan::of(Some(filter), promised, &none, Bits::new(1), || Bits::new(1))
        };
        let fits = filter(Kind::Blocked, 1_000, rate);
        let none = Prefixes::default();
        let is_kept = || panic!("it is kept");
        let kept = FilterPlan::of(Some(&fits), rate, &none, Bits::new(1), is_kept);
        assert_eq!(kept, FilterPlan::Keep);
        assert_eq!(plan(&fits, Rate::new(0.02).unwrap()), FilterPlan::Rebuild);
        let crowded = filter(Kind::Blocked, 3_000, rate);
        assert_eq!(plan(&crowded, rate), FilterPlan::Rebuild);
        let lost = SealedFilter::new(Chain::saturated(imprint(1)), 0, rate, Source::RawKeys);
        assert_eq!(plan(&lost, rate), FilterPlan::Rebuild);
    }

    /// The rate of a static filter may be the configured one to the last bit.
    #[test]
    fn no_rate_is_broken_by_rounding() {
        for parts in PARTS..PARTS * 24 {
            let promised = Rate::new(rate(parts)).unwrap();
            let keys = hashes(1).take(10).collect();
            let chain = Chain::new(imprint(1), vec![Stage::ribbon(keys, promised).unwrap()]);
            let filter = SealedFilter::new(chain, 10, promised, Source::RawKeys);
            let room = || panic!("{parts} parts of a bit keep {promised}");
            let none = Prefixes::default();
            let plan = FilterPlan::of(Some(&filter), promised, &none, Bits::new(1), room);
            assert_eq!(plan, FilterPlan::Keep);
        }
    }

    #[test]
    fn what_a_filter_takes_decides_whether_it_is_made() {
        let plan = |needed, room| {
            let (needed, room) = (Bits::new(needed), Bits::new(room));
            FilterPlan::of(
                None,
                Rate::ONE_PERCENT,
                &Prefixes::default(),
                needed,
                || room,
            )
        };
        assert_eq!(plan(8_000_000, 8_000_000), FilterPlan::Rebuild);
        assert_eq!(plan(8_000_001, 8_000_000), FilterPlan::Drop);
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
            let dropped = lowest_ranked(all.to_vec(), Bits::new(over));
            let expected: Vec<_> = gone
                .iter()
                .map(|&id| SegmentId::from_bytes([id; 16]))
                .collect();
            assert_eq!(dropped, expected, "{over} bits");
        }
    }
}

//! The segment-filter check: the filter of each SST that spans the key, and the memtable filters.
//!
//! One absent key in two hundred passes the summary filter. The engine then searches SST after SST
//! and takes a microsecond to learn what the resident filters of those SSTs say in a few dozen
//! nanoseconds. The segment filters may deny a key for the whole column family if no key is left
//! out:
//!
//! ```text
//! time ------------------------------->
//! memtables       |--- g1 ---|--- g2 ---|- g3 ...   each group feeds a memtable filter of its own
//! SSTs listed                      ^
//! SegmentFilters = filters of the listed SSTs + memtable filters of g2 (its memtables live) and g3
//! ```
//!
//! *Invariant.* The memtable filters are collected before the SSTs are listed. A key is then in a
//! listed SST, or in a memtable that was alive when they were collected, or in one that was bound
//! later. The filters of all three are in the set, because a new memtable filter is added to it
//! before its first memtable is bound. Flush and compaction move keys and add none. External writes
//! remove the set before they begin.

use std::sync::Arc;

use crate::filter::{Scalable, ScalableOptions};
use crate::front::sorted_runs::{SortedRuns, WithRange};
use crate::hash::KeyHash;
use crate::math::growth::Tightening;
use crate::math::{Bits, Items, Rate};
use crate::prefix::PrefixSet;
use crate::segment::SealedFilter;

/// Keys of a memtable filter's first stage, 1.5 KiB: most column families have few keys in
/// memtables.
const FIRST_KEYS: Items = Items::new(1 << 10);
/// Keys of its second stage, 26 KiB.
const SECOND_KEYS: Items = Items::new(1 << 14);
/// The most that one memtable filter takes, 4 MiB. With more keys it answers *maybe*.
const MEMTABLE_FILTER_BUDGET: u64 = 1 << 25;
/// It takes at most this part of a budget for all filters. If many column families are opened
/// together, their memtable filters take a fourth of the budget in total.
const MEMTABLE_FILTER_SHARE: u64 = 32;
const MEMTABLE_FILTER_SHARE_OF_ALL: u64 = 4;

/// If more SSTs than this overlap at one key, there is no segment-filter check. A probe of each
/// takes a thirtieth of what the engine takes for it, but sorting them into runs takes quadratic
/// time.
const MOST_RUNS: usize = 256;

/// SSTs whose lines are prefetched before the first of them is probed.
const TOGETHER: usize = 16;

/// The filters of SSTs, in sorted runs.
pub(crate) type FiltersInRuns = SortedRuns<Arc<SealedFilter>>;

/// The filters in sorted runs, unless too many SSTs overlap.
pub(crate) fn in_runs(tables: Vec<WithRange<'_, Arc<SealedFilter>>>) -> Option<FiltersInRuns> {
    SortedRuns::new(tables, MOST_RUNS)
}

/// Filters that together hold every key of a column family.
#[derive(Clone, Debug)]
pub(crate) struct SegmentFilters {
    tables: Arc<FiltersInRuns>,
    memtable_filters: Arc<[Arc<Scalable>]>,
    /// Those that the filters of all SSTs have; the memtable filters have all.
    prefixes: PrefixSet,
}

impl SegmentFilters {
    /// `memtable_filters` must have been collected before the SSTs were listed. `prefixes` are those
    /// that the filters of all SSTs have.
    pub(crate) fn new(
        tables: FiltersInRuns,
        memtable_filters: Vec<Arc<Scalable>>,
        prefixes: PrefixSet,
    ) -> Self {
        Self {
            prefixes,
            tables: Arc::new(tables),
            memtable_filters: memtable_filters.into(),
        }
    }

    /// The same, plus another memtable filter.
    pub(crate) fn with_memtable_filter(&self, filter: &Arc<Scalable>) -> Self {
        let memtable_filters = self.memtable_filters.iter().chain([filter]);
        Self {
            prefixes: self.prefixes,
            tables: Arc::clone(&self.tables),
            memtable_filters: memtable_filters.map(Arc::clone).collect(),
        }
    }

    /// Whether exactly these SSTs are listed, in any order.
    pub(crate) fn lists(&self, tables: &[WithRange<'_, Arc<SealedFilter>>]) -> bool {
        let mut listed: Vec<_> = self.tables.filters().iter().map(Arc::as_ptr).collect();
        let filters = tables.iter().map(|table| Arc::as_ptr(&table.filter));
        let mut others: Vec<_> = filters.collect();
        listed.sort_unstable();
        others.sort_unstable();
        listed == others
    }

    /// Whether this is the filter of a listed SST.
    pub(crate) fn asks(&self, filter: &Arc<SealedFilter>) -> bool {
        let mut tables = self.tables.filters().iter();
        tables.any(|other| Arc::ptr_eq(filter, other))
    }

    /// The memtable filters.
    pub(crate) fn memtable_filters(&self) -> impl Iterator<Item = &Arc<Scalable>> {
        self.memtable_filters.iter()
    }

    /// The number of memtable filters whose keys may be in no listed SST.
    pub(crate) fn generations(&self) -> usize {
        self.memtable_filters.len()
    }

    /// Memory beside the filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        let memtable_filters = size_of_val(&*self.memtable_filters) as u64;
        Bits::from_bytes(memtable_filters) + self.tables.size_beside_filters()
    }

    /// Prefetches the lines that [`SegmentFilters::may_contain`] will probe first.
    pub(crate) fn prefetch(&self, hash: KeyHash, key: &[u8]) {
        self.prefetch_memtable_filters(hash);
        let tables = self.tables.candidates(key).take(TOGETHER);
        tables.for_each(|table| table.chain.prefetch(hash));
    }

    /// Prefetches the lines of the segment filters.
    pub(crate) fn prefetch_tables(&self, hash: KeyHash, key: &[u8]) {
        let tables = self.tables.candidates(key);
        tables.for_each(|table| table.chain.prefetch(hash));
    }

    fn prefetch_memtable_filters(&self, hash: KeyHash) {
        self.memtable_filters
            .iter()
            .for_each(|filter| filter.prefetch(hash));
    }

    /// False only for a key that is in no memtable.
    pub(crate) fn memtable_filters_may_contain(&self, hash: KeyHash) -> bool {
        self.memtable_filters
            .iter()
            .any(|filter| filter.may_contain(hash))
    }

    /// False only for a key that is in no memtable and in no SST.
    #[inline(never)]
    pub(crate) fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        self.prefetch_memtable_filters(hash);
        if self.memtable_filters_may_contain(hash) {
            // Usually a key of a memtable: the SSTs need not be probed.
            return true;
        }
        let mut tables = self.tables.candidates(key);
        loop {
            let mut some = [None; TOGETHER];
            for (slot, table) in some.iter_mut().zip(&mut tables) {
                table.chain.prefetch(hash);
                *slot = Some(table);
            }
            let mut asked = some.iter().map_while(Option::as_ref);
            if asked.any(|table| table.chain.may_contain(hash)) {
                return true;
            }
            if some[TOGETHER - 1].is_none() {
                return false;
            }
        }
    }
}

impl SegmentFilters {
    /// Whether the filters of all SSTs have the prefixes of the function at this place.
    pub(crate) fn has_prefixes(&self, at: usize) -> bool {
        self.prefixes.has(at)
    }

    /// False only for a prefix of no key in a memtable or SST. Requires [`Self::has_prefixes`].
    pub(crate) fn may_contain_prefix(&self, hash: KeyHash, prefix: &[u8]) -> bool {
        self.prefetch_memtable_filters(hash);
        if self.memtable_filters_may_contain(hash) {
            return true;
        }
        // The engine will probe them too, if this does not rule out the prefix: so all are fetched.
        let tables = || self.tables.candidates_for_prefix(prefix);
        tables().for_each(|table| table.chain.prefetch(hash));
        tables().any(|table| table.chain.may_contain(hash))
    }
}

/// How a memtable filter starts, and grows up to `most`.
pub(crate) fn memtable_filter_options(most: Bits) -> ScalableOptions {
    ScalableOptions {
        rate: Rate::clamped(0.05),
        first: FIRST_KEYS,
        second: Some(SECOND_KEYS),
        growth: 4,
        tightening: Tightening::Geometric(0.5),
        budget: Some(most),
        ..ScalableOptions::default()
    }
}

/// The most that one memtable filter takes if `cfs` column families share a budget.
pub(crate) fn memtable_filter_budget(budget: Option<Bits>, cfs: usize) -> Bits {
    let parts = MEMTABLE_FILTER_SHARE.max(MEMTABLE_FILTER_SHARE_OF_ALL.saturating_mul(cfs as u64));
    let share = budget.map_or(u64::MAX, |budget| budget.get() / parts);
    Bits::new(share.min(MEMTABLE_FILTER_BUDGET))
}

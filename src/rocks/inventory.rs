//! A second look: the own filter of each table that spans the key, and the memtables since.
//!
//! One absent key in two hundred passes the summary, and the engine then asks table after table, a
//! microsecond for what the resident filters of those tables say in a few dozen nanoseconds. They
//! may speak for the whole column if no key is left out:
//!
//! ```text
//! time ------------------------------->
//! generations of memtables   |--- g1 ---|--- g2 ---|- g3 ...   each feeds a recent filter of its own
//! tables listed                                ^
//! inventory = filters of the listed tables + recent filters of g2 (its memtables live), g3
//! ```
//!
//! *Invariant.* The recent filters are collected before the tables are listed. A key is then in a
//! table of the list, or in a memtable that was alive when they were collected, or in one bound
//! later; the filters of all three are here, because a generation is added to the inventory before
//! its first memtable is bound. Flush and compaction move keys, and bring none. What comes from
//! outside ends the inventory first.

use std::sync::Arc;

use super::runs::{SortedRuns, Spanning};
use crate::filter::{Scalable, ScalableOptions};
use crate::hash::KeyHash;
use crate::math::growth::Tightening;
use crate::math::{Bits, Items, Rate};
use crate::segment::SealedFilter;

/// Keys of a recent filter's first stage, 1.5 KiB: most families have few keys in memtables.
const FIRST_KEYS: Items = Items::new(1 << 10);
/// And of its second, 26 KiB.
const SECOND_KEYS: Items = Items::new(1 << 14);
/// The most that one recent filter takes, 4 MiB; with more keys it answers *maybe*.
const RECENT_BUDGET: u64 = 1 << 25;
/// And of a budget for all filters, the 32nd part; of many families that are opened together, all take a
/// fourth.
const RECENT_SHARE: u64 = 32;
const RECENT_SHARE_OF_ALL: u64 = 4;

/// More tables than this over one another get no second look. A search in each takes a thirtieth of what the engine
/// takes for it, but to put them into runs takes time that grows with the square.
const MOST_RUNS: usize = 256;

/// Tables whose lines are asked for before the first of them is looked at.
const TOGETHER: usize = 16;

/// The filters of tables, in sorted runs.
pub(crate) type FiltersInRuns = SortedRuns<Arc<SealedFilter>>;

/// In runs, unless too many lie over one another.
pub(crate) fn in_runs(tables: Vec<Spanning<'_, Arc<SealedFilter>>>) -> Option<FiltersInRuns> {
    SortedRuns::new(tables, MOST_RUNS)
}

/// Filters that together hold every key of a column family.
#[derive(Clone, Debug)]
pub(crate) struct Inventory {
    tables: Arc<FiltersInRuns>,
    recent: Arc<[Arc<Scalable>]>,
}

impl Inventory {
    /// `recent` must have been collected before the tables were listed.
    pub(crate) fn new(tables: FiltersInRuns, recent: Vec<Arc<Scalable>>) -> Self {
        Self {
            tables: Arc::new(tables),
            recent: recent.into(),
        }
    }

    /// The same, and another generation of memtables.
    pub(crate) fn and_recent(&self, filter: &Arc<Scalable>) -> Self {
        let recent = self.recent.iter().chain([filter]);
        Self {
            tables: Arc::clone(&self.tables),
            recent: recent.map(Arc::clone).collect(),
        }
    }

    /// Whether these are the listed tables, in any order.
    pub(crate) fn lists(&self, tables: &[Spanning<'_, Arc<SealedFilter>>]) -> bool {
        let mut listed: Vec<_> = self.tables.filters().iter().map(Arc::as_ptr).collect();
        let filters = tables.iter().map(|table| Arc::as_ptr(&table.filter));
        let mut others: Vec<_> = filters.collect();
        listed.sort_unstable();
        others.sort_unstable();
        listed == others
    }

    /// Whether this is the filter of a listed table.
    pub(crate) fn asks(&self, filter: &Arc<SealedFilter>) -> bool {
        let mut tables = self.tables.filters().iter();
        tables.any(|other| Arc::ptr_eq(filter, other))
    }

    /// The recent filters.
    pub(crate) fn recent(&self) -> impl Iterator<Item = &Arc<Scalable>> {
        self.recent.iter()
    }

    /// The generations whose keys may be in no listed table.
    pub(crate) fn generations(&self) -> usize {
        self.recent.len()
    }

    /// Memory beside the filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        let recent = size_of_val(&*self.recent) as u64;
        Bits::from_bytes(recent) + self.tables.size_beside_filters()
    }

    /// Asks the processor for the lines that [`Inventory::may_contain`] will look at first.
    pub(crate) fn prefetch(&self, hash: KeyHash, key: &[u8]) {
        self.prefetch_recent(hash);
        let tables = self.tables.that_may_hold(key).take(TOGETHER);
        tables.for_each(|table| table.chain.prefetch(hash));
    }

    /// Asks the processor for the lines of the tables' filters.
    pub(crate) fn prefetch_tables(&self, hash: KeyHash, key: &[u8]) {
        let tables = self.tables.that_may_hold(key);
        tables.for_each(|table| table.chain.prefetch(hash));
    }

    fn prefetch_recent(&self, hash: KeyHash) {
        self.recent.iter().for_each(|filter| filter.prefetch(hash));
    }

    /// False only for a key that is in no memtable.
    pub(crate) fn recent_may_contain(&self, hash: KeyHash) -> bool {
        self.recent.iter().any(|filter| filter.may_contain(hash))
    }

    /// False only for a key that is in no memtable and in no table.
    #[inline(never)]
    pub(crate) fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        self.prefetch_recent(hash);
        if self.recent_may_contain(hash) {
            // In a memtable, as a rule: no table is looked at then.
            return true;
        }
        let mut tables = self.tables.that_may_hold(key);
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

/// How a generation's filter begins and grows up to so much.
pub(crate) fn recent_options(most: Bits) -> ScalableOptions {
    ScalableOptions {
        rate: Rate::ONE_PERCENT,
        first: FIRST_KEYS,
        second: Some(SECOND_KEYS),
        growth: 4,
        tightening: Tightening::Geometric(0.5),
        budget: Some(most),
        ..ScalableOptions::default()
    }
}

/// The most that one generation's filter takes where so many column families share a budget.
pub(crate) fn recent_budget(budget: Option<Bits>, families: usize) -> Bits {
    let parts = RECENT_SHARE.max(RECENT_SHARE_OF_ALL.saturating_mul(families as u64));
    let share = budget.map_or(u64::MAX, |budget| budget.get() / parts);
    Bits::new(share.min(RECENT_BUDGET))
}

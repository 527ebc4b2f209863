//! The state of filters in cheap figures, for a dashboard.

use crate::cf_filter::CfFilter;
use crate::format::PrefixId;
use crate::math::{Bits, Items};
use crate::stats::Stats;
use crate::view::View;

/// Memory of filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilterMemory {
    /// The summary filter of a column family, which lookups check first; or those of all.
    pub summary: Bits,
    /// The segment filters of all SSTs, which RocksDB probes.
    pub segments: Bits,
    /// Memory beside the filters, of a column family or of all: counters, lists of SSTs and hook
    /// objects.
    pub overhead: Bits,
}

#[doc(hidden)]
impl FilterMemory {
    /// Of a column family with filters of these sizes.
    pub fn of_cf((summary, segments): (Bits, Bits)) -> Self {
        Self {
            summary,
            segments,
            overhead: CfFilter::OVERHEAD,
        }
    }
}

/// The state of all filters of a database. It costs no read of a filter or an SST, so it may be
/// taken every second.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// Memory of the summary, memtable and segment filters, and of the objects around them.
    pub memory: FilterMemory,
    /// The memory budget, if it is set.
    pub budget_bytes: Option<u64>,
    /// Known segments: live SSTs, SSTs that are being written, and a few that were removed just
    /// now.
    pub known_segments: usize,
    /// Whether an audit found a false negative. If so, no key is answered absent until the database
    /// is opened again.
    pub false_negatives: bool,
    /// One entry per column family.
    pub cfs: Vec<CfHealth>,
}

/// The state of one column family's filters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CfHealth {
    /// The column family's name.
    pub name: String,
    /// Distinct keys of the summary filter, and distinct prefixes.
    pub keys: Items,
    /// Stages of the summary filter; one right after a consolidation.
    pub stages: usize,
    /// Whether the first of them is static: the column family hardly grows.
    pub is_static: bool,
    /// Memory of the summary filter, of the one that is being built, and of the range filter.
    pub memory: Bits,
    /// Memory of the range filter; 0 if there is none.
    pub ranges: Bits,
    /// Memory beside the filters: counters, lists of SSTs, and the objects of the hooks.
    pub overhead: Bits,
    /// The summary filter's false-positive rate, computed from its keys; 1 if the budget has no
    /// room for it.
    pub predicted_rate: f64,
    /// Live SSTs that the summary filter does not cover. `None` if unknown; then no key is answered
    /// absent.
    pub uncovered: Option<usize>,
    /// How many of these stay uncovered until they are compacted. They are from a RocksDB before
    /// 6.24, which wrote no id to bind filters to, and this is a secondary or open for reading
    /// only. Otherwise such an SST is known by its file name while the database is open.
    pub without_id: usize,
    /// The functions whose prefixes the filters have or will have.
    pub prefixes: Vec<PrefixHealth>,
    /// The counters of these filters.
    pub stats: Stats,
}

/// The state of the prefixes by one function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PrefixHealth {
    /// The function's name and version.
    pub id: PrefixId,
    /// Whether the summary filter has the prefixes of all its keys. Otherwise it is rebuilt.
    pub in_summary: bool,
    /// Whether all segment filters have them too.
    pub in_segments: bool,
}

impl CfFilter {
    pub fn health(&self) -> CfHealth {
        let view = self.view();
        CfHealth {
            name: self.name().to_owned(),
            keys: view.summary.items(),
            stages: view.summary.stages(),
            is_static: view.summary.begins_static(),
            memory: self.size_of_summaries(),
            ranges: view.ranges.size(),
            overhead: self.size_beside_filters(),
            predicted_rate: view.summary.predicted_rate(),
            uncovered: view.uncovered(),
            without_id: view.without_id(),
            prefixes: self.prefix_health(&view),
            stats: self.stats(),
        }
    }

    fn prefix_health(&self, view: &View) -> Vec<PrefixHealth> {
        let in_segments = self.lookups().prefixes_of_segments();
        let ids = self.prefixes().ids().iter().enumerate();
        ids.map(|(at, id)| PrefixHealth {
            id: id.clone(),
            in_summary: view.summary_prefixes.has(at),
            in_segments: in_segments.has(at),
        })
        .collect()
    }
}

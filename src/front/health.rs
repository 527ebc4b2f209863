//! Cheap figures of one column family's filters, for a dashboard.

use crate::front::cf_filter::CfFilter;
use crate::math::{Bits, Items};
use crate::stats::Stats;

/// The state of one column family's filters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CfHealth {
    /// The column family's name.
    pub name: String,
    /// Distinct keys of the summary filter.
    pub keys: Items,
    /// Stages of the summary filter; one right after a consolidation.
    pub stages: usize,
    /// Memory of the summary filter and of the newest memtable filters.
    pub memory: Bits,
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
    /// Whether the segment filters are checked after a *maybe* of the summary filter.
    pub checks_segment_filters: bool,
    /// The counters of these filters.
    pub stats: Stats,
}

impl CfFilter {
    pub(crate) fn health(&self) -> CfHealth {
        let view = self.view();
        CfHealth {
            name: self.name().to_owned(),
            keys: view.summary.items(),
            stages: view.summary.stages(),
            memory: self.size(),
            overhead: self.size_beside_filters(),
            predicted_rate: view.summary.predicted_rate(),
            uncovered: view.uncovered(),
            without_id: view.without_id(),
            checks_segment_filters: view.segment_filters.is_some(),
            stats: self.stats(),
        }
    }
}

//! Tests of the filters over an LSM store in memory: no engine is compiled, and they take seconds.

mod audit;
mod budget;
mod by_itself;
mod cf_filter;
mod consolidation;
mod figures;
mod growth;
mod histories;
mod linearizable;
mod lookup;
mod maintenance;
mod memory_door;
mod memory_lsm;
mod model_traces;
mod multi_get;
mod ranges;
mod scrub;
mod static_stage;
mod sweep;
mod view_changes;

use crate::filter_options::FilterOptions;
use crate::options::FrontOptions;

/// The settings that RocksDB is opened with by default.
fn default_options() -> FrontOptions {
    FilterOptions::default().static_filters(true).resolved()
}

//! Tests of the filters over an LSM store in memory: no engine is compiled, and they take seconds.

mod by_itself;
mod consolidation;
mod figures;
mod growth;
mod histories;
mod memory_lsm;
mod model_traces;
mod multi_get;
mod static_stage;

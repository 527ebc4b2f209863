//! Tests of the filters over an LSM store in memory: no engine is compiled, and they take seconds.

mod by_itself;
mod figures;
mod growth;
mod histories;
mod memory_lsm;
mod multi_get;

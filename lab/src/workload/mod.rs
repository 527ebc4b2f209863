//! Workloads of the benchmarks, beside those of `lsm-sieve-cli`.

pub mod busy;
pub mod gremillion;
pub mod jobs;
pub mod report;
pub mod store;

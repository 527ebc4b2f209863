//! Bounds: the memory and the files that filters take, and the false positives that they allow.

mod cf_memory;
mod false_positive_rate;
mod memory_budget;
mod soak;
mod static_filters;

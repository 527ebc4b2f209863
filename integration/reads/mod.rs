//! A lookup: which filters it checks, what it finds, and how it is counted.

mod beside_maintenance;
mod counters;
mod handle;
mod linearizable;
mod multi_get;
mod predictor;
mod prefixes;
mod ranges;
mod scans;
mod snapshots;

//! A follower as a whole: over an etcd in memory with faults, and over a cluster of real nodes.
//!
//! The tests in `cluster` need `LSM_SIEVE_ETCD=1` and the program `etcd`.

#![expect(clippy::unwrap_used, reason = "a test that fails panics")]
#![expect(clippy::print_stdout, reason = "tests say what they measured")]

mod cluster;
mod door;
mod history;
mod load;
mod memory_etcd;
mod nodes;
mod snapshots;

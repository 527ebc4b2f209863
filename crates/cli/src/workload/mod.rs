//! Workloads: the operations on a store, their order, and the results.
//!
//! ```text
//! trace file ---> ids ---> operations ---> a store ---> counts and times ---> report
//!    [trace]    [keys]     [operation]      [store]      [replay], [miss]      [report]
//! ```
//!
//! Everything here is deterministic: the same trace, mode and seed give the same operations in the
//! same order on every store. So two stores can be compared, and if a count differs between two
//! runs, a store differs.
//!
//! Only [`store`] knows an engine. The drivers use its traits and are tested against a map.

pub mod gremillion;
pub mod keys;
pub mod miss;
pub mod operation;
pub mod random;
pub mod replay;
pub mod report;
pub mod stopwatch;
pub mod store;
pub mod trace;

mod watch;
pub mod zipf;

pub use watch::{Interrupted, Watch};

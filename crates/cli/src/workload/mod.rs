//! Workloads: what is asked of a store, in which order, and what came of it.
//!
//! ```text
//! trace file ---> ids ---> operations ---> a store ---> counts and times ---> report
//!    [trace]    [keys]     [operation]      [store]      [replay], [miss]      [report]
//! ```
//!
//! Everything here is deterministic: the same trace, mode and seed ask the same questions in the
//! same order of every store, so that two stores can be compared, and a count that differs between
//! two runs means that a store differs.
//!
//! Only [`store`] knows an engine; the drivers see its trait and are tested against a map.

pub mod gremillion;
pub mod keys;
pub mod miss;
pub mod operation;
pub mod random;
pub mod replay;
pub mod report;
pub mod store;
pub mod trace;

mod watch;
mod zipf;

pub use watch::{Interrupted, Watch};

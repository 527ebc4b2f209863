//! Is what threads see of a store behind filters linearizable? Each call must seem to take effect at
//! one moment between its begin and its end (Herlihy & Wing, TOPLAS 1990).
//!
//! A stale *absent* shows in no other way: each answer is one that the store gave at some time.
//!
//! ```text
//! plan      what each thread will call, from a seed
//! door      the store behind filters; maintenance runs beside the threads
//! recorder  begin and end of each call by one clock, and what it returned
//! history   all calls; is there an order of them that a map of keys would answer so?
//! ```
//!
//! Wing and Gong's search with Lowe's cache finds that order, or that there is none. A batch counts
//! as one call, written or read at one moment, so the state is the whole map and keys are not
//! searched one by one. A door whose batches promise less must record a call for each key.
//!
//! A call that a crash cut short may have taken effect before the crash, or not at all. The calls
//! that follow begin after it.
//!
//! # Map
//!
//! `history` -> `plan` -> `hunt`

mod history;
mod hunt;
mod plan;

pub use history::{ALL, Call, Change, Clock, Found, History, Key, Recorder, Value};
pub use hunt::{Crashed, Door, Hunt, run};
pub use plan::{Plan, Step};

//! The front of a column family and its upkeep, however threads take turns: whoever can see a key in
//! the engine is never told *absent*. By shuttle alone; see `crate::interleavings`.
//!
//! The engine is the least that its rules leave of it: writers one at a time, each key into the
//! filters of its memtable before it can be seen, a flush that seals one memtable, tables that are
//! listed. The column, its views, targets and epochs are the real ones, and the steps of upkeep
//! are those of `upkeep`, in their order.

mod arrival;
mod bell;
mod consolidation;
mod engine;
mod inventory;

use std::sync::Arc;

use super::column::Column;
use super::options::SieveOptions;
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::math::{Bits, Items};
use crate::segment::Registry;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([7; 16]))
}

/// A filter that grows after one key.
fn summary() -> Scalable {
    let options = crate::filter::ScalableOptions {
        first: Items::new(1),
        growth: 1,
        ..SieveOptions::default().summary(Items::new(1), Bits::new(0))
    };
    Scalable::new(hasher().imprint().remixed(), options)
}

fn column() -> Arc<Column> {
    let registry = Arc::new(Registry::new(hasher()));
    let nothing = (Arc::new(summary()), std::collections::HashSet::new());
    Column::new(
        "default",
        hasher(),
        registry,
        Arc::default(),
        &SieveOptions::default(),
        nothing,
    )
}

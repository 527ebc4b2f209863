//! The filters of a column family and their maintenance, in all orders of threads: for a key that
//! is visible in the engine no thread gets *absent*. Runs under shuttle only; see
//! `crate::interleavings`.
//!
//! The engine is a minimal model: each key in its memtable and then in the filters before it is
//! visible, a flush, segments that are listed. The filters, views, sets and epochs are the real
//! ones. The steps of maintenance are those of `maintenance`, in their order.

mod arrival;
mod consolidation;
mod engine;
mod linearizable;
#[path = "../../tests/memory_door.rs"]
mod memory_door;
#[path = "../../tests/memory_lsm.rs"]
#[expect(dead_code, reason = "most of it is for the tests without a checker")]
mod memory_lsm;
mod wakeup;

use std::sync::Arc;

use crate::cf_filter::{CfFilter, FirstSummary};
use crate::filter::Scalable;
use crate::hash::{HashId, KeyHasher, Seed};
use crate::math::{Bits, Items};
use crate::options::FrontOptions;
use crate::segment::Registry;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([7; 16]))
}

/// A filter that grows after one key.
fn summary() -> Scalable {
    let options = crate::filter::ScalableOptions {
        first: Items::new(1),
        growth: 1,
        ..FrontOptions::default().summary(Items::new(1), Bits::new(0))
    };
    Scalable::new(hasher().imprint().for_summary(), options)
}

fn cf_filter() -> Arc<CfFilter> {
    let registry = Arc::new(Registry::new(hasher()));
    CfFilter::new(
        "default",
        hasher(),
        registry,
        Arc::default(),
        &FrontOptions::default(),
        FirstSummary::covering_none(summary()),
    )
}

//! The segment-filter check: memtable and segment filters are collected while keys are written.

use std::sync::Arc;

use super::engine::{Engine, Key, Table};
use crate::filter::{Chain, Kind, Stage};
use crate::format::Source;
use crate::front::segment_filters::{SegmentFilters, in_runs};
use crate::front::sorted_runs::WithRange;
use crate::interleavings::{at_once, explore, part};
use crate::math::{Items, Rate};
use crate::prefix::PrefixSet;
use crate::segment::SealedFilter;

const KEYS: [Key; 3] = [b"before", b"meanwhile", b"after"];

/// The steps of `Maintenance::collect_segment_filters`.
fn collect_segment_filters(engine: &Engine) {
    let cf_filter = &engine.cf_filter;
    let epoch = cf_filter.epoch();
    let memtable_filters = cf_filter.collect_memtable_filters();
    let tables = engine.tables();
    let spanning = |table: &Table| WithRange {
        filter: Arc::new(filter(engine, table)),
        range: None,
    };
    let runs = in_runs(tables.iter().map(spanning).collect());
    let runs = runs.expect("few tables");
    cf_filter.publish_segment_filters(
        epoch,
        SegmentFilters::new(runs, memtable_filters, PrefixSet::default()),
    );
}

/// The filter that SST capture builds.
fn filter(engine: &Engine, table: &Table) -> SealedFilter {
    let rate = Rate::ONE_PERCENT;
    let stage = Stage::with_rate(Kind::Blocked, Items::new(4), rate).unwrap();
    let hasher = engine.cf_filter.hasher();
    table
        .keys
        .iter()
        .for_each(|key| _ = stage.insert(hasher.hash(key)));
    let (chain, source) = (
        Chain::new(hasher.imprint(), vec![stage]),
        Source::TableCapture,
    );
    SealedFilter::new(chain, table.keys.len() as u64, rate, source)
}

#[test]
fn a_second_look_loses_no_key() {
    explore("put_get_segment_filters", |turn| {
        let engine = Engine::new();
        // So that the next collection must find another memtable filter.
        engine.put(KEYS[0]);
        collect_segment_filters(&engine);
        engine.flush();
        engine.put(KEYS[1]);
        let [writer, reader, maintenance] = [0; 3].map(|_| Arc::clone(&engine));
        let writes = move || {
            writer.flush();
            writer.put(KEYS[2]);
        };
        let takes = move || collect_segment_filters(&maintenance);
        let reads = move || {
            KEYS.into_iter()
                .rev()
                .for_each(|key| reader.read_and_check(key))
        };
        at_once(turn, [part(writes), part(takes), part(reads)]);
        KEYS.into_iter().for_each(|key| engine.read_and_check(key));
        assert!(engine.cf_filter.view().segment_filters.is_some());
    });
}

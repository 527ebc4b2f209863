//! The second look: recent filters and the tables' own, collected while keys are written.

use std::sync::Arc;

use super::super::inventory::{Inventory, in_runs};
use super::super::runs::Spanning;
use super::engine::{Engine, Key, Table};
use crate::filter::{Chain, Kind, Stage};
use crate::format::Source;
use crate::interleavings::{at_once, explore, part};
use crate::math::{Items, Rate};
use crate::segment::SealedFilter;

const KEYS: [Key; 3] = [b"before", b"meanwhile", b"after"];

/// As `Upkeep::take_inventory` does it.
fn take_inventory(engine: &Engine) {
    let column = &engine.column;
    let epoch = column.epoch();
    let recent = column.collect_recent();
    let tables = engine.tables();
    let spanning = |table: &Table| Spanning {
        filter: Arc::new(filter(engine, table)),
        range: None,
    };
    let runs = in_runs(tables.iter().map(spanning).collect());
    let runs = runs.expect("few tables");
    column.publish_inventory(epoch, Inventory::new(runs, recent));
}

/// What the capture makes of a table.
fn filter(engine: &Engine, table: &Table) -> SealedFilter {
    let rate = Rate::ONE_PERCENT;
    let stage = Stage::with_rate(Kind::Blocked, Items::new(4), rate).unwrap();
    let hasher = engine.column.hasher();
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
    explore("column_put_get_inventory", |turn| {
        let engine = Engine::new();
        // So that the next listing must name another generation.
        engine.put(KEYS[0]);
        take_inventory(&engine);
        engine.flush();
        engine.put(KEYS[1]);
        let [writer, reader, upkeep] = [0; 3].map(|_| Arc::clone(&engine));
        let writes = move || {
            writer.flush();
            writer.put(KEYS[2]);
        };
        let takes = move || take_inventory(&upkeep);
        let reads = move || KEYS.into_iter().rev().for_each(|key| reader.look_up(key));
        at_once(turn, [part(writes), part(takes), part(reads)]);
        KEYS.into_iter().for_each(|key| engine.look_up(key));
        assert!(engine.column.view().inventory.is_some());
    });
}

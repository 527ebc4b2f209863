//! Keys that come from outside, past every memtable, into families with a front and without.

use std::sync::Arc;

use super::super::columns::Columns;
use super::super::coverage::Coverage;
use super::super::runs::Spanning;
use super::column;
use super::engine::{Engine, Key};
use crate::interleavings::{at_once, explore, part};
use crate::math::Rate;
use crate::sync::Mutex;

const FOREIGN: Key = b"from outside";
const OWN: Key = b"from a memtable";

/// As `Upkeep::publish_known` and `Upkeep::cover` do it.
fn attend(engine: &Engine) {
    let column = &engine.column;
    let epoch = column.epoch();
    let tables = engine.tables();
    let summary = Arc::clone(&column.view().summary);
    if column.is_settled() {
        let covers = tables.iter().map(|table| table.id()).collect();
        column.publish(epoch, summary, Coverage::Complete, covers);
        return;
    }
    let mut covers = column.covers();
    for table in &tables {
        if covers.insert(table.id()) {
            for key in &table.keys {
                summary.insert(column.hasher().hash(key).remixed());
            }
        }
        let uncovered = tables.iter().filter(|table| !covers.contains(&table.id()));
        let uncovered = uncovered.map(|_| Spanning {
            filter: None,
            range: None,
        });
        let coverage = Coverage::all_but(uncovered.collect());
        if !column.publish(epoch, Arc::clone(&summary), coverage, covers.clone()) {
            return;
        }
    }
}

#[test]
fn an_ingested_key_is_found() {
    explore("column_ingest_get_attend", |turn| {
        let engine = Engine::new();
        let [outside, reader, upkeep] = [0; 3].map(|_| Arc::clone(&engine));
        let ingests = move || {
            let _held = outside.column.expect_foreign_keys();
            outside.ingest(FOREIGN);
        };
        let attends = move || {
            upkeep.put(OWN);
            upkeep.flush();
            attend(&upkeep);
            attend(&upkeep);
        };
        let reads = move || {
            [FOREIGN, OWN]
                .into_iter()
                .for_each(|key| reader.look_up(key))
        };
        at_once(turn, [part(ingests), part(attends), part(reads)]);
        attend(&engine);
        [FOREIGN, OWN]
            .into_iter()
            .for_each(|key| engine.look_up(key));
        assert!(engine.column.is_complete(), "upkeep has seen all tables");
    });
}

/// A family gets its front while keys arrive: that front must not be taken for complete.
#[test]
fn keys_that_arrive_before_the_front_are_found() {
    explore("columns_insert_arrival_get", |turn| {
        let columns = Arc::new(Columns::new(Rate::ONE_PERCENT));
        let there = Arc::new(Mutex::new(false));
        let (fronts, arrivals, reader) = (Arc::clone(&columns), Arc::clone(&columns), columns);
        let (arrived, seen, listed) = (Arc::clone(&there), Arc::clone(&there), there);
        let creates = move || {
            let column = column();
            fronts.insert(1, Arc::clone(&column));
            let epoch = column.epoch();
            // Upkeep may call an empty family complete, and no other.
            if !*listed.lock().unwrap() {
                let summary = Arc::clone(&column.view().summary);
                column.publish(epoch, summary, Coverage::Complete, column.covers());
            }
        };
        let arrives = move || {
            let _arrival = arrivals.expect_foreign_keys(Some(1));
            *arrived.lock().unwrap() = true;
        };
        let reads = move || {
            if *seen.lock().unwrap() {
                let absent = reader.with(1, |column| column.look_up(FOREIGN).is_absent());
                assert_ne!(absent, Some(true), "a key was lost");
            }
        };
        at_once(turn, [part(creates), part(arrives), part(reads)]);
    });
}

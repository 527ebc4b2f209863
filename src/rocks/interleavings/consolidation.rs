//! A summary is made anew, beside the old one, while keys are written and read.

use std::sync::Arc;

use super::super::coverage::Coverage;
use super::engine::{Engine, Key};
use super::summary;
use crate::interleavings::{at_once, explore, part};

const KEYS: [Key; 3] = [b"before", b"meanwhile", b"after"];

/// As `Upkeep::consolidate` does it.
fn consolidate(engine: &Engine) {
    let column = &engine.column;
    let old = Arc::clone(&column.view().summary);
    let new = Arc::new(summary());
    column.retarget(vec![Arc::clone(&old), Arc::clone(&new)]);
    engine.flush();
    assert!(
        !column.memtables().some_do_not_feed(&new),
        "a flush seals what was bound before"
    );
    let epoch = column.epoch();
    let tables = engine.tables();
    for &key in tables.iter().flat_map(|table| &table.keys) {
        new.insert(column.hasher().hash(key).remixed());
    }
    let covers = tables.iter().map(|table| table.id()).collect();
    let published = column.publish(epoch, Arc::clone(&new), Coverage::Complete, covers);
    column.retarget(vec![if published { new } else { old }]);
}

#[test]
fn a_new_summary_loses_no_key() {
    explore("column_put_get_consolidate", |turn| {
        let engine = Engine::new();
        engine.put(KEYS[0]);
        let [writer, reader, upkeep] = [0; 3].map(|_| Arc::clone(&engine));
        let writes = move || {
            writer.put(KEYS[1]);
            writer.flush();
            writer.put(KEYS[2]);
        };
        let reads = move || KEYS.into_iter().rev().for_each(|key| reader.look_up(key));
        at_once(
            turn,
            [
                part(writes),
                part(move || consolidate(&upkeep)),
                part(reads),
            ],
        );
        KEYS.into_iter().for_each(|key| engine.look_up(key));
        assert!(engine.column.is_complete());
    });
}

/// A hook that fails meanwhile has the last word: nothing is ruled out any more.
#[test]
fn a_front_that_gave_up_stays_silent() {
    explore("column_give_up_consolidate", |turn| {
        let engine = Engine::new();
        engine.put(KEYS[0]);
        let (hook, upkeep) = (Arc::clone(&engine), Arc::clone(&engine));
        let gives_up = move || {
            hook.column.give_up();
            assert!(!hook.column.look_up(b"never written").is_absent());
        };
        at_once(turn, [part(gives_up), part(move || consolidate(&upkeep))]);
        assert!(!engine.column.look_up(b"never written").is_absent());
    });
}

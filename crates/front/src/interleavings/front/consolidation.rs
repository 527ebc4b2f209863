//! Consolidation: a summary filter is replaced while keys are written and read.

use std::sync::Arc;

use super::engine::{Engine, Key};
use super::summary;
use crate::audit::Distrust as _;
use crate::interleavings::{at_once, explore, part};
use crate::view::Coverage;

const KEYS: [Key; 3] = [b"before", b"meanwhile", b"after"];

/// The steps of `CfRun::consolidate`.
fn consolidate(engine: &Engine) {
    let cf_filter = &engine.cf_filter;
    let old = Arc::clone(&cf_filter.view().summary);
    let new = Arc::new(summary());
    let insert = |key: Key| _ = new.insert(cf_filter.hasher().hash(key).for_summary());
    // A front that gave up builds no other one.
    if !cf_filter.feed(vec![Arc::clone(&old), Arc::clone(&new)]) {
        return;
    }
    engine.memtable().into_iter().for_each(insert);
    let segments = cf_filter.list(|| engine.segments());
    let in_segments = segments.iter().flat_map(|segment| &segment.keys);
    in_segments.copied().for_each(insert);
    let covered = segments.iter().map(|segment| segment.id()).collect();
    let published = cf_filter.publish(&segments, Arc::clone(&new), Coverage::Complete, covered);
    cf_filter.feed(vec![if published { new } else { old }]);
}

#[test]
fn consolidation_beside_writes_loses_no_key() {
    explore("column_put_get_consolidate", |turn| {
        let engine = Engine::new();
        engine.put(KEYS[0]);
        let [writer, reader, maintenance] = [0; 3].map(|_| Arc::clone(&engine));
        let writes = move || {
            writer.put(KEYS[1]);
            writer.flush();
            writer.put(KEYS[2]);
        };
        let reads = move || {
            KEYS.into_iter()
                .rev()
                .for_each(|key| reader.read_and_check(key))
        };
        at_once(
            turn,
            [
                part(writes),
                part(move || consolidate(&maintenance)),
                part(reads),
            ],
        );
        KEYS.into_iter().for_each(|key| engine.read_and_check(key));
        assert!(engine.cf_filter.is_complete());
    });
}

/// A hook that fails meanwhile decides: every answer is *maybe* from then on.
#[test]
fn disabled_filters_deny_nothing_after_a_consolidation() {
    explore("column_give_up_consolidate", |turn| {
        let engine = Engine::new();
        engine.put(KEYS[0]);
        let (hook, maintenance) = (Arc::clone(&engine), Arc::clone(&engine));
        let gives_up = move || {
            hook.cf_filter.disable();
            assert!(!hook.cf_filter.answer(b"never written").is_absent());
        };
        at_once(
            turn,
            [part(gives_up), part(move || consolidate(&maintenance))],
        );
        assert!(!engine.cf_filter.answer(b"never written").is_absent());
    });
}

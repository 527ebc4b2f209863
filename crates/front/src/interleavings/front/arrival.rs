//! External writes, into column families with filters and without.

use std::sync::Arc;

use super::cf_filter;
use super::engine::{Engine, Key};
use crate::cf_filters::{CfFilters, Progress};
use crate::interleavings::{at_once, explore, part};
use crate::math::Rate;
use crate::options::SummaryRates;
use crate::sorted_runs::WithRange;
use crate::sync::Mutex;
use crate::view::Coverage;

const FOREIGN: Key = b"from outside";
const OWN: Key = b"from a memtable";
const SUMMARY: SummaryRates = SummaryRates {
    growing: Rate::ONE_PERCENT,
    at_rest: None,
};

/// The steps of `Maintenance::publish_listing` and `CfRun::cover`.
fn attend(engine: &Engine) {
    let cf_filter = &engine.cf_filter;
    let segments = cf_filter.list(|| engine.segments());
    let summary = Arc::clone(&cf_filter.view().summary);
    if cf_filter.coverage().is_complete_by_construction() {
        let covered = segments.iter().map(|segment| segment.id()).collect();
        cf_filter.publish(&segments, summary, Coverage::Complete, covered);
        return;
    }
    let mut covered = cf_filter.coverage().covered();
    for segment in segments.iter() {
        if covered.insert(segment.id()) {
            for key in &segment.keys {
                summary.insert(cf_filter.hasher().hash(key).for_summary());
            }
        }
        let uncovered = segments
            .iter()
            .filter(|segment| !covered.contains(&segment.id()));
        let uncovered = uncovered.map(|_| WithRange {
            filter: None,
            range: None,
        });
        let coverage = Coverage::all_but(uncovered.collect());
        if !cf_filter.publish(&segments, Arc::clone(&summary), coverage, covered.clone()) {
            return;
        }
    }
}

#[test]
fn ingested_key_is_found_beside_maintenance() {
    explore("column_ingest_get_attend", |turn| {
        let engine = Engine::new();
        let [outside, reader, maintenance] = [0; 3].map(|_| Arc::clone(&engine));
        let ingests = move || {
            let _held = outside.cf_filter.begin_external_writes();
            outside.ingest(FOREIGN);
        };
        let attends = move || {
            maintenance.put(OWN);
            maintenance.flush();
            attend(&maintenance);
            attend(&maintenance);
        };
        let reads = move || {
            [FOREIGN, OWN]
                .into_iter()
                .for_each(|key| reader.read_and_check(key))
        };
        at_once(turn, [part(ingests), part(attends), part(reads)]);
        attend(&engine);
        [FOREIGN, OWN]
            .into_iter()
            .for_each(|key| engine.read_and_check(key));
        assert!(
            engine.cf_filter.is_complete(),
            "maintenance has listed all SSTs"
        );
    });
}

/// A column family gets its filters during an external write: they must not count as complete.
#[test]
fn key_ingested_while_its_cf_gets_filters_is_found() {
    explore("columns_insert_arrival_get", |turn| {
        let cf_filters = Arc::new(CfFilters::new(SUMMARY));
        let there = Arc::new(Mutex::new(false));
        let (maker, external, reader) =
            (Arc::clone(&cf_filters), Arc::clone(&cf_filters), cf_filters);
        let (arrived, seen, listed) = (Arc::clone(&there), Arc::clone(&there), there);
        let creates = move || {
            let cf_filter = cf_filter();
            maker.insert(1, Arc::clone(&cf_filter));
            let is_there = cf_filter.list(|| *listed.lock().unwrap());
            // Maintenance may call only an empty column family complete.
            if !*is_there {
                let summary = Arc::clone(&cf_filter.view().summary);
                cf_filter.publish(
                    &is_there,
                    summary,
                    Coverage::Complete,
                    cf_filter.coverage().covered(),
                );
            }
        };
        let arrives = move || {
            let _arrival = external.begin_external_writes(Some(1));
            *arrived.lock().unwrap() = true;
        };
        let reads = move || {
            if *seen.lock().unwrap() {
                let absent = reader
                    .get(1)
                    .map(|cf_filter| cf_filter.answer(FOREIGN).is_absent());
                assert_ne!(absent, Some(true), "a key was lost");
            }
        };
        at_once(turn, [part(creates), part(arrives), part(reads)]);
    });
}

/// Coverage becomes complete beside a wait for it: the wait must not end as if it never would.
#[test]
fn growing_coverage_is_not_reported_as_final() {
    explore("columns_progress_publish", |turn| {
        let cf_filters = Arc::new(CfFilters::new(SUMMARY));
        let cf_filter = cf_filter();
        cf_filters.insert(1, Arc::clone(&cf_filter));
        let waited = Arc::clone(&cf_filters);
        let waits = move || assert_ne!(waited.progress(false), Progress::Final);
        let completes = move || {
            let summary = Arc::clone(&cf_filter.view().summary);
            let covered = cf_filter.coverage().covered();
            let nothing = cf_filter.list(|| ());
            cf_filter.publish(&nothing, summary, Coverage::Complete, covered);
        };
        at_once(turn, [part(waits), part(completes)]);
        assert_eq!(cf_filters.progress(false), Progress::Complete);
    });
}

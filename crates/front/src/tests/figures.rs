//! Counters and health figures, each driven alone: one that takes the place of another is noticed.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use crate::cf_filter::prefix_lookup;
use crate::cf_filter::{CfFilter, FirstSummary, lookup, multi_lookup};
use crate::filter::{Scalable, ScalableOptions};
use crate::hash::{HashId, KeyHasher, Seed};
use crate::health::{CfHealth, PrefixHealth};
use crate::math::Bits;
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};
use crate::ranges::Span;
use crate::segment::{Registry, SegmentId};
use crate::sorted_runs::WithRange;
use crate::stats::Stats;
use crate::view::{Coverage, MaybeFilter};

const KEYS: [&[u8]; 3] = [b"ada", b"ada lovelace", b"bob"];

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([9; 16]))
}

fn prefixes() -> Arc<Prefixes> {
    let functions = [Prefix::fixed(2), Prefix::until(b' ')];
    let [first, second] = functions;
    Arc::new(Prefixes::beside_engine(Some(first), [second]).unwrap())
}

/// Filters of [`KEYS`] and of their prefixes of two bytes, whose coverage is unknown.
fn filters() -> Arc<CfFilter> {
    let prefixes = prefixes();
    let by_two = prefixes.among(&[Prefix::fixed(2).id().clone()]);
    let options = FrontOptions {
        audit: Some(0),
        prefixes,
        ..FrontOptions::default()
    };
    let summary = Scalable::new(hasher().imprint().for_summary(), ScalableOptions::default());
    for key in KEYS {
        for part in [key, &key[..2]] {
            summary.insert(hasher().hash(part).for_summary());
        }
    }
    let registry = Arc::new(Registry::new(hasher()));
    let loaded = FirstSummary {
        prefixes: by_two,
        has_blocks: false,
        ..FirstSummary::covering_none(summary)
    };
    CfFilter::new(
        "users",
        hasher(),
        registry,
        Arc::default(),
        &options,
        loaded,
    )
}

fn publish(cf: &CfFilter, coverage: Coverage) {
    let summary = cf.view().summary;
    assert!(cf.publish(&cf.list(|| ()), summary, coverage, HashSet::new()));
}

type Read = Result<Option<()>, Infallible>;

const FOUND: Read = Ok(Some(()));
const NOTHING: Read = Ok(None);

/// Which two events a counter counted used to be noticed only if a sum changed.
#[test]
fn each_outcome_changes_the_counter_of_its_name_alone() {
    let cf = filters();
    let mut expected = Stats::default();
    let read = |key: &[u8], found: Read| lookup::get(&*cf, key, || found).is_ok();

    assert!(read(b"absent", NOTHING));
    expected.uncovered += 1;
    assert_eq!(cf.stats(), expected);
    assert!(read(b"ada", FOUND));
    expected.found += 1;
    assert_eq!(cf.stats(), expected);

    publish(&cf, Coverage::Complete);
    assert!(read(b"absent", FOUND));
    expected.absent += 1;
    assert_eq!(cf.stats(), expected);
    assert!(read(b"ada", NOTHING));
    expected.false_positives += 1;
    assert_eq!(cf.stats(), expected);

    // Hits in a row, until the filters are not checked.
    for _ in 0..32 {
        assert!(read(b"bob", FOUND));
    }
    expected.found += 32;
    assert_eq!(cf.stats(), expected);
    for _ in 0..3 {
        assert!(read(b"bob", FOUND));
    }
    expected.found += 3;
    expected.found_unchecked += 3;
    assert_eq!(cf.stats(), expected);
    assert!(read(b"absent", NOTHING));
    expected.not_consulted += 1;
    assert_eq!(cf.stats(), expected);

    let keys = [
        &b"absent"[..],
        b"ada",
        b"absent too",
        b"bob",
        b"absent as well",
    ];
    let values = multi_lookup::multi_get(&cf, &keys, |left| {
        assert_eq!(left, [b"ada", b"bob"]);
        vec![FOUND, NOTHING]
    });
    assert_eq!(values.len(), 5);
    expected.absent += 3;
    expected.found += 1;
    expected.false_positives += 1;
    assert_eq!(cf.stats(), expected);

    publish(&cf, Coverage::all_but(uncovered(&cf, 0)));
    let values = multi_lookup::multi_get(&cf, &keys[..3], |left| {
        assert_eq!(left.len(), 3);
        vec![NOTHING, FOUND, NOTHING]
    });
    assert_eq!(values.len(), 3);
    expected.uncovered += 2;
    expected.found += 1;
    assert_eq!(cf.stats(), expected);
}

#[test]
fn each_answer_for_a_prefix_changes_the_counter_of_its_name_alone() {
    let cf = filters();
    publish(&cf, Coverage::Complete);
    let mut expected = Stats::default();
    let exists = |start: &[u8], there| {
        let found = prefix_lookup::exists(&*cf, start, || Ok::<_, Infallible>(there));
        let Ok(found) = found;
        found
    };
    assert!(exists(b"ad", true));
    expected.prefixes_found += 1;
    assert_eq!(cf.stats(), expected);
    for _ in 0..2 {
        assert!(!exists(b"ad", false));
    }
    expected.prefix_false_positives += 2;
    assert_eq!(cf.stats(), expected);
    for _ in 0..3 {
        assert!(!exists(b"zz", true));
    }
    expected.prefixes_absent += 3;
    assert_eq!(cf.stats(), expected);
    let maybe = prefix_lookup::may_exist_many(&cf, &[b"zz", b"ad", b"yy", b"bo"]);
    assert_eq!(maybe, [false, true, false, true]);
    expected.prefixes_absent += 2;
    assert_eq!(cf.stats(), expected);
    let spans = [
        Span::SamePrefix(b"zz top"),
        Span::Closed(b"zz", b"zz top"),
        Span::HalfOpen(b"zz", b"zz top"),
        Span::SamePrefix(b"ada"),
    ];
    let empty = spans.map(|span| prefix_lookup::is_empty_since(&*cf, span, cf.lookups().edition()));
    assert_eq!(empty, [true, true, true, false]);
    expected.prefixes_absent += 3;
    assert_eq!(cf.stats(), expected);
}

/// Uncovered SSTs: this number with an id, and one without. None has a filter yet.
fn uncovered(cf: &CfFilter, with_id: u8) -> Vec<WithRange<'static, MaybeFilter>> {
    let with_id =
        (0..with_id).map(|id| Some(cf.intake().segments().open(SegmentId::from_bytes([id; 16]))));
    let filters = with_id.chain([None]);
    let tables = filters.map(|filter| WithRange {
        filter,
        range: None,
    });
    tables.collect()
}

/// Each figure has another value here.
#[test]
fn health_reports_each_figure_in_its_own_field() {
    let cf = filters();
    let summary = cf.view().summary;
    let expected = CfHealth {
        name: "users".to_owned(),
        keys: summary.items(),
        stages: 1,
        is_static: false,
        memory: cf.size_of_summaries(),
        ranges: Bits::new(0),
        overhead: cf.size_beside_filters(),
        predicted_rate: summary.predicted_rate(),
        uncovered: None,
        without_id: 0,
        prefixes: vec![
            PrefixHealth {
                id: Prefix::fixed(2).id().clone(),
                in_summary: true,
                in_segments: false,
            },
            PrefixHealth {
                id: Prefix::until(b' ').id().clone(),
                in_summary: false,
                in_segments: false,
            },
        ],
        stats: Stats::default(),
    };
    assert_eq!(expected.keys.get(), 5);
    assert!(expected.predicted_rate > 0.0 && expected.predicted_rate < 0.01);
    assert!(expected.memory.get() >= summary.size().get() && expected.overhead != expected.memory);
    assert_eq!(cf.health(), expected);
    publish(&cf, Coverage::Complete);
    let complete = CfHealth {
        uncovered: Some(0),
        ..expected.clone()
    };
    assert_eq!(cf.health(), complete);
    publish(&cf, Coverage::all_but(uncovered(&cf, 2)));
    let partial = CfHealth {
        uncovered: Some(3),
        without_id: 1,
        ..expected
    };
    assert_eq!(cf.health(), partial);
}

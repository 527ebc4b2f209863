//! What a scrape of the metrics shows.

use std::collections::BTreeSet;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;

use crate::{Bits, SieveDb, SieveOptions};
use lsm_sieve_front::metrics::{NAMES, describe_metrics};

const LIMIT: Duration = Duration::from_secs(60);

/// What a scrape of a database with three keys shows after two lookups.
fn scrape() -> (String, SieveDb, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().memory_budget(1 << 20);
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    for key in [b"ada", b"bob", b"eve"] {
        db.put(key, b"value").unwrap();
    }
    db.flush().unwrap();
    assert!(db.filters().wait_until_complete(LIMIT) && db.filters().wait_for_maintenance(LIMIT));
    assert!(db.get(b"ada").unwrap().is_some());
    assert!(db.get(b"charles").unwrap().is_none());
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, || {
        describe_metrics();
        // Twice: a counter is set, not added to.
        db.filters().health().record_metrics("users");
        db.filters().health().record_metrics("users");
    });
    (recorder.handle().render(), db, home)
}

#[test]
fn a_scrape_shows_what_health_says() {
    let (text, db, _home) = scrape();
    let health = db.filters().health();
    let cf = "db=\"users\",cf=\"default\"";
    let expected = [
        format!("lsm_sieve_lookups_total{{{cf},result=\"absent\"}} 1"),
        format!("lsm_sieve_lookups_total{{{cf},result=\"found\"}} 1"),
        format!("lsm_sieve_lookups_total{{{cf},result=\"not_consulted\"}} 0"),
        format!("lsm_sieve_keys{{{cf}}} 3"),
        format!("lsm_sieve_uncovered_ssts{{{cf}}} 0"),
        format!("lsm_sieve_coverage_known{{{cf}}} 1"),
        "lsm_sieve_budget_bytes{db=\"users\"} 1048576".to_owned(),
        "lsm_sieve_distrusted{db=\"users\"} 0".to_owned(),
        format!(
            "lsm_sieve_segment_filter_bytes{{db=\"users\"}} {}",
            health.memory.segments.to_bytes()
        ),
    ];
    for line in expected {
        assert!(text.lines().any(|shown| shown == line), "{line} in\n{text}");
    }
}

/// Each has a value of its own.
#[test]
fn each_metric_of_a_database_shows_the_figure_of_its_name() {
    let (_, db, _home) = scrape();
    let mut health = db.filters().health();
    health.cfs.clear();
    health.memory.summary = Bits::from_bytes(1);
    health.memory.segments = Bits::from_bytes(2);
    health.memory.overhead = Bits::from_bytes(3);
    health.budget_bytes = Some(4);
    health.known_segments = 5;
    for distrusted in [false, true] {
        health.false_negatives = distrusted;
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || health.record_metrics("users"));
        let shown = recorder.handle().render();
        let lines = shown.lines().filter(|line| line.starts_with("lsm_sieve"));
        let lines: BTreeSet<_> = lines.map(str::to_owned).collect();
        let figures = [
            ("budget_bytes", 4),
            ("distrusted", u64::from(distrusted)),
            ("known_segments", 5),
            ("segment_filter_bytes", 2),
        ];
        let expected =
            figures.map(|(name, figure)| format!("lsm_sieve_{name}{{db=\"users\"}} {figure}"));
        assert_eq!(lines, BTreeSet::from(expected));
    }
}

#[test]
fn each_metric_is_described_shown_and_documented() {
    let (text, ..) = scrape();
    let page = include_str!("../../docs/operating.md");
    for (name, _, description) in NAMES {
        assert!(
            text.contains(&format!("# HELP {name} {description}")),
            "{name}\n{text}"
        );
        assert!(text.contains(&format!("\n{name}{{")), "{name} in\n{text}");
        assert!(page.contains(&format!("`{name}`")), "{name} in the page");
    }
    let shown = text
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .count();
    assert_eq!(shown, NAMES.len(), "{text}");
}

/// A panel of a metric that does not exist would stay empty.
#[test]
fn the_dashboard_shows_each_metric_and_no_other() {
    let dashboard = include_str!("../../docs/grafana.json");
    let is_part = |c: char| c.is_ascii_lowercase() || c == '_';
    let words = dashboard.split(|c| !is_part(c));
    let shown: BTreeSet<_> = words
        .filter(|word| word.starts_with("lsm_sieve_"))
        .collect();
    assert_eq!(shown, NAMES.iter().map(|(name, ..)| *name).collect());
}

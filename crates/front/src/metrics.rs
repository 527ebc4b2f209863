//! The figures of [`Health`], handed to the recorder of the crate [`metrics`].
//!
//! Nothing is recorded on a lookup: the counters are those of [`Stats`](crate::Stats), and a call copies them to
//! the recorder. So a metric is as old as the last call.
//!
//! A metric's name ends with its unit, or with `_total` if it only grows, as Prometheus asks for. The
//! names, labels and meanings are public: [`NAMES`] is the list, and `docs/operating.md` has it too.

use metrics::{counter, describe_counter, describe_gauge, gauge};

use crate::fault::fault;
use crate::health::{CfHealth, Health};
use crate::stats::Stats;

/// Whether a metric only grows.
#[derive(Clone, Copy, PartialEq, Eq)]
#[doc(hidden)]
pub enum Kind {
    Counter,
    Gauge,
}
use Kind::{Counter, Gauge};

const LOOKUPS: &str = "lsm_sieve_lookups_total";
const PREFIXES: &str = "lsm_sieve_prefixes_total";
const AUDITS: &str = "lsm_sieve_audits_total";
const FALSE_NEGATIVES: &str = "lsm_sieve_false_negatives_total";
const KEYS: &str = "lsm_sieve_keys";
const STAGES: &str = "lsm_sieve_stages";
const SUMMARY_BYTES: &str = "lsm_sieve_summary_filter_bytes";
const OVERHEAD_BYTES: &str = "lsm_sieve_overhead_bytes";
const PREDICTED_FPR: &str = "lsm_sieve_predicted_fpr";
const COVERAGE_KNOWN: &str = "lsm_sieve_coverage_known";
const UNCOVERED_SSTS: &str = "lsm_sieve_uncovered_ssts";
const SSTS_WITHOUT_ID: &str = "lsm_sieve_ssts_without_id";
const SEGMENT_BYTES: &str = "lsm_sieve_segment_filter_bytes";
const SEGMENTS: &str = "lsm_sieve_known_segments";
const BUDGET_BYTES: &str = "lsm_sieve_budget_bytes";
const DISTRUSTED: &str = "lsm_sieve_distrusted";

/// Every metric: its name, its kind, and its description.
#[doc(hidden)]
pub const NAMES: [(&str, Kind, &str); 16] = [
    (
        LOOKUPS,
        Counter,
        "Lookups of single keys and of batches, by result",
    ),
    (PREFIXES, Counter, "Questions for a prefix, by result"),
    (
        AUDITS,
        Counter,
        "Negatives that were read from the engine all the same",
    ),
    (
        FALSE_NEGATIVES,
        Counter,
        "Audited negatives whose key exists; must stay 0",
    ),
    (KEYS, Gauge, "Distinct keys of the summary filter"),
    (
        STAGES,
        Gauge,
        "Stages of the summary filter; 1 after a consolidation",
    ),
    (
        SUMMARY_BYTES,
        Gauge,
        "Memory of the summary filter, and of the one that is being built",
    ),
    (OVERHEAD_BYTES, Gauge, "Memory beside the filters"),
    (
        PREDICTED_FPR,
        Gauge,
        "False-positive rate of the summary filter, computed from its keys",
    ),
    (
        COVERAGE_KNOWN,
        Gauge,
        "0 if it is unknown which SSTs are covered; then nothing is answered absent",
    ),
    (
        UNCOVERED_SSTS,
        Gauge,
        "Live SSTs that the summary filter does not cover",
    ),
    (
        SSTS_WITHOUT_ID,
        Gauge,
        "Uncovered SSTs that stay so until they are compacted",
    ),
    (
        SEGMENT_BYTES,
        Gauge,
        "Memory of the segment filters of all column families",
    ),
    (
        SEGMENTS,
        Gauge,
        "Known segments: live SSTs, those being written, and some just removed",
    ),
    (BUDGET_BYTES, Gauge, "The memory budget; absent without one"),
    (
        DISTRUSTED,
        Gauge,
        "1 if an audit found a false negative: open the database again",
    ),
];

/// Tells the recorder what each metric means. Call it once, after the recorder is installed.
pub fn describe_metrics() {
    for (name, kind, text) in NAMES {
        match kind {
            Counter => describe_counter!(name, text),
            Gauge => describe_gauge!(name, text),
        }
    }
}

impl Health {
    /// Hands these figures, and those of each column family, to the recorder of the crate `metrics`.
    ///
    /// `db` becomes a label; it tells the databases of a process apart. Call this before each scrape, or
    /// every few seconds. `docs/operating.md` lists the metrics.
    pub fn record_metrics(&self, db: &str) {
        let labels = [("db", db.to_owned())];
        gauge!(SEGMENT_BYTES, &labels).set(self.memory.segments.to_bytes() as f64);
        gauge!(SEGMENTS, &labels).set(self.known_segments as f64);
        gauge!(DISTRUSTED, &labels).set(f64::from(u8::from(self.false_negatives)));
        if let Some(bytes) = self.budget_bytes {
            gauge!(BUDGET_BYTES, &labels).set(bytes as f64);
        }
        self.cfs.iter().for_each(|cf| cf.record_metrics(db));
    }
}

impl CfHealth {
    /// Hands these figures to the recorder of the crate `metrics`, with the labels `db` and `cf`.
    ///
    /// `db` tells the databases of a process apart. `docs/operating.md` lists the metrics.
    pub fn record_metrics(&self, db: &str) {
        let labels = [("db", db.to_owned()), ("cf", self.name.clone())];
        self.record_lookups(db);
        self.record_prefixes(db);
        counter!(AUDITS, &labels).absolute(self.stats.audited);
        counter!(FALSE_NEGATIVES, &labels).absolute(self.stats.false_negatives);
        gauge!(KEYS, &labels).set(self.keys.get() as f64);
        gauge!(STAGES, &labels).set(self.stages as f64);
        gauge!(SUMMARY_BYTES, &labels).set(self.memory.to_bytes() as f64);
        gauge!(OVERHEAD_BYTES, &labels).set(self.overhead.to_bytes() as f64);
        gauge!(PREDICTED_FPR, &labels).set(self.predicted_rate);
        gauge!(COVERAGE_KNOWN, &labels).set(f64::from(u8::from(self.uncovered.is_some())));
        // Not 0 if unknown: an alert on it would stay silent.
        let uncovered = self.uncovered.map_or(f64::NAN, |ssts| ssts as f64);
        gauge!(UNCOVERED_SSTS, &labels).set(uncovered);
        gauge!(SSTS_WITHOUT_ID, &labels).set(self.without_id as f64);
    }

    /// Records lookups by result. The results add up to all lookups.
    fn record_lookups(&self, db: &str) {
        let stats = shown(self.stats);
        let results = [
            ("absent", stats.absent),
            ("found", stats.found - stats.found_unchecked),
            ("found_unchecked", stats.found_unchecked),
            ("false_positive", stats.false_positives),
            ("uncovered", stats.uncovered),
            ("not_consulted", stats.not_consulted),
        ];
        self.record_results(db, LOOKUPS, results);
    }

    fn record_prefixes(&self, db: &str) {
        let results = [
            ("absent", self.stats.prefixes_absent),
            ("found", self.stats.prefixes_found),
            ("false_positive", self.stats.prefix_false_positives),
        ];
        self.record_results(db, PREFIXES, results);
    }

    fn record_results<const N: usize>(
        &self,
        db: &str,
        metric: &'static str,
        results: [(&'static str, u64); N],
    ) {
        for (result, count) in results {
            let (db, cf) = (db.to_owned(), self.name.clone());
            counter!(metric, "db" => db, "cf" => cf, "result" => result).absolute(count);
        }
    }
}

fn shown(stats: Stats) -> Stats {
    fault!(
        ResultsSwapped,
        return Stats {
            uncovered: stats.not_consulted,
            not_consulted: stats.uncovered,
            ..stats
        }
    );
    stats
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::math::{Bits, Items};

    /// Each figure has a value of its own, so that one in the place of another is noticed. It used
    /// not to be: most were 0 or 1 in the scrape that a test looked at.
    #[test]
    fn each_metric_shows_the_figure_of_its_name() {
        let mut health = CfHealth {
            name: "users".to_owned(),
            keys: Items::new(11),
            stages: 12,
            is_static: true,
            memory: Bits::from_bytes(13),
            ranges: Bits::new(0),
            overhead: Bits::from_bytes(14),
            predicted_rate: 0.5,
            uncovered: Some(16),
            without_id: 17,
            prefixes: Vec::new(),
            stats: Stats {
                absent: 101,
                found: 205,
                found_unchecked: 103,
                false_positives: 104,
                uncovered: 105,
                not_consulted: 106,
                audited: 107,
                false_negatives: 108,
                prefixes_absent: 109,
                prefixes_found: 110,
                prefix_false_positives: 111,
            },
        };
        let scrape = |health: &CfHealth| {
            let recorder = PrometheusBuilder::new().build_recorder();
            metrics::with_local_recorder(&recorder, || health.record_metrics("db"));
            let shown = recorder.handle().render();
            let lines = shown.lines().filter(|line| !line.starts_with('#'));
            let lines = lines.filter(|line| !line.is_empty());
            let lines = lines.map(|line| line.replace(r#"db="db",cf="users""#, "of"));
            let mut lines: Vec<_> = lines.collect();
            lines.sort_unstable();
            lines
        };
        let mut expected = [
            r#"lsm_sieve_audits_total{of} 107"#,
            r#"lsm_sieve_coverage_known{of} 1"#,
            r#"lsm_sieve_false_negatives_total{of} 108"#,
            r#"lsm_sieve_keys{of} 11"#,
            r#"lsm_sieve_lookups_total{of,result="absent"} 101"#,
            r#"lsm_sieve_lookups_total{of,result="false_positive"} 104"#,
            r#"lsm_sieve_lookups_total{of,result="found"} 102"#,
            r#"lsm_sieve_lookups_total{of,result="found_unchecked"} 103"#,
            r#"lsm_sieve_lookups_total{of,result="not_consulted"} 106"#,
            r#"lsm_sieve_lookups_total{of,result="uncovered"} 105"#,
            r#"lsm_sieve_overhead_bytes{of} 14"#,
            r#"lsm_sieve_predicted_fpr{of} 0.5"#,
            r#"lsm_sieve_prefixes_total{of,result="absent"} 109"#,
            r#"lsm_sieve_prefixes_total{of,result="false_positive"} 111"#,
            r#"lsm_sieve_prefixes_total{of,result="found"} 110"#,
            r#"lsm_sieve_ssts_without_id{of} 17"#,
            r#"lsm_sieve_stages{of} 12"#,
            r#"lsm_sieve_summary_filter_bytes{of} 13"#,
            r#"lsm_sieve_uncovered_ssts{of} 16"#,
        ];
        assert_eq!(scrape(&health), expected);
        health.uncovered = None;
        expected[1] = r#"lsm_sieve_coverage_known{of} 0"#;
        expected[18] = r#"lsm_sieve_uncovered_ssts{of} NaN"#;
        assert_eq!(scrape(&health), expected);
    }
}

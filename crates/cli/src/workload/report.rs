//! The reports of the commands: plain data, printed as JSON for programs and as a table for people.
//!
//! The JSON names are part of the command line's interface; they change only with a major version.

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

use super::replay::Counts;

/// A report that can be printed as a table.
pub trait Tabular {
    /// The column heads.
    fn head(&self) -> Vec<String>;
    /// The rows below them.
    fn rows(&self) -> Vec<Vec<String>>;
    /// What each column means, or each row of a table of labels and values: name and meaning.
    fn legend(&self) -> Vec<(&str, &str)>;
    /// Notes below the table, one per line.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Formats a report as a table. The first column is aligned to the left, the others to the right.
pub fn table(report: &dyn Tabular) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_header(report.head());
    table.add_rows(report.rows());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// `upsert` or `differential`.
    pub mode: &'static str,
    /// The counted replay.
    #[serde(flatten)]
    pub counts: Counts,
    /// False positives / (false positives + true negatives).
    pub observed_rate: f64,
    /// The false-positive rate that the filters were opened with.
    pub promised_rate: f64,
    /// Bits per key of the filtered space, of the summary filter and the segment filters together.
    pub bits_per_key: f64,
    /// Seconds of the replay on the store with filters.
    pub seconds: f64,
    /// Seconds of the same replay on RocksDB alone.
    pub seconds_unfiltered: f64,
}

impl Tabular for ReplayReport {
    fn head(&self) -> Vec<String> {
        vec![self.mode.to_owned(), String::new()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = count_rows(&self.counts);
        if self.counts.main_reads > 0 {
            rows.push(row(
                "reads of the main file",
                number(self.counts.main_reads),
            ));
        }
        rows.extend([
            row("observed rate", percent(self.observed_rate)),
            row("promised rate", percent(self.promised_rate)),
            row("bits per key", format!("{:.1}", self.bits_per_key)),
            row("seconds with filters", format!("{:.2}", self.seconds)),
            row("seconds without", format!("{:.2}", self.seconds_unfiltered)),
        ]);
        rows
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        let mut legend = COUNTS.to_vec();
        legend.extend([
            (
                "reads of the main file",
                "reads that the differential file did not answer",
            ),
            (
                "bits per key",
                "of the summary filter and the segment filters together",
            ),
            ("seconds with filters", "of the same ids, on a new database"),
            ("seconds without", "of the same ids, on RocksDB alone"),
        ]);
        legend
    }
}

/// The result of the demonstration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoReport {
    /// Keys that were loaded.
    pub keys: u64,
    /// The counted lookups, half of them for absent keys.
    #[serde(flatten)]
    pub counts: Counts,
    /// False positives / (false positives + true negatives).
    pub observed_rate: f64,
    /// The false-positive rate that the filters were opened with.
    pub promised_rate: f64,
    /// Nanoseconds per lookup without filters.
    pub native_ns: f64,
    /// Nanoseconds per lookup with filters.
    pub sieve_ns: f64,
    /// Native over sieve.
    pub ratio: f64,
    /// Nanoseconds per miss without filters.
    pub native_miss_ns: f64,
    /// Nanoseconds per miss with filters.
    pub sieve_miss_ns: f64,
    /// Native over sieve.
    pub ratio_miss: f64,
}

impl Tabular for DemoReport {
    fn head(&self) -> Vec<String> {
        vec![
            format!("{} keys, half of the lookups absent", number(self.keys)),
            String::new(),
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = count_rows(&self.counts);
        rows.extend([
            row("observed rate", percent(self.observed_rate)),
            row("promised rate", percent(self.promised_rate)),
            row("lookup without filters", nanoseconds(self.native_ns)),
            row("lookup with filters", nanoseconds(self.sieve_ns)),
            row("ratio of the lookups", times(self.ratio)),
            row("miss without filters", nanoseconds(self.native_miss_ns)),
            row("miss with filters", nanoseconds(self.sieve_miss_ns)),
            row("ratio of the misses", times(self.ratio_miss)),
        ]);
        rows
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        let mut legend = COUNTS.to_vec();
        legend.extend([
            (
                "lookup without filters",
                "mean of hits and misses, half of each, in RocksDB alone",
            ),
            (
                "lookup with filters",
                "the same lookups in the database with filters",
            ),
            (
                "ratio of the lookups",
                "how many times as fast they are with filters",
            ),
            ("miss without filters", "misses alone, in RocksDB alone"),
            (
                "miss with filters",
                "the same misses in the database with filters",
            ),
            (
                "ratio of the misses",
                "how many times as fast they are with filters",
            ),
        ]);
        legend
    }
}

/// The meaning of [`count_rows`] and of the rates below them.
const COUNTS: [(&str, &str); 8] = [
    ("lookups", "all lookups of single keys that were counted"),
    ("misses", "lookups of keys that do not exist"),
    ("engine reads", "lookups that entered RocksDB"),
    (
        "engine reads avoided",
        "lookups that the filters answered absent",
    ),
    (
        "false positives",
        "misses that entered RocksDB although every SST was covered",
    ),
    (
        "false negatives",
        "keys that exist and were answered absent; must be 0",
    ),
    (
        "observed rate",
        "false positives / (false positives + misses that the filters answered)",
    ),
    (
        "promised rate",
        "the false-positive rate that the filters were opened with",
    ),
];

fn count_rows(counts: &Counts) -> Vec<Vec<String>> {
    vec![
        row("lookups", number(counts.lookups)),
        row("misses", number(counts.misses)),
        row("engine reads", number(counts.engine_reads)),
        row("engine reads avoided", number(counts.engine_reads_avoided)),
        row("false positives", number(counts.false_positives)),
        row("false negatives", number(counts.false_negatives)),
    ]
}

fn row(label: &str, value: String) -> Vec<String> {
    vec![label.to_owned(), value]
}

/// Formats a number with its digits in groups of three.
pub fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a rate in per cent.
pub fn percent(rate: f64) -> String {
    let percent = rate * 100.0;
    if percent > 0.0 && percent < LEAST_PERCENT {
        return format!("{percent:.1e} %");
    }
    format!("{percent:.3} %")
}

/// Lower percentages would be printed as 0 with three decimals.
const LEAST_PERCENT: f64 = 0.0005;

/// Formats nanoseconds.
pub fn nanoseconds(ns: f64) -> String {
    format!("{ns:.1} ns")
}

/// Formats how many times as fast something is.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_row_names_are_unique() {
        let report = DemoReport {
            keys: 1,
            counts: Counts::default(),
            observed_rate: 0.0,
            promised_rate: 0.01,
            native_ns: 200.0,
            sieve_ns: 100.0,
            ratio: 2.0,
            native_miss_ns: 300.0,
            sieve_miss_ns: 100.0,
            ratio_miss: 3.0,
        };
        let mut names: Vec<String> = report.rows().into_iter().flatten().step_by(2).collect();
        let rows = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), rows, "{names:?}");
    }

    /// The names are an interface: scripts read them.
    #[test]
    fn json_names_are_fixed() {
        let report = ReplayReport {
            mode: "upsert",
            counts: Counts::default(),
            observed_rate: 0.0,
            promised_rate: 0.01,
            bits_per_key: 12.0,
            seconds: 1.0,
            seconds_unfiltered: 2.0,
        };
        let json = serde_json::to_value(report).unwrap();
        for name in [
            "lookups",
            "misses",
            "engine_reads",
            "engine_reads_avoided",
            "false_positives",
            "false_negatives",
            "observed_rate",
            "promised_rate",
            "bits_per_key",
            "seconds",
            "seconds_unfiltered",
        ] {
            assert!(json[name].is_number(), "{name}");
        }
    }

    #[test]
    fn small_rate_is_not_printed_as_zero() {
        let printed = [0.0, 1e-8, 4.9e-6, 5.1e-6, 0.01, 1.0].map(percent);
        let expected = [
            "0.000 %",
            "1.0e-6 %",
            "4.9e-4 %",
            "0.001 %",
            "1.000 %",
            "100.000 %",
        ];
        assert_eq!(printed, expected);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1_000, 1_234_567].map(number),
            ["0", "999", "1,000", "1,234,567"].map(str::to_owned)
        );
    }
}

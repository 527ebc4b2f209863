//! The report of questions for prefixes.

use serde::Serialize;

use lsm_sieve_cli::workload::report::{Tabular, nanoseconds, number};

/// The times of one kind of question, per prefix: medians of the rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PrefixTimes {
    /// By RocksDB's own best way: prefix Bloom filters and an iterator held open.
    pub native_ns: f64,
    /// By `prefix_exists`, or `prefixes_exist` for a batch.
    pub exists_ns: f64,
    /// By an iterator of lsm-sieve that is held open; `None` for a batch.
    pub iterator_ns: Option<f64>,
}

/// The result of `bench prefix`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PrefixReport {
    /// Keys in the database.
    pub keys: u64,
    /// Prefixes that they have.
    pub prefixes: u64,
    /// Sorted runs, or `leveled`.
    pub runs: String,
    /// RocksDB over lsm-sieve, for a prefix that no key has.
    pub ratio_empty: f64,
    /// The same by an iterator held open on either side.
    pub ratio_empty_iterator: f64,
    /// The same as `ratio_empty` for prefixes in batches.
    pub ratio_empty_batch: f64,
    /// lsm-sieve over RocksDB, for a prefix that is there, by an iterator held open on either side.
    pub ratio_present: f64,
    /// lsm-sieve over RocksDB, for the load.
    pub ratio_fill: f64,
    /// Bits that the prefixes take in all filters of lsm-sieve, per prefix.
    pub bits_per_prefix: f64,
    /// Bits of all filters of lsm-sieve, per key.
    pub bits_per_key: f64,
    /// The share of absent prefixes that pass the filters.
    pub observed_rate: f64,
    /// The rate that the summary filter is built for.
    pub promised_rate: f64,
    /// Prefixes that are there and were answered absent.
    pub false_negatives: u64,
    /// Times of a prefix that no key has.
    pub empty: PrefixTimes,
    /// The same in batches.
    pub empty_batch: PrefixTimes,
    /// Times of a prefix that is there.
    pub present: PrefixTimes,
}

impl Tabular for PrefixReport {
    fn head(&self) -> Vec<String> {
        let names = "prefixes|RocksDB|lsm-sieve|its iterator|times as fast";
        names.split('|').map(str::to_owned).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |name: &str, times: PrefixTimes, ratio: f64| {
            let iterator = times
                .iterator_ns
                .map_or_else(|| "-".to_owned(), nanoseconds);
            vec![
                name.to_owned(),
                nanoseconds(times.native_ns),
                nanoseconds(times.exists_ns),
                iterator,
                format!("{ratio:.2}"),
            ]
        };
        vec![
            row("absent", self.empty, self.ratio_empty),
            row(
                "absent, in batches",
                self.empty_batch,
                self.ratio_empty_batch,
            ),
            row("present", self.present, 1.0 / self.ratio_present),
        ]
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "prefixes",
                "whether a key has them, and how they are asked for",
            ),
            (
                "RocksDB",
                "a seek of an iterator that is held open, with `prefix_same_as_start` and prefix \
                 Bloom filters",
            ),
            (
                "lsm-sieve",
                "`prefix_exists`, or `prefixes_exist` for a batch",
            ),
            (
                "its iterator",
                "the same seek of an iterator of lsm-sieve that is held open",
            ),
            (
                "times as fast",
                "RocksDB over lsm-sieve; of present ones, by iterators on either side",
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "{} keys in {} prefixes, {} sorted runs; load: {:.2} times as long",
                number(self.keys),
                number(self.prefixes),
                self.runs,
                self.ratio_fill
            ),
            format!(
                "{:.1} bits per prefix; {:.3} % of absent prefixes pass, at most {:.3} % promised; {} \
                 false negatives",
                self.bits_per_prefix,
                self.observed_rate * 100.0,
                self.promised_rate * 100.0,
                self.false_negatives
            ),
        ]
    }
}

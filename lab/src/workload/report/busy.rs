//! The report of lookups beside writers that never pause.

use std::time::Duration;

use serde::Serialize;

use crate::workload::busy::{Load, Sample};
use lsm_sieve_cli::workload::report::{Tabular, nanoseconds, number};

/// One interval of writers at full speed, with filters and without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyRow {
    /// Seconds since the writers began, at the end of the interval.
    pub seconds: f64,
    /// Keys written by then, with filters.
    pub keys: u64,
    /// Bits of the summary filters, per key written.
    pub bits_per_key: f64,
    /// CPU time of a lookup of an absent key, with filters.
    pub miss_cpu_ns: f64,
    /// The same of RocksDB alone when it had as many keys; `None` if it never had.
    pub native_miss_cpu_ns: Option<f64>,
    /// Keys written in each second, with filters.
    pub writes_per_second: f64,
    /// The same of RocksDB alone when it had as many keys.
    pub native_writes_per_second: Option<f64>,
}

/// The result of writers at full speed beside lookups.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BusyReport {
    /// Threads that wrote.
    pub writers: u64,
    /// Seconds until all keys were written, with filters.
    pub seconds: f64,
    /// The same of RocksDB alone.
    pub seconds_native: f64,
    /// Seconds of RocksDB alone over seconds with filters.
    pub ratio: f64,
    /// The intervals.
    pub rows: Vec<BusyRow>,
}

impl BusyReport {
    /// Puts samples of RocksDB alone beside those with filters, by the number of keys.
    pub fn new(
        load: Load,
        (native, native_time): (&[Sample], Duration),
        (sieve, sieve_time): (&[Sample], Duration),
    ) -> Self {
        let row = |(at, sample): (usize, &Sample)| {
            let beside = native.iter().find(|native| native.keys >= sample.keys);
            BusyRow {
                seconds: (load.interval * (at as u32 + 1))
                    .min(sieve_time)
                    .as_secs_f64(),
                keys: sample.keys,
                bits_per_key: sample.bits_per_key,
                miss_cpu_ns: sample.miss_cpu_ns,
                native_miss_cpu_ns: beside.map(|native| native.miss_cpu_ns),
                writes_per_second: sample.writes_per_second,
                native_writes_per_second: beside.map(|native| native.writes_per_second),
            }
        };
        Self {
            writers: load.writers,
            seconds: sieve_time.as_secs_f64(),
            seconds_native: native_time.as_secs_f64(),
            ratio: native_time.as_secs_f64() / sieve_time.as_secs_f64(),
            rows: sieve.iter().enumerate().map(row).collect(),
        }
    }
}

impl Tabular for BusyReport {
    fn head(&self) -> Vec<String> {
        let names = "seconds|keys|bits per key|miss|miss, RocksDB|writes/s|writes/s, RocksDB";
        names.split('|').map(str::to_owned).collect()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |row: &BusyRow| {
            let or_none = |value: Option<f64>, format: fn(f64) -> String| {
                value.map_or_else(|| "-".to_owned(), format)
            };
            let per_second = |value: f64| number(value as u64);
            vec![
                format!("{:.0}", row.seconds),
                number(row.keys),
                format!("{:.1}", row.bits_per_key),
                nanoseconds(row.miss_cpu_ns),
                or_none(row.native_miss_cpu_ns, nanoseconds),
                per_second(row.writes_per_second),
                or_none(row.native_writes_per_second, per_second),
            ]
        };
        self.rows.iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            ("seconds", "since the writers began"),
            ("keys", "written by then, with filters"),
            (
                "bits per key",
                "of the summary filters, also of those that are being built",
            ),
            (
                "miss",
                "CPU time of a lookup of an absent key with filters: the mean of the interval",
            ),
            (
                "miss, RocksDB",
                "the same of RocksDB alone, when it had as many keys",
            ),
            (
                "writes/s",
                "keys written in each second of the interval, with filters",
            ),
            (
                "writes/s, RocksDB",
                "the same of RocksDB alone, when it had as many keys",
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        vec![format!(
            "{} writers: {:.1} s with filters, {:.1} s without; ratio {:.2}",
            self.writers, self.seconds, self.seconds_native, self.ratio
        )]
    }
}

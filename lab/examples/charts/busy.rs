//! Lookups of absent keys beside writers that never pause: their CPU time, by the keys written.

use lsm_sieve_lab::chart::{Axis, Chart, Series};
use serde::Deserialize;

use crate::record::Recorded;

pub(crate) const RECORD: &str = include_str!("../../../benches/record/busy.json");

#[derive(Deserialize)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

/// Of the fields of `lsm-sieve-lab bench busy --json`, those that are shown.
#[derive(Deserialize)]
struct Row {
    keys: f64,
    miss_cpu_ns: f64,
    native_miss_cpu_ns: Option<f64>,
}

pub(crate) fn chart(busy: &Recorded<Report>) -> Chart {
    let rows = busy.result.rows.iter();
    let native = rows
        .clone()
        .filter_map(|row| Some((row.keys / 1e6, row.native_miss_cpu_ns?)));
    Chart::new(
        "A lookup of an absent key, beside a writer",
        Axis::linear("million keys written").including(0.0),
        Axis::log("nanoseconds of CPU time").including(10.0),
    )
    .with(Series::line_and_marks("RocksDB alone", native))
    .with(Series::line_and_marks(
        "with filters",
        rows.map(|row| (row.keys / 1e6, row.miss_cpu_ns)),
    ))
}

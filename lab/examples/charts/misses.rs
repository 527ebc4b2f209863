//! Nanoseconds of a lookup of an absent key, by the number of sorted runs.

use lsm_sieve_lab::chart::{Axis, Chart, Series};
use serde::Deserialize;

use crate::record::Measurements;

pub(crate) const RECORD: &str = include_str!("../../../benches/record/misses.json");

#[derive(Deserialize)]
pub(crate) struct Measured {
    sorted_runs: f64,
    nanoseconds: f64,
}

pub(crate) fn chart(record: &Measurements<Measured>) -> Chart {
    let chart = Chart::new(
        "A lookup of an absent key",
        Axis::linear("sorted runs").including(0.0),
        Axis::log("nanoseconds").including(1.0),
    );
    record.measurements.iter().fold(chart, |chart, of| {
        let points = of.points.iter().map(|at| (at.sorted_runs, at.nanoseconds));
        chart.with(Series::line_and_marks(&*of.series, points))
    })
}

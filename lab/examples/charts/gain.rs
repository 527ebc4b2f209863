//! Times as fast as RocksDB alone, by the share of lookups whose key is absent: the picture of the README.
//!
//! A point is in the middle of its runs; its error bar extends from the lowest to the highest.

use lsm_sieve_lab::chart::{Axis, Chart, Point, Series};
use serde::Deserialize;

use crate::record::Measurements;

pub(crate) const RECORD: &str = include_str!("../../../benches/record/gain.json");

const WHOLE_JOBS: &str = "whole jobs";

/// In the order of the legend, from the top of the plot to its bottom.
const LOOKUPS: [&str; 3] = ["8 sorted runs", "4 sorted runs", "1 sorted run"];

#[derive(Deserialize)]
pub(crate) struct Measured {
    absent_percent: f64,
    #[serde(default)]
    times_as_fast: Vec<f64>,
    #[serde(default)]
    times_as_long: Vec<f64>,
}

impl Measured {
    fn point(&self) -> Point {
        let inverted = self.times_as_long.iter().map(|times| 1.0 / times);
        let runs: Vec<f64> = self.times_as_fast.iter().copied().chain(inverted).collect();
        let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = runs.iter().copied().fold(0.0, f64::max);
        Point::from((self.absent_percent, (low + high) / 2.0, (high - low) / 2.0))
    }
}

fn points(record: &Measurements<Measured>, series: &str) -> Vec<Point> {
    let of_series = record.measurements.iter().filter(|of| of.series == series);
    let measured = of_series.flat_map(|measurement| &measurement.points);
    measured.map(Measured::point).collect()
}

pub(crate) fn chart(record: &Measurements<Measured>) -> Chart {
    let chart = Chart::new(
        "Times as fast as RocksDB alone",
        Axis::linear("lookups whose key is absent, %").including(0.0),
        Axis::log("times as fast"),
    );
    let chart = chart
        .with(Series::line("RocksDB alone", [(0.0, 1.0), (100.0, 1.0)]))
        .with(Series::marks(WHOLE_JOBS, points(record, WHOLE_JOBS)));
    LOOKUPS.iter().copied().fold(chart, |chart, runs| {
        let points = points(record, runs);
        chart.with(Series::line_and_marks(format!("lookups, {runs}"), points))
    })
}

//! Draws the picture of the README from recorded figures:
//! `cargo run -p lsm-sieve-cli --example readme_chart -- docs/images`
//!
//! `benches/record/gain.json` has every figure with its commit, machine and command. A point is in
//! the middle of its runs; its error bar extends from the lowest to the highest.

#![expect(
    clippy::disallowed_methods,
    reason = "a chart is no filter: one that is cut short is drawn again"
)]

use std::path::Path;
use std::{env, fs};

use lsm_sieve_cli::chart::{Axis, Chart, Ground, Point, Series};
use serde::Deserialize;

const RECORD: &str = include_str!("../benches/record/gain.json");

const WHOLE_JOBS: &str = "whole jobs";

/// In the order of the legend, from the top of the plot to its bottom.
const LOOKUPS: [&str; 3] = ["8 sorted runs", "4 sorted runs", "1 sorted run"];

#[derive(Deserialize)]
struct Record {
    measurements: Vec<Measurement>,
}

#[derive(Deserialize)]
struct Measurement {
    series: String,
    points: Vec<Measured>,
}

#[derive(Deserialize)]
struct Measured {
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

fn points(record: &Record, series: &str) -> Vec<Point> {
    let of_series = record.measurements.iter().filter(|of| of.series == series);
    let measured = of_series.flat_map(|measurement| &measurement.points);
    measured.map(Measured::point).collect()
}

fn chart(record: &Record) -> Chart {
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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = env::args().nth(1).ok_or("usage: readme_chart FOLDER")?;
    let chart = chart(&serde_json::from_str(RECORD)?);
    for (name, ground) in [("light", Ground::Light), ("dark", Ground::Dark)] {
        let file = Path::new(&folder).join(format!("gain-{name}.svg"));
        fs::write(file, chart.svg_on(ground))?;
    }
    Ok(())
}

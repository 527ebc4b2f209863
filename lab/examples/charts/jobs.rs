//! Whole jobs: how many times as fast as on RocksDB alone, one line for each, with the range of the rounds.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::page::escaped;
use crate::record::Recorded;

pub(crate) const RECORD: &str = include_str!("../../../benches/record/jobs.json");

/// Of the fields of `lsm-sieve-lab bench jobs --json`, those that are shown.
#[derive(Deserialize)]
pub(crate) struct Job {
    job: String,
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

const WIDTH: f64 = 420.0;
/// The names are left of it, the figures right of `RIGHT`.
const LEFT: f64 = 210.0;
const RIGHT: f64 = 360.0;
const ROW: f64 = 26.0;

/// The least and the greatest ratio of the scale.
const SCALE: (f64, f64) = (0.8, 1.4);

fn place(ratio: f64) -> f64 {
    let (least, most) = SCALE;
    LEFT + (ratio.clamp(least, most) - least) / (most - least) * (RIGHT - LEFT)
}

/// The drawing, for a page with the style sheet of the charts.
pub(crate) fn svg(jobs: &Recorded<Vec<Job>>) -> String {
    let height = ROW * jobs.result.len() as f64 + ROW * 1.5;
    let (one, bottom) = (place(1.0), height - ROW);
    let mut svg = format!(
        "<svg class=\"chart\" role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" font-size=\"12\">\n\
         <title>Whole jobs, times as fast as RocksDB alone</title>\n\
         <rect class=\"chart-ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n\
         <path class=\"chart-axis\" d=\"M{one:.1} 4V{bottom:.1}\"/>\n\
         <text class=\"chart-ink\" x=\"{one:.1}\" y=\"{:.1}\" text-anchor=\"middle\">as fast as \
         RocksDB alone</text>\n",
        height - 8.0
    );
    for (row, job) in (0..).zip(&jobs.result) {
        // Writing to a string cannot fail.
        let _ = job_row(&mut svg, f64::from(row) * ROW + ROW * 0.65, job);
    }
    svg + "</svg>\n"
}

fn job_row(svg: &mut String, y: f64, job: &Job) -> std::fmt::Result {
    let [least, middle, most] = [job.ratio_min, job.ratio, job.ratio_max].map(place);
    let series = if job.ratio < 1.0 { 1 } else { 0 };
    writeln!(
        svg,
        "<text class=\"chart-ink\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n\
         <path class=\"chart-{series}\" stroke-width=\"2\" d=\"M{least:.1} {y:.1}H{most:.1}\"/>\n\
         <circle class=\"chart-{series}\" cx=\"{middle:.1}\" cy=\"{y:.1}\" r=\"4\"/>\n\
         <text class=\"chart-ink\" x=\"{:.1}\" y=\"{:.1}\">{:.2}</text>",
        LEFT - 8.0,
        y + 4.0,
        escaped(&job.job),
        RIGHT + 8.0,
        y + 4.0,
        job.ratio,
    )
}

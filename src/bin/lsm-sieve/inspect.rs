//! `inspect`: what filters a database has, what they cost and what they promise.

use std::path::PathBuf;

use lsm_sieve::workload::report::{Tabular, number, percent};
use lsm_sieve::workload::store::{Sieve, Space, column_families};
use lsm_sieve::{Inspection, SegmentInspection, SieveOptions};
use rocksdb::Options;
use serde::Serialize;

use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve inspect /var/lib/service/db
  lsm-sieve inspect /var/lib/service/db --json";

/// Show the filters of a database, per column family and SST.
///
/// Opens the database, so no other process may have it open; filters that are missing are rebuilt
/// in the background while it is.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder of the database.
    #[arg(value_name = "DB")]
    path: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let store = open(&arguments.path)?;
    output.print(&Report::from(store.front().inspect()))
}

/// Opens a database that is there, with every column family that it has.
pub(crate) fn open(path: &std::path::Path) -> Result<Sieve, Stop> {
    // Says what is wrong with the path before an engine writes anything there.
    column_families(path)?;
    Ok(Sieve::open(
        &Options::default(),
        &SieveOptions::default(),
        path,
        &[],
    )?)
}

/// What the filters of one column family cost, and how often they were wrong.
#[derive(Clone, Copy, Default)]
pub(crate) struct Weight {
    pub(crate) summary_bits_per_key: f64,
    pub(crate) segment_bits_per_key: f64,
    pub(crate) segment_observed_rate: f64,
}

/// The filters of one space, means over its segments weighted by their keys.
pub(crate) fn weight(store: &Sieve, space: Space) -> Weight {
    let inspection = store.front().inspect();
    let Some(family) = inspection
        .families
        .iter()
        .find(|family| family.name == space.name())
    else {
        return Weight::default();
    };
    Weight {
        summary_bits_per_key: family.summary.bits_per_key,
        segment_bits_per_key: mean(&family.segments, |segment| Some(segment.bits_per_key)),
        segment_observed_rate: mean(&family.segments, |segment| segment.observed_rate),
    }
}

fn mean(segments: &[SegmentInspection], of: fn(&SegmentInspection) -> Option<f64>) -> f64 {
    let (mut sum, mut keys) = (0.0, 0.0);
    for segment in segments {
        if let Some(value) = of(segment) {
            sum += value * segment.keys as f64;
            keys += segment.keys as f64;
        }
    }
    if keys > 0.0 { sum / keys } else { 0.0 }
}

#[derive(Serialize)]
struct Report {
    column_families: Vec<Family>,
}

#[derive(Serialize)]
struct Family {
    name: String,
    covered: bool,
    uncovered_segments: usize,
    summary: Summary,
    segments: Vec<Segment>,
}

#[derive(Serialize)]
struct Summary {
    keys: u64,
    stages: usize,
    bits: u64,
    bits_per_key: f64,
    fill: f64,
    predicted_rate: f64,
}

#[derive(Serialize)]
struct Segment {
    file: String,
    id: String,
    level: i32,
    entries: u64,
    keys: u64,
    stages: usize,
    bits_per_key: f64,
    fill: f64,
    predicted_rate: f64,
    observed_rate: Option<f64>,
    source: String,
    coverage: String,
    decision: Option<String>,
}

impl From<Inspection> for Report {
    fn from(inspection: Inspection) -> Self {
        let family = |family: lsm_sieve::FamilyInspection| Family {
            name: family.name,
            covered: family.uncovered == 0,
            uncovered_segments: family.uncovered,
            summary: Summary {
                keys: family.summary.items,
                stages: family.summary.stages,
                bits: family.summary.bits,
                bits_per_key: family.summary.bits_per_key,
                fill: family.summary.fill,
                predicted_rate: family.summary.predicted_rate,
            },
            segments: family.segments.into_iter().map(Segment::from).collect(),
        };
        Self {
            column_families: inspection.families.into_iter().map(family).collect(),
        }
    }
}

impl From<SegmentInspection> for Segment {
    fn from(segment: SegmentInspection) -> Self {
        Self {
            file: segment.file,
            id: segment.id.to_string(),
            level: segment.level,
            entries: segment.entries,
            keys: segment.keys,
            stages: segment.stages,
            bits_per_key: segment.bits_per_key,
            fill: segment.fill,
            predicted_rate: segment.predicted_rate,
            observed_rate: segment.observed_rate,
            source: segment.source.to_string(),
            coverage: segment.coverage.to_string(),
            decision: segment.decision.map(|decision| decision.to_string()),
        }
    }
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        let heads = [
            "filter",
            "level",
            "keys",
            "stages",
            "bits a key",
            "fill",
            "predicted",
            "observed",
            "source",
            "coverage",
            "decision",
        ];
        heads.map(str::to_owned).to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.column_families.iter().flat_map(Family::rows).collect()
    }
}

impl Family {
    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![self.summary.row(&self.name, self.uncovered_segments)];
        rows.extend(self.segments.iter().map(Segment::row));
        rows
    }
}

impl Summary {
    fn row(&self, name: &str, uncovered: usize) -> Vec<String> {
        let coverage = if uncovered == 0 {
            "complete".to_owned()
        } else {
            format!("{uncovered} SSTs to go")
        };
        vec![
            format!("{name}: summary"),
            String::new(),
            number(self.keys),
            self.stages.to_string(),
            format!("{:.1}", self.bits_per_key),
            format!("{:.2}", self.fill),
            percent(self.predicted_rate),
            String::new(),
            String::new(),
            coverage,
            String::new(),
        ]
    }
}

impl Segment {
    fn row(&self) -> Vec<String> {
        vec![
            format!("  {}", self.file),
            self.level.to_string(),
            number(self.keys),
            self.stages.to_string(),
            format!("{:.1}", self.bits_per_key),
            format!("{:.2}", self.fill),
            percent(self.predicted_rate),
            self.observed_rate.map_or_else(|| "-".to_owned(), percent),
            self.source.clone(),
            self.coverage.clone(),
            self.decision.clone().unwrap_or_default(),
        ]
    }
}

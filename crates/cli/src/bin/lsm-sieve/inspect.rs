//! `inspect`: lists the filters of a database, with their size and their false-positive rates.

use lsm_sieve::{CfReport, FilterReport, Inspection, SegmentReport};
use lsm_sieve_cli::workload::report::{Tabular, number, percent};
use serde::Serialize;

use crate::database::Database;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::while_working;

const AFTER_HELP: &str = "Examples:
  lsm-sieve inspect /var/lib/service/db
  lsm-sieve inspect /var/lib/service/db --filters /fast/filters --json";

/// Show the filters of a database, per column family and SST.
///
/// The database is opened read-only, and none of its files are changed. No other process may have
/// it open.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    database: Database,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let look = arguments.database.open()?;
    let inspected = while_working("reading filters", || look.db.filters().inspect())?;
    output.print(&Report::from(inspected))
}

#[derive(Serialize)]
struct Report {
    column_families: Vec<Family>,
    /// Runs of the database in which an audit found a false negative.
    distrusted_runs: usize,
}

#[derive(Serialize)]
struct Family {
    name: String,
    /// `None` if not known.
    uncovered_segments: Option<usize>,
    summary: Filter,
    segments: Vec<Segment>,
}

#[derive(Serialize)]
struct Filter {
    keys: u64,
    stages: usize,
    is_static: bool,
    bits: u64,
    bits_per_key: f64,
    fill: f64,
    predicted_rate: f64,
    observed_rate: f64,
    promised_rate: f64,
    source: String,
}

#[derive(Serialize)]
struct Segment {
    file: String,
    id: Option<String>,
    level: Option<u32>,
    entries: u64,
    /// Whether the summary filter covers it.
    covered: bool,
    /// Whether RocksDB probes its segment filter.
    consulted: bool,
    /// Whether the filter was loaded from a sidecar, or stored in one.
    saved: bool,
    filter: Option<Filter>,
    /// What maintenance would do with it.
    decision: Option<String>,
}

impl From<Inspection> for Report {
    fn from(inspection: Inspection) -> Self {
        Self {
            distrusted_runs: inspection.distrusted_runs,
            column_families: inspection.cfs.into_iter().map(Family::from).collect(),
        }
    }
}

impl From<CfReport> for Family {
    fn from(column: CfReport) -> Self {
        Self {
            name: column.name,
            uncovered_segments: column.uncovered,
            summary: Filter::from(column.summary),
            segments: column.segments.into_iter().map(Segment::from).collect(),
        }
    }
}

impl From<SegmentReport> for Segment {
    fn from(segment: SegmentReport) -> Self {
        Self {
            file: segment.file,
            id: segment.id.map(|id| id.to_string()),
            level: segment.level,
            entries: segment.entries,
            covered: segment.covered,
            consulted: segment.consulted,
            saved: segment.saved,
            filter: segment.filter.map(Filter::from),
            decision: segment.decision.map(|plan| plan.to_string()),
        }
    }
}

impl From<FilterReport> for Filter {
    fn from(filter: FilterReport) -> Self {
        Self {
            keys: filter.keys,
            stages: filter.stages,
            is_static: filter.is_static,
            bits: filter.bits,
            bits_per_key: filter.bits_per_key,
            fill: filter.fill,
            predicted_rate: filter.predicted_rate,
            observed_rate: filter.observed_rate,
            promised_rate: filter.promised_rate,
            source: filter.source,
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
            "bits per key",
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

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "filter",
                "the summary filter of a column family, or the SST of a segment filter",
            ),
            ("level", "of the SST"),
            ("keys", "distinct keys of the filter"),
            (
                "stages",
                "Bloom filters that it consists of; 1 after a consolidation",
            ),
            ("bits per key", "memory over keys"),
            ("fill", "the share of its bits that are set"),
            (
                "predicted",
                "the false-positive rate that its keys and bits give",
            ),
            ("observed", "the false-positive rate of random probes of it"),
            ("source", "where its keys came from"),
            (
                "coverage",
                "of a summary filter: whether it has the keys of all SSTs; of an SST: whether the summary filter has its keys, whether RocksDB probes its filter, whether it was stored or loaded (`verify` says what is wrong with a sidecar)",
            ),
            (
                "decision",
                "of a summary filter: which kind was chosen; of an SST: what maintenance would do with the segment filter",
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let runs = match self.distrusted_runs {
            0 => return Vec::new(),
            1 => "1 run".to_owned(),
            runs => format!("{runs} runs"),
        };
        vec![format!(
            "In {runs} an audit found a present key that a filter had answered absent; the filters \
             have been rebuilt since. Report this, and test the memory of the machine."
        )]
    }
}

impl Family {
    fn rows(&self) -> Vec<Vec<String>> {
        let coverage = match self.uncovered_segments {
            None => "not known".to_owned(),
            Some(0) => "complete".to_owned(),
            Some(1) => "1 SST uncovered".to_owned(),
            Some(left) => format!("{left} SSTs uncovered"),
        };
        let name = format!("{}: summary filter", self.name);
        let mut cells = row(name, None, Some(&self.summary), coverage);
        if let Some(last) = cells.last_mut() {
            *last = match self.summary.is_static {
                true => "static: the column family hardly grows",
                false => "blocked: it grows, or speed comes before memory",
            }
            .to_owned();
        }
        let mut rows = vec![cells];
        rows.extend(self.segments.iter().map(Segment::row));
        rows
    }
}

impl Segment {
    fn row(&self) -> Vec<String> {
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        let mut states = Vec::from([if self.covered {
            "covered"
        } else {
            "not covered"
        }]);
        states.extend(self.consulted.then_some("probed by RocksDB"));
        states.extend((!self.saved).then_some("no sidecar loaded"));
        let mut cells = row(
            format!("  {name}"),
            self.level,
            self.filter.as_ref(),
            states.join(", "),
        );
        if let Some(last) = cells.last_mut() {
            *last = self.decision.clone().unwrap_or_default();
        }
        cells
    }
}

fn row(name: String, level: Option<u32>, filter: Option<&Filter>, coverage: String) -> Vec<String> {
    let cell = |text: fn(&Filter) -> String| filter.map_or_else(|| "-".to_owned(), text);
    vec![
        name,
        level.map_or_else(String::new, |level| level.to_string()),
        cell(|filter| number(filter.keys)),
        cell(|filter| filter.stages.to_string()),
        cell(|filter| format!("{:.1}", filter.bits_per_key)),
        cell(|filter| format!("{:.2}", filter.fill)),
        cell(|filter| percent(filter.predicted_rate)),
        cell(|filter| percent(filter.observed_rate)),
        cell(|filter| filter.source.clone()),
        coverage,
        String::new(),
    ]
}

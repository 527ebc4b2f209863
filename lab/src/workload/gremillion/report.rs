//! The report of the experiment, as a table, as JSON and as charts.

use serde::Serialize;

use crate::chart::{Axis, Chart, Series};
use crate::math::{Probes, differential};
use lsm_sieve_cli::workload::report::{Tabular, number};

use super::error_floor::Floor;
use super::published::{self, Printed};
use super::run::{Cell, Experiment, Outcome, ScriptMeans};
use super::{Hashing, Start};

/// The result of `lsm-sieve-lab gremillion`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GremillionReport {
    /// Runs per cell.
    pub seeds: usize,
    /// The hash functions of the filters.
    pub hash: Hashing,
    /// Joint confidence of all intervals.
    pub confidence: f64,
    /// The number of intervals. Each is Student's, widened by Bonferroni's inequality.
    pub intervals: usize,
    /// How many of them contain the exact rate.
    pub within: usize,
    /// Modified records that were not searched for: must be 0.
    pub false_negatives: u64,
    /// The floor fitted to Gremillion's printed rates.
    pub floor: Floor,
    /// The transactions, by access.
    pub scripts: Vec<ScriptReport>,
    /// By access, then start, then size, then functions.
    pub cells: Vec<CellReport>,
}

/// The transactions of one access pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScriptReport {
    /// `uniform`, or `zipf` and its exponent.
    pub access: String,
    /// Means over the seeds.
    #[serde(flatten)]
    pub means: ScriptMeans,
}

/// One filter, one access pattern, one start.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CellReport {
    /// `uniform`, or `zipf` and its exponent.
    pub access: String,
    /// The keys in the filter at the start.
    pub start: Start,
    /// The filter's size in bits.
    pub bits: u64,
    /// Its number of hash functions.
    pub probes: u32,
    /// Gremillion's printed rate.
    pub gremillion: f64,
    /// Mullin's printed rate, if he gives one.
    pub mullin: Option<f64>,
    /// Mullin's formula with α = 0.
    pub formula: f64,
    /// The exact rate per read of an unmodified record.
    pub exact: f64,
    /// The mean rate per read of an unmodified record.
    pub rate: f64,
    /// Half the width of its interval.
    pub rate_half_width: f64,
    /// The mean rate per read.
    pub rate_an_access: f64,
    /// Half the width of its interval.
    pub rate_an_access_half_width: f64,
    /// Whether the interval of the mean contains the exact rate.
    pub within: bool,
    /// The rate of the fitted floor, per read.
    pub floor: f64,
    /// Gremillion's printed rate over the exact one.
    pub gremillion_over_exact: f64,
    /// Gremillion's printed rate over the floor's.
    pub gremillion_over_floor: f64,
    /// Modified records that were not searched for: must be 0.
    pub false_negatives: u64,
}

impl CellReport {
    fn new(cell: &Cell, floor: &Floor) -> Self {
        let Printed {
            bits,
            probes,
            simulated,
            theoretical,
        } = cell.printed;
        Self {
            access: cell.access.name(),
            start: cell.start,
            bits: bits.get(),
            probes: probes.get(),
            gremillion: simulated,
            mullin: theoretical,
            formula: differential::mullin(0.0, bits, probes, published::UPDATED),
            exact: cell.exact,
            rate: cell.rate.mean,
            rate_half_width: cell.rate.half_width,
            rate_an_access: cell.rate_an_access.mean,
            rate_an_access_half_width: cell.rate_an_access.half_width,
            within: cell.is_within(),
            floor: floor.rate(&cell.printed),
            gremillion_over_exact: simulated / cell.exact,
            gremillion_over_floor: simulated / floor.rate(&cell.printed),
            false_negatives: cell.false_negatives,
        }
    }
}

impl GremillionReport {
    /// Compares the outcome of an experiment with the printed rates.
    pub fn new(experiment: &Experiment, outcome: &Outcome) -> Self {
        let floor = Floor::fitted();
        let cells = &outcome.cells;
        let script = |(access, means): &(super::Access, ScriptMeans)| ScriptReport {
            access: access.name(),
            means: *means,
        };
        Self {
            seeds: experiment.seeds,
            hash: experiment.hashing,
            confidence: experiment.confidence,
            intervals: experiment.intervals(),
            within: cells.iter().filter(|cell| cell.is_within()).count(),
            false_negatives: cells.iter().map(|cell| cell.false_negatives).sum(),
            floor,
            scripts: outcome.scripts.iter().map(script).collect(),
            cells: cells.iter().map(|c| CellReport::new(c, &floor)).collect(),
        }
    }

    fn of_start(&self, start: Start) -> impl Iterator<Item = &CellReport> {
        self.cells.iter().filter(move |cell| cell.start == start)
    }

    /// One chart per number of functions, with the rate over the size: the printed rates, the rates
    /// measured with the first access pattern and a preloaded filter, and the floor.
    pub fn charts(&self) -> Vec<(Probes, Chart)> {
        let mut counts: Vec<u32> = self.cells.iter().map(|cell| cell.probes).collect();
        counts.sort_unstable();
        counts.dedup();
        let chart = |probes| (Probes::new(probes), self.chart(probes));
        counts.into_iter().map(chart).collect()
    }

    fn chart(&self, probes: u32) -> Chart {
        let first = self.scripts.first().map(|script| script.access.clone());
        let cells = || {
            let ours = |c: &&CellReport| c.probes == probes && Some(&c.access) == first.as_ref();
            self.of_start(Start::Preloaded).filter(ours)
        };
        let size = |cell: &CellReport| cell.bits as f64 / 1024.0;
        let title = format!("Unnecessary searches, {probes} hash functions");
        let chart = Chart::new(
            title,
            Axis::linear("filter size, 1,024 bits"),
            Axis::log("error rate"),
        );
        let mullin = cells().filter_map(|cell| Some((size(cell), cell.mullin?)));
        let measured = cells().map(|cell| (size(cell), cell.rate, cell.rate_half_width));
        chart
            .with(Series::line_and_marks(
                "measured, an unmodified record",
                measured,
            ))
            .with(Series::line(
                "fitted floor",
                cells().map(|cell| (size(cell), cell.floor)),
            ))
            .with(Series::marks(
                "Gremillion 1982, simulated",
                cells().map(|cell| (size(cell), cell.gremillion)),
            ))
            .with(Series::marks("Mullin 1983, theory", mullin))
    }
}

fn digits(rate: f64) -> String {
    format!("{rate:.4}")
}

fn with_half_width(rate: f64, half_width: f64) -> String {
    format!("{rate:.4} ± {half_width:.4}")
}

impl Tabular for GremillionReport {
    fn head(&self) -> Vec<String> {
        [
            "access",
            "bits",
            "k",
            "1982",
            "1983",
            "exact",
            "full filter",
            "per read",
            "exact, filling",
            "from empty",
            "floor",
            "1982/exact",
            "1982/floor",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let pairs = self.of_start(Start::Preloaded).map(|full| {
            let twin = |c: &&CellReport| {
                (&c.access, c.bits, c.probes) == (&full.access, full.bits, full.probes)
            };
            (full, self.of_start(Start::Empty).find(twin))
        });
        pairs
            .map(|(full, filling)| {
                let mean = |c: &CellReport| {
                    let sign = if c.within { "" } else { " !" };
                    with_half_width(c.rate, c.rate_half_width) + sign
                };
                vec![
                    full.access.clone(),
                    number(full.bits),
                    full.probes.to_string(),
                    format!("{:.3}", full.gremillion),
                    full.mullin
                        .map_or_else(String::new, |rate| format!("{rate:.3}")),
                    digits(full.exact),
                    mean(full),
                    with_half_width(full.rate_an_access, full.rate_an_access_half_width),
                    filling.map_or_else(String::new, |c| digits(c.exact)),
                    filling.map_or_else(String::new, mean),
                    digits(full.floor),
                    format!("{:.2}", full.gremillion_over_exact),
                    format!("{:.2}", full.gremillion_over_floor),
                ]
            })
            .collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "access",
                "how records are chosen: all alike, or by Zipf's law",
            ),
            ("bits", "size of the filter"),
            ("k", "hash functions"),
            ("1982", "the rate that Gremillion printed"),
            ("1983", "the rate that Mullin printed"),
            ("exact", "the rate computed for a filter that has all keys"),
            (
                "full filter",
                "the measured rate: unnecessary searches per read of an unmodified record, with its interval",
            ),
            ("per read", "unnecessary searches per read of any record"),
            (
                "exact, filling",
                "the rate computed for a filter that fills during the run",
            ),
            ("from empty", "the measured rate of such a filter"),
            ("floor", "a model fitted to the rates of 1982; see below"),
            ("1982/exact", "the printed rate over the computed one"),
            ("1982/floor", "the printed rate over that of the model"),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            format!(
                "{} of {} confidence intervals of the means contain the exact rate: Student's \
                 over {} seeds, widened by Bonferroni's inequality to a joint confidence of {} %. \
                 `!` marks the others.",
                self.within,
                self.intervals,
                self.seeds,
                self.confidence * 100.0
            ),
            "full filter, from empty: unnecessary searches per read of an unmodified record; the \
             filter has all 7,000 keys from the start, or gets each key with its update."
                .to_owned(),
            format!(
                "floor: a model fitted to the rates of 1982, with a hash of {} distinct values and \
                 {:.0} % of the reads going to modified records; its ratios are off by {:.0} % \
                 (root mean square).",
                number(self.floor.range),
                self.floor.modified * 100.0,
                self.floor.deviation * 100.0
            ),
        ];
        notes.extend(self.scripts.iter().map(|script| {
            let means = &script.means;
            format!(
                "{}: {} records, of which {:.0} are read per run; {:.0} updates; {:.1} % of the \
                 reads are of a record that is updated in the run.",
                script.access,
                number(means.universe),
                means.accessed,
                means.updates,
                means.modified * 100.0
            )
        }));
        notes
    }
}

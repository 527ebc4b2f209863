//! The result of a run, for people and for programs.

use std::time::Duration;

use lsm_sieve_cli::workload::report::{Tabular, number};
use serde::Serialize;

use super::case::Case;
use super::check::{Tally, Violation};
use super::shrink::Shrunk;
use crate::outcome::Stop;
use crate::output::Output;

#[derive(Serialize)]
pub struct Report {
    /// The seed of the first case; `None` for a case that was read from a file.
    seed: Option<u64>,
    /// Cases, each with its own settings.
    pub cases: u64,
    #[serde(flatten)]
    pub tally: Tally,
    seconds: f64,
    operations_per_second: f64,
    lost_reads: u64,
    violations: u64,
    pub finding: Option<Finding>,
}

/// A violation, and how to reproduce it.
#[derive(Serialize)]
pub struct Finding {
    pub seed: Option<u64>,
    /// The failure of the case as it was drawn.
    pub first: String,
    /// Whether it failed again when it was repeated.
    pub again: bool,
    #[serde(flatten)]
    pub violation: Violation,
    /// The shortest case that still fails.
    pub case: String,
}

impl Finding {
    /// The finding of a seed's case and its shrunk form.
    pub fn new(seed: Option<u64>, first: String, shrunk: Shrunk<impl Case>) -> Self {
        Self {
            seed,
            first,
            again: shrunk.again,
            violation: shrunk.violation,
            case: shrunk.case.text(),
        }
    }
}

impl Report {
    pub fn new(seed: Option<u64>) -> Self {
        Self {
            seed,
            cases: 0,
            tally: Tally::default(),
            seconds: 0.0,
            operations_per_second: 0.0,
            lost_reads: 0,
            violations: 0,
            finding: None,
        }
    }

    /// Prints the report. A finding means exit code 1.
    pub fn print(mut self, spent: Duration, output: Output) -> Result<(), Stop> {
        self.seconds = spent.as_secs_f64();
        self.operations_per_second = self.tally.operations as f64 / self.seconds;
        self.violations = u64::from(self.finding.is_some());
        let lost = self
            .finding
            .as_ref()
            .is_some_and(|finding| finding.violation.lost);
        self.lost_reads = u64::from(lost);
        output.conclude(&self, self.outcome())
    }

    fn outcome(&self) -> Result<(), Stop> {
        let Some(finding) = &self.finding else {
            return Ok(());
        };
        let what = &finding.violation.what;
        let case = match finding.seed {
            Some(seed) => format!("the case of seed {seed}"),
            None => "the case".to_owned(),
        };
        let remedy = if finding.again {
            "keep the case printed above in a file, run it with --replay, and report it"
        } else {
            "it did not fail again when it was tried again; run it again, and report it"
        };
        Err(Stop::Finding(format!("{case} failed: {what}; {remedy}")))
    }
}

impl Tabular for Report {
    /// The labels say it.
    fn legend(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn head(&self) -> Vec<String> {
        vec!["stress".to_owned(), String::new()]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |label: &str, value: String| vec![label.to_owned(), value];
        let count = |label: &str, value: u64| row(label, number(value));
        let seed = self
            .seed
            .map_or_else(|| "of the file".to_owned(), |seed| seed.to_string());
        vec![
            row("seed", seed),
            count("cases", self.cases),
            count("operations", self.tally.operations),
            count("  of them reads", self.tally.reads),
            count("checked negatives", self.tally.checked_negatives),
            count("absent keys that passed", self.tally.false_positives),
            count("reads that had to find", self.tally.must_exist),
            count("reads that had not to find", self.tally.must_not_exist),
            count("reads that might find", self.tally.either),
            count("table entries verified", self.tally.entries_verified),
            count("databases opened", self.tally.opened),
            row("seconds", format!("{:.1}", self.seconds)),
            row(
                "operations a second",
                format!("{:.0}", self.operations_per_second),
            ),
            count("lost reads", self.lost_reads),
            count("violations", self.violations),
        ]
    }

    fn notes(&self) -> Vec<String> {
        let Some(finding) = &self.finding else {
            return Vec::new();
        };
        let seed = finding
            .seed
            .map_or_else(String::new, |seed| format!("seed {seed}: "));
        let head = format!("# {seed}{}", finding.violation.what);
        std::iter::once(head)
            .chain(finding.case.lines().map(str::to_owned))
            .collect()
    }
}

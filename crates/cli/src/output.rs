//! Prints results on standard output, as a table for people or as JSON for programs.

use std::io::{self, Write as _};

use crate::workload::report::{Tabular, table};
use serde::Serialize;

use crate::outcome::{Stop, writing};

/// How results are printed.
#[derive(Clone, Copy)]
pub struct Output {
    json: bool,
    /// Whether a legend follows each table.
    explain: bool,
}

impl Output {
    pub const fn new(json: bool) -> Self {
        Self {
            json,
            explain: false,
        }
    }

    /// With a legend below each table.
    pub const fn explained(self, explain: bool) -> Self {
        Self { explain, ..self }
    }

    /// Prints one result. If the reader of the output is gone, the command ends quietly.
    pub fn print<R: Serialize + Tabular>(self, report: &R) -> Result<(), Stop> {
        let text = if self.json {
            serde_json::to_string_pretty(report)?
        } else {
            let mut lines = vec![table(report).to_string()];
            lines.extend(report.notes());
            if self.explain {
                lines.extend(legend(report));
            }
            lines.join("\n")
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{text}")
            .and_then(|()| out.flush())
            .map_err(writing)
    }

    /// Prints the result and returns its outcome. A finding takes precedence over an output error.
    pub fn conclude<R: Serialize + Tabular>(
        self,
        report: &R,
        outcome: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let printed = self.print(report);
        outcome.and(printed)
    }
}

/// The meaning of each column or row, below an empty line.
fn legend(report: &dyn Tabular) -> Vec<String> {
    let legend = report.legend();
    let width = legend.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let line = |(name, meaning): &(&str, &str)| format!("{name:width$}  {meaning}");
    std::iter::once(String::new())
        .chain(legend.iter().map(line))
        .collect()
}

/// Writes the library's log to standard error, filtered by the environment variable RUST_LOG.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
}

//! Prints results on standard output, as a table for people or as JSON for programs.

use std::io::{self, Write as _};

use crate::workload::report::{Tabular, table};
use serde::Serialize;

use crate::outcome::{Stop, writing};

/// How results are printed.
#[derive(Clone, Copy)]
pub struct Output {
    json: bool,
}

impl Output {
    pub const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints one result. If the reader of the output is gone, the command ends quietly.
    pub fn print<R: Serialize + Tabular>(self, report: &R) -> Result<(), Stop> {
        let text = if self.json {
            serde_json::to_string_pretty(report)?
        } else {
            let notes = report.notes();
            let lines = std::iter::once(table(report).to_string()).chain(notes);
            lines.collect::<Vec<_>>().join("\n")
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

/// Writes the library's log to standard error, filtered by the environment variable RUST_LOG.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
}

//! Results on standard output, a table for people, JSON for programs.

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

    /// Prints one result; a reader that has gone away ends the command quietly.
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

    /// Prints the result that a verdict is about; a finding wins over an output that fails.
    pub fn conclude<R: Serialize + Tabular>(
        self,
        report: &R,
        verdict: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let printed = self.print(report);
        verdict.and(printed)
    }
}

/// What the library logs, as far as the environment variable RUST_LOG asks for it.
pub fn log_to_stderr() {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(io::stderr)
        .init();
}

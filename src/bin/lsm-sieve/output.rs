//! Results on standard output, a table for people, JSON for programs.

use std::io::{self, Write as _};

use lsm_sieve::workload::report::{Tabular, table};
use serde::Serialize;

use crate::outcome::{Stop, writing};

/// How results are printed.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    json: bool,
}

impl Output {
    pub(crate) const fn new(json: bool) -> Self {
        Self { json }
    }

    /// Prints one result; a reader that has gone away ends the command quietly.
    pub(crate) fn print<R: Serialize + Tabular>(self, report: &R) -> Result<(), Stop> {
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
    pub(crate) fn conclude<R: Serialize + Tabular>(
        self,
        report: &R,
        verdict: Result<(), Stop>,
    ) -> Result<(), Stop> {
        let printed = self.print(report);
        verdict.and(printed)
    }
}

//! Results on standard output, a table for people, JSON for programs; and in files of their own.

use std::io::{self, Write as _};
use std::path::Path;

use lsm_sieve::disk::{RealDisk, publish};
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
}

/// Puts a file where the user wants it, in place of one of that name.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Stop> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| {
        let path = path.display();
        Stop::input(format!(
            "{path} does not end in a file's name; name a file in a folder"
        ))
    })?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok(publish(&RealDisk, folder, name, bytes)?)
}

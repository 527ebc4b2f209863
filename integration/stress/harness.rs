//! A run of a stress tool, and what it must say.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::io::Write as _;

use serde_json::Value;

use crate::runner::{json, parsed, run, text};

/// Runs cases from a seed on. All must pass.
pub(crate) fn passes(arguments: &[&str]) -> Value {
    let report = json(arguments);
    assert_eq!(report["violations"], 0, "{report}");
    assert_eq!(report["lost_reads"], 0, "{report}");
    assert!(report["finding"].is_null(), "{report}");
    report
}

pub(crate) fn count(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {report}"))
}

/// A case of a few steps in a file.
pub(crate) fn case_file(lines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    file
}

/// A lost read is found, reported and shrunk to the faulty step and the steps that it needs, and
/// the short case fails again.
pub(crate) fn is_found_and_shrunk(case: &str, steps: usize) {
    let file = case_file(case);
    let path = file.path().to_str().unwrap();
    let output = run(["--json", "--replay", path]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("--replay"), "{said}");
    let report = parsed(&output);
    assert_eq!(report["lost_reads"], 1, "{report}");
    let short = report["finding"]["case"].as_str().unwrap();
    let lines: Vec<&str> = short.lines().collect();
    assert!(lines.len() <= 1 + steps, "{short}");
    assert!(lines.iter().any(|line| line.contains("lie")), "{short}");
    assert!(!short.contains("max_background_jobs"), "{short}");
    let again = case_file(short);
    let output = run(["--replay", again.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).contains("lie"),
        "the table shows the case"
    );
}

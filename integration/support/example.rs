//! The examples, run as a reader would, and their output.
//!
//! `cargo test` builds them. If a narrower command did not, the tests say how.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `target/<profile>/examples`, beside the `deps` that contains this test.
pub(crate) fn path(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{example}{}", std::env::consts::EXE_SUFFIX);
    profile.join("examples").join(name)
}

/// The output of an example that ends with exit code 0.
pub(crate) fn printed(example: &str) -> String {
    answered(example, &[])
}

/// The same, with arguments.
pub(crate) fn answered(example: &str, arguments: &[&str]) -> String {
    let path = path(example);
    assert!(
        path.is_file(),
        "{} is not there: `cargo build --examples` makes it",
        path.display()
    );
    let mut command = Command::new(path);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {said}");
    assert!(said.is_empty(), "{example}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers in a line, with or without a decimal point or thousands separators.
pub(crate) fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

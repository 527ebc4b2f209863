//! The command that is tested, run as a user or a script runs it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

pub(crate) fn command() -> Command {
    let mut command = Command::new(crate::COMMAND);
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

pub(crate) fn run<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    command().args(arguments).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The JSON that a command printed, whatever its exit code.
pub(crate) fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The output of a command that ends with exit code 0 and prints no error.
pub(crate) fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments.iter().copied());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    assert!(said.is_empty(), "{arguments:?}: {said}");
    text(&output.stdout)
}

/// The same, as JSON.
pub(crate) fn json(arguments: &[&str]) -> Value {
    let printed = succeeds(&[arguments, &["--json"]].concat());
    serde_json::from_str(&printed).unwrap()
}

/// Checks that a command ended with this exit code and printed the reason on one line.
pub(crate) fn ends_with_one_line(output: &Output, code: i32, about: &str) {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{about}: {said}");
    assert_eq!(said.lines().count(), 1, "{about}: {said}");
    assert!(
        said.starts_with("lsm-sieve: ") && said.ends_with('\n'),
        "{about}: {said}"
    );
}

/// Checks that a command ends with exit code 2, one line, and no result.
pub(crate) fn is_refused(arguments: &[&str]) {
    let output = run(arguments.iter().copied());
    ends_with_one_line(&output, 2, &format!("{arguments:?}"));
    assert!(output.stdout.is_empty(), "{arguments:?}");
}

/// Checks that commands print their help, with examples for each of these.
pub(crate) fn print_help(of: &[&[&str]]) {
    for arguments in [&["--help"][..], &["help"], &["--version"]] {
        assert!(!succeeds(arguments).is_empty(), "{arguments:?}");
    }
    for words in of {
        let help = succeeds(&[words, &["--help"][..]].concat());
        assert!(help.contains("\nExamples:\n"), "{words:?}: {help}");
    }
}

/// Checks that the second signal stops a command at once that waits for a reader of a pipe, and does
/// not notice the first.
pub(crate) fn stops_at_the_second_signal(waiting: &mut Command, pipe: &Path) {
    let made = Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    let child = started(waiting, handles_interrupts);
    signal(&child, "INT");
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    ends_with_one_line(&output, 2, "a command that waits");
    assert!(text(&output.stderr).contains("stopped at once"));
}

/// Starts a command, captures its output, and waits until it is at work.
pub(crate) fn started(command: &mut Command, at_work: impl Fn(&Child) -> bool) -> Child {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    while !at_work(&child) {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    child
}

/// Sends a signal to a command that is at work.
pub(crate) fn signal(child: &Child, name: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-s", name, &pid]).status();
    assert!(sent.unwrap().success());
}

/// Whether a process has a handler for SIGINT and SIGTERM.
pub(crate) fn handles_interrupts(child: &Child) -> bool {
    const WANTED: u64 = 1 << 1 | 1 << 14;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & WANTED == WANTED
}

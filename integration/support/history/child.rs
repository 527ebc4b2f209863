//! This test binary, run again as a child that reports to its parent.
//!
//! A report is one line on the standard output that starts with `@`.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

/// The command that runs one test, which is the child half of a harness.
pub(crate) fn command(test: &str) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    Ok(command)
}

/// Reports to the parent. A child without a parent exits.
pub(crate) fn report(line: &str) {
    let line = format!("@{line}\n");
    if io::stdout().write_all(line.as_bytes()).is_err() {
        std::process::exit(1);
    }
}

/// The reports in the output of a child, as they come.
pub(crate) fn reports(output: impl Read + Send + 'static) -> Receiver<String> {
    let (send, reports) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        // The test runner may have printed the start of the line.
        let reports = lines.filter_map(|line| Some(line.split_once('@')?.1.to_owned()));
        reports.map(|line| send.send(line)).all(|sent| sent.is_ok())
    });
    reports
}

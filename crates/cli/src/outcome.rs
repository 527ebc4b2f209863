//! How a command ends: one line of text, and an exit code.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

use crate::workload::replay::Counts;

/// Why a command ends without the exit code 0. Any error becomes [`Stop::Input`].
pub enum Stop {
    /// The command did its work and found something that must not happen: exit code 1.
    Finding(String),
    /// The command could not do its work: exit code 2.
    Input(String),
    /// Help was printed, or the reader of the output is gone: exit code 0.
    Quiet,
}

impl<E: Error + 'static> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Input(chain(&error))
    }
}

impl Stop {
    /// Bad input, described with its remedy.
    pub fn input(text: impl Into<String>) -> Self {
        Self::Input(text.into())
    }

    /// Prints the reason to standard error and returns the exit code.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::Quiet => return ExitCode::SUCCESS,
            Self::Finding(text) => (text, 1),
            Self::Input(text) => (text, 2),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // If this fails, the error cannot be reported anywhere.
        let _ = writeln!(io::stderr(), "lsm-sieve: {line}");
        ExitCode::from(code)
    }
}

/// A present key that was answered *absent* is a finding: it must never happen.
pub fn lost(counts: &Counts) -> Result<(), Stop> {
    match counts.false_negatives {
        0 => Ok(()),
        lost => Err(Stop::Finding(format!(
            "{lost} present keys were answered absent: do not use these filters, and report this"
        ))),
    }
}

/// Handles the result of the command line's parser: help is printed whole, an error becomes one
/// line. `command` is the command with the subcommands that were given.
pub fn usage<T>(error: &clap::Error, command: &str) -> Result<T, Stop> {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => Err(Stop::Quiet),
            Err(source) => Err(writing(source)),
        };
    }
    let text = error.to_string();
    let reason = text.split("\n\n").next().unwrap_or(&text);
    let reason = reason.trim_start_matches("error: ");
    Err(Stop::input(format!("{reason}; see `{command} --help`")))
}

/// The command as it was called, with its subcommands up to the first word that is none.
pub fn asked(command: &clap::Command) -> String {
    let mut command = command;
    let mut names = vec![command.get_name()];
    for word in std::env::args_os().skip(1) {
        let Some(next) = command.find_subcommand(&word) else {
            break;
        };
        names.push(next.get_name());
        command = next;
    }
    names.join(" ")
}

/// Writing to standard output failed.
pub fn writing(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::Quiet,
        _ => Stop::input(format!(
            "cannot write the result to standard output: {error}"
        )),
    }
}

/// The text of an error, of its causes, and of the remedy for the last cause.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut said = text.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    // The library's own errors end with a remedy, not with the engine's words.
    if text.ends_with(&said) {
        text += remedy(&said);
    }
    text
}

/// The remedy for an engine's error, whose text has none. It is found by a phrase in the text; a
/// path in the text may contain such a phrase as well.
fn remedy(text: &str) -> &'static str {
    let remedies = [
        (
            "No space left",
            "; free some space, or set TMPDIR to a folder on a larger disk",
        ),
        (
            "/LOCK: ",
            "; another process has the database open: stop it first",
        ),
        (
            "lock hold by",
            "; another process has the database open: stop it first",
        ),
        ("Permission denied", "; run as the owner of the files"),
        ("Too many open files", "; raise the limit with `ulimit -n`"),
        (
            "does not match existing comparator",
            "; its keys have another order: open it through the library",
        ),
        (
            "Can't access ",
            "; restore the file; if the files of the database are in several folders, open it through the library",
        ),
        // RocksDB calls it a corruption too, and a repair would throw the SST away.
        (
            "unsupported format_version",
            "; a newer RocksDB may have written it, then nothing is damaged: this command has RocksDB 11.8.1",
        ),
        (
            "Corruption: ",
            "; restore the database from a backup, or try RocksDB's `ldb repair`",
        ),
    ];
    remedies
        .iter()
        .find(|(sign, _)| text.contains(sign))
        .map_or("", |(_, remedy)| remedy)
}

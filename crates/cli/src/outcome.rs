//! How a command ends: what is said, on one line, and with which exit code.

use std::error::Error;
use std::io::{self, Write as _};
use std::process::ExitCode;

/// Why a command ends without the exit code 0. Any error becomes [`Stop::Input`].
pub enum Stop {
    /// The command did its work and found something that must not be: exit code 1.
    Finding(String),
    /// The command could not do its work: exit code 2.
    Input(String),
    /// Help was asked for and printed, or nobody reads the output any more: exit code 0.
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

    /// Says why on standard error and gives the exit code.
    pub fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::Quiet => return ExitCode::SUCCESS,
            Self::Finding(text) => (text, 1),
            Self::Input(text) => (text, 2),
        };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Nobody is left to be told if this fails.
        let _ = writeln!(io::stderr(), "lsm-sieve: {line}");
        ExitCode::from(code)
    }
}

/// What the command line's parser said: help goes out whole, an error as one line. `asked` is the
/// command with those of its subcommands that were named.
pub fn usage<T>(error: &clap::Error, asked: &str) -> Result<T, Stop> {
    if !error.use_stderr() {
        return match error.print() {
            Ok(()) => Err(Stop::Quiet),
            Err(source) => Err(writing(source)),
        };
    }
    let text = error.to_string();
    let reason = text.split("\n\n").next().unwrap_or(&text);
    let reason = reason.trim_start_matches("error: ");
    Err(Stop::input(format!(
        "{reason}; `{asked} --help` lists what there is"
    )))
}

/// Standard output failed.
pub fn writing(error: io::Error) -> Stop {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Stop::Quiet,
        _ => Stop::input(format!(
            "cannot write the result to standard output: {error}"
        )),
    }
}

/// An error, its causes, and what helps against the last of them.
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
    text + remedy(&said)
}

/// The engine names what happened and leaves out what to do. A path may be named like a sign.
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
            "; its keys are in another order: look at it through the library",
        ),
        (
            "Can't access ",
            "; restore the file, or look at a database whose files lie in several folders through the library",
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

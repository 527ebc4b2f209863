//! The command line: help, errors of one line, exit codes, signals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::time::Duration;

use crate::runner::{
    command, ends_with_one_line, handles_interrupts, run, signal, started, succeeds, text,
};

#[test]
fn help_of_every_command_is_printed_and_is_no_error() {
    for arguments in [&["--help"][..], &["help"], &["--version"]] {
        assert!(!succeeds(arguments).is_empty(), "{arguments:?}");
    }
    for arguments in [
        &["advise", "--help"][..],
        &["advise", "differential", "--help"],
        &["advise", "filter", "--help"],
        &["advise", "front", "--help"],
        &["demo", "--help"],
        &["replay", "--help"],
        &["bench", "--help"],
        &["bench", "busy", "--help"],
        &["bench", "jobs", "--help"],
        &["bench", "miss", "--help"],
        &["gremillion", "--help"],
        &["inspect", "--help"],
        &["model", "--help"],
        &["report", "--help"],
        &["verify", "--help"],
        &["reorganize", "--help"],
        &["completions", "--help"],
        &["man", "--help"],
    ] {
        let help = succeeds(arguments);
        assert!(help.contains("\nExamples:\n"), "{arguments:?}: {help}");
    }
}

#[test]
fn wrong_command_line_exits_with_2_and_one_line() {
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["verify"],
        &["inspect", "--no-such-flag", "x"],
        &["demo", "--keys", "0"],
        &["demo", "--keys", "many"],
        &["bench", "busy", "--writers", "0"],
        &["bench", "jobs", "--job", "load-7"],
        &["bench", "jobs", "--rounds", "0"],
        &["bench", "jobs", "--trace", "x"],
        &["bench", "jobs", "--trace", "x:yaml"],
        &["bench", "miss"],
        &["bench", "miss", "--keys", "10", "--native", "cuckoo"],
        &["bench", "miss", "--keys", "10", "--rate", "1.5"],
        &["bench", "miss", "--keys", "10", "--rate", "1e-10"],
        &["bench", "miss", "--keys", "10", "--split", "4.9"],
        &["bench", "miss", "--keys", "10", "--front-bits", "0.9"],
        &["bench", "miss", "--keys", "10", "--segment-bits", "0.5"],
        &["bench", "miss", "--keys", "10", "--lookups", "100000001"],
        &["bench", "miss", "--keys", "10", "--runs", "11"],
        &["bench", "miss", "--keys", "10", "--mix", "0.5,1.5"],
        &["bench", "miss", "--keys", "10", "--mix", "half"],
        &["bench", "miss", "--keys", "10", "--cache", "0"],
        &[
            "replay", "--trace", "x", "--format", "yaml", "--mode", "upsert",
        ],
        &[
            "replay", "--trace", "x", "--format", "lis", "--mode", "sideways",
        ],
        &[
            "replay", "--trace", "x", "--format", "lis", "--mode", "upsert", "--limit", "0",
        ],
    ] {
        let output = run(arguments.iter().copied());
        ends_with_one_line(&output, 2, &format!("{arguments:?}"));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = run(["bench", "miss", "--keys", "none"]);
    assert!(text(&output.stderr).contains("`lsm-sieve bench miss --help`"));
    let not_text = OsStr::from_bytes(b"\xff");
    let output = command().arg(not_text).output().unwrap();
    ends_with_one_line(&output, 2, "a word that is no text");
}

#[test]
fn more_keys_than_the_disk_holds_are_refused() {
    for arguments in [&["demo"][..], &["bench", "miss", "--runs", "leveled"]] {
        let keys = ["--keys", "1000000000000"];
        let output = run(arguments.iter().chain(&keys).copied());
        ends_with_one_line(&output, 2, &format!("{arguments:?}"));
        let said = text(&output.stderr);
        assert!(said.contains("ask for fewer"), "{said}");
    }
}

/// The remedy follows from the error, not from the name of the folder.
#[test]
fn path_text_is_not_mistaken_for_an_engine_error() {
    let home = tempfile::tempdir().unwrap();
    for name in ["LOCK", "Corruption: of a kind"] {
        let output = run(["inspect", home.path().join(name).to_str().unwrap()]);
        ends_with_one_line(&output, 2, name);
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no database") && !said.contains("; "),
            "{said}"
        );
    }
}

/// The command waits for a reader that never comes, and does not notice the first signal.
#[test]
fn second_signal_stops_at_once() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut model = command();
    model.args(["model", "fig6", "--svg"]).arg(&pipe);
    let child = started(&mut model, handles_interrupts);
    signal(&child, "INT");
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    ends_with_one_line(&output, 2, "model");
    assert!(text(&output.stderr).contains("stopped at once"));
}

/// What a table means can be asked of each command; the table itself stays as it is.
#[test]
fn legends_explain_the_tables() {
    for (arguments, names) in [
        (
            &["advise", "filter", "--keys", "1000", "--rate", "0.01"][..],
            &["bits per key", "probes", "stages", "cache lines per miss"][..],
        ),
        (&["model"], &["figure", "shows", "source"]),
        (&["model", "fig6"], &["columns", "source"]),
    ] {
        let plain = succeeds(arguments);
        let explained = succeeds(&[arguments, &["--explain"]].concat());
        let legend = explained.strip_prefix(&plain).unwrap();
        let lines: Vec<_> = legend.lines().skip(1).collect();
        assert_eq!(legend.lines().next(), Some(""), "{explained}");
        for name in names {
            let explains = |line: &&&str| line.starts_with(&format!("{name} "));
            assert!(lines.iter().any(|line| explains(&line)), "{name}: {legend}");
        }
    }
    let both = run(["model", "--json", "--explain"]);
    ends_with_one_line(&both, 2, "JSON has no legend");
}

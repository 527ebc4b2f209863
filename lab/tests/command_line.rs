//! The command line: help, errors of one line, exit codes, signals.

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
        &["replay", "--help"],
        &["bench", "--help"],
        &["bench", "busy", "--help"],
        &["bench", "jobs", "--help"],
        &["bench", "miss", "--help"],
        &["gremillion", "--help"],
        &["model", "--help"],
        &["report", "--help"],
        &["reorganize", "--help"],
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
        &["replay", "--trace", "x", "--format", "yaml"],
        &["replay", "--trace", "x", "--format", "lis", "--limit", "0"],
        &[
            "replay",
            "--trace",
            "x",
            "--format",
            "lis",
            "--updates",
            "2",
        ],
    ] {
        let output = run(arguments.iter().copied());
        ends_with_one_line(&output, 2, &format!("{arguments:?}"));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = run(["bench", "miss", "--keys", "none"]);
    assert!(text(&output.stderr).contains("`lsm-sieve-lab bench miss --help`"));
}

#[test]
fn more_keys_than_the_disk_holds_are_refused() {
    let arguments = "bench miss --runs leveled --keys 1000000000000";
    let output = run(arguments.split(' '));
    ends_with_one_line(&output, 2, arguments);
    let said = text(&output.stderr);
    assert!(said.contains("ask for fewer"), "{said}");
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

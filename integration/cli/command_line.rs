//! The command line: help, errors of one line, exit codes, signals.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::runner::{
    command, ends_with_one_line, is_refused, print_help, run, stops_at_the_second_signal, succeeds,
    text,
};

#[test]
fn help_of_every_command_is_printed_and_is_no_error() {
    print_help(&[
        &["advise"],
        &["advise", "front"],
        &["demo"],
        &["replay"],
        &["inspect"],
        &["verify"],
        &["completions"],
        &["man"],
    ]);
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
        is_refused(arguments);
    }
    let output = run(["advise", "front", "--keys", "none"]);
    assert!(text(&output.stderr).contains("`lsm-sieve advise front --help`"));
    let not_text = OsStr::from_bytes(b"\xff");
    let output = command().arg(not_text).output().unwrap();
    ends_with_one_line(&output, 2, "a word that is no text");
}

#[test]
fn more_keys_than_the_disk_holds_are_refused() {
    let output = run(["demo", "--keys", "1000000000000"]);
    ends_with_one_line(&output, 2, "demo");
    let said = text(&output.stderr);
    assert!(said.contains("ask for fewer"), "{said}");
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

#[test]
fn second_signal_stops_at_once() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("lsm-sieve.1");
    let mut man = command();
    man.arg("man").arg(home.path());
    stops_at_the_second_signal(&mut man, &pipe);
}

/// What a table means can be asked of each command; the table itself stays as it is.
#[test]
fn legends_explain_the_tables() {
    let home = tempfile::tempdir().unwrap();
    let arguments = ["man", home.path().to_str().unwrap()];
    let plain = succeeds(&arguments);
    let explained = succeeds(&[&arguments[..], &["--explain"]].concat());
    let legend = explained.strip_prefix(&plain).unwrap();
    assert_eq!(legend.lines().next(), Some(""), "{explained}");
    assert!(
        legend.lines().skip(1).all(|line| line.starts_with("page ")),
        "{legend}"
    );
    let both = run([&arguments[..], &["--json", "--explain"]].concat());
    ends_with_one_line(&both, 2, "JSON has no legend");
}

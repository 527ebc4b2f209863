//! The command line: help, errors of one line, exit codes, signals.

use crate::runner::{
    command, ends_with_one_line, is_refused, print_help, run, stops_at_the_second_signal, succeeds,
    text,
};

#[test]
fn help_of_every_command_is_printed_and_is_no_error() {
    print_help(&[
        &["advise"],
        &["advise", "differential"],
        &["advise", "filter"],
        &["replay"],
        &["bench"],
        &["bench", "busy"],
        &["bench", "jobs"],
        &["bench", "miss"],
        &["gremillion"],
        &["model"],
        &["report"],
        &["reorganize"],
    ]);
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
        is_refused(arguments);
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

#[test]
fn second_signal_stops_at_once() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    let mut model = command();
    model.args(["model", "fig6", "--svg"]).arg(&pipe);
    stops_at_the_second_signal(&mut model, &pipe);
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

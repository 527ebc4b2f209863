//! What processes write that reach states. Each is a child of its own, since counts are those of a
//! process.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::*;

const CHILD: &str = "LSM_SIEVE_REACH_CHILD";

/// How many lines a child writes that does nothing else.
const LINES: usize = 5_000;

/// Starts a child that does this as soon as its input ends.
fn start(what: &str, folder: &Path, file: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "reach::tests::child"])
        .current_dir(folder)
        .env_remove("LSM_SIEVE_REACHED")
        .envs(file.map(|file| ("LSM_SIEVE_REACHED", file)))
        .env(CHILD, what)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs these children at once.
fn run<const N: usize>(mut children: [Child; N]) {
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }
}

/// The child's half: does nothing unless started by the parent.
#[test]
fn child() {
    let Ok(what) = std::env::var(CHILD) else {
        return;
    };
    std::io::read_to_string(std::io::stdin()).unwrap();
    if what == "reach" {
        reach();
    } else {
        (0..LINES).for_each(|_| append(&what, u64::MAX));
    }
}

/// Reaches states 1, 2, 3 and 5 times, and one never.
fn reach() {
    reached!(CoverageUnknown);
    for before in 0..5 {
        reached!(UncoveredDenied, before < 2);
        reached!(ReaderAwaited, before < 3);
        reached!(StoredFeedLoaded);
        reached!(FeedHole, before > 5);
    }
}

#[test]
fn script_sums_up_at_least_half_of_what_was_reached() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run([start("reach", folder, Some("search"))]);
    let lines = fs::read_to_string(folder.join("search")).unwrap();
    let mut lines: Vec<_> = lines.lines().collect();
    lines.sort_unstable();
    let expected = [
        "CoverageUnknown 1",
        "ReaderAwaited 1",
        "ReaderAwaited 1",
        "StoredFeedLoaded 1",
        "StoredFeedLoaded 1",
        "StoredFeedLoaded 2",
        "UncoveredDenied 1",
        "UncoveredDenied 1",
    ];
    assert_eq!(lines, expected);

    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reliability/states");
    let output = Command::new(script).arg(folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let sums = String::from_utf8(output.stdout).unwrap();
    let (search, all) = sums.trim_end().split_once('\n').unwrap();
    let start = r#"{"part":"states","search":"search","reached":{"#;
    let reached = search.strip_prefix(start).unwrap();
    let mut reached: Vec<_> = reached.trim_end_matches('}').split(',').collect();
    reached.sort_unstable();
    let expected = [
        r#""CoverageUnknown":1"#,
        r#""ReaderAwaited":2"#,
        r#""StoredFeedLoaded":4"#,
        r#""UncoveredDenied":2"#,
    ];
    assert_eq!(reached, expected);
    let states = NAMES.len();
    let expected = format!(r#"{{"part":"states","states":{states},"reached_by_any":4}}"#);
    assert_eq!(all, expected);
}

#[test]
fn processes_append_whole_lines_to_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let longest = NAMES.iter().max_by_key(|name| name.len()).unwrap();
    let names = ["FeedHole", longest];
    run(names.map(|name| start(name, folder, Some("search"))));
    // A later process appends as well.
    run([start("reach", folder, Some("search"))]);
    let lines = fs::read_to_string(folder.join("search")).unwrap();
    for name in names {
        let line = format!("{name} {}", u64::MAX);
        let whole = lines.lines().filter(|found| *found == line).count();
        assert_eq!(whole, LINES, "{name}");
    }
    assert_eq!(lines.lines().count(), 2 * LINES + 8);
}

#[test]
fn without_a_file_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    run([start("reach", folder.path(), None)]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

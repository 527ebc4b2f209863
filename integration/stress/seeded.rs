//! What `reliability/seeded` takes for a bug that was found.

use std::process::Command;

/// Whether a search that does this, with so many seconds for it, finds a bug of this kind.
fn finds(kind: &str, seconds: &str, search: &str) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../reliability/seeded");
    let mut command = Command::new(script);
    command.args(["--finds", kind, "bash", "-c", search]);
    let output = command.env("MINUTE", seconds).output();
    let output = output.expect("the script can be run");
    match output.status.code() {
        Some(0) => true,
        Some(1) => false,
        _ => panic!("{search}: {output:?}"),
    }
}

/// Of the answers that it should check, a search that hangs says nothing.
#[test]
fn search_that_has_to_be_ended_finds_missed_wakes_alone() {
    for (seconds, search, finds_reads, finds_wakes) in [
        ("60", "exit 0", false, false),
        ("60", "exit 1", true, true),
        ("60", "kill -ABRT $$", true, true),
        ("0.1", "sleep 60", false, true),
        ("60", "kill -KILL $$", false, true),
    ] {
        assert_eq!(finds("lost read", seconds, search), finds_reads, "{search}");
        assert_eq!(
            finds("missed wake", seconds, search),
            finds_wakes,
            "{search}"
        );
    }
}

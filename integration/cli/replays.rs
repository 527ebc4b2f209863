//! Replays of traces by a command, and what must hold after each. `more` are arguments that only one
//! command takes.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "inputs are written past the door to files"
)]
#![expect(
    clippy::print_stdout,
    reason = "a replay of a published trace says what it found"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::runner::{command, ends_with_one_line, parsed, signal, started, text};
use crate::support::traces;

/// A replay of a trace in this format.
pub(crate) fn replay(more: &[&str], format: &str, trace: &Path) -> Command {
    let mut replay = command();
    replay.arg("replay").args(more).args(["--format", format]);
    replay.arg("--trace").arg(trace);
    replay
}

/// The report of a replay that ends with exit code 0.
pub(crate) fn report(replay: &mut Command) -> Value {
    let output = replay.arg("--json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    parsed(&output)
}

/// No key was lost, and the rate was kept.
pub(crate) fn check_report(report: &Value, about: &str) {
    assert_eq!(report["false_negatives"], 0, "{about}: {report}");
    let (observed, promised) = (&report["observed_rate"], &report["promised_rate"]);
    let (observed, promised) = (observed.as_f64().unwrap(), promised.as_f64().unwrap());
    assert!(
        observed <= 1.15 * promised,
        "{about}: {observed} of {promised}"
    );
}

/// Interrupts replays, which must say so and leave no folder.
pub(crate) fn check_interrupted(more: &[&str]) {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    // Enough ids to be at work for long.
    let ids = (0..3_000_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    let bytes: Vec<u8> = ids.flat_map(u64::to_be_bytes).collect();
    fs::write(&trace, bytes).unwrap();
    for (name, keep) in [("INT", false), ("TERM", false), ("INT", true)] {
        let scratch = home.path().join(format!("scratch-{name}-{keep}"));
        fs::create_dir(&scratch).unwrap();
        let kept = scratch.join("kept");
        let mut replay = replay(more, "u64be", &trace);
        replay.env("TMPDIR", &scratch);
        if keep {
            fs::create_dir(&kept).unwrap();
            replay.arg("--db").arg(&kept);
        }
        let child = started(&mut replay, |_| database_in(&scratch).is_some());
        signal(&child, name);
        // As from a shell that signals the command and its group.
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        ends_with_one_line(&output, 2, name);
        let said = text(&output.stderr);
        assert!(said.contains("stopped before the end"), "{said}");
        assert!(output.stdout.is_empty());
        let left = fs::read_dir(if keep { &kept } else { &scratch }).unwrap();
        assert_eq!(left.count(), 0, "{name}: a folder was left");
    }
}

/// The database that a command created in its folder for temporary ones.
fn database_in(scratch: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(scratch).unwrap();
    let mut folders = folders.map(|entry| entry.unwrap().path());
    folders.find(|folder| folder.join("CURRENT").exists())
}

/// Replays the same ids in every format into folders that are kept, each of which is then checked.
pub(crate) fn check_every_format(more: &[&str], mode: &str, check: impl Fn(&Path)) {
    let home = tempfile::tempdir().unwrap();
    let ids: Vec<u64> = (0..4_000_u64).map(|i| (i * i) % 2_801).collect();
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let pages: String = ids.iter().map(|id| format!("{id} 2 0 1\n")).collect();
    let wide: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    let narrow = ids.iter().flat_map(|&id| (id as u32).to_be_bytes());
    let traces = [
        ("lines", lines.into_bytes()),
        ("lis", pages.into_bytes()),
        ("u64be", wide),
        ("u32be", narrow.collect()),
    ];
    for (format, bytes) in traces {
        let trace = home.path().join(format);
        fs::write(&trace, bytes).unwrap();
        let kept = home.path().join(format!("{format}-kept"));
        let report = report(replay(more, format, &trace).arg("--db").arg(&kept));
        assert_eq!(report["false_negatives"], 0, "{report}");
        assert_eq!(report["mode"], mode);
        check(&kept);
    }
}

/// Replays the first part of published traces, if they are present.
pub(crate) fn check_published(more: &[&str], traces: &[(&str, &str)]) {
    let Some(folder) = traces::folder() else {
        return;
    };
    for (name, format) in traces {
        let mut replay = replay(more, format, &folder.join(name));
        let report = report(replay.args(["--limit", "100000"]));
        println!("{name}: {report}");
        check_report(&report, name);
        assert!(report["lookups"].as_u64() > Some(0));
    }
}

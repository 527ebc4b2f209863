//! `lsm-sieve-lab replay`: it loses no key, keeps the rate, and leaves no files behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "inputs are written past the door to files"
)]

use std::fs;
use std::path::{Path, PathBuf};

use lsm_sieve::SieveDb;
use serde_json::Value;

use crate::runner::{command, ends_with_one_line, parsed, run, signal, started, text};
use crate::support::traces;

/// Enough ids to be at work for long.
fn long_trace(path: &Path) {
    let ids = (0..3_000_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    let bytes: Vec<u8> = ids.flat_map(u64::to_be_bytes).collect();
    fs::write(path, bytes).unwrap();
}

#[test]
fn interrupted_replay_reports_it_and_leaves_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    long_trace(&trace);
    for (name, keep) in [("INT", false), ("TERM", false), ("INT", true)] {
        let scratch = home.path().join(format!("scratch-{name}-{keep}"));
        fs::create_dir(&scratch).unwrap();
        let mut replay = command();
        let kept = scratch.join("kept");
        replay
            .env("TMPDIR", &scratch)
            .args(["replay", "--format", "u64be", "--trace"])
            .arg(&trace);
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
        assert!(
            text(&output.stderr).contains("stopped before the end"),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
        let left = if keep { &kept } else { &scratch };
        assert_eq!(
            fs::read_dir(left).unwrap().count(),
            0,
            "{name}: a folder was left"
        );
    }
}

/// The database that a command created in its folder for temporary ones.
fn database_in(scratch: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(scratch)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    folders
        .into_iter()
        .find(|folder| folder.join("CURRENT").exists())
}

fn check_replay(report: &Value, about: &str) {
    assert_eq!(report["false_negatives"], 0, "{about}: {report}");
    let (observed, promised) = (&report["observed_rate"], &report["promised_rate"]);
    let (observed, promised) = (observed.as_f64().unwrap(), promised.as_f64().unwrap());
    assert!(
        observed <= 1.15 * promised,
        "{about}: {observed} of {promised}"
    );
}

#[test]
fn trace_is_replayed_in_every_format_and_kept_with_db() {
    let home = tempfile::tempdir().unwrap();
    let ids: Vec<u64> = (0..4_000_u64).map(|i| (i * i) % 2_801).collect();
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let pages: String = ids.iter().map(|id| format!("{id} 2 0 1\n")).collect();
    let wide: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    let narrow: Vec<u8> = ids
        .iter()
        .flat_map(|&id| (id as u32).to_be_bytes())
        .collect();
    let traces = [
        ("lines", lines.into_bytes()),
        ("lis", pages.into_bytes()),
        ("u64be", wide),
        ("u32be", narrow),
    ];
    for (format, bytes) in traces {
        let trace = home.path().join(format);
        fs::write(&trace, bytes).unwrap();
        let kept = home.path().join(format!("{format}-kept"));
        let output = command()
            .args(["replay", "--json", "--format", format, "--trace"])
            .arg(&trace)
            .arg("--db")
            .arg(&kept)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report = parsed(&output);
        assert_eq!(report["false_negatives"], 0, "{report}");
        assert_eq!(report["mode"], "differential");
        let db = SieveDb::builder(&kept)
            .cfs(rocksdb::DB::list_cf(&<_>::default(), &kept).unwrap())
            .read_only(false)
            .open()
            .unwrap();
        let verified = db.filters().verify(true).unwrap();
        assert!(verified.lost.is_empty() && verified.entries_checked > 0);
    }
}

#[test]
fn store_of_a_replay_can_be_reorganized() {
    let home = tempfile::tempdir().unwrap();
    let (trace, store) = (home.path().join("ids"), home.path().join("store"));
    fs::write(&trace, "1\n2\n1\n").unwrap();
    let mut replay = command();
    replay.args(["replay", "--format", "lines", "--trace"]);
    let replayed = replay.arg(&trace).arg("--db").arg(&store).output().unwrap();
    assert_eq!(replayed.status.code(), Some(0));
    let reorganized = run(["reorganize", store.to_str().unwrap()]);
    assert_eq!(
        reorganized.status.code(),
        Some(0),
        "{}",
        text(&reorganized.stderr)
    );
}

/// The first part of a published trace.
#[test]
fn published_traces_lose_no_key_and_keep_the_rate() {
    let Some(folder) = traces::folder() else {
        return;
    };
    let name = "OLTP.lis.zst";
    let output = command()
        .args(["replay", "--json", "--limit", "100000"])
        .args(["--format", "lis", "--trace"])
        .arg(folder.join(name))
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{name}: {}",
        text(&output.stderr)
    );
    let report = parsed(&output);
    println!("{name}: {report}");
    check_replay(&report, name);
    assert!(report["lookups"].as_u64() > Some(0));
}

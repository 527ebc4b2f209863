//! `lsm-sieve replay` and `lsm-sieve demo`: they lose no key, keep the rate, and leave no files
//! behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "inputs and damage are written past the door to files"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::runner::{command, ends_with_one_line, parsed, run, signal, started, text};
use crate::support::database_files::contents;
use crate::support::traces;

#[test]
fn unreadable_trace_is_refused_and_leaves_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let made = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut packed = Vec::new();
    let mut packer = flate2::read::GzEncoder::new(&[7; 80_000][..], flate2::Compression::best());
    packer.read_to_end(&mut packed).unwrap();
    let cases = [
        (home.path().join("none"), "lis"),
        (home.path().to_owned(), "lis"),
        (made("empty", b""), "lis"),
        (made("empty.lines", b""), "lines"),
        (made("letters", b"1 2 3 4\nfive six\n"), "lis"),
        (made("minus", b"12\n-7\n"), "lines"),
        (made("odd", &[0; 83]), "u64be"),
        (made("odd32", &[0; 6]), "u32be"),
        (made("cut.gz", &packed[..packed.len() / 2]), "u64be"),
        (made("cut.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0, 0]), "u64be"),
        (
            made("cut.xz", &[0xfd, b'7', b'z', b'X', b'Z', 0, 0]),
            "u64be",
        ),
    ];
    let scratch = home.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let kept = home.path().join("kept");
    for (trace, format) in &cases {
        let output = command()
            .env("TMPDIR", &scratch)
            .args(["replay", "--mode", "upsert", "--format", format, "--trace"])
            .arg(trace)
            .arg("--db")
            .arg(&kept)
            .output()
            .unwrap();
        ends_with_one_line(&output, 2, &trace.display().to_string());
        assert!(text(&output.stderr).contains(trace.to_str().unwrap()));
        assert!(!kept.exists(), "{}", trace.display());
    }
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

/// It would be read as empty, or wait for its writer for ever.
#[test]
fn irregular_trace_file_is_refused() {
    let arguments = "replay --trace /dev/null --format lines --mode upsert";
    let output = run(arguments.split(' '));
    ends_with_one_line(&output, 2, "replay");
    assert!(
        text(&output.stderr).contains("is no regular file"),
        "{}",
        text(&output.stderr)
    );
}

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
        let mode = "upsert";
        let scratch = home.path().join(format!("scratch-{name}-{keep}"));
        fs::create_dir(&scratch).unwrap();
        let mut replay = command();
        let kept = scratch.join("kept");
        replay
            .env("TMPDIR", &scratch)
            .args(["replay", "--format", "u64be", "--mode", mode, "--trace"])
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
        ends_with_one_line(&output, 2, mode);
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
            "{mode}: a folder was left"
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
            .args([
                "replay", "--json", "--format", format, "--mode", "upsert", "--trace",
            ])
            .arg(&trace)
            .arg("--db")
            .arg(&kept)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report = parsed(&output);
        assert_eq!(report["false_negatives"], 0, "{report}");
        assert_eq!(report["mode"], "upsert");
        let verified = run(["verify", "--full", kept.to_str().unwrap()]);
        assert_eq!(
            verified.status.code(),
            Some(0),
            "{}",
            text(&verified.stderr)
        );
    }
}

/// Its first record would be an id, and a differential store could not be opened again.
#[test]
fn upserts_are_refused_for_a_database_of_several_column_families() {
    let home = tempfile::tempdir().unwrap();
    let (trace, store) = (home.path().join("ids"), home.path().join("store"));
    fs::write(&trace, "1\n2\n1\n").unwrap();
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    drop(rocksdb::DB::open_cf(&options, &store, ["main", "differential-1"]).unwrap());
    let before = contents(&store);
    let mut replay = command();
    replay.args(["replay", "--format", "lines", "--mode", "upsert", "--trace"]);
    let refused = replay.arg(&trace).arg("--db").arg(&store).output().unwrap();
    ends_with_one_line(&refused, 2, "upsert");
    assert!(text(&refused.stderr).contains("several column families"));
    assert!(contents(&store) == before, "a file has changed");
}

/// The first part of the published traces.
#[test]
fn published_traces_lose_no_key_and_keep_the_rate() {
    let Some(folder) = traces::folder() else {
        return;
    };
    for (name, format, mode) in [
        ("corda-vaultservice.gz", "u64be", "upsert"),
        ("OLTP.lis.zst", "lis", "upsert"),
        ("orm-busy.trace.xz", "u32be", "upsert"),
    ] {
        let output = command()
            .args(["replay", "--json", "--limit", "100000"])
            .args(["--format", format, "--mode", mode, "--trace"])
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
}

/// The demo, small.
#[test]
fn demo_loses_no_key_and_keeps_its_rate() {
    let mut child = command()
        .args(["demo", "--keys", "20000", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let printed: String = lines.by_ref().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&printed).unwrap();
    check_replay(&report, "demo");
    assert_eq!(report["keys"], 20_000);
}

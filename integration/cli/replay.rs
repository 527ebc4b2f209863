//! `lsm-sieve replay` and `lsm-sieve demo`: they lose no key, keep the rate, and leave no files
//! behind.

#![expect(
    clippy::disallowed_methods,
    reason = "inputs and damage are written past the door to files"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use serde_json::Value;

use crate::replays::{
    check_every_format, check_interrupted, check_published, check_report, replay,
};
use crate::runner::{command, ends_with_one_line, run, text};
use crate::support::database_files::contents;

const UPSERT: &[&str] = &["--mode", "upsert"];

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
        let output = replay(UPSERT, format, trace)
            .env("TMPDIR", &scratch)
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

#[test]
fn interrupted_replay_reports_it_and_leaves_no_folder() {
    check_interrupted(UPSERT);
}

#[test]
fn trace_is_replayed_in_every_format_and_kept_with_db() {
    check_every_format(UPSERT, "upsert", |kept| {
        let verified = run(["verify", "--full", kept.to_str().unwrap()]);
        let said = text(&verified.stderr);
        assert_eq!(verified.status.code(), Some(0), "{said}");
    });
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
    let mut replay = replay(UPSERT, "lines", &trace);
    let refused = replay.arg("--db").arg(&store).output().unwrap();
    ends_with_one_line(&refused, 2, "upsert");
    assert!(text(&refused.stderr).contains("several column families"));
    assert!(contents(&store) == before, "a file has changed");
}

#[test]
fn published_traces_lose_no_key_and_keep_the_rate() {
    let traces = [
        ("corda-vaultservice.gz", "u64be"),
        ("OLTP.lis.zst", "lis"),
        ("orm-busy.trace.xz", "u32be"),
    ];
    check_published(UPSERT, &traces);
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
    check_report(&report, "demo");
    assert_eq!(report["keys"], 20_000);
}

//! `lsm-sieve inspect` and `lsm-sieve verify`: what they report, and that they change no file.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "inputs and damage are written past the door to files"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use lsm_sieve::SieveDb;
use rocksdb::DB;
use serde_json::Value;

use crate::runner::{
    command, ends_with_one_line, handles_interrupts, json, parsed, run, signal, started, succeeds,
    text,
};
use crate::support::database_files::{contents, sidecars};
use crate::support::model_db::{Model, cover, fill, key, open, options, settle, sieve};

/// A closed database of two families with filters.
fn database(path: &Path) {
    let db = SieveDb::builder(path)
        .options(&options())
        .filters(&sieve())
        .cfs(["other"])
        .open()
        .unwrap();
    fill(&db, &mut Model::new(), 4..900);
    let other = db.cf_handle("other").unwrap();
    db.put_cf(&other, b"k", b"v").unwrap();
    db.flush().unwrap();
    db.flush_cf(&other).unwrap();
    cover(&db);
    settle(&db);
}

#[test]
fn path_without_a_database_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let empty = home.path().join("empty");
    let other = home.path().join("other");
    let file = home.path().join("file");
    let broken = home.path().join("broken");
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), b"not a database").unwrap();
    fs::write(&file, b"not a folder").unwrap();
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("CURRENT"), b"MANIFEST-000001\n").unwrap();
    for path in [home.path().join("none"), empty.clone(), other, file, broken] {
        for verb in ["inspect", "verify"] {
            let output = run([verb, path.to_str().unwrap()]);
            ends_with_one_line(&output, 2, &format!("{verb} {}", path.display()));
            assert!(text(&output.stderr).contains(path.to_str().unwrap()));
        }
    }
    assert!(!home.path().join("none").exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn database_with_another_comparator_of_rocksdbs_is_opened() {
    for comparator in [
        "rocksdb.ReverseBytewiseComparator",
        "leveldb.BytewiseComparator.u64ts",
    ] {
        let home = tempfile::tempdir().unwrap();
        let text = format!("comparator={comparator}");
        let options = options().get_options_from_string(text).unwrap();
        {
            let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
            for i in 10..500 {
                let put = match comparator.ends_with("u64ts") {
                    true => db.put_with_ts(key(i), 7_u64.to_le_bytes(), b"value"),
                    false => db.put(key(i), b"value"),
                };
                put.unwrap();
            }
            db.flush().unwrap();
            cover(&db);
            settle(&db);
        }
        let path = home.path().to_str().unwrap();
        let report = json(&["inspect", path]);
        let family = &report["column_families"][0];
        assert_eq!(family["segments"][0]["entries"], 490, "{report}");
        assert_eq!(family["uncovered_segments"], 0, "{report}");
        let report = json(&["verify", path, "--full"]);
        assert_eq!(report["keys_checked"], 490, "{report}");
        assert!(
            report["lost_keys"].as_array().unwrap().is_empty(),
            "{report}"
        );
    }
}

#[test]
fn database_in_use_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    for verb in ["inspect", "verify"] {
        let output = run([verb, home.path().to_str().unwrap()]);
        ends_with_one_line(&output, 2, verb);
        assert!(text(&output.stderr).contains("another process has the database open"));
    }
    db.put(b"still", b"here").unwrap();
}

#[test]
fn inspect_and_verify_print_json() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let path = home.path().to_str().unwrap();
    let families = json(&["inspect", path])["column_families"].clone();
    let families = families.as_array().unwrap();
    assert_eq!(families.len(), 2);
    for family in families {
        assert_eq!(family["uncovered_segments"], 0, "{family}");
        for field in [
            "keys",
            "stages",
            "bits",
            "bits_per_key",
            "fill",
            "predicted_rate",
        ] {
            assert!(family["summary"][field].is_number(), "{field}: {family}");
        }
        let segments = family["segments"].as_array().unwrap();
        assert!(!segments.is_empty());
        for segment in segments {
            for field in ["covered", "consulted", "saved"] {
                assert_eq!(segment[field], true, "{field}: {segment}");
            }
            assert!(segment["entries"].as_u64() > Some(0), "{segment}");
            assert!(segment["file"].is_string() && segment["id"].is_string());
            assert_eq!(segment["filter"]["source"], "table capture");
            assert!(
                segment["decision"].as_str().unwrap().starts_with("keep"),
                "{segment}"
            );
        }
    }
    for (full, keys) in [(false, 0), (true, 897)] {
        let flags: &[&str] = if full { &["--full"] } else { &[] };
        let report = json(&[&["verify", path][..], flags].concat());
        assert!(report["sidecars_checked"].as_u64() >= Some(2), "{report}");
        assert_eq!(report["summaries_checked"], 2, "{report}");
        assert_eq!(report["keys_checked"], keys, "{report}");
        for empty in ["damaged", "missing", "lost_keys"] {
            assert_eq!(report[empty], Value::Array(Vec::new()), "{empty}");
        }
    }
    // The text output must not change either.
    for verb in ["inspect", "verify"] {
        assert!(succeeds(&[verb, path]).lines().count() > 3);
    }
}

/// It is not opened, and no folder for filters is created.
#[test]
fn plain_database_is_unchanged() {
    let home = tempfile::tempdir().unwrap();
    {
        let db = DB::open(&options(), home.path()).unwrap();
        db.put(b"k", b"v").unwrap();
    }
    let path = home.path().to_str().unwrap();
    let before = contents(home.path());
    for verb in ["inspect", "verify"] {
        let output = run([verb, path]);
        ends_with_one_line(&output, 2, verb);
        assert!(text(&output.stderr).contains("has no filters"));
    }
    assert!(contents(home.path()) == before, "a file has changed");
}

/// Not the SSTs, which a compaction would merge. Not the log, whose operands cannot be merged here.
/// Not the options file.
#[test]
fn inspect_and_verify_change_no_file() {
    const TABLES: usize = 9;
    let home = tempfile::tempdir().unwrap();
    let (path, filters) = (home.path().join("db"), home.path().join("filters"));
    {
        let mut options = options();
        options.set_disable_auto_compactions(true);
        let db = SieveDb::open(&options, &sieve().folder(&filters), &path).unwrap();
        for i in 0..TABLES {
            db.put(i.to_be_bytes(), b"value").unwrap();
            db.flush().unwrap();
        }
        settle(&db);
        db.merge(b"in the log", b"operand").unwrap();
    }
    let before = contents(home.path());
    let of = [
        path.to_str().unwrap(),
        "--filters",
        filters.to_str().unwrap(),
    ];
    for _ in 0..2 {
        let report = json(&[&["verify", "--full"], &of[..]].concat());
        assert_eq!(
            (&report["sidecars_checked"], &report["keys_checked"]),
            (&TABLES.into(), &TABLES.into())
        );
        let families = json(&[&["inspect"], &of[..]].concat())["column_families"].clone();
        assert_eq!(families[0]["segments"].as_array().unwrap().len(), TABLES);
        assert_eq!(families[0]["uncovered_segments"], 0);
    }
    assert!(contents(home.path()) == before, "a file has changed");
    for wrong in [&path, home.path()] {
        let output = run([
            "verify",
            path.to_str().unwrap(),
            "--filters",
            wrong.to_str().unwrap(),
        ]);
        ends_with_one_line(&output, 2, "without its filters");
        assert!(text(&output.stderr).contains("has no filters in"));
    }
}

/// A service that starts meanwhile would compact away the files that are being read.
#[test]
fn database_cannot_be_written_while_it_is_inspected() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let files_of = |child: &Child| -> Vec<PathBuf> {
        let files = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let files = files.into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .collect()
    };
    let reads_tables = |child: &Child| {
        let mut files = files_of(child).into_iter();
        files.any(|file| file.extension().is_some_and(|end| end == "sst"))
    };
    let is_over = |child: &Child| files_of(child).is_empty();
    // It may end before it is stopped.
    let stopped = |_| {
        let mut verify = command();
        let mut verifying = started(
            verify.args(["verify", "--full"]).arg(home.path()),
            |child| reads_tables(child) || is_over(child),
        );
        signal(&verifying, "STOP");
        if reads_tables(&verifying) {
            return Some(verifying);
        }
        signal(&verifying, "CONT");
        verifying.wait().unwrap();
        None
    };
    let verifying = (0..200).find_map(stopped).expect("it is stopped in time");
    let refused = SieveDb::builder(home.path())
        .options(&options())
        .filters(&sieve())
        .cfs(["other"])
        .open();
    signal(&verifying, "CONT");
    assert!(refused.is_err());
    let output = verifying.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Flips a bit in a sidecar. Returns its path and its new content.
fn damage_a_sidecar(database: &Path) -> (PathBuf, Vec<u8>) {
    let victim = sidecars(&database.join("sieve")).remove(0);
    let mut bytes = fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&victim, &bytes).unwrap();
    (victim, bytes)
}

#[test]
fn damaged_sidecar_makes_verify_exit_with_1_and_is_unchanged() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let (victim, bytes) = damage_a_sidecar(home.path());
    for _ in 0..2 {
        let output = run(["verify", "--full", "--json", home.path().to_str().unwrap()]);
        ends_with_one_line(&output, 1, "verify");
        let report = parsed(&output);
        let damaged = report["damaged"].as_array().unwrap();
        let name = victim.file_name().unwrap().to_str().unwrap();
        assert_eq!(damaged.len(), 1);
        assert!(damaged[0].as_str().unwrap().contains(name), "{report}");
        assert!(text(&output.stderr).contains(name));
        assert_eq!(report["lost_keys"], Value::Array(Vec::new()));
        assert_eq!(fs::read(&victim).unwrap(), bytes);
    }
    settle(
        &SieveDb::builder(home.path())
            .options(&options())
            .filters(&sieve())
            .cfs(["other"])
            .open()
            .unwrap(),
    );
    let output = run(["verify", home.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// The reader of the output has gone before anything was printed.
#[test]
fn output_into_a_closed_pipe_is_quiet() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let path = home.path().to_str().unwrap();
    for arguments in [
        &["--help"][..],
        &["inspect", path],
        &["verify", "--json", path],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command().args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

/// A finding decides the exit code, even if the report cannot be written.
#[test]
fn finding_takes_precedence_over_an_output_error() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    damage_a_sidecar(home.path());
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    for stdout in [Stdio::from(closed), Stdio::from(full.unwrap())] {
        let output = command()
            .arg("verify")
            .arg(home.path())
            .stdout(stdout)
            .output()
            .unwrap();
        ends_with_one_line(&output, 1, "verify");
        assert!(text(&output.stderr).contains("damaged"));
    }
}

/// The signal comes while the database is being opened, or sometimes too late.
#[test]
fn interrupted_verify_reports_it() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let mut verify = command();
    verify.args(["verify", "--full"]).arg(home.path());
    for _ in 0..50 {
        let child = started(&mut verify, handles_interrupts);
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(2) {
            ends_with_one_line(&output, 2, "verify");
            let said = text(&output.stderr);
            // While filters are loaded, or after.
            let stops = ["stopped before the end", "stopped before all was checked"];
            assert!(stops.iter().any(|stop| said.contains(stop)), "{said}");
            return;
        }
    }
    panic!("no signal ended it");
}

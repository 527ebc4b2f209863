//! `lsm-sieve-stress`: a short run of each kind, and the proof that it finds an injected lost
//! write.
//!
//! `LSM_SIEVE_SEED=n` repeats the fresh part of a run. `integration/stress/regressions` has cases that
//! failed once, shortened: all of them must pass.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::io::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::runner::{is_refused, json, parsed, run, text};

/// Runs cases from a seed on. All must pass.
fn passes(arguments: &[&str]) -> Value {
    let report = json(arguments);
    assert_eq!(report["violations"], 0, "{report}");
    assert_eq!(report["lost_reads"], 0, "{report}");
    assert!(report["finding"].is_null(), "{report}");
    report
}

fn count(report: &Value, name: &str) -> u64 {
    report[name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name} in {report}"))
}

#[test]
fn cases_from_a_fixed_seed_pass() {
    let report = passes(&["--seed", "1", "--ops", "150000"]);
    let [operations, reads, negatives] =
        ["operations", "reads", "checked_negatives"].map(|name| count(&report, name));
    assert!(operations >= 150_000 && reads < operations, "{report}");
    assert!(
        negatives > reads / 10,
        "hardly anything is ruled out: {report}"
    );
    let certain = count(&report, "must_exist") + count(&report, "must_not_exist");
    assert_eq!(certain, reads, "one thread knows what is there: {report}");
}

#[test]
fn cases_from_a_fresh_seed_pass() {
    let seed = std::env::var("LSM_SIEVE_SEED").ok();
    let seed = seed.unwrap_or_else(|| (rand::random::<u64>() >> 11).to_string());
    println!("LSM_SIEVE_SEED={seed}");
    passes(&["--seed", &seed, "--ops", "150000"]);
    passes(&["--seed", &seed, "--ops", "1", "--threads", "4"]);
}

#[test]
fn multithreaded_cases_from_a_fixed_seed_pass() {
    let report = passes(&["--seed", "4", "--ops", "1", "--threads", "3"]);
    for kind in ["must_exist", "must_not_exist", "either"] {
        assert!(count(&report, kind) > 0, "{kind}: {report}");
    }
}

#[test]
fn regression_cases_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration/stress/regressions");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let cases = files.filter(|path| path.extension().is_some_and(|end| end == "case"));
    let mut replayed = 0;
    for case in cases {
        passes(&["--replay", case.to_str().unwrap()]);
        replayed += 1;
    }
    assert!(replayed > 0, "no case was found");
}

/// A case of a few steps in a file.
fn case_file(lines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.as_bytes()).unwrap();
    file
}

const SIEVE: &str = r#"{"sieve":{"keys":{"shape":"mixed","count":300,"seed":1},"front":{"summary":{"rate":0.5},"segments":null,"expected_keys":8,"budget_bits":null,"keyed":true},"database":["max_background_jobs=4","enable_pipelined_write=true"],"families":[["write_buffer_size=65536"],["compression=kNoCompression"],[],["num_levels=3"]]}}"#;

const DIFFERENTIAL: &str = r#"{"differential":{"keys":{"shape":"fixed","count":300,"seed":1},"front":{"summary":{"rate":0.5},"segments":null,"expected_keys":8,"budget_bits":null,"keyed":true},"engine":["max_background_jobs=4"],"fixed":[128,2],"ask_main":true,"batch_bytes":64}}"#;

/// Many steps with one injected fault: the model receives a write that the database does not.
fn faulty_sieve() -> String {
    let write = |key: u64| {
        format!(
            r#"{{"write":{{"update":{{"family":{},"key":{key},"change":{{"put":{key}}}}},"way":"front"}}}}"#,
            key % 3
        )
    };
    let read = |key: u64| {
        format!(r#"{{"read":{{"keys":{{"family":1,"from":{key},"count":40}},"api":"multi"}}}}"#)
    };
    let mut lines = vec!["# an injected lost write".to_owned(), SIEVE.to_owned()];
    lines.extend((0..200).map(|key| write(key * 2 % 300)));
    lines.push(r#"{"lie":{"family":1,"key":77}}"#.to_owned());
    lines.extend((0..200).flat_map(|key| [write(key * 2 % 70), read(key * 7 % 30)]));
    lines.push(r#"{"flush":{"family":1}}"#.to_owned());
    lines.push(read(60));
    lines.join("\n")
}

fn faulty_differential() -> String {
    let mut lines = vec![DIFFERENTIAL.to_owned()];
    let put = |key: u64| format!(r#"{{"put":{{"key":{key},"number":{key}}}}}"#);
    lines.extend((0..100).map(|key| put(key * 2)));
    lines.push(r#"{"lie":{"key":3}}"#.to_owned());
    lines.push(r#""freeze""#.to_owned());
    lines.push(r#"{"reorganize":{"stop_after":null}}"#.to_owned());
    lines.extend((0..100).map(|key| put(key * 2)));
    lines.join("\n")
}

/// A lost read is found, reported and shrunk to the faulty step and the steps that it needs, and
/// the short case fails again.
#[test]
fn injected_lost_write_is_found_and_shrunk() {
    for (case, steps) in [(faulty_sieve(), 2), (faulty_differential(), 2)] {
        let file = case_file(&case);
        let path = file.path().to_str().unwrap();
        let output = run(["--json", "--replay", path]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("--replay"), "{said}");
        let report = parsed(&output);
        assert_eq!(report["lost_reads"], 1, "{report}");
        let short = report["finding"]["case"].as_str().unwrap();
        let lines: Vec<&str> = short.lines().collect();
        assert!(lines.len() <= 1 + steps, "{short}");
        assert!(lines.iter().any(|line| line.contains("lie")), "{short}");
        assert!(!short.contains("max_background_jobs"), "{short}");
        let again = case_file(short);
        let output = run(["--replay", again.path().to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        assert!(
            text(&output.stdout).contains("lie"),
            "the table shows the case"
        );
    }
}

#[test]
fn invalid_case_file_is_refused() {
    is_refused(&["--replay", "/no/such/file"]);
    let steps = case_file(&format!("{SIEVE}\n{{\"jump\":3}}\n"));
    is_refused(&["--replay", steps.path().to_str().unwrap()]);
    is_refused(&["--ops", "5", "--seconds", "5"]);
    is_refused(&["--db", "/no/such/folder"]);
}

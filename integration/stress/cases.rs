//! `lsm-sieve-stress`: a short run of each kind, and the proof that it finds an injected lost
//! write.
//!
//! `LSM_SIEVE_SEED=n` repeats the fresh part of a run. `integration/stress/regressions` has cases that
//! failed once, shortened: all of them must pass.

use std::fs;
use std::path::Path;

use crate::harness::{case_file, count, is_found_and_shrunk, passes};
use crate::runner::{is_refused, run, text};

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

const SIEVE: &str = r#"{"sieve":{"keys":{"shape":"mixed","count":300,"seed":1},"front":{"summary":{"rate":0.5},"segments":null,"expected_keys":8,"budget_bits":null,"keyed":true},"database":["max_background_jobs=4","enable_pipelined_write=true"],"families":[["write_buffer_size=65536"],["compression=kNoCompression"],[],["num_levels=3"]]}}"#;

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

#[test]
fn injected_lost_write_is_found_and_shrunk() {
    is_found_and_shrunk(&faulty_sieve(), 2);
}

/// Each snapshot is read at its own moment.
#[test]
fn write_lost_before_one_snapshot_is_found_by_its_reads_alone() {
    let write = r#"{"write":{"update":{"family":1,"key":77,"change":{"put":1}},"way":"front"}}"#;
    let lost = r#"{"lie":{"family":1,"key":77}}"#;
    for (steps, wrong) in [([lost, write], "old"), ([write, lost], "new")] {
        for api in ["old", "new"] {
            let read = format!(
                r#"{{"read":{{"keys":{{"family":1,"from":77,"count":1}},"api":"{api}-snapshot"}}}}"#
            );
            let [first, second] = steps;
            let snapshot = r#""snapshot""#;
            let lines = [SIEVE, first, snapshot, second, snapshot, write, &read];
            let case = case_file(&lines.join("\n"));
            let output = run(["--replay", case.path().to_str().unwrap()]);
            let said = text(&output.stderr);
            assert_eq!(
                output.status.code(),
                Some(i32::from(api == wrong)),
                "{said}"
            );
        }
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

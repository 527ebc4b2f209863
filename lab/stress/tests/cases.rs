//! `lsm-sieve-lab-stress`: a short run, and the proof that it finds an injected lost write.
//!
//! `LSM_SIEVE_SEED=n` repeats the fresh part of a run.

use crate::harness::{case_file, count, is_found_and_shrunk, passes};
use crate::runner::is_refused;

#[test]
fn cases_from_a_fixed_seed_pass() {
    let report = passes(&["--seed", "1", "--ops", "50000"]);
    let [operations, reads, negatives] =
        ["operations", "reads", "checked_negatives"].map(|name| count(&report, name));
    assert!(operations >= 50_000 && reads < operations, "{report}");
    assert!(negatives > 0, "nothing is ruled out: {report}");
    let certain = count(&report, "must_exist") + count(&report, "must_not_exist");
    assert_eq!(certain, reads, "one thread knows what is there: {report}");
}

#[test]
fn cases_from_a_fresh_seed_pass() {
    let seed = std::env::var("LSM_SIEVE_SEED").ok();
    let seed = seed.unwrap_or_else(|| (rand::random::<u64>() >> 11).to_string());
    println!("LSM_SIEVE_SEED={seed}");
    passes(&["--seed", &seed, "--ops", "50000"]);
}

const DIFFERENTIAL: &str = r#"{"differential":{"keys":{"shape":"fixed","count":300,"seed":1},"front":{"summary":{"rate":0.5},"segments":null,"expected_keys":8,"budget_bits":null,"keyed":true},"engine":["max_background_jobs=4"],"fixed":[128,2],"ask_main":true,"batch_bytes":64}}"#;

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

#[test]
fn injected_lost_write_is_found_and_shrunk() {
    is_found_and_shrunk(&faulty_differential(), 2);
}

#[test]
fn case_of_another_store_is_refused() {
    let steps = case_file(&format!("{DIFFERENTIAL}\n{{\"jump\":3}}\n"));
    is_refused(&["--replay", steps.path().to_str().expect("a path of text")]);
    let other = case_file("{\"sieve\":{}}\n");
    is_refused(&["--replay", other.path().to_str().expect("a path of text")]);
}

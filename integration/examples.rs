//! The examples that need no argument, run as a reader would, and what they print.
//!
//! `cargo test` builds them; where a narrower command did not, the tests say how.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// `target/<profile>/examples`, beside the `deps` that this test is in.
fn path(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{example}{}", std::env::consts::EXE_SUFFIX);
    profile.join("examples").join(name)
}

/// What an example prints on its way to exit code 0.
fn printed(example: &str) -> String {
    let path = path(example);
    assert!(
        path.is_file(),
        "{} is not there: `cargo build --examples` makes it",
        path.display()
    );
    let output = Command::new(path).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {said}");
    assert!(said.is_empty(), "{example}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers of a line, with a point or thousands' commas in them or not.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

#[test]
fn the_stores_keep_what_their_examples_assert() {
    for example in ["front", "differential"] {
        assert_eq!(printed(example), "", "{example}");
    }
}

#[test]
fn hyphenation_reads_the_exceptions_and_little_else() {
    let text = printed("hyphenation");
    for exception in ["chil-dren", "bish-op", "pro-gram", "ath-lete"] {
        assert!(text.contains(exception), "{exception}: {text}");
    }
    for regular in ["win-ter", "lan-tern", "sil-ver"] {
        assert!(text.contains(regular), "{regular}: {text}");
    }
    let [reads, words] = numbers(text.lines().last().unwrap())[..] else {
        panic!("{text}");
    };
    assert!(reads >= 4.0 && reads <= words / 3.0, "{text}");
}

#[test]
fn estimated_frequencies_are_never_too_low() {
    let text = printed("key_frequency");
    let mut rows = 0;
    for row in text.lines().skip(1).take(10) {
        let [comes, selection, increase] = numbers(row)[..] else {
            panic!("{row}");
        };
        assert!(comes <= increase && increase <= selection, "{row}");
        rows += 1;
    }
    assert_eq!(rows, 10, "{text}");
    let [words, by_selection, by_increase] = numbers(text.lines().last().unwrap())[..] else {
        panic!("{text}");
    };
    assert!(by_increase < by_selection && by_selection < words, "{text}");
}

#[test]
fn a_store_of_ones_own_meets_most_of_the_ids() {
    let text = printed("own_store");
    let asked = numbers(&text);
    assert_eq!(asked[1], 100_000.0, "{text}");
    assert!((50_000.0..=100_000.0).contains(&asked[0]), "{text}");
}

/// 3,000 keys are lacking on one side and 2,000 on the other; each is sent once.
#[test]
fn replicas_send_what_the_other_lacks_and_no_more() {
    let text = printed("reconcile");
    let mut sent = [0.0, 0.0];
    for line in text.lines() {
        let [_round, _common, _bound, right, left] = numbers(line)[..] else {
            panic!("{line}");
        };
        sent[0] += right;
        sent[1] += left;
    }
    assert_eq!(sent, [3_000.0, 2_000.0], "{text}");
    assert!((2..=4).contains(&text.lines().count()), "{text}");
}

#[test]
fn caching_on_the_second_hit_spares_most_writes() {
    let text = printed("second_hit");
    let lines: Vec<_> = text.lines().map(numbers).collect();
    let [every, second] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(every[0] + every[1], 100.0, "a miss is a write: {text}");
    assert!(second[1] < every[1] / 2.0, "{text}");
    assert!(second[0] > every[0] * 0.8, "{text}");
}

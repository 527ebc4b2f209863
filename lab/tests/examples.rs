//! The examples, run as a reader would, and their output.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::path::Path;

use crate::support::example::{answered, numbers, printed};
use crate::support::traces;

#[test]
fn store_example_passes_its_assertions() {
    assert_eq!(printed("differential"), "");
}

/// A chart older than its figures would show what was never measured.
#[test]
fn charts_match_the_recorded_figures() {
    let home = tempfile::tempdir().unwrap();
    let drawn = answered("charts", &[home.path().to_str().unwrap()]);
    assert_eq!(drawn, "");
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let kept = folders.find_map(|folder| Some(folder.join("docs")).filter(|it| it.is_dir()));
    let kept = kept.unwrap();
    for name in [
        "images/gain-light.svg",
        "images/gain-dark.svg",
        "benchmarks.html",
    ] {
        let [drawn, kept] =
            [home.path(), kept.as_path()].map(|at| fs::read_to_string(at.join(name)).unwrap());
        assert!(
            drawn == kept,
            "{name} differs: draw it again, as the example says"
        );
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
    let words = text.lines().next().unwrap().split_whitespace().count() as f64;
    let found = numbers(text.lines().last().unwrap());
    let [
        whole,
        truncated,
        filter,
        whole_bits,
        truncated_bits,
        filter_bits,
    ] = found[..]
    else {
        panic!("{text}");
    };
    assert_eq!(whole, 4.0, "{text}");
    assert!(truncated >= 4.0 && truncated <= words / 3.0, "{text}");
    assert!(filter >= 4.0 && filter <= words / 3.0, "{text}");
    // Bloom's conclusion: allowing errors saves space, and his filter saves more.
    assert!(
        filter_bits < truncated_bits && truncated_bits < whole_bits,
        "{text}"
    );
}

#[test]
fn estimated_frequencies_are_never_too_low() {
    let text = printed("key_frequency");
    let mut rows = 0;
    for row in text.lines().skip(1).take(10) {
        let [comes, selection, minimal, _recurring, growing] = numbers(row)[..] else {
            panic!("{row}");
        };
        assert!(comes <= minimal && minimal <= selection, "{row}");
        assert!(comes <= growing, "{row}");
        rows += 1;
    }
    assert_eq!(rows, 10, "{text}");
    let last = numbers(text.lines().last().unwrap());
    let [words, selection, minimal, recurring, growing] = last[..] else {
        panic!("{text}");
    };
    assert!(
        minimal < selection && recurring < selection && growing < words / 5.0,
        "{text}"
    );
}

#[test]
fn obvious_passwords_are_refused_and_withdrawn_ones_are_not() {
    for (password, verdict) in [
        ("Letmein2024", "refused"),
        ("starwars1", "accepted: it was withdrawn"),
        ("mind the quagga", "accepted: it is certainly not"),
    ] {
        let text = answered("password_check", &[password]);
        assert!(text.starts_with(verdict), "{password}: {text}");
    }
}

/// A peer is queried for objects that it lacks: by the filter's false positives, and for what was
/// evicted since.
#[test]
fn digest_avoids_most_queries_and_misses_few_objects() {
    assert_digest_pays(&printed("cache_digest"));
}

#[test]
fn cache_digest_pays_on_a_published_trace() {
    let Some(folder) = traces::folder() else {
        return;
    };
    let trace = folder.join("OLTP.lis.zst");
    let text = answered("cache_digest", &[trace.to_str().unwrap(), "lis"]);
    print!("{text}");
    assert_digest_pays(&text);
}

fn assert_digest_pays(text: &str) {
    let [found, false_positives, missed, avoided] = numbers(text.lines().next().unwrap())[..]
    else {
        panic!("{text}");
    };
    assert!(found > 0.0 && missed < found / 20.0, "{text}");
    assert!(
        false_positives < (false_positives + avoided) / 20.0,
        "{text}"
    );
}

/// 3,000 keys are missing on one side and 2,000 on the other. Each is sent once.
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
fn caching_on_the_second_hit_avoids_most_writes() {
    let text = printed("second_hit");
    let lines: Vec<_> = text.lines().map(numbers).collect();
    let [every, second] = &lines[..] else {
        panic!("{text}");
    };
    assert_eq!(every[0] + every[1], 100.0, "a miss is a write: {text}");
    assert!(second[1] < every[1] / 2.0, "{text}");
    assert!(second[0] > every[0] * 0.8, "{text}");
}

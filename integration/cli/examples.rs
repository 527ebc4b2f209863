//! The examples, run as a reader would, and their output.
//!
//! `cargo test` builds them. If a narrower command did not, the tests say how.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::published_traces;

/// `target/<profile>/examples`, beside the `deps` that contains this test.
fn path(example: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let name = format!("{example}{}", std::env::consts::EXE_SUFFIX);
    profile.join("examples").join(name)
}

/// The output of an example that ends with exit code 0.
fn printed(example: &str) -> String {
    answered(example, &[])
}

/// The same, with arguments.
fn answered(example: &str, arguments: &[&str]) -> String {
    let path = path(example);
    assert!(
        path.is_file(),
        "{} is not there: `cargo build --examples` makes it",
        path.display()
    );
    let mut command = Command::new(path);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {said}");
    assert!(said.is_empty(), "{example}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The numbers in a line, with or without a decimal point or thousands separators.
fn numbers(line: &str) -> Vec<f64> {
    let words = line.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    words
        .filter_map(|word| word.replace(',', "").parse().ok())
        .collect()
}

#[test]
fn each_request_is_carried_out_once() {
    let [new, ruled_out] = numbers(&printed("create_if_absent"))[..] else {
        panic!("it prints two numbers");
    };
    assert_eq!(new, 10_000.0);
    assert!((9_500.0..=new).contains(&ruled_out), "{ruled_out}");
}

#[test]
fn store_examples_pass_their_assertions() {
    for example in ["front", "adopt", "differential"] {
        assert_eq!(printed(example), "", "{example}");
    }
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
fn metrics_report_filter_counters() {
    let text = printed("metrics");
    let figure = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.starts_with(name));
        let value = line
            .and_then(|line| line.split_whitespace().last())
            .unwrap();
        value.parse().unwrap()
    };
    let cf = |name: &str| figure(&format!("lsm_sieve_{name}{{db=\"users\",cf=\"default\""));
    let lookups = |result: &str| {
        let labels = format!("db=\"users\",cf=\"default\",result=\"{result}\"");
        figure(&format!("lsm_sieve_lookups_total{{{labels}}}"))
    };
    let found = lookups("found") + lookups("found_unchecked");
    assert_eq!(found, 10_000.0, "{text}");
    assert!(lookups("absent") > 9_000.0, "{text}");
    assert_eq!(cf("uncovered_ssts"), 0.0, "{text}");
    assert!(cf("summary_filter_bytes") > 10_000.0, "{text}");
    assert_eq!(figure("lsm_sieve_distrusted"), 0.0, "{text}");
}

#[test]
fn metrics_are_served_to_a_scrape() {
    let mut command = Command::new(path("metrics"));
    command.arg("127.0.0.1:0").stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut address = String::new();
    let mut printed = BufReader::new(server.stdout.take().unwrap());
    printed.read_line(&mut address).unwrap();
    let address = address.trim().trim_start_matches("http://");
    let scrape = || {
        let mut stream = TcpStream::connect(address.trim_end_matches("/metrics"))?;
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
        std::io::read_to_string(stream)
    };
    let answers = [scrape(), scrape()];
    server.kill().unwrap();
    server.wait().unwrap();
    for answer in answers {
        let answer = answer.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert!(answer.contains("\nlsm_sieve_keys{"), "{answer}");
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
    let Some(folder) = published_traces::folder() else {
        return;
    };
    let trace = folder.join("OLTP.lis.zst");
    let text = answered("cache_digest", &[trace.to_str().unwrap(), "lis"]);
    print!("{text}");
    assert_digest_pays(&text);
}

fn assert_digest_pays(text: &str) {
    let [found, vain, overlooked, spared] = numbers(text.lines().next().unwrap())[..] else {
        panic!("{text}");
    };
    assert!(found > 0.0 && overlooked < found / 20.0, "{text}");
    assert!(vain < (vain + spared) / 20.0, "{text}");
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

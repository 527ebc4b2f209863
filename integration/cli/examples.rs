//! The examples, run as a reader would, and their output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::support::example::{numbers, path, printed};

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
    for example in ["front", "adopt"] {
        assert_eq!(printed(example), "", "{example}");
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

//! Gremillion's experiment and the advice, as a user meets them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lsm-sieve"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command.args(arguments).output().unwrap()
}

fn json(arguments: &[&str]) -> Value {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    assert!(said.is_empty(), "{arguments:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The whole of it: 21 cells, two ways of access, two starts, thirty seeds.
#[test]
fn every_mean_of_the_default_run_holds_the_exact_rate() {
    let report = json(&["gremillion", "--json"]);
    assert_eq!(report["seeds"], 30);
    assert_eq!(
        (&report["intervals"], &report["within"]),
        (&84.into(), &84.into())
    );
    assert_eq!(report["false_negatives"], 0);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 84);
    for cell in cells {
        let (rate, width) = (number(&cell["rate"]), number(&cell["rate_half_width"]));
        assert!((rate - number(&cell["exact"])).abs() <= width, "{cell}");
        assert!(
            width < 0.15 * rate,
            "so wide an interval says little: {cell}"
        );
        assert!(cell["gremillion"].is_number() && cell["floor"].is_number());
    }
    for script in report["scripts"].as_array().unwrap() {
        let accessed = number(&script["accessed"]);
        assert!((accessed - 30_000.0).abs() < 60.0, "{script}");
    }
}

/// With the fold that fits his rates, and uniform access, a run comes as near to them as the fit.
#[test]
fn a_weak_hash_brings_out_the_floor_of_1982() {
    let run = |hash| {
        json(&[
            "gremillion",
            "--json",
            "--seeds",
            "5",
            "--access",
            "uniform",
            "--hash",
            hash,
        ])
    };
    let largest = |report: &Value| {
        let cells = report["cells"].as_array().unwrap().clone();
        let full = cells
            .into_iter()
            .filter(|c| c["bits"] == 65_536 && c["start"] == "preloaded");
        full.collect::<Vec<_>>()
    };
    for cell in largest(&run("weak")) {
        let ratio = number(&cell["gremillion"]) / number(&cell["rate_an_access"]);
        assert!((0.8..1.5).contains(&ratio), "{cell}");
    }
    for cell in largest(&run("strong")) {
        let ratio = number(&cell["gremillion"]) / number(&cell["rate_an_access"]);
        assert!(ratio > 3.0, "{cell}");
    }
}

#[test]
fn pictures_are_drawn_for_each_number_of_functions() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str| home.path().join(name).to_str().unwrap().to_owned();
    let output = run(&[
        "gremillion",
        "--seeds",
        "2",
        "--access",
        "uniform",
        "--svg",
        &file("r.svg"),
        "--png",
        &file("r.png"),
    ]);
    assert_eq!(output.status.code(), Some(0));
    for functions in [4, 6, 8] {
        let svg = std::fs::read_to_string(file(&format!("r-{functions}.svg"))).unwrap();
        for series in ["measured", "Gremillion 1982", "Mullin 1983"] {
            assert!(svg.contains(series), "{functions}: {series}");
        }
        let png = std::fs::read(file(&format!("r-{functions}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
    let nowhere = file("none/r.svg");
    let output = run(&[
        "gremillion",
        "--seeds",
        "2",
        "--access",
        "uniform",
        "--svg",
        &nowhere,
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}

#[test]
fn the_store_avoids_in_rocksdb_what_its_filter_says_and_loses_nothing() {
    let report = json(&["gremillion", "--store", "--access", "uniform", "--json"]);
    let cells = report["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 21);
    for cell in cells {
        assert_eq!(
            cell["avoided_by_filter"], cell["avoided_in_engine"],
            "{cell}"
        );
        assert_eq!(
            (&cell["false_negatives"], &cell["stale"]),
            (&0.into(), &0.into())
        );
        let avoided = number(&cell["unmodified"]) - number(&cell["unnecessary"]);
        assert_eq!(number(&cell["avoided_by_filter"]), avoided, "{cell}");
        assert!(avoided > 0.0 && number(&cell["speedup"]) > 0.0);
    }
}

const PRICES: [&str; 8] = [
    "--records",
    "1000000",
    "--updates",
    "0.08",
    "--main-us",
    "100",
    "--reorganise-s",
    "300",
];

fn advise(more: &[&str]) -> Value {
    json(&[&["advise", "differential", "--json"][..], &PRICES, more].concat())
}

#[test]
fn advice_names_a_filter_and_an_interval_where_they_pay() {
    let advice = advise(&["--search-us", "100", "--held-ns", "1"]);
    let filter = &advice["filter"];
    assert!(number(&filter["saved_us"]) > number(&filter["paid_us"]));
    assert!(number(&filter["all_us"]) < number(&advice["unfiltered"]["all_us"]));
    assert!(number(&advice["interval"]) > 0.0);
    assert!(
        advice["reasons"][0]
            .as_str()
            .unwrap()
            .starts_with("Keep a filter")
    );
    let limited = advise(&[
        "--search-us",
        "100",
        "--held-ns",
        "1",
        "--bits-max",
        "100000",
    ]);
    assert!(number(&limited["filter"]["bits"]) <= 100_000.0);
}

#[test]
fn advice_says_do_not_where_nothing_pays() {
    let advice = advise(&["--search-us", "0.001"]);
    assert!(
        advice["filter"].is_null() && advice["interval"].is_null(),
        "{advice}"
    );
    for reason in advice["reasons"].as_array().unwrap() {
        assert!(reason.as_str().unwrap().starts_with("Do not"), "{reason}");
    }
}

#[test]
fn a_given_interval_is_kept() {
    let advice = advise(&["--search-us", "100", "--interval", "50000"]);
    for choice in advice["choices"].as_array().unwrap() {
        assert_eq!(choice["interval"], 50_000.0);
    }
}

#[test]
fn impossible_wishes_are_one_line_and_exit_code_2() {
    for arguments in [
        &["gremillion", "--seeds", "1"][..],
        &["gremillion", "--exponent", "1.5"],
        &["gremillion", "--confidence", "1"],
        &["gremillion", "--store", "--hash", "weak"],
        &["advise"],
        &["advise", "differential", "--records", "10"],
        &[
            &["advise", "differential", "--search-us", "-1"][..],
            &PRICES,
        ]
        .concat(),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
    for help in [
        &["gremillion", "--help"][..],
        &["advise", "differential", "--help"],
    ] {
        assert_eq!(run(help).status.code(), Some(0));
    }
}

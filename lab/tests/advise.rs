//! Advice on a filter and on a differential file, as a user meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use serde_json::Value;

use crate::runner::{is_refused, json, succeeds};

#[test]
fn advice_names_every_kind_and_what_pays() {
    let sized = ["advise", "filter", "--keys", "1000000", "--rate", "0.01"];
    let free = json(&sized);
    let filters = free["filters"].as_array().unwrap();
    let kinds: Vec<_> = filters
        .iter()
        .map(|f| f["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, KINDS);
    for filter in filters {
        assert!(filter["rate"].as_f64().unwrap() <= 0.01);
    }
    for filter in &filters[..4] {
        let bits = filter["bits_per_key"].as_f64().unwrap();
        assert!((9.5..11.0).contains(&bits), "{filter}");
    }
    assert!(free["front"].is_null());
    let measured = |misses| {
        let times = ["--miss-ns", "2000", "--hit-ns", "4000", "--front-ns", "50"];
        let counts = ["--reads", "1000", "--misses", misses];
        json(&[&sized[..], &counts, &times].concat())["front"]["use_it"].clone()
    };
    assert_eq!(measured("500"), Value::Bool(true));
    assert_eq!(measured("10"), Value::Bool(false));
}

const KINDS: [&str; 11] = [
    "blocked",
    "standard",
    "partitioned",
    "classic",
    "ribbon",
    "hash-coding",
    "counting",
    "spectral",
    "recurring",
    "sliding",
    "composite",
];

/// Of {items, rate, bits, probes, growth} any three that determine a filter also determine the
/// rest.
#[test]
fn three_of_five_parameters_determine_the_rest() {
    let given = [
        ("--keys", "100000"),
        ("--rate", "0.01"),
        ("--bits", "2500000"),
        ("--probes", "5"),
        ("--growth", "31"),
    ];
    // Neither items nor bits: any number of keys would fit.
    let open = ["--rate", "--probes", "--growth"];
    for kind in ["standard", "classic", "partitioned"] {
        let mut decided = 0;
        for left_out in 0..given.len() {
            for also in left_out + 1..given.len() {
                let chosen: Vec<_> = (0..given.len())
                    .filter(|at| *at != left_out && *at != also)
                    .map(|at| given[at])
                    .collect();
                let mut arguments = vec!["advise", "filter", "--kind", kind];
                arguments.extend(chosen.iter().flat_map(|(name, value)| [*name, *value]));
                if chosen.iter().all(|(name, _)| open.contains(name)) {
                    is_refused(&arguments);
                    continue;
                }
                let found = &json(&arguments)["filters"][0];
                for rest in ["items", "rate", "bits", "probes", "growth", "stages"] {
                    assert!(number(&found[rest]) > 0.0, "{arguments:?}: {found}");
                }
                assert!(number(&found["lines_per_miss"]) >= 1.0);
                assert!(!found["reasons"].as_array().unwrap().is_empty());
                decided += 1;
            }
        }
        assert_eq!(decided, 9);
    }
}

/// The table has one row per kind. Reasons and verdict are lines below it.
#[test]
fn table_is_followed_by_the_reasons() {
    let text = succeeds(&["advise", "filter", "--keys", "1000000", "--rate", "0.01"]);
    let (table, reasons) = text.rsplit_once('┘').unwrap();
    for kind in KINDS {
        assert_eq!(table.matches(&format!("│ {kind} ")).count(), 1, "{text}");
        assert!(reasons.contains(&format!("\n{kind}: ")), "{text}");
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

const PRICES: [&str; 8] = [
    "--records",
    "1000000",
    "--updates",
    "0.08",
    "--main-us",
    "100",
    "--reorganize-s",
    "300",
];

fn advise(more: &[&str]) -> Value {
    json(&[&["advise", "differential"][..], &PRICES, more].concat())
}

#[test]
fn advice_names_a_filter_and_an_interval_if_they_pay() {
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
fn advice_is_negative_if_nothing_pays() {
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
fn given_interval_is_kept() {
    let advice = advise(&["--search-us", "100", "--interval", "50000"]);
    for choice in advice["choices"].as_array().unwrap() {
        assert_eq!(choice["interval"], 50_000.0);
    }
}

#[test]
fn impossible_parameters_exit_with_2_and_one_line() {
    let sized = ["advise", "filter", "--keys", "1000000", "--rate", "0.01"];
    for arguments in [
        &["advise"][..],
        &["advise", "filter"],
        &["advise", "filter", "--keys", "10"],
        &["advise", "filter", "--keys", "10", "--rate", "1.5"],
        &[&sized[..], &["--growth", "0.5"]].concat(),
        &[&sized[..], &["--reads", "7"]].concat(),
        &[&sized[..], &["--bits", "1000"]].concat(),
        &[&sized[..], &["--kind", "sliding", "--growth", "9"]].concat(),
        &[&sized[..], &["--polynomial"]].concat(),
        &["advise", "differential", "--records", "10"],
        &[
            &["advise", "differential", "--search-us", "-1"][..],
            &PRICES,
        ]
        .concat(),
    ] {
        is_refused(arguments);
    }
}

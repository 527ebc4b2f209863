//! Advice, on a filter and on a differential file, as a user meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use serde_json::Value;

use crate::cli::{is_refused, json, succeeds};

#[test]
fn advice_names_every_layout_and_what_pays() {
    let sized = ["advise", "filter", "--items", "1000000", "--rate", "0.01"];
    let free = json(&sized);
    let filters = free["filters"].as_array().unwrap();
    assert_eq!(filters.len(), 4);
    for filter in filters {
        let bits = filter["bits_per_key"].as_f64().unwrap();
        assert!((9.5..11.0).contains(&bits), "{filter}");
        assert!(filter["rate"].as_f64().unwrap() <= 0.01);
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

/// The table has a row a layout; reasons and verdict are lines below it.
#[test]
fn the_table_is_followed_by_the_reasons() {
    let text = succeeds(&["advise", "filter", "--items", "1000000", "--rate", "0.01"]);
    let (table, reasons) = text.rsplit_once('┘').unwrap();
    for layout in ["blocked", "standard", "partitioned", "classic"] {
        assert_eq!(table.matches(layout).count(), 1, "{text}");
        assert!(reasons.contains(&format!("\n{layout}: ")), "{text}");
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
    "--reorganise-s",
    "300",
];

fn advise(more: &[&str]) -> Value {
    json(&[&["advise", "differential"][..], &PRICES, more].concat())
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
fn advice_on_too_little_or_the_impossible_is_one_line_and_exit_code_2() {
    let sized = ["advise", "filter", "--items", "1000000", "--rate", "0.01"];
    for arguments in [
        &["advise"][..],
        &["advise", "filter"],
        &["advise", "filter", "--items", "10"],
        &["advise", "filter", "--items", "10", "--rate", "1.5"],
        &[&sized[..], &["--growth", "0.5"]].concat(),
        &[&sized[..], &["--reads", "7"]].concat(),
        &[&sized[..], &["--bits", "1000"]].concat(),
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

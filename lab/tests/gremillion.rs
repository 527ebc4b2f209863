//! Gremillion's experiment, as a user meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use serde_json::Value;

use crate::runner::{is_refused, json, succeeds};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// The whole experiment: 21 cells, two ways of access, two starts, thirty seeds.
#[test]
fn every_mean_of_the_default_run_holds_the_exact_rate() {
    let report = json(&["gremillion"]);
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

/// With the fold that fits his rates, and uniform access, a run comes as near to them as the fit
/// does.
#[test]
fn weak_hash_reproduces_the_error_floor_of_1982() {
    let run = |hash| {
        json(&[
            "gremillion",
            "--rounds",
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
    let short = ["gremillion", "--rounds", "2", "--access", "uniform"];
    let drawn = ["--svg", &file("r.svg"), "--png", &file("r.png")];
    succeeds(&[&short[..], &drawn].concat());
    for functions in [4, 6, 8] {
        let svg = std::fs::read_to_string(file(&format!("r-{functions}.svg"))).unwrap();
        for series in ["measured", "Gremillion 1982", "Mullin 1983"] {
            assert!(svg.contains(series), "{functions}: {series}");
        }
        let png = std::fs::read(file(&format!("r-{functions}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
    is_refused(&[&short[..], &["--svg", &file("none/r.svg")]].concat());
}

#[test]
fn store_avoids_the_predicted_reads_and_loses_nothing() {
    let report = json(&["gremillion", "--store", "--access", "uniform"]);
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

#[test]
fn impossible_experiment_exits_with_2_and_one_line() {
    for arguments in [
        &["gremillion", "--rounds", "1"][..],
        &["gremillion", "--exponent", "1.5"],
        &["gremillion", "--confidence", "1"],
        &["gremillion", "--store", "--hash", "weak"],
        &["gremillion", "--svg", "/"],
        &["gremillion", "--svg", "."],
        &["gremillion", "--png", "/dev/null"],
    ] {
        is_refused(arguments);
    }
}

//! `lsm-sieve gremillion`: each transaction finds its record where it was left, and few lookups of
//! unchanged records search the differential file.

use crate::runner::{is_refused, json, succeeds};

#[test]
fn transactions_lose_no_update_and_search_for_few_unchanged_records() {
    let report = json(&["gremillion", "--transactions", "20000"]);
    let count = |name: &str| report[name].as_u64().expect("a count");
    assert_eq!(count("lookups"), 20_000, "{report}");
    assert_eq!(count("false_negatives"), 0, "{report}");
    // 7 in 30 records are updated, each by one transaction or a few more.
    assert!((15_000..19_000).contains(&count("misses")), "{report}");
    assert_eq!(count("main_reads"), count("misses"), "{report}");
    assert!(count("false_positives") <= count("misses") / 50, "{report}");
    assert_eq!(
        count("engine_reads") + count("engine_reads_avoided"),
        20_000,
        "{report}"
    );
}

#[test]
fn same_seed_makes_the_same_transactions() {
    let misses = |seed: &str| {
        let report = json(&["gremillion", "--transactions", "2000", "--seed", seed]);
        report["misses"].as_u64()
    };
    assert_eq!(misses("7"), misses("7"));
    let tables =
        ["7", "8"].map(|seed| succeeds(&["gremillion", "--transactions", "200", "--seed", seed]));
    assert!(
        tables
            .iter()
            .all(|table| table.contains("reads of the main file"))
    );
}

#[test]
fn numbers_of_transactions_that_make_no_sense_are_refused() {
    is_refused(&["gremillion", "--transactions", "99"]);
    is_refused(&["gremillion", "--transactions", "many"]);
}

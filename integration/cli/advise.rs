//! Advice on a filter and on a differential file, as a user meets it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "what a user would give the command is written past the door to files"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use lsm_sieve::{Items, SieveDb, SieveOptions};
use rocksdb::{DB, Options};
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
        &["advise", "front"],
        &["advise", "front", "/nowhere"],
        &["advise", "front", "/nowhere", "--reads", "7"],
        &[
            "advise", "front", "/nowhere", "--reads", "7", "--misses", "8",
        ],
        &["advise", "front", "/nowhere", "--statistics", "/nowhere"],
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

const LOADED: u32 = 20_000;

/// A database that counts its lookups, with half of its keys in an SST and half in a memtable.
fn counting(folder: &Path, options: &mut Options) -> DB {
    options.create_if_missing(true);
    options.enable_statistics();
    let db = DB::open(options, folder).unwrap();
    for key in 0..LOADED {
        db.put(key.to_be_bytes(), b"a record").unwrap();
        if key == LOADED / 2 {
            db.flush().unwrap();
        }
    }
    db
}

/// One lookup in four is a hit, in single reads and batch reads.
fn look_up(db: &DB) -> (u64, u64) {
    let wanted = (0..LOADED * 4).step_by(20).map(u32::to_be_bytes);
    let keys: Vec<_> = wanted.collect();
    for key in &keys {
        db.get(key).unwrap();
    }
    for batch in keys.chunks(100) {
        for found in db.multi_get(batch) {
            found.unwrap();
        }
    }
    let reads = 2 * keys.len() as u64;
    (reads, reads * 3 / 4)
}

fn front(folder: &Path, more: &[&str]) -> Value {
    let folder = folder.to_str().unwrap();
    let few = ["--lookups", "2000"];
    json(&[&["advise", "front", folder][..], &few, more].concat())
}

/// In use by another process, which goes on using it.
#[test]
fn front_advice_uses_engine_counters() {
    let home = tempfile::tempdir().unwrap();
    let (folder, file) = (home.path().join("db"), home.path().join("statistics"));
    let mut options = Options::default();
    let db = counting(&folder, &mut options);
    // There was no lookup yet, so there is no verdict.
    std::fs::write(&file, options.get_statistics().unwrap()).unwrap();
    let (path, not_consulted) = (folder.to_str().unwrap(), file.to_str().unwrap());
    is_refused(&["advise", "front", path, "--statistics", not_consulted]);
    is_refused(&["advise", "front", path, "--key-file", "/dev/null"]);
    is_refused(&["advise", "front", path, "--reads", "0", "--misses", "0"]);
    let (reads, misses) = look_up(&db);
    std::fs::write(&file, options.get_statistics().unwrap()).unwrap();

    let advised = front(&folder, &["--statistics", file.to_str().unwrap()]);
    assert_eq!(advised["counted"]["reads"], reads, "{advised}");
    assert_eq!(advised["counted"]["misses"], misses, "{advised}");
    assert_eq!(advised["counted"]["writes"], LOADED, "{advised}");
    let verdict = &advised["verdict"];
    assert_eq!(verdict["miss_share"], 0.75);
    assert_eq!(verdict["use_it"], true, "{advised}");
    assert!(number(&verdict["with_ns"]) < number(&verdict["without_ns"]));
    let bytes = number(&advised["summary_bytes"]) + number(&advised["segment_bytes"]);
    assert!((number(&verdict["memory_bytes"]) - bytes).abs() <= 1.0);
    assert_eq!(number(&advised["keys"]), f64::from(LOADED));

    // This database has no verdict either. One whose lookups are all hits has a negative one.
    let unknown = front(&folder, &[]);
    assert!(unknown["verdict"].is_null() && number(&unknown["break_even_share"]) < 0.5);
    let hits = front(&folder, &["--reads", "1000", "--misses", "0"]);
    assert_eq!(hits["verdict"]["use_it"], false);
    let writes = [
        "--reads", "1000", "--misses", "1000", "--writes", "10000000",
    ];
    assert_eq!(front(&folder, &writes)["verdict"]["use_it"], false);
    db.put(b"still", b"in use").unwrap();
}

#[test]
fn front_advice_uses_the_log_of_a_running_database() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.set_stats_dump_period_sec(1);
    let db = counting(home.path(), &mut options);
    let (reads, misses) = look_up(&db);
    let start = Instant::now();
    let counted = loop {
        let advised = front(home.path(), &[]);
        if advised["counted"]["reads"] == reads {
            break advised["counted"].clone();
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{advised}");
    };
    assert_eq!(counted["misses"], misses);
}

#[test]
fn front_advice_uses_looked_up_keys() {
    let home = tempfile::tempdir().unwrap();
    let (folder, file) = (home.path().join("db"), home.path().join("keys.txt"));
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_merge_operator_associative("last", |_, _, operands| {
        operands.iter().last().map(<[u8]>::to_vec)
    });
    let db = DB::open(&options, &folder).unwrap();
    for user in 0..5_000 {
        let key = format!("user{user}");
        if user % 2 == 0 {
            db.put(key, b"a record").unwrap();
        } else {
            db.merge(key, b"an operand").unwrap();
        }
    }
    db.delete("user4999").unwrap();
    drop(db);
    let lines = (4_500..6_500).map(|user| format!("user{user}\n"));
    std::fs::write(&file, lines.collect::<String>()).unwrap();
    let advised = front(&folder, &["--key-file", file.to_str().unwrap()]);
    assert_eq!(advised["counted"]["reads"], 2_000);
    assert_eq!(advised["counted"]["misses"], 1_501);
    assert_eq!(advised["verdict"]["use_it"], true, "{advised}");
}

/// SSTs of the last level get no filters.
#[test]
fn front_advice_counts_the_filters_above_the_last_level() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let db = DB::open(&options, home.path()).unwrap();
    let write = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| db.put(key.to_be_bytes(), b"a record").unwrap());
        db.flush().unwrap();
    };
    write(0..LOADED);
    let flushed = front(home.path(), &[]);
    assert_eq!(number(&flushed["last_level_share"]), 0.0);
    let bits_per_key = |advice: &serde_json::Value, field: &str| {
        number(&advice[field]) * 8.0 / number(&advice["keys"])
    };
    assert!(
        (8.0..10.0).contains(&bits_per_key(&flushed, "segment_bytes")),
        "{flushed}"
    );
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    write(LOADED..LOADED + LOADED / 9);
    let leveled = front(home.path(), &[]);
    assert!((number(&leveled["last_level_share"]) - 0.9).abs() < 0.001);
    assert!(
        (0.8..1.0).contains(&bits_per_key(&leveled, "segment_bytes")),
        "{leveled}"
    );
    assert!(
        (10.9..11.5).contains(&bits_per_key(&leveled, "summary_bytes")),
        "{leveled}"
    );
    assert!(
        (23.0..25.0).contains(&bits_per_key(&leveled, "speed_bytes")),
        "{leveled}"
    );
}

#[test]
fn no_front_advice_without_measurements() {
    let home = tempfile::tempdir().unwrap();
    let (empty, filtered) = (home.path().join("empty"), home.path().join("filtered"));
    let mut options = Options::default();
    options.create_if_missing(true);
    drop(DB::open(&options, &empty).unwrap());
    drop(SieveDb::open(&options, &SieveOptions::default(), &filtered).unwrap());
    let (empty, filtered) = (empty.to_str().unwrap(), filtered.to_str().unwrap());
    is_refused(&["advise", "front", empty]);
    is_refused(&["advise", "front", empty, "--column-family", "none"]);
    is_refused(&["advise", "front", filtered]);
}

/// The memory that the advice names before there are filters, and what they then take.
#[test]
fn front_memory_matches_the_advice() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    // With a filter for each SST, also of the last level.
    let front = SieveOptions::default().speed_over_memory(true);
    let keys = Items::new(300_000);
    let said = front.memory_for(keys);
    let db = SieveDb::open(&options, &front, home.path()).unwrap();
    for key in 0..keys.get() {
        db.put(key.to_be_bytes(), b"").unwrap();
    }
    db.flush().unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    assert!(db.wait_until_complete(Duration::from_secs(60)));
    db.consolidate().unwrap();
    let cf = &db.inspect().unwrap().cfs[0];
    let segments = cf
        .segments
        .iter()
        .filter_map(|segment| segment.filter.as_ref());
    let segments: u64 = segments.map(|filter| filter.bits).sum();
    for (said, bits) in [(said.summary, cf.summary.bits), (said.segments, segments)] {
        let ratio = bits as f64 / said.get() as f64;
        assert!(
            (0.98..1.02).contains(&ratio),
            "{bits} bits, {said} were said"
        );
    }
}

//! `lsm-sieve bench`: what it measures.

#![expect(
    clippy::disallowed_methods,
    reason = "what a user would give the command is written past the door to files"
)]

use crate::runner::json;

/// The smallest parts that a split can have make filters. If all memory goes to the summary filter,
/// segment filters have none.
#[test]
fn smallest_memory_split_is_measured() {
    let arguments =
        "bench miss --keys 2000 --runs 1 --rounds 1 --lookups 200 --native none --split 5";
    let report = json(&arguments.split(' ').collect::<Vec<_>>());
    let splits = report["splits"].as_array().unwrap();
    let bits: Vec<f64> = splits
        .iter()
        .map(|split| split["segment_bits_per_key"].as_f64().unwrap())
        .collect();
    let (all_in_front, shared) = bits.split_last().unwrap();
    assert!(
        shared.len() == 5 && shared.iter().all(|&bits| bits >= 1.0),
        "{bits:?}"
    );
    assert_eq!(*all_in_front, 0.0);
    assert_eq!(splits[5]["segment_observed_rate"], 1.0);
    assert_eq!(report["best"]["native"], "none", "it has no bits");
}

#[test]
fn mixes_are_measured_in_their_order() {
    let arguments = "bench miss --keys 2000 --runs 1 --rounds 1 --lookups 200 --mix 0.9,0,0.5";
    let report = json(&arguments.split(' ').collect::<Vec<_>>());
    let mixes = report["mixes"].as_array().unwrap();
    let absent: Vec<f64> = mixes
        .iter()
        .map(|mix| mix["absent"].as_f64().unwrap())
        .collect();
    assert_eq!(absent, [0.9, 0.0, 0.5]);
    let names = ["native_ns", "sieve_ns", "ratio"];
    let names_multi = ["native_multi_ns", "sieve_multi_ns", "ratio_multi"];
    for (mix, name) in mixes.iter().flat_map(|mix| {
        let names = names.into_iter().chain(names_multi);
        names.map(move |name| (mix, name))
    }) {
        assert!(mix[name].as_f64() > Some(0.0), "{name} of {mix}");
    }
    assert_eq!(report["false_negatives"], 0);
}

/// A database twice as large as its cache.
#[test]
fn blocks_read_from_disk_are_counted() {
    let arguments = "bench miss --keys 40000 --runs 1 --rounds 1 --lookups 2000 --mix 0.5";
    let report = json(&arguments.split(' ').collect::<Vec<_>>());
    assert!(report["native_hit_blocks"].is_null());
    let arguments = format!("{arguments} --native none --cache 1");
    let report = json(&arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(report["cache_mib"], 1);
    let blocks = |name: &str| report[name].as_f64().unwrap();
    for (name, least, most) in [
        ("native_hit_blocks", 0.2, 1.0),
        ("sieve_hit_blocks", 0.2, 1.0),
        ("native_miss_blocks", 0.2, 1.0),
        ("sieve_miss_blocks", 0.0, 0.02),
    ] {
        let read = blocks(name);
        assert!((least..=most).contains(&read), "{name} {read}");
    }
    let mix = &report["mixes"][0];
    assert!(mix["native_blocks"].as_f64() > mix["sieve_blocks"].as_f64());
}

#[test]
fn each_job_is_done_on_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("vault.ids");
    std::fs::write(
        &trace,
        (0..3_000)
            .map(|at| format!("{}\n", at % 700))
            .collect::<String>(),
    )
    .unwrap();
    let of_trace = format!("{}:lines", trace.display());
    let jobs = [
        "bench", "jobs", "--keys", "3000", "--rounds", "2", "--trace", &of_trace,
    ];
    let report = json(&jobs);
    let reports = report.as_array().unwrap();
    let names = reports.iter().map(|job| job["job"].as_str().unwrap());
    let made = [
        "load-0", "load-50", "load-95", "create", "ledger", "hits", "writes",
    ];
    let of_trace = ["vault-upsert", "vault-differential"];
    assert!(names.eq(made.into_iter().chain(of_trace)));
    for job in reports {
        for name in [
            "seconds",
            "seconds_native",
            "ratio",
            "ratio_min",
            "ratio_max",
        ] {
            assert!(job[name].as_f64() > Some(0.0), "{name} of {job}");
        }
        assert!(job["cpu_seconds"].is_number() && job["cpu_seconds_native"].is_number());
        let [least, middle, most] =
            ["ratio_min", "ratio", "ratio_max"].map(|name| job[name].as_f64());
        assert!(least <= middle && middle <= most);
        assert!(job["bits_per_key"].as_f64() > Some(8.0), "{job}");
    }
}

#[test]
fn a_single_job_can_be_asked_for() {
    let report = json(&[
        "bench", "jobs", "--keys", "1000", "--rounds", "1", "--job", "hits",
    ]);
    assert_eq!(report.as_array().unwrap().len(), 1);
    assert_eq!(report[0]["job"], "hits");
}

#[test]
fn writers_at_full_speed_are_sampled() {
    let report = json(&["bench", "busy", "--keys", "20000", "--writers", "2"]);
    assert_eq!(report["writers"], 2);
    for name in ["seconds", "seconds_native", "ratio"] {
        assert!(report[name].as_f64() > Some(0.0), "{name}");
    }
    let rows = report["rows"].as_array().unwrap();
    let last = rows.last().unwrap();
    assert_eq!(last["keys"], 20_000);
    for name in [
        "bits_per_key",
        "miss_cpu_ns",
        "native_miss_cpu_ns",
        "writes_per_second",
        "native_writes_per_second",
    ] {
        assert!(last[name].as_f64() > Some(0.0), "{name} of {last}");
    }
}

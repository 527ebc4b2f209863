//! Advice on filters in front of a database, as a user meets it.

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

use crate::runner::{ends_with_one_line, is_refused, json, run, text};

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn impossible_parameters_exit_with_2_and_one_line() {
    for arguments in [
        &["advise"][..],
        &["advise", "front"],
        &["advise", "front", "/nowhere"],
        &["advise", "front", "/nowhere", "--reads", "7"],
        &[
            "advise", "front", "/nowhere", "--reads", "7", "--misses", "8",
        ],
        &["advise", "front", "/nowhere", "--statistics", "/nowhere"],
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
    for key in [1_000, 2_000, LOADED] {
        db.raw_iterator().seek(key.to_be_bytes());
    }
    std::fs::write(&file, options.get_statistics().unwrap()).unwrap();

    let advised = front(&folder, &["--statistics", file.to_str().unwrap()]);
    assert_eq!(advised["counted"]["reads"], reads, "{advised}");
    assert_eq!(advised["counted"]["misses"], misses, "{advised}");
    assert_eq!(advised["counted"]["writes"], LOADED, "{advised}");
    assert_eq!(advised["seeks"]["seeks"], 3, "{advised}");
    assert_eq!(advised["seeks"]["empty"], 1, "{advised}");
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

/// The first half of the keys is in an SST.
#[test]
fn front_advice_reads_other_comparators_of_rocksdbs() {
    for comparator in [
        "rocksdb.ReverseBytewiseComparator",
        "leveldb.BytewiseComparator.u64ts",
    ] {
        let home = tempfile::tempdir().unwrap();
        let text = format!("create_if_missing=true;comparator={comparator}");
        let options = Options::default().get_options_from_string(text).unwrap();
        let db = DB::open(&options, home.path()).unwrap();
        for key in (0..LOADED).map(u32::to_be_bytes) {
            let put = match comparator.ends_with("u64ts") {
                true => db.put_with_ts(key, 7_u64.to_le_bytes(), b"a record"),
                false => db.put(key, b"a record"),
            };
            put.unwrap();
            if key == (LOADED / 2).to_be_bytes() {
                db.flush().unwrap();
            }
        }
        drop(db);
        let advised = front(home.path(), &["--reads", "1000", "--misses", "900"]);
        assert_eq!(number(&advised["keys"]), f64::from(LOADED), "{advised}");
        assert_eq!(advised["verdict"]["use_it"], true, "{advised}");
    }
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
    let keys = ["--key-file", file.to_str().unwrap(), "--writes", "700"];
    let advised = front(&folder, &keys);
    assert_eq!(advised["counted"]["reads"], 2_000);
    assert_eq!(advised["counted"]["writes"], 700);
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
fn front_advice_counts_the_levels_of_its_own_column_family() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    let mut db = DB::open(&options, home.path()).unwrap();
    db.create_cf("users", &options).unwrap();
    let users = db.cf_handle("users").unwrap();
    for key in (0..LOADED).map(u32::to_be_bytes) {
        db.put(key, b"a record").unwrap();
        db.put_cf(users, key, b"a record").unwrap();
    }
    db.flush().unwrap();
    db.flush_cf(users).unwrap();
    db.compact_range_cf(users, None::<&[u8]>, None::<&[u8]>);
    for (family, share) in [("default", 0.0), ("users", 1.0)] {
        let advised = front(home.path(), &["--column-family", family]);
        assert_eq!(number(&advised["last_level_share"]), share, "{advised}");
    }
}

/// RocksDB calls the SSTs of a newer one corrupt. Nobody must be told to repair them.
#[test]
fn ssts_of_a_newer_rocksdb_are_not_called_damaged() {
    let home = tempfile::tempdir().unwrap();
    drop(counting(home.path(), &mut Options::default()));
    let files = std::fs::read_dir(home.path()).unwrap();
    let files = files.map(|file| file.unwrap().path());
    for sst in files.filter(|path| path.extension().is_some_and(|of| of == "sst")) {
        let mut bytes = std::fs::read(&sst).unwrap();
        // The version of the format is before the magic number, which ends the file.
        let version = bytes.len() - 12;
        bytes[version] += 1;
        std::fs::write(&sst, bytes).unwrap();
    }
    let output = run(["advise", "front", home.path().to_str().unwrap()]);
    ends_with_one_line(&output, 2, "SSTs of a newer format");
    let said = text(&output.stderr);
    assert!(
        said.contains("a newer RocksDB") && !said.contains("repair"),
        "{said}"
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

/// It is not taken for a family whose keys have timestamps.
#[test]
fn front_advice_says_what_rocksdb_cannot_read() {
    let home = tempfile::tempdir().unwrap();
    let db = counting(home.path(), &mut Options::default());
    // The key that is read first.
    db.put(b"", b"a record").unwrap();
    db.flush().unwrap();
    let files = db.live_files().unwrap();
    drop(db);
    for file in files {
        let sst = home.path().join(&file.name[1..]);
        let mut bytes = std::fs::read(&sst).unwrap();
        bytes[..64].fill(0);
        std::fs::write(&sst, bytes).unwrap();
    }
    let output = run(["advise", "front", home.path().to_str().unwrap()]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("Corruption"),
        "{said}"
    );
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
    assert!(db.filters().wait_until_complete(Duration::from_secs(60)));
    db.filters().consolidate().unwrap();
    let cf = &db.filters().inspect().unwrap().cfs[0];
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

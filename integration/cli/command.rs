//! The command `lsm-sieve` as a user or a script meets it: exit codes, one line for each error,
//! JSON that parses, no files left behind.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "inputs and damage are written past the door to files"
)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lsm_sieve::SieveDb;
use rocksdb::DB;
use serde_json::Value;

use crate::published_traces;
use crate::runner::{
    command, ends_with_one_line, json, parsed, run, signal, started, succeeds, text,
};
use crate::support::database_files::{contents, sidecars};
use crate::support::model_db::{Model, cover, fill, open, options, settle, sieve};

/// A closed database of two families with filters.
fn database(path: &Path) {
    let db = SieveDb::open_cf(&options(), &sieve(), path, ["other"]).unwrap();
    fill(&db, &mut Model::new(), 4..900);
    let other = db.cf_handle("other").unwrap();
    db.put_cf(&other, b"k", b"v").unwrap();
    db.flush().unwrap();
    db.flush_cf(&other).unwrap();
    cover(&db);
    settle(&db);
}

#[test]
fn help_of_every_command_is_printed_and_is_no_error() {
    for arguments in [&["--help"][..], &["help"], &["--version"]] {
        assert!(!succeeds(arguments).is_empty(), "{arguments:?}");
    }
    for arguments in [
        &["advise", "--help"][..],
        &["advise", "differential", "--help"],
        &["advise", "filter", "--help"],
        &["advise", "front", "--help"],
        &["demo", "--help"],
        &["replay", "--help"],
        &["bench", "--help"],
        &["bench", "miss", "--help"],
        &["gremillion", "--help"],
        &["inspect", "--help"],
        &["model", "--help"],
        &["report", "--help"],
        &["verify", "--help"],
        &["reorganize", "--help"],
    ] {
        let help = succeeds(arguments);
        assert!(help.contains("\nExamples:\n"), "{arguments:?}: {help}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_and_exit_code_2() {
    for arguments in [
        &[][..],
        &["no-such-command"],
        &["verify"],
        &["inspect", "--no-such-flag", "x"],
        &["demo", "--keys", "0"],
        &["demo", "--keys", "many"],
        &["bench", "miss"],
        &["bench", "miss", "--keys", "10", "--native", "cuckoo"],
        &["bench", "miss", "--keys", "10", "--rate", "1.5"],
        &["bench", "miss", "--keys", "10", "--rate", "1e-10"],
        &["bench", "miss", "--keys", "10", "--split", "4.9"],
        &["bench", "miss", "--keys", "10", "--front-bits", "0.9"],
        &["bench", "miss", "--keys", "10", "--segment-bits", "0.5"],
        &["bench", "miss", "--keys", "10", "--lookups", "100000001"],
        &["bench", "miss", "--keys", "10", "--runs", "11"],
        &["bench", "miss", "--keys", "10", "--mix", "0.5,1.5"],
        &["bench", "miss", "--keys", "10", "--mix", "half"],
        &["bench", "miss", "--keys", "10", "--cache", "0"],
        &[
            "replay", "--trace", "x", "--format", "yaml", "--mode", "upsert",
        ],
        &[
            "replay", "--trace", "x", "--format", "lis", "--mode", "sideways",
        ],
        &[
            "replay", "--trace", "x", "--format", "lis", "--mode", "upsert", "--limit", "0",
        ],
    ] {
        let output = run(arguments.iter().copied());
        ends_with_one_line(&output, 2, &format!("{arguments:?}"));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let output = run(["bench", "miss", "--keys", "none"]);
    assert!(text(&output.stderr).contains("`lsm-sieve bench miss --help`"));
    let not_text = OsStr::from_bytes(b"\xff");
    let output = command().arg(not_text).output().unwrap();
    ends_with_one_line(&output, 2, "a word that is no text");
}

#[test]
fn more_keys_than_the_disk_holds_are_refused() {
    for arguments in [&["demo"][..], &["bench", "miss", "--runs", "leveled"]] {
        let keys = ["--keys", "1000000000000"];
        let output = run(arguments.iter().chain(&keys).copied());
        ends_with_one_line(&output, 2, &format!("{arguments:?}"));
        let said = text(&output.stderr);
        assert!(said.contains("ask for fewer"), "{said}");
    }
}

/// The remedy follows from the error, not from the name of the folder.
#[test]
fn path_text_is_not_mistaken_for_an_engine_error() {
    let home = tempfile::tempdir().unwrap();
    for name in ["LOCK", "Corruption: of a kind"] {
        let output = run(["inspect", home.path().join(name).to_str().unwrap()]);
        ends_with_one_line(&output, 2, name);
        let said = text(&output.stderr);
        assert!(
            said.contains("there is no database") && !said.contains("; "),
            "{said}"
        );
    }
}

#[test]
fn path_without_a_database_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let empty = home.path().join("empty");
    let other = home.path().join("other");
    let file = home.path().join("file");
    let broken = home.path().join("broken");
    fs::create_dir(&empty).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("notes"), b"not a database").unwrap();
    fs::write(&file, b"not a folder").unwrap();
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("CURRENT"), b"MANIFEST-000001\n").unwrap();
    for path in [home.path().join("none"), empty.clone(), other, file, broken] {
        for verb in ["inspect", "verify"] {
            let output = run([verb, path.to_str().unwrap()]);
            ends_with_one_line(&output, 2, &format!("{verb} {}", path.display()));
            assert!(text(&output.stderr).contains(path.to_str().unwrap()));
        }
    }
    assert!(!home.path().join("none").exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

#[test]
fn a_database_in_use_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    for verb in ["inspect", "verify"] {
        let output = run([verb, home.path().to_str().unwrap()]);
        ends_with_one_line(&output, 2, verb);
        assert!(text(&output.stderr).contains("another process has the database open"));
    }
    db.put(b"still", b"here").unwrap();
}

#[test]
fn unreadable_trace_is_refused_and_leaves_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let made = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut packed = Vec::new();
    let mut packer = flate2::read::GzEncoder::new(&[7; 80_000][..], flate2::Compression::best());
    packer.read_to_end(&mut packed).unwrap();
    let cases = [
        (home.path().join("none"), "lis"),
        (home.path().to_owned(), "lis"),
        (made("empty", b""), "lis"),
        (made("empty.lines", b""), "lines"),
        (made("letters", b"1 2 3 4\nfive six\n"), "lis"),
        (made("minus", b"12\n-7\n"), "lines"),
        (made("odd", &[0; 83]), "u64be"),
        (made("odd32", &[0; 6]), "u32be"),
        (made("cut.gz", &packed[..packed.len() / 2]), "u64be"),
        (made("cut.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0, 0]), "u64be"),
        (
            made("cut.xz", &[0xfd, b'7', b'z', b'X', b'Z', 0, 0]),
            "u64be",
        ),
    ];
    let scratch = home.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let kept = home.path().join("kept");
    for (trace, format) in &cases {
        let output = command()
            .env("TMPDIR", &scratch)
            .args(["replay", "--mode", "upsert", "--format", format, "--trace"])
            .arg(trace)
            .arg("--db")
            .arg(&kept)
            .output()
            .unwrap();
        ends_with_one_line(&output, 2, &trace.display().to_string());
        assert!(text(&output.stderr).contains(trace.to_str().unwrap()));
        assert!(!kept.exists(), "{}", trace.display());
    }
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn inspect_and_verify_print_json() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let path = home.path().to_str().unwrap();
    let families = json(&["inspect", path])["column_families"].clone();
    let families = families.as_array().unwrap();
    assert_eq!(families.len(), 2);
    for family in families {
        assert_eq!(family["uncovered_segments"], 0, "{family}");
        for field in [
            "keys",
            "stages",
            "bits",
            "bits_per_key",
            "fill",
            "predicted_rate",
        ] {
            assert!(family["summary"][field].is_number(), "{field}: {family}");
        }
        let segments = family["segments"].as_array().unwrap();
        assert!(!segments.is_empty());
        for segment in segments {
            for field in ["covered", "consulted", "saved"] {
                assert_eq!(segment[field], true, "{field}: {segment}");
            }
            assert!(segment["entries"].as_u64() > Some(0), "{segment}");
            assert!(segment["file"].is_string() && segment["id"].is_string());
            assert_eq!(segment["filter"]["source"], "table capture");
            assert!(
                segment["decision"].as_str().unwrap().starts_with("keep"),
                "{segment}"
            );
        }
    }
    for (full, keys) in [(false, 0), (true, 897)] {
        let flags: &[&str] = if full { &["--full"] } else { &[] };
        let report = json(&[&["verify", path][..], flags].concat());
        assert!(report["sidecars_checked"].as_u64() >= Some(2), "{report}");
        assert_eq!(report["summaries_checked"], 2, "{report}");
        assert_eq!(report["keys_checked"], keys, "{report}");
        for empty in ["damaged", "missing", "lost_keys"] {
            assert_eq!(report[empty], Value::Array(Vec::new()), "{empty}");
        }
    }
    // The text output must not change either.
    for verb in ["inspect", "verify"] {
        assert!(succeeds(&[verb, path]).lines().count() > 3);
    }
}

/// It is not opened, and no folder for filters is created.
#[test]
fn plain_database_is_unchanged() {
    let home = tempfile::tempdir().unwrap();
    {
        let db = DB::open(&options(), home.path()).unwrap();
        db.put(b"k", b"v").unwrap();
    }
    let path = home.path().to_str().unwrap();
    let before = contents(home.path());
    for verb in ["inspect", "verify"] {
        let output = run([verb, path]);
        ends_with_one_line(&output, 2, verb);
        assert!(text(&output.stderr).contains("has no filters"));
    }
    assert!(contents(home.path()) == before, "a file has changed");
}

/// Not the SSTs, which a compaction would merge. Not the log, whose operands cannot be merged here.
/// Not the options file.
#[test]
fn inspect_and_verify_change_no_file() {
    const TABLES: usize = 9;
    let home = tempfile::tempdir().unwrap();
    let (path, filters) = (home.path().join("db"), home.path().join("filters"));
    {
        let mut options = options();
        options.set_disable_auto_compactions(true);
        let db = SieveDb::open(&options, &sieve().folder(&filters), &path).unwrap();
        for i in 0..TABLES {
            db.put(i.to_be_bytes(), b"value").unwrap();
            db.flush().unwrap();
        }
        settle(&db);
        db.merge(b"in the log", b"operand").unwrap();
    }
    let before = contents(home.path());
    let of = [
        path.to_str().unwrap(),
        "--filters",
        filters.to_str().unwrap(),
    ];
    for _ in 0..2 {
        let report = json(&[&["verify", "--full"], &of[..]].concat());
        assert_eq!(
            (&report["sidecars_checked"], &report["keys_checked"]),
            (&TABLES.into(), &TABLES.into())
        );
        let families = json(&[&["inspect"], &of[..]].concat())["column_families"].clone();
        assert_eq!(families[0]["segments"].as_array().unwrap().len(), TABLES);
        assert_eq!(families[0]["uncovered_segments"], 0);
    }
    assert!(contents(home.path()) == before, "a file has changed");
    for wrong in [&path, home.path()] {
        let output = run([
            "verify",
            path.to_str().unwrap(),
            "--filters",
            wrong.to_str().unwrap(),
        ]);
        ends_with_one_line(&output, 2, "without its filters");
        assert!(text(&output.stderr).contains("has no filters in"));
    }
}

/// A service that starts meanwhile would compact away the files that are being read.
#[test]
fn database_cannot_be_written_while_it_is_inspected() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let files_of = |child: &Child| -> Vec<PathBuf> {
        let files = fs::read_dir(format!("/proc/{}/fd", child.id()));
        let files = files.into_iter().flatten().flatten();
        files
            .filter_map(|file| fs::read_link(file.path()).ok())
            .collect()
    };
    let reads_tables = |child: &Child| {
        let mut files = files_of(child).into_iter();
        files.any(|file| file.extension().is_some_and(|end| end == "sst"))
    };
    let is_over = |child: &Child| files_of(child).is_empty();
    // It may end before it is stopped.
    let stopped = |_| {
        let mut verify = command();
        let mut looking = started(
            verify.args(["verify", "--full"]).arg(home.path()),
            |child| reads_tables(child) || is_over(child),
        );
        signal(&looking, "STOP");
        if reads_tables(&looking) {
            return Some(looking);
        }
        signal(&looking, "CONT");
        looking.wait().unwrap();
        None
    };
    let looking = (0..200).find_map(stopped).expect("it is stopped in time");
    let refused = SieveDb::open_cf(&options(), &sieve(), home.path(), ["other"]);
    signal(&looking, "CONT");
    assert!(refused.is_err());
    let output = looking.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// Flips a bit in a sidecar. Returns its path and its new content.
fn damage_a_sidecar(database: &Path) -> (PathBuf, Vec<u8>) {
    let victim = sidecars(&database.join("sieve")).remove(0);
    let mut bytes = fs::read(&victim).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&victim, &bytes).unwrap();
    (victim, bytes)
}

#[test]
fn damaged_sidecar_makes_verify_exit_with_1_and_is_unchanged() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let (victim, bytes) = damage_a_sidecar(home.path());
    for _ in 0..2 {
        let output = run(["verify", "--full", "--json", home.path().to_str().unwrap()]);
        ends_with_one_line(&output, 1, "verify");
        let report = parsed(&output);
        let damaged = report["damaged"].as_array().unwrap();
        let name = victim.file_name().unwrap().to_str().unwrap();
        assert_eq!(damaged.len(), 1);
        assert!(damaged[0].as_str().unwrap().contains(name), "{report}");
        assert!(text(&output.stderr).contains(name));
        assert_eq!(report["lost_keys"], Value::Array(Vec::new()));
        assert_eq!(fs::read(&victim).unwrap(), bytes);
    }
    settle(&SieveDb::open_cf(&options(), &sieve(), home.path(), ["other"]).unwrap());
    let output = run(["verify", home.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// The reader of the output has gone before anything was printed.
#[test]
fn output_into_a_closed_pipe_is_quiet() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let path = home.path().to_str().unwrap();
    for arguments in [
        &["--help"][..],
        &["inspect", path],
        &["verify", "--json", path],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command().args(arguments).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
    }
}

/// A finding decides the exit code, even if the report cannot be written.
#[test]
fn finding_takes_precedence_over_an_output_error() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    damage_a_sidecar(home.path());
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    let full = fs::OpenOptions::new().write(true).open("/dev/full");
    for stdout in [Stdio::from(closed), Stdio::from(full.unwrap())] {
        let output = command()
            .arg("verify")
            .arg(home.path())
            .stdout(stdout)
            .output()
            .unwrap();
        ends_with_one_line(&output, 1, "verify");
        assert!(text(&output.stderr).contains("damaged"));
    }
}

/// It would be read as empty, or wait for its writer for ever.
#[test]
fn irregular_trace_file_is_refused() {
    let asked = "replay --trace /dev/null --format lines --mode upsert";
    let output = run(asked.split(' '));
    ends_with_one_line(&output, 2, "replay");
    assert!(
        text(&output.stderr).contains("is no regular file"),
        "{}",
        text(&output.stderr)
    );
}

/// The smallest parts that a split can have make filters. If all memory goes to the summary filter,
/// segment filters have none.
#[test]
fn smallest_memory_split_is_measured() {
    let asked = "bench miss --keys 2000 --runs 1 --rounds 1 --lookups 200 --native none --split 5";
    let report = json(&asked.split(' ').collect::<Vec<_>>());
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
fn mixes_of_absent_and_present_keys_are_measured_in_their_order() {
    let asked = "bench miss --keys 2000 --runs 1 --rounds 1 --lookups 200 --mix 0.9,0,0.5";
    let report = json(&asked.split(' ').collect::<Vec<_>>());
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
fn blocks_that_are_read_from_disk_are_counted() {
    let asked = "bench miss --keys 40000 --runs 1 --rounds 1 --lookups 2000 --mix 0.5";
    let report = json(&asked.split(' ').collect::<Vec<_>>());
    assert!(report["native_hit_blocks"].is_null());
    let asked = format!("{asked} --native none --cache 1");
    let report = json(&asked.split(' ').collect::<Vec<_>>());
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

/// Whether a process has a handler for SIGINT and SIGTERM.
fn handles_interrupts(child: &Child) -> bool {
    const WANTED: u64 = 1 << 1 | 1 << 14;
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap().trim(), 16).unwrap();
    caught & WANTED == WANTED
}

/// The command waits for a reader that never comes, and does not notice the first signal.
#[test]
fn a_second_signal_stops_at_once() {
    let home = tempfile::tempdir().unwrap();
    let pipe = home.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let mut model = command();
    model.args(["model", "fig6", "--svg"]).arg(&pipe);
    let child = started(&mut model, handles_interrupts);
    signal(&child, "INT");
    std::thread::sleep(Duration::from_secs(1));
    signal(&child, "TERM");
    let output = child.wait_with_output().unwrap();
    ends_with_one_line(&output, 2, "model");
    assert!(text(&output.stderr).contains("stopped at once"));
}

/// The signal comes while the database is being opened, or sometimes too late.
#[test]
fn an_interrupted_verification_says_so() {
    let home = tempfile::tempdir().unwrap();
    database(home.path());
    let mut verify = command();
    verify.args(["verify", "--full"]).arg(home.path());
    for _ in 0..50 {
        let child = started(&mut verify, handles_interrupts);
        signal(&child, "INT");
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(2) {
            ends_with_one_line(&output, 2, "verify");
            let said = text(&output.stderr);
            // While filters are loaded, or after.
            let stops = ["stopped before the end", "stopped before all was checked"];
            assert!(stops.iter().any(|stop| said.contains(stop)), "{said}");
            return;
        }
    }
    panic!("no signal ended it");
}

/// Enough ids to be at work for long, in both modes.
fn long_trace(path: &Path) {
    let ids = (0..3_000_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    let bytes: Vec<u8> = ids.flat_map(u64::to_be_bytes).collect();
    fs::write(path, bytes).unwrap();
}

#[test]
fn an_interrupted_replay_says_so_and_leaves_no_folder() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("trace");
    long_trace(&trace);
    let cases = [
        ("INT", "upsert", false),
        ("TERM", "differential", false),
        ("INT", "upsert", true),
    ];
    for (name, mode, keep) in cases {
        let scratch = home.path().join(format!("scratch-{mode}-{keep}"));
        fs::create_dir(&scratch).unwrap();
        let mut replay = command();
        let kept = scratch.join("kept");
        replay
            .env("TMPDIR", &scratch)
            .args(["replay", "--format", "u64be", "--mode", mode, "--trace"])
            .arg(&trace);
        if keep {
            fs::create_dir(&kept).unwrap();
            replay.arg("--db").arg(&kept);
        }
        let child = started(&mut replay, |_| database_in(&scratch).is_some());
        signal(&child, name);
        // As from a shell that signals the command and its group.
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        ends_with_one_line(&output, 2, mode);
        assert!(
            text(&output.stderr).contains("stopped before the end"),
            "{}",
            text(&output.stderr)
        );
        assert!(output.stdout.is_empty());
        let left = if keep { &kept } else { &scratch };
        assert_eq!(
            fs::read_dir(left).unwrap().count(),
            0,
            "{mode}: a folder was left"
        );
    }
}

/// The database that a command created in its folder for temporary ones.
fn database_in(scratch: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(scratch)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    folders
        .into_iter()
        .find(|folder| folder.join("CURRENT").exists())
}

fn check_replay(report: &Value, about: &str) {
    assert_eq!(report["false_negatives"], 0, "{about}: {report}");
    let (observed, promised) = (&report["observed_rate"], &report["promised_rate"]);
    let (observed, promised) = (observed.as_f64().unwrap(), promised.as_f64().unwrap());
    assert!(
        observed <= 1.15 * promised,
        "{about}: {observed} of {promised}"
    );
}

#[test]
fn a_small_trace_is_replayed_in_every_format_and_kept_where_asked() {
    let home = tempfile::tempdir().unwrap();
    let ids: Vec<u64> = (0..4_000_u64).map(|i| (i * i) % 2_801).collect();
    let lines: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let pages: String = ids.iter().map(|id| format!("{id} 2 0 1\n")).collect();
    let wide: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
    let narrow: Vec<u8> = ids
        .iter()
        .flat_map(|&id| (id as u32).to_be_bytes())
        .collect();
    let traces = [
        ("lines", lines.into_bytes()),
        ("lis", pages.into_bytes()),
        ("u64be", wide),
        ("u32be", narrow),
    ];
    for (format, bytes) in traces {
        let trace = home.path().join(format);
        fs::write(&trace, bytes).unwrap();
        for mode in ["upsert", "differential"] {
            let kept = home.path().join(format!("{format}-{mode}"));
            let output = command()
                .args([
                    "replay", "--json", "--format", format, "--mode", mode, "--trace",
                ])
                .arg(&trace)
                .arg("--db")
                .arg(&kept)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
            let report = parsed(&output);
            assert_eq!(report["false_negatives"], 0, "{report}");
            assert_eq!(report["mode"], mode);
            let verified = run(["verify", "--full", kept.to_str().unwrap()]);
            assert_eq!(
                verified.status.code(),
                Some(0),
                "{}",
                text(&verified.stderr)
            );
        }
    }
}

/// Its first record would be an id, and the store could not be opened again.
#[test]
fn upserts_are_refused_for_a_differential_store() {
    let home = tempfile::tempdir().unwrap();
    let (trace, store) = (home.path().join("ids"), home.path().join("store"));
    fs::write(&trace, "1\n2\n1\n").unwrap();
    let replayed = |mode| {
        let mut replay = command();
        replay.args(["replay", "--format", "lines", "--mode", mode, "--trace"]);
        replay.arg(&trace).arg("--db").arg(&store).output().unwrap()
    };
    assert_eq!(replayed("differential").status.code(), Some(0));
    let refused = replayed("upsert");
    ends_with_one_line(&refused, 2, "upsert");
    assert!(text(&refused.stderr).contains("several column families"));
    let reorganized = run(["reorganize", store.to_str().unwrap()]);
    assert_eq!(
        reorganized.status.code(),
        Some(0),
        "{}",
        text(&reorganized.stderr)
    );
}

/// The first part of each published trace, read both ways.
#[test]
fn the_published_traces_lose_no_key_and_keep_the_promised_rate() {
    let Some(folder) = published_traces::folder() else {
        return;
    };
    for (name, format, mode) in [
        ("corda-vaultservice.gz", "u64be", "upsert"),
        ("OLTP.lis.zst", "lis", "differential"),
        ("orm-busy.trace.xz", "u32be", "upsert"),
    ] {
        let output = command()
            .args(["replay", "--json", "--limit", "100000"])
            .args(["--format", format, "--mode", mode, "--trace"])
            .arg(folder.join(name))
            .output()
            .unwrap();
        assert_eq!(
            output.status.code(),
            Some(0),
            "{name}: {}",
            text(&output.stderr)
        );
        let report = parsed(&output);
        println!("{name}: {report}");
        check_replay(&report, name);
        assert!(report["lookups"].as_u64() > Some(0));
    }
}

/// The demo, small.
#[test]
fn demo_loses_no_key_and_keeps_its_rate() {
    let mut child = command()
        .args(["demo", "--keys", "20000", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let printed: String = lines.by_ref().map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&printed).unwrap();
    check_replay(&report, "demo");
    assert_eq!(report["keys"], 20_000);
}

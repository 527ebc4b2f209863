//! `lsm-sieve reorganize`: what it moves, when it does not, and that it can be stopped anywhere.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::process::{Child, Output};

use lsm_sieve_differential::{Batch, DifferentialOptions, DifferentialStore};
use rocksdb::{DB, Options};
use serde_json::Value;

use crate::runner::{command, ends_with_one_line, parsed as json, run, signal, started, text};

fn open(path: &Path) -> DifferentialStore {
    let mut engine = Options::default();
    engine.create_if_missing(true);
    DifferentialStore::open(&engine, &DifferentialOptions::default(), path).unwrap()
}

fn key(index: u64) -> [u8; 8] {
    index.to_be_bytes()
}

/// A closed store whose main file holds the even ones of `records` keys. Its differential file
/// updates all but the first, which it deletes.
fn store(path: &Path, records: u64) {
    const BATCH: usize = 1_000;
    let store = open(path);
    let main = (0..records).step_by(2);
    store.load(main.map(|index| (key(index), "main"))).unwrap();
    let indexes: Vec<u64> = (1..records).collect();
    for part in indexes.chunks(BATCH) {
        let mut batch = Batch::default();
        part.iter()
            .for_each(|&index| batch.put(key(index), [7; 100]));
        store.write(&batch).unwrap();
    }
    store.delete(key(0)).unwrap();
    store.close().unwrap();
}

/// Checks that a store holds what [`store`] wrote, all of it in the main file.
fn is_moved(path: &Path, records: u64) {
    let store = open(path);
    assert_eq!(store.extent().unwrap().generations, 1);
    assert!(!(0..records).any(|index| store.is_modified(key(index)).unwrap()));
    let mut expected = 1..records;
    for entry in store.scan::<&[u8]>(..) {
        let (key, value) = entry.unwrap();
        assert_eq!(key, self::key(expected.next().unwrap()));
        assert_eq!(value, [7; 100]);
    }
    assert_eq!(expected.next(), None);
}

fn reorganize(path: &Path, more: &[&str]) -> Value {
    let path = path.to_str().unwrap();
    let arguments = ["reorganize", "--json", path];
    let output = run(arguments.into_iter().chain(more.iter().copied()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    json(&output)
}

#[test]
fn every_record_is_moved_once() {
    let home = tempfile::tempdir().unwrap();
    store(home.path(), 3_000);
    let report = reorganize(home.path(), &[]);
    assert_eq!(report["records_moved"], 3_000, "{report}");
    assert_eq!(report["generations_dropped"], 1);
    assert_eq!(
        (&report["due"], &report["finished"]),
        (&true.into(), &true.into())
    );
    is_moved(home.path(), 3_000);

    let again = run(["reorganize", home.path().to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0));
    let said = text(&again.stdout);
    assert!(
        said.contains("finished") && said.contains("records moved"),
        "{said}"
    );
    is_moved(home.path(), 3_000);
}

#[test]
fn nothing_is_moved_before_it_is_due() {
    let home = tempfile::tempdir().unwrap();
    store(home.path(), 3_000);
    for (early, due) in [
        ("records=4000", "records=2500"),
        ("bytes=1000000000", "bytes=10000"),
        ("rate=0.9", "rate=0.000000000000001"),
    ] {
        let report = reorganize(home.path(), &["--if-due", early]);
        assert_eq!(report["due"], false, "{early}: {report}");
        assert_eq!(report["records_moved"], 0);
        let copy = home.path().join("copy");
        open(home.path()).checkpoint(&copy).unwrap();
        let report = reorganize(&copy, &["--if-due", due]);
        assert_eq!(report["records_moved"], 3_000, "{due}: {report}");
        is_moved(&copy, 3_000);
        std::fs::remove_dir_all(copy).unwrap();
    }
}

#[test]
fn folder_without_a_store_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let [empty, other, missing] = ["empty", "other", "missing"].map(|name| home.path().join(name));
    let mut options = Options::default();
    options.create_if_missing(true);
    drop(DB::open(&options, &empty).unwrap());
    DB::open(&options, &other).unwrap().put(b"k", b"v").unwrap();
    for path in [&empty, &other, &missing] {
        let output = run(["reorganize", path.to_str().unwrap()]);
        ends_with_one_line(&output, 2, "reorganize");
        assert!(text(&output.stderr).contains(path.to_str().unwrap()));
        assert!(output.stdout.is_empty());
    }
    for path in [&empty, &other] {
        assert_eq!(DB::list_cf(&options, path).unwrap(), ["default"]);
    }
    assert!(!missing.exists());
}

#[test]
fn wrong_condition_or_store_in_use_exits_with_2_and_one_line() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().to_str().unwrap();
    let in_use = open(home.path());
    for more in [
        &[][..],
        &["--if-due", "records"],
        &["--if-due", "records=many"],
        &["--if-due", "rate=1.5"],
        &["--if-due", "moon=full"],
    ] {
        let arguments = ["reorganize", path].into_iter().chain(more.iter().copied());
        ends_with_one_line(&run(arguments), 2, &format!("{more:?}"));
    }
    let said = text(&run(["reorganize", path]).stderr);
    assert!(said.contains("is open elsewhere"), "{said}");
    in_use.put(b"still", b"here").unwrap();
}

/// Starts a reorganisation and interrupts it when records begin to move.
fn interrupted(path: &Path) -> Output {
    let mut reorganize = command();
    reorganize.args(["reorganize", "--json"]).arg(path);
    // Records begin to move after a new generation has taken over the writes.
    let families = || DB::list_cf(&Options::default(), path).unwrap_or_default();
    let moves = |_: &Child| families().iter().any(|name| name == "differential-2");
    let child = started(&mut reorganize, moves);
    signal(&child, "INT");
    child.wait_with_output().unwrap()
}

#[test]
fn interrupted_reorganisation_resumes_where_it_stopped() {
    const RECORDS: u64 = 400_000;
    let home = tempfile::tempdir().unwrap();
    store(home.path(), RECORDS);
    let output = interrupted(home.path());
    ends_with_one_line(&output, 2, "interrupted");
    let said = text(&output.stderr);
    assert!(said.contains("goes on where this one stopped"), "{said}");
    let first = json(&output);
    assert_eq!(first["finished"], false, "{first}");
    let moved = |report: &Value| report["records_moved"].as_u64().unwrap();
    assert!((1..RECORDS).contains(&moved(&first)), "{first}");

    let second = reorganize(home.path(), &[]);
    assert_eq!(moved(&first) + moved(&second), RECORDS);
    assert_eq!(
        (&second["finished"], &second["generations_dropped"]),
        (&true.into(), &1.into())
    );
    is_moved(home.path(), RECORDS);
}

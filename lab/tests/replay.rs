//! `lsm-sieve-lab replay`: it loses no key, keeps the rate, and leaves no files behind.

#![expect(
    clippy::disallowed_methods,
    reason = "inputs are written past the door to files"
)]

use std::fs;

use lsm_sieve::SieveDb;

use crate::replays::{check_every_format, check_interrupted, check_published, replay};
use crate::runner::{run, text};

#[test]
fn interrupted_replay_reports_it_and_leaves_no_folder() {
    check_interrupted(&[]);
}

#[test]
fn trace_is_replayed_in_every_format_and_kept_with_db() {
    check_every_format(&[], "differential", |kept| {
        let db = SieveDb::builder(kept)
            .cfs(rocksdb::DB::list_cf(&<_>::default(), kept).unwrap())
            .read_only(false)
            .open()
            .unwrap();
        let verified = db.filters().verify(true).unwrap();
        assert!(verified.lost.is_empty() && verified.entries_checked > 0);
    });
}

#[test]
fn store_of_a_replay_can_be_reorganized() {
    let home = tempfile::tempdir().unwrap();
    let (trace, store) = (home.path().join("ids"), home.path().join("store"));
    fs::write(&trace, "1\n2\n1\n").unwrap();
    let mut replay = replay(&[], "lines", &trace);
    let replayed = replay.arg("--db").arg(&store).output().unwrap();
    assert_eq!(replayed.status.code(), Some(0));
    let reorganized = run(["reorganize", store.to_str().unwrap()]);
    assert_eq!(
        reorganized.status.code(),
        Some(0),
        "{}",
        text(&reorganized.stderr)
    );
}

#[test]
fn published_traces_lose_no_key_and_keep_the_rate() {
    check_published(&[], &[("OLTP.lis.zst", "lis")]);
}

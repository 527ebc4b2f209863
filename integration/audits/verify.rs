//! `verify` can fail: it finds a filter that lacks a key although its checksums are right.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{InspectError, SieveDb, SieveOptions};

use crate::support::damage::without_keys;
use crate::support::database_files::{sidecars, summaries};
use crate::support::model_db::{Model, cover, fill, open, options, settle, sieve};

fn read_only_filters(path: &std::path::Path) -> SieveDb {
    let settings: SieveOptions = sieve().read_only_filters(true);
    let db = SieveDb::open(&options(), &settings, path).expect("it opens");
    settle(&db);
    db
}

#[test]
fn full_verify_finds_a_sidecar_without_its_keys() {
    const KEYS: u64 = 500;
    let home = tempfile::tempdir().unwrap();
    {
        let db = open(home.path());
        fill(&db, &mut Model::new(), 0..KEYS);
        db.flush().unwrap();
        cover(&db);
        settle(&db);
        let report = db.filters().verify(true).unwrap();
        assert_eq!((report.entries_checked, report.sidecars_checked), (KEYS, 1));
        assert!(report.lost.is_empty());
    }
    without_keys(&sidecars(&home.path().join("sieve"))[0]);
    let db = read_only_filters(home.path());
    let quick = db.filters().verify(false).unwrap();
    assert!(
        quick.damaged.is_empty() && quick.lost.is_empty(),
        "its checksums are right"
    );
    assert_eq!(quick.entries_checked, 0);
    let full = db.filters().verify(true).unwrap();
    let denied = |by: &str| full.lost.iter().filter(|lost| lost.filter == by).count() as u64;
    assert_eq!(denied("the sidecar"), KEYS);
    assert_eq!(denied("the resident filter"), KEYS);
    assert_eq!(
        denied("the summary filter"),
        0,
        "the summary covers the SST"
    );
    assert!(full.lost[0].to_string().contains(".sst denied by "));
}

#[test]
fn full_verify_finds_a_summary_without_its_keys() {
    const KEYS: u64 = 500;
    let home = tempfile::tempdir().unwrap();
    {
        let db = open(home.path());
        fill(&db, &mut Model::new(), 0..KEYS);
        db.flush().unwrap();
        db.delete(b"a tombstone").unwrap();
        db.flush().unwrap();
        cover(&db);
    }
    without_keys(&summaries(&home.path().join("sieve"))[0]);
    let full = read_only_filters(home.path())
        .filters()
        .verify(true)
        .unwrap();
    assert_eq!(full.lost.len() as u64, KEYS, "the tombstone is no loss");
    assert!(
        full.lost
            .iter()
            .all(|lost| lost.filter == "the summary filter")
    );
}

/// An SST may be compacted away between its listing and its reading. Its keys are then in another
/// one.
#[test]
fn verify_runs_beside_writes_and_compactions() {
    const ROUNDS: u64 = 40;
    const KEYS: u64 = 2_000;
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                fill(&db, &mut Model::new(), round * KEYS..(round + 1) * KEYS);
                db.flush().unwrap();
                db.compact_range::<&[u8], &[u8]>(None, None);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            let report = db.filters().verify(true).unwrap();
            assert!(report.lost.is_empty(), "{}", report.lost[0]);
            assert!(report.damaged.is_empty(), "{}", report.damaged[0]);
        }
    });
    let report = db.filters().verify(true).unwrap();
    assert_eq!(report.entries_checked, ROUNDS * KEYS);
}

#[test]
fn verify_reports_progress_and_can_be_stopped() {
    const KEYS: u64 = 10_000;
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    for table in 0..2 {
        fill(&db, &mut Model::new(), table * KEYS..(table + 1) * KEYS);
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    for full in [true, false] {
        let (mut done, mut calls) = (0, 0);
        let count = |entries| {
            done += entries;
            calls += 1;
            ControlFlow::Continue(())
        };
        let report = db.filters().verify_while(full, count).unwrap();
        assert!(report.lost.is_empty() && report.sidecars_checked == 2);
        assert_eq!(done, 2 * KEYS);
        for call in 0..calls {
            let mut left = call;
            let stopped = db.filters().verify_while(full, |_| {
                assert!(left >= 0, "called again after it was to stop");
                left -= 1;
                if left < 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            assert!(matches!(stopped, Err(InspectError::Stopped)), "{call}");
        }
    }
}

//! A database closes at once, whatever its engine is doing.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::{FilterSize, SieveDb};
use rocksdb::{CompactionDecision, Options, WriteOptions};

use crate::support::model_db::{PATIENCE, key, options, settle, sieve};

const KEYS: u64 = 20_000;

/// RocksDB's log message when a flush waits for a compaction.
const WAITS: &str = "waiting on stall conditions to clear";

/// Level 0 has so many SSTs that writers are slowed down, and the compaction that would help takes
/// minutes.
fn overloaded(path: &Path) -> Options {
    let mut options = options();
    options.set_disable_auto_compactions(true);
    let plain = rocksdb::DB::open(&options, path).expect("it opens");
    for _ in 0..4 {
        (0..KEYS).for_each(|i| plain.put(key(i), b"value").expect("it is written"));
        plain.flush().expect("it is flushed");
    }
    options.set_disable_auto_compactions(false);
    options.set_level_zero_file_num_compaction_trigger(2);
    options.set_level_zero_slowdown_writes_trigger(3);
    options.set_compaction_filter("slow", |_, _, _| {
        thread::sleep(Duration::from_millis(10));
        CompactionDecision::Keep
    });
    options
}

fn a_flush_waits(path: &Path) -> bool {
    let log = std::fs::read_to_string(path.join("LOG"));
    log.expect("RocksDB keeps a log").contains(WAITS)
}

/// A consolidation flushes, and a flush waits until it would not slow writers down. Closing waited
/// for maintenance, which waited for the flush: for minutes, although RocksDB alone closes at once.
#[test]
fn close_does_not_wait_for_a_stalled_flush() {
    let home = tempfile::tempdir().unwrap();
    let options = overloaded(home.path());
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    settle(&db);
    db.set_filter_size(FilterSize::ONE_PERCENT);
    let deadline = Instant::now() + PATIENCE;
    // Until the maintenance run that is to consolidate no longer ends.
    while db.wait_for_maintenance(Duration::from_millis(50)) {
        assert!(Instant::now() < deadline, "no flush waits");
    }
    let mut calls = 0;
    let go_on = || {
        calls += 1;
        calls < 3
    };
    assert!(!db.wait_for_maintenance_while(PATIENCE, go_on) && calls == 3);
    assert!(!a_flush_waits(home.path()), "the engine cannot be stopped");
    let (closed, closing) = mpsc::channel();
    let close = thread::spawn(move || {
        drop(db);
        closed.send(()).unwrap();
    });
    assert!(
        closing.recv_timeout(PATIENCE).is_ok(),
        "closing waits for a compaction"
    );
    close.join().unwrap();
    let plain = rocksdb::DB::open(&options, home.path()).unwrap();
    assert!(plain.get(key(KEYS - 1)).unwrap().is_some());
}

/// Maintenance waited for stopped compactions without end. So did its callers and all other
/// families.
#[test]
fn consolidation_does_not_wait_for_stopped_compactions() {
    let home = tempfile::tempdir().unwrap();
    let options = overloaded(home.path());
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    db.put(b"in memory", b"value").unwrap();
    db.cancel_all_background_work(true);
    let (ended, end) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| ended.send(db.consolidate()).unwrap());
        let end = end.recv_timeout(PATIENCE);
        // A hanging thread would keep the scope open.
        let Ok(end) = end else { std::process::abort() };
        assert!(end.is_err(), "{end:?}");
    });
}

/// With `atomic_flush`, RocksDB 11.8.1 may take the end of one family's flush for that of another.
/// Its flush at close, which alone saves unlogged writes, must not run beside a flush of
/// maintenance.
#[test]
fn close_beside_a_consolidation_keeps_unlogged_writes() {
    const ROUNDS: u64 = 100;
    const FAMILIES: [&str; 4] = ["default", "one", "two", "three"];
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_atomic_flush(true);
    options.create_missing_column_families(true);
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    for round in 0..ROUNDS {
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve())
            .cfs(FAMILIES)
            .open()
            .unwrap();
        for (index, name) in (0..).zip(FAMILIES) {
            let cf = db.cf_handle(name).unwrap();
            // The numbers of their memtables differ.
            for flush in 0..index {
                db.put_cf(&cf, key(flush), b"flushed").unwrap();
                db.flush_cf(&cf).unwrap();
            }
            let written = key(1_000 + round);
            db.put_cf_opt(&cf, written, round.to_le_bytes(), &unlogged)
                .unwrap();
        }
        db.set_filter_size(FilterSize::ONE_PERCENT);
        // Now maintenance flushes one family after the other.
        _ = db.wait_for_maintenance(Duration::from_micros(round * 397 % 40_000));
        if round % 2 == 1 {
            // The same flush, by a call.
            db.cancel_all_background_work(true);
        }
        drop(db);
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve())
            .cfs(FAMILIES)
            .open()
            .unwrap();
        for name in FAMILIES {
            let cf = db.cf_handle(name).unwrap();
            let found = db.get_cf(&cf, key(1_000 + round)).unwrap();
            assert_eq!(found.as_deref(), Some(&round.to_le_bytes()[..]), "{name}");
        }
    }
}

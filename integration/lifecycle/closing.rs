//! A database closes at once, whatever its engine is doing.

use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use lsm_sieve::{FilterSize, SieveDb};
use rocksdb::{CompactionDecision, Options, WriteOptions};

use crate::support::model_db::{PATIENCE, key, options, sieve};

const KEYS: u64 = 20_000;

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

/// Maintenance waited for compactions in order to flush. So did its callers, all other families, and
/// the close.
#[test]
fn consolidation_and_close_do_not_wait_for_compactions() {
    for are_stopped in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let options = overloaded(home.path());
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        db.put(b"in memory", b"value").unwrap();
        if are_stopped {
            db.cancel_all_background_work(true);
        }
        let (ended, end) = mpsc::channel();
        let work = thread::spawn(move || {
            ended.send(db.filters().consolidate()).unwrap();
            assert!(!db.filters().answer(b"in memory").is_absent());
            drop(db);
            ended.send(Ok(())).unwrap();
        });
        for _ in 0..2 {
            end.recv_timeout(PATIENCE).unwrap().unwrap();
        }
        work.join().unwrap();
        let plain = rocksdb::DB::open(&options, home.path()).unwrap();
        assert!(plain.get(key(KEYS - 1)).unwrap().is_some());
    }
}

/// With `atomic_flush`, RocksDB 11.8.1 may take the end of one family's flush for that of another.
/// Its flush at close, which alone saves unlogged writes, ran beside a flush of maintenance.
#[test]
fn close_beside_a_consolidation_keeps_unlogged_writes() {
    const ROUNDS: u64 = 40;
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
        db.filters().set_filter_size(FilterSize::ONE_PERCENT);
        // Now maintenance rebuilds the filters of one family after the other.
        _ = db
            .filters()
            .wait_for_maintenance(Duration::from_micros(round * 397 % 40_000));
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

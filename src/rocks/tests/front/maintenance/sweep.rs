//! `maintenance::sweep` of `lsm-sieve-front`, over RocksDB.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rocksdb::{CompactionDecision, Options};

use crate::rocks::{SieveDb, SieveOptions};

const PATIENCE: Duration = Duration::from_secs(60);

/// Filters used to be dropped only if no compaction ran when a run began. Beside a long
/// compaction the filters of dead SSTs stayed, and took the budget from those of live ones.
#[test]
fn the_filters_of_dead_tables_go_while_a_compaction_runs() {
    const ROUNDS: u32 = 50;
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_max_background_jobs(8);
    let (entered, running) = mpsc::channel();
    let (release, held) = mpsc::channel::<()>();
    let mut slow = options.clone();
    slow.set_compaction_filter("held", move |_, _, _| {
        entered.send(()).unwrap();
        // Until the test ends, in whichever way.
        _ = held.recv();
        CompactionDecision::Keep
    });
    let cfs = [("default", options.clone()), ("slow", slow)];
    let sieve = SieveOptions::default();
    let db = SieveDb::open_cf_with_opts(&options, &sieve, home.path(), cfs).unwrap();
    thread::scope(|scope| {
        let release = release;
        let cf = db.cf_handle("slow").unwrap();
        db.put_cf(&cf, b"one", b"value").unwrap();
        db.flush_cf(&cf).unwrap();
        scope.spawn(|| {
            let cf = db.cf_handle("slow").unwrap();
            db.compact_range_cf::<&[u8], &[u8]>(&cf, None, None);
        });
        running.recv_timeout(PATIENCE).unwrap();
        for round in 0..ROUNDS {
            db.put(b"first", round.to_be_bytes()).unwrap();
            db.put(b"last", round.to_be_bytes()).unwrap();
            db.flush().unwrap();
            db.compact_range::<&[u8], &[u8]>(None, None);
            assert!(db.wait_for_maintenance(PATIENCE));
        }
        let known = db.shared_registry().ids().into_iter();
        let segments = known.filter_map(|id| db.shared_registry().get(id));
        let filters = segments.filter(|segment| segment.filter().is_some());
        let filters = filters.count();
        drop(release);
        assert!(filters <= 20, "{filters} filters, two tables are live");
    });
    assert!(db.verify(true).unwrap().lost.is_empty());
}

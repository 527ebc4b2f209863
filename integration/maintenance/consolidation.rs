//! When a summary filter is consolidated.

use rocksdb::DB;

use super::*;
use crate::support::model_db::with_filter_budget;

/// Stages beyond the first one at which a summary is consolidated beside writers.
const FURTHER: usize = 6;

#[test]
fn grown_summary_is_consolidated_when_writers_pause() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &growing());
    put(&db, 10..1_500);
    eventually("the summary has one stage", || {
        health(&db).stages == 1 && health(&db).keys >= Items::new(1_400)
    });
    assert!(rules_out(&db));
}

#[test]
fn summary_of_another_kind_is_built_when_writers_pause() {
    let home = tempfile::tempdir().unwrap();
    let bits = |db: &SieveDb| db.filters().inspect().unwrap().cfs[0].summary.bits;
    let before = {
        let db = made(home.path(), &with_headroom().speed_over_memory(true));
        put(&db, 10..20_000);
        bits(&db)
    };
    let db = open(home.path(), &with_headroom());
    eventually("the summary takes what a static one does", || {
        bits(&db) < before / 2
    });
    assert!(rules_out(&db));
}

/// Otherwise a summary for few keys would grow stage by stage while the SSTs are read, and keep its
/// stages as long as writes go on.
#[test]
fn summary_for_many_uncovered_keys_is_consolidated_beside_writers() {
    let home = tempfile::tempdir().unwrap();
    {
        let plain = DB::open(&options(), home.path()).unwrap();
        (10..5_000).for_each(|i| plain.put(key(i), b"value").unwrap());
        plain.flush().unwrap();
    }
    let db = open(home.path(), &growing());
    beside_a_writer(&db, || {
        eventually("the table is covered", || is_covered(&db));
        let health = health(&db);
        assert!(health.stages <= 2, "{health:?}");
    });
}

#[test]
fn summary_of_many_stages_is_consolidated_beside_writers() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &growing());
    beside_a_writer(&db, || {
        let (mut most, mut next) = (1, 10);
        eventually("the summary has fewer stages than before", || {
            let stages = health(&db).stages;
            if stages < most {
                return true;
            }
            most = stages;
            if most <= 1 + FURTHER {
                put(&db, next..next + 500);
                next += 500;
            }
            false
        });
        assert!(most > FURTHER, "rebuilt after {most} stages");
        assert!(rules_out(&db));
    });
}

/// It had answered *maybe* for all keys, because there were too many for it.
#[test]
fn summary_over_budget_is_rebuilt_beside_writers_when_memory_allows() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_filter_budget(growing(), 40_000, 1));
    beside_a_writer(&db, || {
        put(&db, 10..30_000);
        db.flush().unwrap();
        eventually("the summary has no room", || {
            health(&db).predicted_rate == 1.0
        });
        let default = db.cf_handle("default").unwrap();
        db.delete_range_cf(&default, key(100), key(30_000)).unwrap();
        db.flush().unwrap();
        db.compact_range::<&[u8], &[u8]>(None, None);
        eventually("the summary has room", || health(&db).predicted_rate < 0.1);
        assert!(rules_out(&db));
    });
}

/// It waited for a flush, which never ended, and kept a summary filter of many stages.
#[expect(clippy::disallowed_methods, reason = "somebody moves the database")]
#[test]
fn consolidation_succeeds_where_rocksdb_can_write_no_sst() {
    let home = tempfile::tempdir().unwrap();
    let (folder, away) = (home.path().join("db"), home.path().join("away"));
    let mut options = options();
    options.set_write_buffer_size(64 << 10);
    options.set_max_write_buffer_number(2);
    options.set_wal_dir(home.path().join("logs"));
    let db = SieveDb::open(&options, &growing(), &folder).unwrap();
    std::fs::rename(&folder, &away).unwrap();
    // Until RocksDB refuses writes, because no SST can be created.
    let refused = (0..100_000).find(|&i| db.put(key(i), [0; 1_000]).is_err());
    let written = refused.expect("SSTs were written to a folder that is gone");
    db.filters().consolidate().unwrap();
    assert_eq!(health(&db).stages, 1);
    assert!((0..written).all(|i| !db.filters().answer(key(i)).is_absent()));
    std::fs::rename(&away, &folder).unwrap();
}

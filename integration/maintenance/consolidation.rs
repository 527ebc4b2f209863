//! When a summary is made anew.

use rocksdb::DB;

use super::*;
use crate::twin::within;

/// Stages that a summary has besides its first one when it is made anew beside writers.
const FURTHER: usize = 6;

#[test]
fn a_grown_summary_is_made_anew_when_the_writers_pause() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &growing());
    put(&db, 10..1_500);
    becomes("the summary has one stage", || {
        health(&db).stages == 1 && health(&db).keys >= Items::new(1_400)
    });
    assert!(rules_out(&db));
}

#[test]
fn a_summary_of_another_kind_is_made_when_the_writers_pause() {
    let home = tempfile::tempdir().unwrap();
    let bits = |db: &SieveDb| db.inspect().unwrap().columns[0].summary.bits;
    let before = {
        let db = made(home.path(), &roomy());
        put(&db, 10..20_000);
        bits(&db)
    };
    let db = open(home.path(), &roomy().static_filters(true));
    becomes("the summary takes what a static one does", || {
        bits(&db) < before / 2
    });
    assert!(rules_out(&db));
}

/// Else a summary for few keys would grow stage by stage while the tables are read, and keep its stages for as
/// long as something is written.
#[test]
fn a_summary_for_many_uncovered_keys_is_made_at_once_beside_writers() {
    let home = tempfile::tempdir().unwrap();
    {
        let plain = DB::open(&options(), home.path()).unwrap();
        (10..5_000).for_each(|i| plain.put(key(i), b"value").unwrap());
        plain.flush().unwrap();
    }
    let db = open(home.path(), &growing());
    beside_a_writer(&db, || {
        becomes("the table is covered", || is_covered(&db));
        let health = health(&db);
        assert_eq!(health.stages, 1, "{health:?}");
    });
}

#[test]
fn a_summary_of_many_stages_is_made_anew_beside_writers() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &growing());
    beside_a_writer(&db, || {
        let (mut most, mut next) = (1, 10);
        becomes("the summary has fewer stages than before", || {
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
        assert!(most > FURTHER, "made anew after {most} stages");
        assert!(rules_out(&db));
    });
}

/// It answered *maybe* to all keys, as there were too many for it.
#[test]
fn a_summary_without_room_is_made_anew_beside_writers_when_there_is_room() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &within(growing(), 40_000, 1));
    beside_a_writer(&db, || {
        put(&db, 10..6_000);
        db.flush().unwrap();
        becomes("the summary has no room", || {
            health(&db).predicted_rate == 1.0
        });
        let default = db.cf_handle("default").unwrap();
        db.delete_range_cf(&default, key(100), key(6_000)).unwrap();
        db.flush().unwrap();
        db.compact_range::<&[u8], &[u8]>(None, None);
        becomes("the summary has room", || health(&db).predicted_rate < 0.1);
        assert!(rules_out(&db));
    });
}

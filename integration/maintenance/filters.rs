//! Filters that are loaded, built, stored and removed.

use rocksdb::DEFAULT_COLUMN_FAMILY_NAME as DEFAULT;

use lsm_sieve::{Bits, FilterSize};

use super::*;

/// Read-only filters are never built: those in memory are the ones that were stored.
#[test]
fn new_filters_are_stored_at_close_and_loaded_at_open() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom());
    for first in [10, 500] {
        put(&db, first..first + 490);
        db.flush().unwrap();
    }
    drop(db);
    for read_only_filters in [true, false] {
        let db = open(
            home.path(),
            &with_headroom().read_only_filters(read_only_filters),
        );
        eventually("all is loaded", || {
            let is_there = is_covered(&db) && rules_out(&db);
            is_there && db.filters().health().memory.segments > Bits::new(0)
        });
        assert!(read_only_filters || sidecars(home.path()).len() == 2);
    }
}

/// Also in a family that RocksDB's earlier listeners do not know, after the first family was dropped.
#[test]
fn filters_are_stored_after_each_flush() {
    let home = tempfile::tempdir().unwrap();
    let families = ["first", DEFAULT];
    let db = SieveDb::builder(home.path())
        .options(&options())
        .filters(&with_headroom())
        .cfs(families)
        .open()
        .unwrap();
    eventually("a new database is known", || is_covered(&db));
    db.drop_cf("first").unwrap();
    db.create_cf("later", &options()).unwrap();
    eventually("both families are known", || is_covered(&db));
    for round in 0..6_u64 {
        let before = sidecars(home.path());
        let family = db
            .cf_handle(["later", DEFAULT][round as usize % 2])
            .unwrap();
        (0..100).for_each(|i| db.put_cf(&family, key(i), b"value").unwrap());
        db.flush_cf(&family).unwrap();
        eventually("the table's filter is stored", || {
            sidecars(home.path()).len() > before.len()
        });
    }
}

#[test]
fn filters_are_stored_and_removed_after_each_compaction() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom().speed_over_memory(true));
    for _ in 0..4 {
        for _ in 0..2 {
            let before = sidecars(home.path());
            put(&db, 10..300);
            db.flush().unwrap();
            eventually("the table's filter is stored", || {
                sidecars(home.path()).difference(&before).count() == 1
            });
        }
        let before = sidecars(home.path());
        db.compact_range::<&[u8], &[u8]>(None, None);
        eventually("the filter of one table is there alone", || {
            let now = sidecars(home.path());
            now.len() == 1 && now.is_disjoint(&before)
        });
    }
}

#[test]
fn filters_are_removed_after_drop_cf() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom());
    db.create_cf("dropped", &options()).unwrap();
    eventually("it is known", || is_covered(&db));
    let dropped = db.cf_handle("dropped").unwrap();
    (0..500).for_each(|i| db.put_cf(&dropped, key(i), b"value").unwrap());
    db.flush_cf(&dropped).unwrap();
    drop(dropped);
    eventually("its table's filter is stored", || {
        sidecars(home.path()).len() == 1
    });
    db.drop_cf("dropped").unwrap();
    eventually("nothing is in memory", || {
        db.filters().health().memory.segments == Bits::new(0)
    });
    eventually("nothing is stored", || sidecars(home.path()).is_empty());
}

#[test]
fn filters_have_the_new_rate_after_set_rate() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom());
    put(&db, 10..5_000);
    db.flush().unwrap();
    eventually("the table has its filter", || {
        sidecars(home.path()).len() == 1
    });
    let (before, taken) = (health(&db), db.filters().health().memory.segments);
    // A summary that hardly grows would also be rebuilt without the call.
    beside_a_writer_of(
        &db,
        |i| key(5_000 + i),
        || {
            thread::sleep(Duration::from_secs(2));
            db.filters()
                .set_filter_size(FilterSize::rate(0.000_01).unwrap());
            eventually("the summary has the new rate", || {
                health(&db).predicted_rate < before.predicted_rate.min(0.000_01)
            });
            eventually("so have the tables' filters", || {
                db.filters().health().memory.segments.get() > taken.get() * 3 / 2
            });
        },
    );
}

#[test]
fn filters_are_scrubbed_in_turn() {
    let home = tempfile::tempdir().unwrap();
    let often = with_headroom().scrub_every(Some(Duration::from_millis(1)));
    let db = made(home.path(), &often);
    put(&db, 10..1_000);
    db.flush().unwrap();
    eventually("the table has its filter", || {
        sidecars(home.path()).len() == 1
    });
    for _ in 0..3 {
        let before = db.filters().scrubbed().filters;
        eventually("all filters were read", || {
            db.filters().scrubbed().filters >= before + 3
        });
    }
    assert_eq!(db.filters().scrubbed().damaged, 0);
}

#[test]
fn filters_over_budget_are_evicted() {
    let home = tempfile::tempdir().unwrap();
    let budget = 7_500;
    let db = made(home.path(), &growing().memory_budget(budget));
    for first in (10..6_000).step_by(300) {
        put(&db, first..first + 300);
        db.flush().unwrap();
    }
    eventually("the filters keep to the budget", || {
        let memory = db.filters().health().memory;
        (memory.summary + memory.segments).to_bytes() <= budget
    });
}

//! Static filters: smaller, made of all keys at once, and no key that comes later is lost to them.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lsm_sieve::{ColumnReport, FilterReport, Items, SieveDb, SieveOptions};

use crate::twin::{
    Dice, Model, absent_key, agree, agrees_within, cover, fill, key, nothing_is_lost, options,
    report, scribble, settle, whole, within,
};

const MANY: u64 = 40_000;

fn sieve() -> SieveOptions {
    crate::twin::sieve().static_filters(true)
}

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = options();
    options.set_disable_auto_compactions(true);
    SieveDb::open(&options, sieve, path).unwrap()
}

/// A consolidated database of so many keys in two tables.
fn filled(path: &Path, sieve: &SieveOptions) -> (SieveDb, Model) {
    let (db, mut model) = (open(path, sieve), Model::new());
    for half in [0..MANY / 2, MANY / 2..MANY] {
        fill(&db, &mut model, half);
        db.flush().unwrap();
    }
    cover(&db);
    db.consolidate().unwrap();
    settle(&db);
    (db, model)
}

/// 7.9 bits a key for many keys, a little more for so few.
fn is_static(filter: &FilterReport) -> bool {
    filter.stages == 1 && (7.9..8.4).contains(&filter.bits_per_key)
}

fn tables(report: &ColumnReport) -> Vec<&FilterReport> {
    let filters = report.segments.iter().map(|table| table.filter.as_ref());
    filters.map(Option::unwrap).collect()
}

#[test]
fn static_filters_take_fewer_bits_keep_the_rate_and_come_back() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = filled(home.path(), &sieve());
    let check = |db: &SieveDb, model: &Model| {
        let report = report(db);
        assert!(is_static(&report.summary), "{report:?}");
        assert!(report.summary.observed_rate <= 0.006, "{report:?}");
        assert!(tables(&report).into_iter().all(is_static), "{report:?}");
        let passed = (0..20_000).filter(|&i| !db.answer(absent_key(i)).is_absent());
        assert!(passed.count() < 20);
        whole(db, model);
        nothing_is_lost(db);
    };
    check(&db, &model);
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    check(&db, &model);

    // What is written now goes to a stage beside the static one.
    fill(&db, &mut model, MANY..MANY + 5_000);
    scribble(&db, "default", &mut model, &mut Dice(1), 2_000);
    agree(&db, &model);
    assert!(report(&db).summary.stages > 1);
    db.consolidate().unwrap();
    assert_eq!(report(&db).summary.stages, 1);
    agree(&db, &model);
    nothing_is_lost(&db);
}

/// Half of all keys are in no table yet when their filter is worked out.
#[test]
fn keys_written_while_a_static_summary_is_made_are_found() {
    let home = tempfile::tempdir().unwrap();
    let (db, _) = filled(home.path(), &sieve());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0..;
            while !done.load(Ordering::Relaxed) {
                let i = MANY + written.next().unwrap();
                db.put(key(i), b"value").unwrap();
                assert!(
                    !db.answer(key(i)).is_absent(),
                    "key {i} right after it was written"
                );
            }
            written.start
        });
        for _ in 0..8 {
            db.consolidate().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert!(written > 0);
        for i in 0..MANY + written {
            assert!(db.get(key(i)).unwrap().is_some(), "key {i}");
        }
    });
    nothing_is_lost(&db);
}

/// Nobody has to consolidate: upkeep does when the writers pause.
#[test]
fn a_database_takes_static_filters_and_leaves_them_again() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &crate::twin::sieve());
    assert!(!tables(&report(&db)).into_iter().any(is_static));
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    whole(&db, &model);
    for _ in 0..1_000 {
        if is_static(&report(&db).summary) {
            break;
        }
        settle(&db);
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let there = report(&db);
    assert!(is_static(&there.summary), "{there:?}");
    // Those of tables are as good as they were.
    assert!(!tables(&there).into_iter().any(is_static));
    agree(&db, &model);
    drop(db);
    let db = open(home.path(), &crate::twin::sieve());
    cover(&db);
    agree(&db, &model);
    db.consolidate().unwrap();
    assert!(!is_static(&report(&db).summary));
    agree(&db, &model);
    nothing_is_lost(&db);
}

#[test]
fn a_static_summary_keeps_to_the_budget() {
    let memory = sieve().memory_for(Items::new(MANY));
    let all = memory.summary.get() + memory.segments.get();
    for budget in [all * 2, memory.summary.get() * 9 / 10, 1_000] {
        let home = tempfile::tempdir().unwrap();
        let sieve = within(sieve(), budget, 1);
        let (db, model) = filled(home.path(), &sieve);
        let report = report(&db);
        assert_eq!(
            is_static(&report.summary),
            budget > all,
            "{budget}: {report:?}"
        );
        agrees_within(&db, &model, budget);
    }
}

#[test]
fn bits_per_key_are_what_static_filters_take() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().summary_bits_per_key(12.0).segment_bits_per_key(5.0);
    let (db, model) = filled(home.path(), &sieve);
    let report = report(&db);
    // Of so few keys they take a little more than of millions.
    assert!(
        (11.8..12.3).contains(&report.summary.bits_per_key),
        "{report:?}"
    );
    assert!(report.summary.observed_rate < 0.0008, "{report:?}");
    for table in tables(&report) {
        assert!((4.9..5.3).contains(&table.bits_per_key), "{table:?}");
    }
    whole(&db, &model);
}

//! A stricter rate for a filled database: filters change beside readers, SSTs do not.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use lsm_sieve::{CfReport, FilterSize, SieveDb, SieveOptions};
use lsm_sieve_filter::math::Items;
use lsm_sieve_format::segment::SegmentId;
use rocksdb::Options;

use crate::support::database_files::stamps;
use crate::support::model_db::{
    KEYS, Model, absent_key, check_reads, check_settled, cover, fill, for_speed, key, options,
    settle, verify_finds_every_key,
};

fn report(db: &SieveDb) -> CfReport {
    let mut cfs = db
        .filters()
        .inspect()
        .expect("the tables can be listed")
        .cfs;
    cfs.remove(0)
}

/// The mean observed rate of the segment filters.
fn of_segments(report: &CfReport) -> f64 {
    let filters = report
        .segments
        .iter()
        .filter_map(|table| table.filter.as_ref());
    let rates: Vec<f64> = filters.map(|filter| filter.observed_rate).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// The segment ids, which bind filters to SSTs.
fn ids_of(report: &CfReport) -> BTreeSet<Option<SegmentId>> {
    report.segments.iter().map(|table| table.id).collect()
}

fn size(rate: f64) -> FilterSize {
    FilterSize::rate(rate).expect("a rate")
}

#[test]
fn stricter_rate_rewrites_no_sst_and_loses_no_read() {
    const TABLES: u64 = 6;
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &for_speed().filter_size(size(0.01)), home.path()).unwrap();
    let mut model = Model::new();
    for table in 0..TABLES {
        fill(&db, &mut model, table * 4_000..(table + 1) * 4_000);
        db.flush().unwrap();
    }
    cover(&db);
    db.filters().consolidate().unwrap();
    let tables = stamps(home.path(), ".sst");
    let before = report(&db);
    let ids = ids_of(&before);
    assert_eq!(tables.len(), TABLES as usize);
    assert!(before.summary.observed_rate > 0.0015, "{before:?}");
    assert!(of_segments(&before) > 0.003, "{before:?}");

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (read, first_read) = mpsc::sync_channel(1);
        for reader in 0..2_u64 {
            let (db, model, done, read) = (&db, &model, &done, read.clone());
            scope.spawn(move || {
                let keys: Vec<_> = model.keys().collect();
                let mut at = reader as usize;
                while !done.load(Ordering::Relaxed) {
                    at = (at + 7_919) % keys.len();
                    assert_eq!(db.get(keys[at]).unwrap().as_ref(), Some(&model[keys[at]]));
                    assert!(db.multi_get([keys[at]])[0].as_ref().unwrap().is_some());
                    assert_eq!(db.get(absent_key(at as u64)).unwrap(), None);
                    _ = read.try_send(());
                }
            });
        }
        drop(read);
        first_read.recv().expect("a reader reads");
        db.filters().set_filter_size(size(0.001));
        db.filters().consolidate().unwrap();
        done.store(true, Ordering::Relaxed);
    });

    let after = report(&db);
    assert_eq!(
        stamps(home.path(), ".sst"),
        tables,
        "no table was rewritten"
    );
    assert_eq!(ids_of(&after), ids);
    assert!(after.summary.observed_rate <= 0.0015, "{after:?}");
    assert!(of_segments(&after) <= 0.0015, "{after:?}");
    assert!((after.summary.promised_rate - 0.001).abs() < 1e-9);
    check_reads(&db, &model);
    verify_finds_every_key(&db);
    drop(db);
    // The stricter filters are the stored ones.
    let db = SieveDb::open(
        &settings,
        &for_speed().filter_size(size(0.001)),
        home.path(),
    )
    .unwrap();
    cover(&db);
    for table in &report(&db).segments {
        assert_eq!(table.filter.as_ref().unwrap().source, "raw keys");
        assert!(table.saved);
    }
    check_settled(&db, &model);
}

/// Opened with another rate than before, a database gets filters of the new rate.
#[test]
fn rate_given_at_open_takes_effect() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options(), &for_speed(), home.path()).unwrap();
        fill(&db, &mut model, 0..4_000);
        db.flush().unwrap();
        cover(&db);
    }
    let db = SieveDb::open(
        &options(),
        &for_speed().filter_size(size(0.0005)),
        home.path(),
    )
    .unwrap();
    check_reads(&db, &model);
    cover(&db);
    db.filters().consolidate().unwrap();
    let report = report(&db);
    assert!(report.summary.observed_rate <= 0.0008, "{report:?}");
    assert!(of_segments(&report) <= 0.0008, "{report:?}");
    check_settled(&db, &model);
}

#[test]
fn cf_created_after_set_rate_has_the_new_rate() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &for_speed(), home.path()).unwrap();
    db.filters().set_filter_size(size(0.0005));
    db.create_cf("late", &Options::default()).unwrap();
    let cf = db.cf_handle("late").unwrap();
    for i in 0..3_000 {
        db.put_cf(&cf, key(i), b"x").unwrap();
    }
    db.flush_cf(&cf).unwrap();
    cover(&db);
    db.filters().consolidate().unwrap();
    let cfs = db.filters().inspect().unwrap().cfs;
    let late = cfs.iter().find(|cf| cf.name == "late").unwrap();
    assert!(late.summary.observed_rate <= 0.0008, "{late:?}");
    assert!(of_segments(late) <= 0.0008, "{late:?}");
}

/// Maintenance leaves a filter alone that keeps its rate: rebuilding one reads a whole SST.
#[test]
fn filter_that_keeps_its_rate_is_never_rebuilt() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &for_speed(), home.path()).unwrap();
    let mut next = 0;
    for keys in [1, 2, 3, 10, 51, 52, 53, 100, 211, 500, 1_000, 2_047, 4_000] {
        for _ in 0..keys {
            db.put(key(next), b"x").unwrap();
            next += 1;
        }
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let saved = stamps(&home.path().join("sieve"), ".sieve");
    for table in &report(&db).segments {
        let filter = table.filter.as_ref().unwrap();
        assert_eq!(filter.source, "table capture", "{table:?}");
        assert!(filter.predicted_rate <= 0.01 && table.saved, "{table:?}");
    }
    db.filters().consolidate().unwrap();
    db.filters().consolidate().unwrap();
    let kept = stamps(&home.path().join("sieve"), ".sieve");
    for (name, stamp) in &saved {
        if !name.to_string_lossy().starts_with("summary") {
            assert_eq!(kept.get(name), Some(stamp), "{name:?} was written again");
        }
    }
    assert!(next > KEYS);
}

/// At a loose rate many keys change no bit of the grown summary, and are not counted there.
#[test]
fn loose_summary_is_consolidated_into_one_stage() {
    const FIRST: u64 = 500;
    let home = tempfile::tempdir().unwrap();
    let settings = SieveOptions::default()
        .filter_size(size(0.3))
        .expected_keys(Items::new(FIRST));
    let db = SieveDb::open(&options(), &settings, home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..40 * FIRST);
    assert!(report(&db).summary.stages > 3, "the summary has not grown");
    db.filters().consolidate().unwrap();
    assert_eq!(report(&db).summary.stages, 1);
}

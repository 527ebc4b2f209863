//! One map in the place of the summary and of all tables' filters: a key's run is told, and none is lost.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a summary is damaged past the door to files, as a disk would"
)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::{Bits, ColumnReport, FilterReport, Items, Rate, SieveDb, SieveOptions};
use rocksdb::statistics::Ticker;
use rocksdb::{Options, ReadOptions};

use crate::twin::{
    Dice, Model, PATIENCE, absent_key, agree, agrees_within, cover, fill, key, nothing_is_lost,
    options, report, scribble, settle, whole,
};

const RUNS: u64 = 4;
const RUN: u64 = 10_000;

fn sieve() -> SieveOptions {
    crate::twin::sieve().run_map(true)
}

/// Options under which each flush makes a run that stays.
fn uncompacted() -> Options {
    let mut options = options();
    options.set_disable_auto_compactions(true);
    options
}

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    SieveDb::open(&uncompacted(), sieve, path).unwrap()
}

fn consolidate(db: &SieveDb) {
    cover(db);
    db.consolidate().unwrap();
    settle(db);
}

/// A consolidated database of four runs, each key in one of them.
fn filled(path: &Path, sieve: &SieveOptions) -> (SieveDb, Model) {
    let (db, mut model) = (open(path, sieve), Model::new());
    for run in 0..RUNS {
        fill(&db, &mut model, run * RUN..(run + 1) * RUN);
        db.flush().unwrap();
    }
    consolidate(&db);
    (db, model)
}

fn tables(report: &ColumnReport) -> Vec<&FilterReport> {
    let filters = report.segments.iter().map(|table| table.filter.as_ref());
    filters.flatten().collect()
}

/// Whether the summary's map speaks for every table.
fn is_mapped(db: &SieveDb) -> bool {
    let report = report(db);
    let filters = tables(&report);
    let mapped = |filter: &&FilterReport| filter.source == "the summary's map" && filter.bits == 0;
    filters.len() == report.segments.len() && filters.iter().all(mapped)
}

fn await_map(db: &SieveDb) {
    let began = Instant::now();
    while !is_mapped(db) {
        assert!(began.elapsed() < PATIENCE, "{:?}", report(db));
        settle(db);
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_map_stands_for_all_filters_and_comes_back() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = filled(home.path(), &sieve());
    let check = |db: &SieveDb, model: &Model| {
        assert!(is_mapped(db), "{:?}", report(db));
        let report = report(db);
        // Of values 3 and of fingerprints 7.8, and a little more for so few keys.
        let bits = report.summary.bits_per_key;
        assert!((10.9..11.3).contains(&bits), "{report:?}");
        assert!(report.summary.observed_rate < 0.003, "{report:?}");
        for table in tables(&report) {
            assert!(table.observed_rate < 0.0008, "{table:?}");
            assert!((table.predicted_rate - 0.000_58).abs() < 1e-6);
        }
        whole(db, model);
        let verified = db.verify(true).unwrap();
        assert!(verified.missing.is_empty(), "{verified:?}");
        let memory = db.health().memory;
        assert_eq!(memory.segments, Bits::new(0));
    };
    check(&db, &model);
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    check(&db, &model);

    // What is written now has filters of its own until the next map is made.
    fill(&db, &mut model, RUNS * RUN..RUNS * RUN + 5_000);
    scribble(&db, "default", &mut model, &mut Dice(1), 2_000);
    db.flush().unwrap();
    settle(&db);
    assert!(!is_mapped(&db));
    agree(&db, &model);
    nothing_is_lost(&db);
    db.consolidate().unwrap();
    assert!(is_mapped(&db));
    agree(&db, &model);
    nothing_is_lost(&db);
}

/// RocksDB counts the tables that a filter spared it, and those that it searched.
#[test]
fn a_hit_searches_the_one_table_that_has_the_key() {
    const ASKED: u64 = 4_000;
    let home = tempfile::tempdir().unwrap();
    let mut options = uncompacted();
    options.enable_statistics();
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    // Each run spans all keys.
    for run in 0..RUNS {
        (run..ASKED)
            .step_by(RUNS as usize)
            .for_each(|i| db.put(key(i), b"value").unwrap());
        db.flush().unwrap();
    }
    consolidate(&db);
    let count = || {
        [Ticker::BloomFilterUseful, Ticker::BloomFilterFullPositive]
            .map(|ticker| options.get_ticker_count(ticker))
    };
    let before = count();
    for i in 4..ASKED {
        assert!(db.get(key(i)).unwrap().is_some());
    }
    let [spared, searched] = [0, 1].map(|at| count()[at] - before[at]);
    // On the way to the oldest of four there are three others, on the way to the newest none.
    let mean = (ASKED - 4) * 3 / 2;
    assert!(spared.abs_diff(mean) < 20, "{spared} tables spared");
    assert!(
        searched.abs_diff(ASKED - 4) < 20,
        "{searched} tables searched"
    );
}

/// Most keys are in several runs, as values, tombstones or operands.
#[test]
fn what_is_overwritten_deleted_or_merged_in_other_runs_reads_as_the_newest() {
    for seed in 1..=3 {
        let home = tempfile::tempdir().unwrap();
        let (db, mut model) = (open(home.path(), &sieve()), Model::new());
        let mut dice = Dice(seed);
        for run in 0..12 {
            scribble(&db, "default", &mut model, &mut dice, 400);
            db.flush().unwrap();
            if run % 3 == 1 {
                consolidate(&db);
                agree(&db, &model);
            }
        }
        consolidate(&db);
        assert!(is_mapped(&db));
        agree(&db, &model);
        nothing_is_lost(&db);
        drop(db);
        let db = open(home.path(), &sieve());
        cover(&db);
        assert!(is_mapped(&db));
        agree(&db, &model);
        nothing_is_lost(&db);
    }
}

/// The tombstone is the newest entry, in a table of its own.
#[test]
fn a_deleted_key_stays_deleted() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = filled(home.path(), &sieve().audit(0));
    for i in (10..2_000).step_by(7) {
        db.delete(key(i)).unwrap();
        model.remove(&key(i));
    }
    db.flush().unwrap();
    consolidate(&db);
    assert!(is_mapped(&db));
    agree(&db, &model);
    nothing_is_lost(&db);
}

#[test]
fn a_snapshot_sees_what_later_runs_hide() {
    let home = tempfile::tempdir().unwrap();
    let (db, _) = filled(home.path(), &sieve());
    let snapshot = db.snapshot();
    for i in 10..3_000 {
        if i % 2 == 0 {
            db.delete(key(i)).unwrap();
        } else {
            db.put(key(i), b"newer").unwrap();
        }
    }
    db.flush().unwrap();
    consolidate(&db);
    let mut then = ReadOptions::default();
    then.set_snapshot(&snapshot);
    for i in 10..3_000 {
        let old = format!("value {i}").into_bytes();
        assert_eq!(db.get_opt(key(i), &then).unwrap(), Some(old), "key {i}");
        let new = (i % 2 == 1).then(|| b"newer".to_vec());
        assert_eq!(db.get(key(i)).unwrap(), new, "key {i}");
    }
}

/// No write comes after the compaction, which leaves the map without a table.
#[test]
fn tables_that_a_compaction_makes_come_into_the_next_map() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    db.compact_range::<&[u8], &[u8]>(None, None);
    agree(&db, &model);
    await_map(&db);
    assert_eq!(report(&db).segments.len(), 1);
    whole(&db, &model);
}

/// Of more runs than there are numbers the smallest share one.
#[test]
fn more_runs_than_a_map_tells_apart_are_all_found() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = (open(home.path(), &sieve()), Model::new());
    for run in 0..20 {
        fill(&db, &mut model, run * 300..(run + 1) * 300 + run * 10);
        db.flush().unwrap();
    }
    consolidate(&db);
    assert!(is_mapped(&db) && report(&db).segments.len() == 20);
    whole(&db, &model);
}

#[test]
fn keys_written_and_compacted_while_a_map_is_made_are_found() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_write_buffer_size(64 << 10);
    options.set_level_zero_file_num_compaction_trigger(2);
    options.set_target_file_size_base(64 << 10);
    options.set_max_bytes_for_level_base(256 << 10);
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    cover(&db);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) {
                db.put(key(written), b"value").unwrap();
                let early = key(written / 2);
                assert!(db.get(early).unwrap().is_some(), "half of {written}");
                written += 1;
            }
            written
        });
        for _ in 0..30 {
            // It may be overtaken by what it races with.
            drop(db.consolidate());
        }
        done.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        for i in 0..written {
            assert!(db.get(key(i)).unwrap().is_some(), "key {i} of {written}");
        }
    });
    consolidate(&db);
    nothing_is_lost(&db);
}

/// Nobody has to consolidate: upkeep does when the writers pause.
#[test]
fn a_database_takes_a_map_and_leaves_it_again() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &crate::twin::sieve().static_filters(true));
    assert!(!is_mapped(&db));
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    agree(&db, &model);
    await_map(&db);
    whole(&db, &model);
    drop(db);
    let db = open(home.path(), &crate::twin::sieve());
    cover(&db);
    agree(&db, &model);
    let own = || {
        let there = report(&db);
        let own = tables(&there).into_iter().filter(|filter| filter.bits > 0);
        own.count() as u64
    };
    // Nobody calls for what the tables need.
    let began = Instant::now();
    while own() < RUNS {
        assert!(began.elapsed() < PATIENCE, "{:?}", report(&db));
        thread::sleep(Duration::from_millis(20));
    }
    whole(&db, &model);
}

/// Upkeep has not looked at the tables yet when it saves what it knows of them.
#[test]
fn a_map_outlasts_opens_that_end_at_once() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    drop(db);
    for _ in 0..20 {
        drop(open(home.path(), &sieve()));
    }
    let db = open(home.path(), &sieve().frozen(true));
    cover(&db);
    assert!(is_mapped(&db), "{:?}", report(&db));
    agree(&db, &model);
}

/// It read the stored map, whose shares took the place of those in the map that is looked after.
#[test]
fn a_family_that_is_there_and_is_made_again_keeps_its_map() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    let mapped = |db: &SieveDb| {
        let report = report(db);
        let filters = tables(&report).into_iter();
        filters.filter(|filter| filter.bits == 0).count() as u64
    };
    // More where writers who were kept waiting were taken for quiet.
    let runs = mapped(&db);
    assert!(runs >= RUNS, "{:?}", report(&db));
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    assert!(is_mapped(&db));
    db.create_cf("default", &uncompacted()).unwrap_err();
    fill(&db, &mut model.clone(), 10..20);
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    settle(&db);
    assert_eq!(mapped(&db), runs, "{:?}", report(&db));
    agree(&db, &model);
}

#[test]
fn without_filters_of_tables_there_is_no_map() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve().segment_rate(None));
    assert!(tables(&report(&db)).is_empty());
    agree(&db, &model);
    nothing_is_lost(&db);
}

/// In a budget that has no room for it the tables have filters of their own, as far as these fit.
#[test]
fn a_map_keeps_to_the_budget() {
    let memory = sieve().memory_for(Items::new(RUNS * RUN));
    assert_eq!(memory.segments, Bits::new(0));
    for budget in [
        memory.summary.get() * 5,
        memory.summary.get() * 9 / 10,
        1_000,
    ] {
        let home = tempfile::tempdir().unwrap();
        let sieve = sieve().memory_budget(Bits::new(budget));
        let (db, model) = filled(home.path(), &sieve);
        assert_eq!(is_mapped(&db), budget > memory.summary.get(), "{budget}");
        agrees_within(&db, &model, budget);
    }
}

/// The rate of a filled database is changed: another map, and no table is written anew.
#[test]
fn a_map_takes_another_rate() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    let before = report(&db).summary;
    db.set_rate(Rate::new(0.0005).unwrap());
    db.consolidate().unwrap();
    settle(&db);
    let after = report(&db).summary;
    assert!(is_mapped(&db));
    assert!(after.bits_per_key > before.bits_per_key + 3.0, "{after:?}");
    assert!(
        after.predicted_rate < before.predicted_rate / 8.0,
        "{after:?}"
    );
    whole(&db, &model);
}

/// A bit of the stored map has flipped: its tables are read, or have the sidecars of before.
#[test]
fn a_damaged_map_speaks_for_no_table() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    drop(db);
    let folder = home.path().join(SieveOptions::FOLDER);
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let is_summary = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("summary-")
    };
    let summaries: Vec<_> = files.filter(is_summary).collect();
    assert_eq!(summaries.len(), 1);
    let mut bytes = fs::read(&summaries[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&summaries[0], bytes).unwrap();
    let db = open(home.path(), &sieve());
    agree(&db, &model);
    cover(&db);
    await_map(&db);
    whole(&db, &model);
}

/// Readers take the map from the writer's files.
#[test]
fn readers_without_a_hand_in_the_files_have_the_map() {
    let home = tempfile::tempdir().unwrap();
    let messages = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &sieve());
    drop(db);
    let reader = SieveDb::open_for_read_only(&uncompacted(), &sieve(), home.path(), false).unwrap();
    settle(&reader);
    assert!(is_mapped(&reader));
    agree(&reader, &model);
    let passed = (0..5_000).filter(|&i| !reader.answer(absent_key(i)).is_absent());
    assert!(passed.count() < 50);
    drop(reader);
    let (path, messages) = (home.path(), messages.path());
    let follower = SieveDb::open_as_secondary(&uncompacted(), &sieve(), path, messages).unwrap();
    cover(&follower);
    settle(&follower);
    assert!(is_mapped(&follower));
    agree(&follower, &model);
    nothing_is_lost(&follower);
}

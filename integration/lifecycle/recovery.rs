//! After a close or a crash, every key is found at once, and the filters become complete again.

use std::collections::BTreeSet;

use lsm_sieve::SieveDb;
use rocksdb::DEFAULT_COLUMN_FAMILY_NAME as DEFAULT;

use crate::support::binding::{delete_files, options_by_text};
use crate::support::database_files::{copy, sidecars, stamps, summaries};
use crate::support::model_db::{
    Dice, KEYS, Model, check_reads, check_settled, cover, fill, key, open, options, report,
    report_with_read_only_filters, settle, sieve, write_randomly,
};

#[test]
fn after_a_clean_close_coverage_is_complete_and_no_sst_is_read() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(1), 900);
        db.flush().unwrap();
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(2), 900);
        db.flush().unwrap();
        cover(&db);
    }
    let before = stamps(&home.path().join("sieve"), "");
    let read_only_filters = report_with_read_only_filters(home.path(), &options());
    assert_eq!(
        read_only_filters.uncovered,
        Some(0),
        "the stored summary covers all SSTs"
    );
    assert!(!read_only_filters.segments.is_empty());
    for segment in &read_only_filters.segments {
        assert!(segment.covered && segment.consulted && segment.saved);
        let filter = segment.filter.as_ref().unwrap();
        assert_eq!(filter.source, "table capture", "not from the table's keys");
    }
    assert_eq!(before, stamps(&home.path().join("sieve"), ""), "unchanged");
    let db = open(home.path());
    check_reads(&db, &model);
    check_settled(&db, &model);
}

/// The log is replayed into memtables, which feed the filters as usual.
#[test]
fn after_a_crash_every_key_is_found_and_covered_again() {
    for keep_in_memtable in [false, true] {
        for seed in 0..2 {
            let home = tempfile::tempdir().unwrap();
            let options = options();
            let text = format!("avoid_flush_during_recovery={keep_in_memtable}");
            let options = options_by_text(&options, &text).unwrap();
            let db = SieveDb::open(&options, &sieve(), home.path().join("db")).unwrap();
            let mut model = Model::new();
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed), 500);
            db.flush().unwrap();
            cover(&db);
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed + 10), 500);
            // Unlogged writes may be lost in a crash, so there must be none from here on.
            db.flush().unwrap();
            fill(&db, &mut model, 500..700);
            db.delete(key(600)).unwrap();
            model.remove(&key(600));
            db.merge(key(601), b"+").unwrap();
            model.get_mut(&key(601)).unwrap().push(b'+');
            for (stage, name) in ["before", "after"].iter().enumerate() {
                let image = home.path().join(name);
                copy(&home.path().join("db"), &image);
                let crashed = SieveDb::open(&options, &sieve(), &image).unwrap();
                check_reads(&crashed, &model);
                check_settled(&crashed, &model);
                drop(crashed);
                let again = SieveDb::open(&options, &sieve(), &image).unwrap();
                check_settled(&again, &model);
                if stage == 0 {
                    db.filters().consolidate().unwrap();
                    fill(&db, &mut model, 700..750);
                }
            }
        }
    }
}

/// SSTs that are deleted by a call take their keys with them, and no other keys.
#[test]
fn ssts_deleted_by_a_call_lose_no_other_key() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    let row = |i: u32| format!("row {i:04}");
    (0..900).for_each(|i| db.put(row(i), b"value").unwrap());
    // Only SSTs below the first level can be deleted.
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let mut left = Model::new();
    fill(&db, &mut left, 0..300);
    db.flush().unwrap();
    cover(&db);
    delete_files(&db, false).unwrap();
    db.delete_file_in_range(row(0), row(900)).unwrap();
    delete_files(&db, true).unwrap();
    check_reads(&db, &left);
    fill(&db, &mut left, 0..100);
    check_reads(&db, &left);
    check_settled(&db, &left);
}

/// An SST that a compaction only moves is its input and its output at once.
#[test]
fn trivially_moved_sst_keeps_its_filter_and_keys() {
    let home = tempfile::tempdir().unwrap();
    let filters = home.path().join("sieve");
    let db = open(home.path());
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    let mut model = Model::new();
    for numbers in [10..400, 400..800] {
        fill(&db, &mut model, numbers);
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let written = || -> Vec<_> {
        let files = sidecars(&filters).into_iter();
        files
            .map(|path| path.metadata().unwrap().modified().unwrap())
            .collect()
    };
    let places = || {
        let tables = report(&db).segments.into_iter();
        tables.map(|table| (table.file, table.level)).unzip()
    };
    let (files, levels): (BTreeSet<String>, Vec<Option<u32>>) = places();
    assert_eq!(levels, [Some(0); 2]);
    let before = written();
    assert_eq!(before.len(), 2);
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let (moved, levels) = places();
    assert_eq!(files, moved, "RocksDB moved them and rewrote none");
    assert!(levels.iter().all(|level| *level > Some(0)), "{levels:?}");
    // A filter is dropped after two listings in a row lack its SST.
    for _ in 0..3 {
        db.filters().consolidate().unwrap();
        settle(&db);
        check_reads(&db, &model);
    }
    assert_eq!(before, written());
    check_settled(&db, &model);
}

/// RocksDB probes a segment filter before it reads the SST: without its tombstones in the filter,
/// the value of an older SST would come back.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it stands for a disk that loses a file"
)]
fn rebuilt_filter_has_the_tombstones_of_its_sst() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_disable_auto_compactions(true);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 0..KEYS);
        db.flush().unwrap();
        for i in (0..KEYS).step_by(2) {
            db.delete(key(i)).unwrap();
            model.remove(&key(i));
        }
        db.flush().unwrap();
    }
    // Without the summary, all filters are built during its rebuild; without the sidecars alone,
    // one by one.
    let filters = home.path().join("sieve");
    for lost in [
        sidecars(&filters),
        [sidecars(&filters), summaries(&filters)].concat(),
    ] {
        for file in lost {
            std::fs::remove_file(file).unwrap();
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_settled(&db, &model);
        let segments = report(&db).segments;
        assert!(segments.len() >= 2, "keys and deletions lie apart");
        for segment in segments {
            assert!(segment.consulted);
            assert_eq!(segment.filter.unwrap().source, "raw keys");
        }
    }
}

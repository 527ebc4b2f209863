//! Static filters: smaller, built from all keys at once. Keys written later are not lost.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lsm_sieve::{CfReport, FilterReport, FilterSize, Items, Prefix, SieveDb, SieveOptions};

use crate::support::model_db::{
    Dice, Model, absent_key, check_reads, check_reads_within_budget, check_settled, cover, fill,
    for_speed, key, options, report, settle, sieve, verify_finds_every_key, with_filter_budget,
    write_randomly,
};

const MANY: u64 = 40_000;

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = options();
    options.set_disable_auto_compactions(true);
    SieveDb::open(&options, sieve, path).unwrap()
}

/// A consolidated database of this many keys in two SSTs.
fn filled(path: &Path, sieve: &SieveOptions) -> (SieveDb, Model) {
    let (db, mut model) = (open(path, sieve), Model::new());
    for half in [0..MANY / 2, MANY / 2..MANY] {
        fill(&db, &mut model, half);
        db.flush().unwrap();
    }
    cover(&db);
    db.filters().consolidate().unwrap();
    settle(&db);
    (db, model)
}

/// It takes 11 bits per key for many keys, more for few. One that is not static has 13.6.
fn is_static(summary: &FilterReport) -> bool {
    summary.stages == 1 && (10.9..12.3).contains(&summary.bits_per_key)
}

fn tables(report: &CfReport) -> Vec<&FilterReport> {
    let filters = report.segments.iter().map(|table| table.filter.as_ref());
    filters.map(Option::unwrap).collect()
}

#[test]
fn static_summary_is_smaller_keeps_the_rate_and_reloads() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = filled(home.path(), &sieve());
    let check = |db: &SieveDb, model: &Model| {
        let report = report(db);
        assert!(is_static(&report.summary), "{report:?}");
        assert!(report.summary.observed_rate <= 0.0007, "{report:?}");
        let passed = (0..20_000).filter(|&i| !db.filters().answer(absent_key(i)).is_absent());
        assert!(passed.count() < 25);
        check_settled(db, model);
        verify_finds_every_key(db);
    };
    check(&db, &model);
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    check(&db, &model);

    // Keys written now go to a stage beside the static one.
    fill(&db, &mut model, MANY..MANY + 5_000);
    write_randomly(&db, "default", &mut model, &mut Dice(1), 2_000);
    check_reads(&db, &model);
    assert!(report(&db).summary.stages > 1);
    db.filters().consolidate().unwrap();
    assert_eq!(report(&db).summary.stages, 1);
    check_reads(&db, &model);
    verify_finds_every_key(&db);
}

/// Half of all keys are in no SST yet while the filter is solved.
#[test]
fn keys_written_during_a_static_build_are_found() {
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
                    !db.filters().answer(key(i)).is_absent(),
                    "key {i} right after it was written"
                );
            }
            written.start
        });
        for _ in 0..8 {
            db.filters().consolidate().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert!(written > 0);
        for i in 0..MANY + written {
            assert!(db.get(key(i)).unwrap().is_some(), "key {i}");
        }
    });
    verify_finds_every_key(&db);
}

/// No call is needed: maintenance consolidates when the writers pause.
#[test]
fn speed_and_memory_can_be_exchanged() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &for_speed());
    assert!(!is_static(&report(&db).summary));
    drop(db);
    let db = open(home.path(), &sieve());
    cover(&db);
    check_settled(&db, &model);
    for _ in 0..1_000 {
        if is_static(&report(&db).summary) {
            break;
        }
        settle(&db);
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let there = report(&db);
    assert!(is_static(&there.summary), "{there:?}");
    check_reads(&db, &model);
    drop(db);
    let db = open(home.path(), &for_speed());
    cover(&db);
    check_reads(&db, &model);
    db.filters().consolidate().unwrap();
    assert!(!is_static(&report(&db).summary));
    check_reads(&db, &model);
    verify_finds_every_key(&db);
}

#[test]
fn static_summary_keeps_the_memory_budget() {
    let memory = sieve().memory_for(Items::new(MANY));
    let all = memory.summary.get() + memory.segments.get();
    for budget in [all * 2, memory.summary.get() * 9 / 10, 1_000] {
        let home = tempfile::tempdir().unwrap();
        let sieve = with_filter_budget(sieve(), budget, 1);
        let (db, model) = filled(home.path(), &sieve);
        let report = report(&db);
        assert_eq!(
            is_static(&report.summary),
            budget > all,
            "{budget}: {report:?}"
        );
        check_reads_within_budget(&db, &model, budget);
    }
}

#[test]
fn bits_per_key_is_the_size_of_all_filters() {
    let home = tempfile::tempdir().unwrap();
    let bits = |bits| FilterSize::bits_per_key(bits).unwrap();
    let sieve = sieve()
        .filter_size(bits(12.0))
        .segment_filters(Some(bits(5.0)));
    let (db, model) = filled(home.path(), &sieve);
    let report = report(&db);
    // With few keys they take a little more than with millions.
    assert!(
        (11.8..12.3).contains(&report.summary.bits_per_key),
        "{report:?}"
    );
    assert!(report.summary.observed_rate < 0.0008, "{report:?}");
    for table in tables(&report) {
        assert!((4.8..5.3).contains(&table.bits_per_key), "{table:?}");
    }
    check_settled(&db, &model);
}

/// The SSTs of the last level have no filter, and RocksDB's own filters are not built either.
#[test]
fn leveled_tree_takes_13_bits_per_key_and_loses_none() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    settings.set_block_based_table_factory(&table);
    let open = || SieveDb::open(&settings, &sieve(), home.path()).unwrap();
    let (db, mut model) = (open(), Model::new());
    fill(&db, &mut model, 0..MANY);
    db.flush().unwrap();
    // Otherwise the SST would only be moved.
    let mut rewritten = rocksdb::CompactOptions::default();
    rewritten.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
    db.compact_range_opt::<&[u8], &[u8]>(None, None, &rewritten);
    fill(&db, &mut model, MANY..MANY + MANY / 10);
    db.flush().unwrap();
    cover(&db);
    db.filters().consolidate().unwrap();
    let check = |db: &SieveDb| {
        settle(db);
        let cf: CfReport = db.filters().inspect().unwrap().cfs.remove(0);
        let last = cf.segments.iter().filter_map(|table| table.level).max();
        assert!(last > Some(0), "{cf:?}");
        for table in &cf.segments {
            assert_eq!(table.filter.is_none(), table.level == last, "{table:?}");
            // If a deeper level comes, its filter will be asked.
            assert!(table.consulted, "{table:?}");
        }
        let in_segments = cf.segments.iter().filter_map(|table| table.filter.as_ref());
        let bits = cf.summary.bits + in_segments.map(|filter| filter.bits).sum::<u64>();
        let per_key = bits as f64 / (MANY + MANY / 10) as f64;
        assert!((11.0..13.0).contains(&per_key), "{per_key}");
        check_settled(db, &model);
    };
    check(&db);
    drop(db);
    let db = open();
    cover(&db);
    check(&db);
    drop(db);
    // Scans within a prefix ask each of them.
    let with_prefixes = sieve().prefixes("default", [Prefix::fixed(4)]);
    for everywhere in [for_speed(), with_prefixes] {
        let db = SieveDb::open(&settings, &everywhere, home.path()).unwrap();
        cover(&db);
        settle(&db);
        assert!(tables(&report(&db)).iter().all(|filter| filter.bits > 0));
        check_settled(&db, &model);
    }
}

/// Nothing writes it anew, so its filter is there and has to go.
#[test]
fn sst_that_is_moved_into_the_last_level_loses_its_filter() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = (open(home.path(), &sieve()), &mut Model::new());
    fill(&db, model, 0..1_000);
    db.flush().unwrap();
    settle(&db);
    let before = report(&db).segments.remove(0);
    assert!(before.level == Some(0) && before.filter.is_some());
    db.compact_range::<&[u8], &[u8]>(None, None);
    settle(&db);
    let after = report(&db).segments.remove(0);
    assert!(
        after.file == before.file && after.level > Some(0),
        "{after:?}"
    );
    assert!(after.filter.is_none(), "{after:?}");
    assert_eq!(db.filters().health().memory.segments.get(), 0);
    check_settled(&db, model);
}

/// Its last level has half of the keys or fewer.
#[test]
fn universal_tree_has_filters_on_every_level_as_it_is_written() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_compaction_style(rocksdb::DBCompactionStyle::Universal);
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    for _ in 0..2 {
        fill(&db, &mut model, 0..1_000);
        db.flush().unwrap();
    }
    db.compact_range::<&[u8], &[u8]>(None, None);
    settle(&db);
    let table = report(&db).segments.remove(0);
    let filter = table.filter.unwrap();
    assert!(
        table.level > Some(0) && filter.source == "table capture",
        "{filter:?}"
    );
    check_settled(&db, &model);
}

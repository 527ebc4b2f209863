//! Static filters: smaller, built from all keys at once. Keys written later are not lost.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use lsm_sieve::{CfReport, FilterReport, FilterSize, Items, SieveDb, SieveOptions};

use crate::support::model_db::{
    Dice, Model, absent_key, check_reads, check_reads_within_budget, check_settled, cover, fill,
    key, options, report, settle, verify_finds_every_key, with_filter_budget, write_randomly,
};

const MANY: u64 = 40_000;

fn sieve() -> SieveOptions {
    crate::support::model_db::sieve().static_filters(true)
}

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
    db.consolidate().unwrap();
    settle(&db);
    (db, model)
}

/// A summary filter takes 8.8 bits per key for many keys, and that of an SST 7; more for few. One
/// that is not static has 13.6, or 10.3.
fn is_static(filter: &FilterReport) -> bool {
    filter.stages == 1 && (6.8..9.9).contains(&filter.bits_per_key)
}

fn tables(report: &CfReport) -> Vec<&FilterReport> {
    let filters = report.segments.iter().map(|table| table.filter.as_ref());
    filters.map(Option::unwrap).collect()
}

#[test]
fn static_filters_are_smaller_keep_the_rate_and_reload() {
    let home = tempfile::tempdir().unwrap();
    let (db, mut model) = filled(home.path(), &sieve());
    let check = |db: &SieveDb, model: &Model| {
        let report = report(db);
        assert!(is_static(&report.summary), "{report:?}");
        assert!(report.summary.observed_rate <= 0.003, "{report:?}");
        assert!(tables(&report).into_iter().all(is_static), "{report:?}");
        let passed = (0..20_000).filter(|&i| !db.filter_answer(absent_key(i)).is_absent());
        assert!(passed.count() < 90);
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
    db.consolidate().unwrap();
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
                    !db.filter_answer(key(i)).is_absent(),
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
    verify_finds_every_key(&db);
}

/// No call is needed: maintenance consolidates when the writers pause.
#[test]
fn static_filters_can_be_turned_on_and_off() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = filled(home.path(), &crate::support::model_db::sieve());
    assert!(!tables(&report(&db)).into_iter().any(is_static));
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
    // The filters of the SSTs stay as they were.
    assert!(!tables(&there).into_iter().any(is_static));
    check_reads(&db, &model);
    drop(db);
    let db = open(home.path(), &crate::support::model_db::sieve());
    cover(&db);
    check_reads(&db, &model);
    db.consolidate().unwrap();
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

/// Failed under load: when the writer paused, maintenance consolidated and flushed what was there, and
/// the filter of so small an SST takes more bits per key. So the keys are in one SST here.
#[test]
fn bits_per_key_is_the_size_of_static_filters() {
    let home = tempfile::tempdir().unwrap();
    let bits = |bits| FilterSize::bits_per_key(bits).unwrap();
    let sieve = sieve()
        .filter_size(bits(12.0))
        .segment_filters(Some(bits(5.0)));
    let (db, model) = filled(home.path(), &sieve);
    let mut rewritten = rocksdb::CompactOptions::default();
    rewritten.set_bottommost_level_compaction(rocksdb::BottommostLevelCompaction::Force);
    db.compact_range_opt::<&[u8], &[u8]>(None, None, &rewritten);
    settle(&db);
    let report = report(&db);
    assert_eq!(report.segments.len(), 1, "{report:?}");
    // With few keys they take a little more than with millions.
    assert!(
        (11.8..12.3).contains(&report.summary.bits_per_key),
        "{report:?}"
    );
    assert!(report.summary.observed_rate < 0.0008, "{report:?}");
    for table in tables(&report) {
        assert!((4.9..5.3).contains(&table.bits_per_key), "{table:?}");
    }
    check_settled(&db, &model);
}

/// RocksDB's own filters of the upper levels are kept, and read.
#[test]
fn compact_settings_take_12_bits_per_key_and_lose_none() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_bloom_filter(10.0, false);
    settings.set_block_based_table_factory(&table);
    let open = || SieveDb::open(&settings, &SieveOptions::compact(), home.path()).unwrap();
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
    db.consolidate().unwrap();
    let cf: CfReport = db.inspect().unwrap().cfs.remove(0);
    assert!(cf.segments.iter().all(|segment| segment.filter.is_none()));
    assert!(
        cf.summary.bits_per_key < 11.5,
        "{}",
        cf.summary.bits_per_key
    );
    let name = rocksdb::properties::AGGREGATED_TABLE_PROPERTIES;
    let properties = db.property_value(name).unwrap().unwrap();
    let field = |name: &str| -> f64 {
        let fields = properties
            .split(';')
            .filter_map(|field| field.split_once('='));
        let mut values = fields.filter(|(key, _)| key.trim() == name);
        values.next().unwrap().1.trim().parse().unwrap()
    };
    let bits = field("filter block size") * 8.0 / field("# entries");
    assert!((0.5..1.5).contains(&bits), "RocksDB's own: {bits}");
    check_settled(&db, &model);
    drop(db);
    let db = open();
    cover(&db);
    check_settled(&db, &model);
}

//! A memory budget costs lookups, never a write and never a key.

use lsm_sieve::{Answer, Bits, SieveDb};
use rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
use rocksdb::statistics::Ticker;

use crate::maintenance::eventually;
use crate::support::model_db::{
    Dice, Model, absent_key, check_cf_reads, check_reads, check_settled, cover, fill, for_speed,
    key, options, settle, sieve, verify_finds_every_key, with_filter_budget, write_randomly,
};

#[test]
fn without_memory_for_filters_every_answer_is_maybe() {
    for bits in [0, 1, 511, 512, 4_096] {
        let home = tempfile::tempdir().unwrap();
        let tiny = || with_filter_budget(sieve(), bits, 1);
        let mut model = Model::new();
        {
            let db = SieveDb::open(&options(), &tiny(), home.path()).unwrap();
            write_randomly(
                &db,
                DEFAULT_COLUMN_FAMILY_NAME,
                &mut model,
                &mut Dice(bits),
                600,
            );
            check_reads(&db, &model);
            db.flush().unwrap();
            fill(&db, &mut model, 0..900);
            check_reads(&db, &model);
            db.filters().consolidate().unwrap();
            cover(&db);
            check_reads(&db, &model);
            let maybe = (0..100).filter(|&i| db.filters().answer(absent_key(i)) == Answer::Maybe);
            assert_eq!(maybe.count(), 100, "{bits} bits cannot rule out anything");
            verify_finds_every_key(&db);
        }
        let db = SieveDb::open(&options(), &tiny(), home.path()).unwrap();
        check_reads(&db, &model);
        drop(db);
        // With a larger budget, the filters come back.
        let db = SieveDb::open(&options(), &sieve(), home.path()).unwrap();
        check_reads(&db, &model);
        cover(&db);
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
    }
}

/// A summary that would outgrow its budget, which it kept at first, answers *maybe*.
#[test]
fn summary_over_budget_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let budget = with_filter_budget(sieve(), 20_000, 1);
    let db = SieveDb::open(&options(), &budget, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..100);
    cover(&db);
    assert!(db.filters().answer(absent_key(7)).is_absent());
    fill(&db, &mut model, 100..6_000);
    for i in 0..6_000 {
        assert_eq!(db.filters().answer(key(i)), Answer::Maybe);
    }
    db.flush().unwrap();
    check_reads(&db, &model);
    cover(&db);
    check_reads(&db, &model);
    verify_finds_every_key(&db);
}

/// A budget with room for all filters evicts none.
#[test]
fn filters_within_budget_are_kept() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let unbounded = SieveDb::open(&settings, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    fill(&unbounded, &mut model, 0..4_000);
    unbounded.flush().unwrap();
    cover(&unbounded);
    unbounded.filters().consolidate().unwrap();
    let cf = &unbounded.filters().inspect().unwrap().cfs[0];
    let segments = cf.segments.iter().filter_map(|table| table.filter.as_ref());
    let used = cf.summary.bits + segments.map(|filter| filter.bits).sum::<u64>();
    drop(unbounded);
    let budget = with_filter_budget(sieve(), used + used / 10, 1);
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    cover(&db);
    settle(&db);
    for table in &db.filters().inspect().unwrap().cfs[0].segments {
        assert!(table.filter.is_some(), "{table:?}");
    }
    check_settled(&db, &model);
}

/// At each pause of the writers, maintenance flushed and read all SSTs, only to build a summary
/// that would answer *maybe* as well.
#[test]
fn summary_over_budget_causes_no_flush() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let budget = with_filter_budget(sieve(), 4_096, 1);
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..3_000);
    db.flush().unwrap();
    settle(&db);
    let tables = || db.filters().inspect().unwrap().cfs[0].segments.len();
    let before = tables();
    for i in 3_000..3_005 {
        fill(&db, &mut model, i..i + 1);
        db.filters().consolidate().unwrap();
        assert_eq!(db.filters().answer(absent_key(i)), Answer::Maybe);
    }
    assert_eq!(tables(), before);
    check_reads(&db, &model);
}

/// The budget covers segment filters too. Once it is kept, maintenance reads nothing more.
#[test]
fn maintenance_settles_under_any_budget() {
    for bits in [
        0,
        4_096,
        8_192,
        20_000,
        42_000,
        60_000,
        80_000,
        100_000,
        1 << 30,
    ] {
        let home = tempfile::tempdir().unwrap();
        let mut settings = options();
        settings.enable_statistics();
        settings.set_disable_auto_compactions(true);
        let budget = with_filter_budget(sieve(), bits, 1);
        let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
        let mut model = Model::new();
        for table in 0..4 {
            fill(&db, &mut model, table * 1_000..(table + 1) * 1_000);
            db.flush().unwrap();
        }
        cover(&db);
        db.filters().consolidate().unwrap();
        let run_maintenance = || settle(&db);
        // One maintenance run to build filters, one to drop those over budget, one to find nothing
        // to do.
        (0..3).for_each(|_| run_maintenance());
        let blocks_read = || {
            let hits = settings.get_ticker_count(Ticker::BlockCacheDataHit);
            hits + settings.get_ticker_count(Ticker::BlockCacheDataMiss)
        };
        let before = blocks_read();
        (0..5).for_each(|_| run_maintenance());
        assert_eq!(
            blocks_read(),
            before,
            "{bits} bits: tables are read on and on"
        );
        db.filters().consolidate().unwrap();
        let read = blocks_read() > before;
        run_maintenance();

        let cf = &db.filters().inspect().unwrap().cfs[0];
        let filters = cf.segments.iter().filter_map(|table| table.filter.as_ref());
        let taken: u64 = filters.map(|filter| filter.bits).sum();
        let saturated = cf.summary.predicted_rate == 1.0;
        assert_eq!(
            read, !saturated,
            "{bits} bits: for another summary, or blindly"
        );
        let in_memory = db.filters().health().memory.summary;
        assert!(
            !saturated || in_memory <= Bits::new(512),
            "{bits} bits: a summary of {in_memory:?} that denies nothing"
        );
        let summary = if saturated { 0 } else { cf.summary.bits };
        assert!(
            taken + summary <= bits,
            "{taken} + {summary} bits of {bits}"
        );
        check_reads(&db, &model);
    }
}

fn bits_of(db: &SieveDb) -> u64 {
    let cfs = db.filters().inspect().expect("tables can be listed").cfs;
    let families = cfs.iter().map(|cf| {
        let filters = cf.segments.iter().filter_map(|table| table.filter.as_ref());
        cf.summary.bits + filters.map(|filter| filter.bits).sum::<u64>()
    });
    families.sum()
}

/// The filters of several column families share one budget.
#[test]
fn all_cfs_share_one_budget() {
    const FAMILIES: [&str; 3] = ["a", "b", "c"];
    // The least size of a summary filter and of a segment filter of one cache line, for each.
    const LINES: u64 = 8 * 512;
    for bits in [0, 30_000, 90_000, 150_000, 1 << 30] {
        let home = tempfile::tempdir().unwrap();
        let budget = || with_filter_budget(sieve(), bits, 4);
        let models: Vec<Model> = (0..3_u64)
            .map(|family| {
                (family * 1_000..family * 1_000 + 3_000)
                    .map(|i| (key(i), key(i)))
                    .collect()
            })
            .collect();
        let check = |db: &SieveDb| {
            (0..3).for_each(|_| settle(db));
            let taken = bits_of(db);
            assert!(taken <= bits + LINES, "{taken} bits of {bits}");
            for (name, model) in FAMILIES.iter().zip(&models) {
                check_cf_reads(db, name, model);
            }
        };
        {
            let db = SieveDb::builder(home.path())
                .options(&options())
                .filters(&budget())
                .cfs(FAMILIES)
                .open()
                .unwrap();
            for (name, model) in FAMILIES.iter().zip(&models) {
                let cf = db.cf_handle(name).unwrap();
                for (key, value) in model {
                    db.put_cf(&cf, key, value).unwrap();
                }
                db.flush_cf(&cf).unwrap();
            }
            cover(&db);
            check(&db);
            db.filters().consolidate().unwrap();
            check(&db);
        }
        let db = SieveDb::builder(home.path())
            .options(&options())
            .filters(&budget())
            .cfs(FAMILIES)
            .open()
            .unwrap();
        cover(&db);
        check(&db);
    }
}

/// Every lookup reaches the SSTs of level 0; few reach any one SST of the last level.
#[test]
fn filters_of_the_last_level_are_evicted_first() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let mut model = Model::new();
    let used = {
        let db = SieveDb::open(&settings, &for_speed(), home.path()).unwrap();
        fill(&db, &mut model, 0..4_000);
        db.flush().unwrap();
        db.compact_range::<&[u8], &[u8]>(None, None);
        for run in 0..2 {
            fill(&db, &mut model, 4_000 + run * 500..4_500 + run * 500);
            db.flush().unwrap();
        }
        cover(&db);
        db.filters().consolidate().unwrap();
        settle(&db);
        bits_of(&db) + db.filters().health().memory.overhead.get()
    };
    let budget = for_speed().memory_budget((used - 1_000) / 8);
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    for round in 0..2 {
        cover(&db);
        (0..3).for_each(|_| settle(&db));
        let tables = &db.filters().inspect().unwrap().cfs[0].segments;
        // Maintenance may flush in the middle of a fill.
        assert!(tables.len() as u64 >= 3 + round);
        for table in tables {
            let is_upper = table.level == Some(0);
            assert_eq!(table.filter.is_some(), is_upper, "round {round}: {table:?}");
        }
        check_reads(&db, &model);
        fill(&db, &mut model, 5_000..5_050);
        db.flush().unwrap();
    }
}

/// Summaries that outgrow their share are dropped and rebuilt while writers insert.
#[test]
fn writers_read_their_own_keys_while_summaries_are_dropped_and_rebuilt() {
    const FAMILIES: [&str; 2] = ["a", "b"];
    let home = tempfile::tempdir().unwrap();
    let budget = with_filter_budget(sieve(), 120_000, 3);
    let db = SieveDb::builder(home.path())
        .options(&options())
        .filters(&budget)
        .cfs(FAMILIES)
        .open()
        .unwrap();
    cover(&db);
    std::thread::scope(|scope| {
        let writers = FAMILIES.map(|name| {
            let db = &db;
            scope.spawn(move || {
                let cf = db.cf_handle(name).unwrap();
                for i in 0..20_000 {
                    db.put_cf(&cf, key(i), b"mine").unwrap();
                    assert!(
                        !db.filters().answer_cf(&cf, key(i)).is_absent(),
                        "key {i} is lost"
                    );
                    if i % 1_000 == 0 {
                        db.flush_cf(&cf).unwrap();
                    }
                }
            })
        });
        while !writers
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            settle(&db);
            // A summary over budget is an error, and loses no key.
            drop(db.filters().consolidate());
        }
    });
    for name in FAMILIES {
        let cf = db.cf_handle(name).unwrap();
        let lost = (0..20_000).filter(|&i| db.filters().answer_cf(&cf, key(i)).is_absent());
        assert_eq!(lost.count(), 0, "{name}");
    }
}

/// Precision is lost before the filter is.
#[test]
fn budget_can_be_changed_while_the_database_is_open() {
    const KEYS: u64 = 6_000;
    let home = tempfile::tempdir().unwrap();
    let settings = sieve().segment_filters(None).audit(0);
    let db = SieveDb::open(&options(), &settings, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.filters().consolidate().unwrap();
    let report = || db.filters().inspect().unwrap().cfs[0].summary.clone();
    let health = || db.filters().health().cfs.remove(0);
    let whole = report().bits;
    let bits_per_key = |bits: u64| bits as f64 / KEYS as f64;
    for (share, denied) in [(0.6, 900), (0.5, 600), (0.1, 0), (0.6, 900), (2.0, 980)] {
        let filters = (whole as f64 * share) as u64;
        let bytes = filters / 8 + health().overhead.to_bytes();
        db.filters().set_memory_budget(Some(bytes));
        eventually("the budget is kept and used", || {
            let bits = report().bits;
            let is_used = bits_per_key(bits) > 0.7 * bits_per_key(filters.min(whole));
            bits <= filters && (is_used || share < 0.2)
        });
        let absent = (0..1_000).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
        assert!(
            absent.count() >= denied,
            "of 1,000 at {share} of the memory"
        );
        check_reads(&db, &model);
    }
    db.filters().set_memory_budget(None);
    db.filters().consolidate().unwrap();
    // The number of keys is estimated from the smaller filter.
    let bits = report().bits;
    assert!(bits > whole / 10 * 9, "{bits} of {whole}");
    verify_finds_every_key(&db);
}

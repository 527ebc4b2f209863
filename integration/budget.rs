//! A budget of memory costs look-ups, never a write and never a key.

use lsm_sieve::{Answer, Bits, SieveDb};
use rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
use rocksdb::statistics::Ticker;

use crate::twin::{
    Dice, Model, absent_key, agree, agree_in, cover, fill, key, nothing_is_lost, options, scribble,
    settle, sieve, whole, within,
};

#[test]
fn with_no_room_for_filters_everything_may_be_there() {
    for bits in [0, 1, 511, 512, 4_096] {
        let home = tempfile::tempdir().unwrap();
        let tiny = || within(sieve(), bits, 1);
        let mut model = Model::new();
        {
            let db = SieveDb::open(&options(), &tiny(), home.path()).unwrap();
            scribble(
                &db,
                DEFAULT_COLUMN_FAMILY_NAME,
                &mut model,
                &mut Dice(bits),
                600,
            );
            agree(&db, &model);
            db.flush().unwrap();
            fill(&db, &mut model, 0..900);
            agree(&db, &model);
            db.consolidate().unwrap();
            cover(&db);
            agree(&db, &model);
            let maybe = (0..100).filter(|&i| db.answer(absent_key(i)) == Answer::Maybe);
            assert_eq!(maybe.count(), 100, "{bits} bits cannot rule out anything");
            nothing_is_lost(&db);
        }
        let db = SieveDb::open(&options(), &tiny(), home.path()).unwrap();
        agree(&db, &model);
        drop(db);
        // With room again, the filters come back.
        let db = SieveDb::open(&options(), &sieve(), home.path()).unwrap();
        agree(&db, &model);
        cover(&db);
        db.consolidate().unwrap();
        whole(&db, &model);
    }
}

/// Past a budget that held at first, a summary that would grow answers maybe.
#[test]
fn a_summary_that_outgrows_its_budget_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let budget = within(sieve(), 20_000, 1);
    let db = SieveDb::open(&options(), &budget, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..100);
    cover(&db);
    assert!(db.answer(absent_key(7)).is_absent());
    fill(&db, &mut model, 100..6_000);
    for i in 0..6_000 {
        assert_eq!(db.answer(key(i)), Answer::Maybe);
    }
    db.flush().unwrap();
    agree(&db, &model);
    cover(&db);
    agree(&db, &model);
    nothing_is_lost(&db);
}

/// A budget with room for all filters takes none away.
#[test]
fn filters_that_fit_the_budget_stay() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let unbounded = SieveDb::open(&settings, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    fill(&unbounded, &mut model, 0..4_000);
    unbounded.flush().unwrap();
    cover(&unbounded);
    unbounded.consolidate().unwrap();
    let column = &unbounded.inspect().unwrap().columns[0];
    let segments = column
        .segments
        .iter()
        .filter_map(|table| table.filter.as_ref());
    let used = column.summary.bits + segments.map(|filter| filter.bits).sum::<u64>();
    drop(unbounded);
    let budget = within(sieve(), used + used / 10, 1);
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    cover(&db);
    settle(&db);
    for table in &db.inspect().unwrap().columns[0].segments {
        assert!(table.filter.is_some(), "{table:?}");
    }
    whole(&db, &model);
}

/// It was flushed for and all tables were read, at each pause of the writers, for one that would
/// answer maybe as well.
#[test]
fn for_a_summary_without_room_nothing_is_flushed() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let budget = within(sieve(), 4_096, 1);
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..3_000);
    db.flush().unwrap();
    settle(&db);
    let tables = || db.inspect().unwrap().columns[0].segments.len();
    let before = tables();
    for i in 3_000..3_005 {
        fill(&db, &mut model, i..i + 1);
        db.consolidate().unwrap();
        assert_eq!(db.answer(absent_key(i)), Answer::Maybe);
    }
    assert_eq!(tables(), before);
    agree(&db, &model);
}

/// The budget holds for the tables' filters as well, and once it does, upkeep reads no more.
#[test]
fn upkeep_comes_to_rest_within_any_budget() {
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
        let budget = within(sieve(), bits, 1);
        let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
        let mut model = Model::new();
        for table in 0..4 {
            fill(&db, &mut model, table * 1_000..(table + 1) * 1_000);
            db.flush().unwrap();
        }
        cover(&db);
        db.consolidate().unwrap();
        let look = || settle(&db);
        // One pass to make filters, one to drop those that do not fit, one to find it quiet.
        (0..3).for_each(|_| look());
        let blocks_read = || {
            let hits = settings.get_ticker_count(Ticker::BlockCacheDataHit);
            hits + settings.get_ticker_count(Ticker::BlockCacheDataMiss)
        };
        let before = blocks_read();
        (0..5).for_each(|_| look());
        assert_eq!(
            blocks_read(),
            before,
            "{bits} bits: tables are read on and on"
        );
        db.consolidate().unwrap();
        let read = blocks_read() > before;
        look();

        let column = &db.inspect().unwrap().columns[0];
        let filters = column
            .segments
            .iter()
            .filter_map(|table| table.filter.as_ref());
        let taken: u64 = filters.map(|filter| filter.bits).sum();
        let saturated = column.summary.predicted_rate == 1.0;
        assert_eq!(
            read, !saturated,
            "{bits} bits: for another summary, or blindly"
        );
        let in_memory = db.health().memory.summary;
        assert!(
            !saturated || in_memory <= Bits::new(512),
            "{bits} bits: a summary of {in_memory:?} that denies nothing"
        );
        let summary = if saturated { 0 } else { column.summary.bits };
        assert!(
            taken + summary <= bits,
            "{taken} + {summary} bits of {bits}"
        );
        agree(&db, &model);
    }
}

fn bits_of(db: &SieveDb) -> u64 {
    let columns = db.inspect().expect("tables can be listed").columns;
    let families = columns.iter().map(|column| {
        let filters = column
            .segments
            .iter()
            .filter_map(|table| table.filter.as_ref());
        column.summary.bits + filters.map(|filter| filter.bits).sum::<u64>()
    });
    families.sum()
}

/// The filters of several families share one budget.
#[test]
fn all_families_together_keep_the_budget() {
    const FAMILIES: [&str; 3] = ["a", "b", "c"];
    // The least that a summary or a filter of a line takes, for each.
    const LINES: u64 = 8 * 512;
    for bits in [0, 30_000, 90_000, 150_000, 1 << 30] {
        let home = tempfile::tempdir().unwrap();
        let budget = || within(sieve(), bits, 4);
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
                agree_in(db, name, model);
            }
        };
        {
            let db = SieveDb::open_cf(&options(), &budget(), home.path(), FAMILIES).unwrap();
            for (name, model) in FAMILIES.iter().zip(&models) {
                let cf = db.cf_handle(name).unwrap();
                for (key, value) in model {
                    db.put_cf(&cf, key, value).unwrap();
                }
                db.flush_cf(&cf).unwrap();
            }
            cover(&db);
            check(&db);
            db.consolidate().unwrap();
            check(&db);
        }
        let db = SieveDb::open_cf(&options(), &budget(), home.path(), FAMILIES).unwrap();
        cover(&db);
        check(&db);
    }
}

/// Every look-up passes through the tables of level 0, few through any one of the last level.
#[test]
fn the_filters_of_the_last_level_go_first() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let mut model = Model::new();
    let used = {
        let db = SieveDb::open(&settings, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 0..4_000);
        db.flush().unwrap();
        db.compact_range::<&[u8], &[u8]>(None, None);
        for run in 0..2 {
            fill(&db, &mut model, 4_000 + run * 500..4_500 + run * 500);
            db.flush().unwrap();
        }
        cover(&db);
        db.consolidate().unwrap();
        settle(&db);
        bits_of(&db) + db.health().memory.fronts.get()
    };
    let budget = sieve().memory_budget(Bits::new(used - 1_000));
    let db = SieveDb::open(&settings, &budget, home.path()).unwrap();
    for round in 0..2 {
        cover(&db);
        (0..3).for_each(|_| settle(&db));
        let tables = &db.inspect().unwrap().columns[0].segments;
        // Upkeep may flush in the middle of a fill.
        assert!(tables.len() as u64 >= 3 + round);
        for table in tables {
            let is_upper = table.level == Some(0);
            assert_eq!(table.filter.is_some(), is_upper, "round {round}: {table:?}");
        }
        agree(&db, &model);
        fill(&db, &mut model, 5_000..5_050);
        db.flush().unwrap();
    }
}

/// Summaries that outgrow their share are dropped and made anew under the writers' feet.
#[test]
fn writers_read_their_own_keys_while_summaries_come_and_go() {
    const FAMILIES: [&str; 2] = ["a", "b"];
    let home = tempfile::tempdir().unwrap();
    let budget = within(sieve(), 120_000, 3);
    let db = SieveDb::open_cf(&options(), &budget, home.path(), FAMILIES).unwrap();
    cover(&db);
    std::thread::scope(|scope| {
        let writers = FAMILIES.map(|name| {
            let db = &db;
            scope.spawn(move || {
                let cf = db.cf_handle(name).unwrap();
                for i in 0..20_000 {
                    db.put_cf(&cf, key(i), b"mine").unwrap();
                    assert!(!db.answer_cf(&cf, key(i)).is_absent(), "key {i} is lost");
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
            // What does not fit is told, and costs no key.
            drop(db.consolidate());
        }
    });
    for name in FAMILIES {
        let cf = db.cf_handle(name).unwrap();
        let lost = (0..20_000).filter(|&i| db.answer_cf(&cf, key(i)).is_absent());
        assert_eq!(lost.count(), 0, "{name}");
    }
}

//! If the summary filter says *maybe*, the segment filters are checked. They lose no key either.
//!
//! The summary here is loose on purpose: one absent key in three passes it, and every present key
//! does, so that the segment-filter check decides.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{FilterSize, Items, SieveDb, SieveOptions};

use crate::support::model_db::{
    Model, absent_key, always_filtered, cover, fill, key, options, settle,
};

fn loose() -> SieveOptions {
    always_filtered()
        .expected_keys(Items::new(20_000))
        .filter_size(FilterSize::rate(0.3).unwrap())
        .segment_filters(Some(FilterSize::ONE_PERCENT.segment_part()))
}

/// How many of this many absent keys the filters cannot deny.
fn passed(db: &SieveDb, keys: u64) -> usize {
    (0..keys)
        .filter(|&i| !db.filter_answer(absent_key(i)).is_absent())
        .count()
}

fn no_key_is_lost(db: &SieveDb, model: &Model) {
    for (key, value) in model {
        assert!(!db.filter_answer(key).is_absent(), "{key:?} is lost");
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn segment_filters_deny_false_positives_of_the_summary() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &loose(), home.path()).unwrap();
    let mut model = Model::new();
    for run in 0..3 {
        fill(&db, &mut model, run * 5_000..(run + 1) * 5_000);
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let summary = db.inspect().unwrap().cfs[0].summary.predicted_rate;
    let tables = 3.0 * 0.01;
    let rate = passed(&db, 20_000) as f64 / 20_000.0;
    assert!(rate < summary * tables * 2.0, "{rate} of {summary}");
    no_key_is_lost(&db, &model);
}

/// Several memtable filters are in use at once: of memtables that were flushed, that were not, and
/// that were bound before a listing and written after it.
#[test]
fn keys_of_every_memtable_filter_are_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose(), home.path()).unwrap();
    let mut model = Model::new();
    cover(&db);
    for round in 0..40_u64 {
        fill(&db, &mut model, round * 100..round * 100 + 50);
        match round % 4 {
            0 => settle(&db),
            1 => {
                settle(&db);
                db.flush().unwrap();
            }
            2 => db.flush().unwrap(),
            _ => db.consolidate().unwrap(),
        }
        fill(&db, &mut model, round * 100 + 50..(round + 1) * 100);
        no_key_is_lost(&db, &model);
    }
    settle(&db);
    no_key_is_lost(&db, &model);
    assert!(passed(&db, 4_000) < 4_000 / 5);
}

/// A memtable that is never flushed feeds the first memtable filter while others are added and
/// dropped.
#[test]
fn memtable_filter_survives_many_listings() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose(), home.path()).unwrap();
    let mut model = Model::new();
    cover(&db);
    for i in 0..200 {
        fill(&db, &mut model, i..i + 1);
        settle(&db);
        assert!(!db.filter_answer(key(i)).is_absent());
    }
    no_key_is_lost(&db, &model);
}

/// SSTs are compacted and listed again while a memtable holds keys that are in none of them.
#[test]
fn memtable_filter_survives_a_compaction() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    let db = SieveDb::open(&settings, &loose(), home.path()).unwrap();
    for run in 0..4 {
        for i in 0..100 {
            db.put(format!("table {:03}", i * 4 + run), b"old").unwrap();
        }
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let written: Vec<String> = (0..400).map(|i| format!("memtable {i:03}")).collect();
    for key in &written {
        db.put(key, b"new").unwrap();
    }
    db.compact_range(Some("table 000"), Some("table 399"));
    cover(&db);
    settle(&db);
    let cfs = db.inspect().unwrap().cfs;
    assert_eq!(cfs[0].segments.len(), 1, "the memtable was flushed too");
    for key in &written {
        assert!(!db.filter_answer(key).is_absent(), "{key} is lost");
    }
}

/// A writer finds each of its keys at once, while memtable filters are replaced.
#[test]
fn writers_read_their_own_keys_while_ssts_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose(), home.path()).unwrap();
    cover(&db);
    settle(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..60_000 {
                db.put(key(i), b"mine").unwrap();
                assert!(!db.filter_answer(key(i)).is_absent(), "key {i} is lost");
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) && !writer.is_finished() {
            db.flush().unwrap();
            settle(&db);
            db.consolidate().unwrap();
        }
    });
    for i in 0..60_000 {
        assert!(!db.filter_answer(key(i)).is_absent(), "key {i} is lost");
    }
}

/// Keys move from a memtable to an SST while maintenance collects the memtable filters and lists
/// the SSTs.
#[test]
fn keys_flushed_while_ssts_are_listed_are_found() {
    const ROUNDS: u64 = 100;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose().audit(0), home.path()).unwrap();
    cover(&db);
    for round in 0..ROUNDS {
        db.put(key(round), b"mine").unwrap();
        db.flush().unwrap();
        for i in 0..=round {
            assert!(!db.filter_answer(key(i)).is_absent(), "key {i} is lost");
        }
    }
}

/// The segment-filter check covers the SSTs whose range spans the key. If too many of them overlap,
/// the engine is read, as without the check.
#[test]
fn any_number_of_disjoint_ssts_is_checked() {
    const KEYS: u64 = 2_080;
    let loaded = |tables: u64, number: &dyn Fn(u64, u64) -> u64, comparator: &str| {
        let home = tempfile::tempdir().unwrap();
        let text = format!("comparator=rocksdb.{comparator};disable_auto_compactions=true");
        let settings = options().get_options_from_string(&*text).unwrap();
        let filled = loose().expected_keys(Items::new(KEYS));
        let db = SieveDb::open(&settings, &filled, home.path()).unwrap();
        let mut model = Model::new();
        for run in 0..tables {
            for i in 0..KEYS / tables {
                let number = 10 + number(run, i);
                fill(&db, &mut model, number..number + 1);
            }
            db.flush().unwrap();
        }
        // Keys at both ends of the order, which are in no SST.
        fill(&db, &mut model, 0..4);
        cover(&db);
        settle(&db);
        no_key_is_lost(&db, &model);
        let passed = passed(&db, 10 + KEYS);
        // One more if maintenance used the pause to rebuild the summary, and flushed for it.
        let live = db.inspect().unwrap().cfs[0].segments.len() as u64;
        assert!((tables..=tables + 1).contains(&live), "{live} tables");
        (passed, db.health().cfs[0].checks_segment_filters)
    };
    let over = |tables: u64| move |run, i| i * tables + run;
    let (many, checks_segment_filters) = loaded(260, &over(260), "BytewiseComparator");
    assert!(!checks_segment_filters);
    for comparator in ["BytewiseComparator", "ReverseBytewiseComparator"] {
        let beside = |run, i| run * (KEYS / 20) + i;
        let (few, checks_segment_filters) = loaded(20, &beside, comparator);
        assert!(checks_segment_filters);
        assert!(
            few * 20 < many,
            "{few} pass beside, {many} over one another"
        );
        // More than are checked together.
        let (fewer, checks_segment_filters) = loaded(40, &over(40), comparator);
        assert!(checks_segment_filters);
        assert!(
            fewer * 2 < many,
            "{fewer} pass 40 over one another, {many} all"
        );
    }
}

//! The tables' own filters are asked where the summary says *maybe*, and lose no key either.
//!
//! The summary here is loose on purpose: one absent key in three passes it, and every key that is
//! there does, so that the second look decides.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{Items, Rate, SieveDb, SieveOptions};

use crate::twin::{Model, absent_key, cover, fill, key, options, settle, strict};

fn loose() -> SieveOptions {
    strict()
        .expected_keys(Items::new(20_000))
        .summary_rate(Rate::new(0.3).unwrap())
}

/// How many of the first so many absent keys the filters cannot rule out.
fn passed(db: &SieveDb, asked: u64) -> usize {
    (0..asked)
        .filter(|&i| !db.answer(absent_key(i)).is_absent())
        .count()
}

fn whole(db: &SieveDb, model: &Model) {
    for (key, value) in model {
        assert!(!db.answer(key).is_absent(), "{key:?} is lost");
        assert_eq!(db.get(key).unwrap().as_ref(), Some(value));
    }
}

#[test]
fn false_positives_of_the_summary_are_taken_back() {
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
    let summary = db.inspect().unwrap().columns[0].summary.predicted_rate;
    let tables = 3.0 * 0.01;
    let rate = passed(&db, 20_000) as f64 / 20_000.0;
    assert!(rate < summary * tables * 2.0, "{rate} of {summary}");
    whole(&db, &model);
}

/// Memtables of several generations stand before the tables at once: some flushed, some not, some
/// bound before a listing and written after it.
#[test]
fn keys_of_every_generation_stay() {
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
        whole(&db, &model);
    }
    settle(&db);
    whole(&db, &model);
    assert!(passed(&db, 4_000) < 4_000 / 5);
}

/// A memtable that is never flushed is bound to the first generation while others come and go.
#[test]
fn a_memtable_outlives_many_listings() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose(), home.path()).unwrap();
    let mut model = Model::new();
    cover(&db);
    for i in 0..200 {
        fill(&db, &mut model, i..i + 1);
        settle(&db);
        assert!(!db.answer(key(i)).is_absent());
    }
    whole(&db, &model);
}

/// Tables are compacted and listed anew while a memtable holds keys that are in none of them.
#[test]
fn a_memtable_outlives_a_compaction_beside_it() {
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
    let columns = db.inspect().unwrap().columns;
    assert_eq!(columns[0].segments.len(), 1, "the memtable was flushed too");
    for key in &written {
        assert!(!db.answer(key).is_absent(), "{key} is lost");
    }
}

/// A writer finds each of its keys at once, while generations change under it.
#[test]
fn writers_read_their_own_keys_while_tables_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose(), home.path()).unwrap();
    cover(&db);
    settle(&db);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..60_000 {
                db.put(key(i), b"mine").unwrap();
                assert!(!db.answer(key(i)).is_absent(), "key {i} is lost");
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
        assert!(!db.answer(key(i)).is_absent(), "key {i} is lost");
    }
}

/// Keys go from a memtable to a table while upkeep collects the one and lists the other.
#[test]
fn keys_flushed_while_tables_are_listed_stay() {
    const ROUNDS: u64 = 100;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &loose().audit(0), home.path()).unwrap();
    cover(&db);
    for round in 0..ROUNDS {
        db.put(key(round), b"mine").unwrap();
        db.flush().unwrap();
        for i in 0..=round {
            assert!(!db.answer(key(i)).is_absent(), "key {i} is lost");
        }
    }
}

/// A second look asks of many tables those that span the key; with more than it takes over one
/// another, the engine is asked, as without one.
#[test]
fn tables_beside_one_another_are_looked_at_however_many() {
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
        // From the first key to the last, of which no table knows.
        fill(&db, &mut model, 0..4);
        cover(&db);
        settle(&db);
        whole(&db, &model);
        let passed = passed(&db, 10 + KEYS);
        // One more where upkeep took the pause to make the summary anew, and flushed for it.
        let live = db.inspect().unwrap().columns[0].segments.len() as u64;
        assert!((tables..=tables + 1).contains(&live), "{live} tables");
        (passed, db.health().families[0].looks_twice)
    };
    let over = |tables: u64| move |run, i| i * tables + run;
    let (many, looks_twice) = loaded(260, &over(260), "BytewiseComparator");
    assert!(!looks_twice);
    for comparator in ["BytewiseComparator", "ReverseBytewiseComparator"] {
        let beside = |run, i| run * (KEYS / 20) + i;
        let (few, looks_twice) = loaded(20, &beside, comparator);
        assert!(looks_twice);
        assert!(
            few * 20 < many,
            "{few} pass beside, {many} over one another"
        );
        // More than are looked at together.
        let (fewer, looks_twice) = loaded(40, &over(40), comparator);
        assert!(looks_twice);
        assert!(
            fewer * 2 < many,
            "{fewer} pass 40 over one another, {many} all"
        );
    }
}

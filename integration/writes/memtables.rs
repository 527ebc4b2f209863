//! Every write that reaches a memtable is in the filters before it is visible, and stays there
//! through flush, compaction and consolidation.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{Answer, SieveDb, SieveOptions, Stats};
use rocksdb::{
    AsColumnFamilyRef, DBAccess, DEFAULT_COLUMN_FAMILY_NAME, Error, MemtableFactory, Options,
    ReadOptions, ReadTier, SnapshotWithThreadMode, WriteBatch, WriteOptions,
};

use crate::twin::{
    Dice, KEYS, Model, absent_key, agree, agree_in, check_settled, cover, fill, key, open, options,
    sieve, strict, verify_finds_every_key, write_randomly,
};

#[test]
fn random_writes_are_read_back_at_every_stage_of_their_life() {
    for seed in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let mut model = Model::new();
        let mut dice = Dice(seed);
        agree(&db, &model);
        for round in 0..5 {
            write_randomly(&db, DEFAULT_COLUMN_FAMILY_NAME, &mut model, &mut dice, 600);
            agree(&db, &model);
            match round {
                0 | 2 => db.flush().unwrap(),
                1 => db.compact_range::<&[u8], &[u8]>(None, None),
                3 => db.consolidate().unwrap(),
                _ => cover(&db),
            }
            agree(&db, &model);
        }
        check_settled(&db, &model);
        db.compact_range::<&[u8], &[u8]>(None, None);
        db.consolidate().unwrap();
        check_settled(&db, &model);
    }
}

#[test]
fn cfs_have_separate_filters() {
    let home = tempfile::tempdir().unwrap();
    let names = ["one", "two"];
    let db = SieveDb::open_cf(&options(), &sieve(), home.path(), names).unwrap();
    let mut models = [Model::new(), Model::new()];
    let mut dice = Dice(7);
    for _ in 0..4 {
        for (name, model) in names.iter().zip(&mut models) {
            write_randomly(&db, name, model, &mut dice, 300);
            db.flush_cf(&db.cf_handle(name).unwrap()).unwrap();
            agree_in(&db, name, model);
        }
    }
    cover(&db);
    for (name, model) in names.iter().zip(&models) {
        agree_in(&db, name, model);
        let cf = db.cf_handle(name).unwrap();
        let only_here = b"only here";
        db.put_cf(&cf, only_here, b"x").unwrap();
        let elsewhere = names.iter().find(|other| *other != name).unwrap();
        let elsewhere = db.cf_handle(elsewhere).unwrap();
        assert_eq!(db.filter_answer_cf(&cf, only_here), Answer::Maybe);
        assert_eq!(db.get_cf(&elsewhere, only_here).unwrap(), None);
        db.delete_cf(&cf, only_here).unwrap();
    }
    verify_finds_every_key(&db);
}

/// Makes RocksDB remember where in the memtable it inserted the last key of each prefix.
const HINTED: &str = "memtable_insert_with_hint_prefix_extractor=fixed:4";

/// The ways in which RocksDB can order memtable inserts and visibility.
#[test]
fn every_write_mode_feeds_the_filters() {
    type Mode = (&'static str, fn(&mut Options));
    let modes: [Mode; 6] = [
        ("unordered", |o| o.set_unordered_write(true)),
        ("pipelined", |o| o.set_enable_pipelined_write(true)),
        ("one writer", |o| {
            o.set_allow_concurrent_memtable_write(false)
        }),
        ("atomic flush", |o| o.set_atomic_flush(true)),
        ("hints and blooms", |o| {
            *o = o.get_options_from_string(HINTED).unwrap();
            o.set_memtable_whole_key_filtering(true);
            o.set_memtable_prefix_bloom_ratio(0.1);
        }),
        ("vector memtable", |o| {
            o.set_allow_concurrent_memtable_write(false);
            o.set_memtable_factory(MemtableFactory::Vector);
        }),
    ];
    for (name, mode) in modes {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        mode(&mut options);
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        let mut model = Model::new();
        println!("{name}");
        write_randomly(
            &db,
            DEFAULT_COLUMN_FAMILY_NAME,
            &mut model,
            &mut Dice(3),
            400,
        );
        agree(&db, &model);
        db.flush().unwrap();
        write_randomly(
            &db,
            DEFAULT_COLUMN_FAMILY_NAME,
            &mut model,
            &mut Dice(4),
            400,
        );
        check_settled(&db, &model);
        db.consolidate().unwrap();
        check_settled(&db, &model);
    }
}

/// RocksDB inserts such keys by separate calls.
#[test]
fn keys_inserted_by_a_hint_are_in_the_filters() {
    let by_prefix = options().get_options_from_string(HINTED).unwrap();
    let mut by_batch = options();
    by_batch.set_unordered_write(true);
    let mut hinted = WriteOptions::default();
    hinted.set_memtable_insert_hint_per_batch(true);
    for (name, options, write) in [
        ("prefix", by_prefix, WriteOptions::default()),
        ("batch", by_batch, hinted),
    ] {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::open(&options, &sieve().audit(0), home.path()).unwrap();
        cover(&db);
        for i in 10..100 {
            db.put_opt(key(i), b"hinted", &write).unwrap();
            assert!(
                !db.filter_answer(key(i)).is_absent(),
                "{name}: key {i} is lost"
            );
        }
    }
}

/// Eight writers each read their own writes at once, while SSTs are flushed and compacted and
/// filters are rebuilt.
#[test]
fn eight_writers_at_once_read_their_own_writes() {
    const EACH: u64 = 1_500;
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_write_buffer_size(64 << 10);
    options.set_level_zero_file_num_compaction_trigger(2);
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let upkeep = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.consolidate().unwrap();
            }
        });
        let writers = (0..8_u64).map(|writer| {
            let db = &db;
            scope.spawn(move || {
                for i in 0..EACH {
                    let key = key(100 + writer * EACH + i);
                    if i % 3 == 0 {
                        let mut batch = WriteBatch::default();
                        batch.put(&key, b"batch");
                        db.write(batch).unwrap();
                    } else if i % 3 == 1 {
                        db.put(&key, b"put").unwrap();
                    } else {
                        db.merge(&key, b"merge").unwrap();
                    }
                    assert_eq!(db.filter_answer(&key), Answer::Maybe);
                    assert!(db.get(&key).unwrap().is_some());
                    assert!(db.get(absent_key(i)).unwrap().is_none());
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Before a writer's failure is reported, so that no thread waits for the other.
        done.store(true, Ordering::Relaxed);
        upkeep.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    cover(&db);
    let keys: Vec<_> = (100..100 + 8 * EACH).map(key).collect();
    assert!(
        db.multi_get(&keys)
            .into_iter()
            .all(|value| value.unwrap().is_some())
    );
    verify_finds_every_key(&db);
}

/// An iterator skips a deleted key, but an older snapshot still sees it: a consolidation must keep
/// it.
#[test]
fn snapshot_older_than_a_consolidation_reads_deleted_keys() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let mut then = ReadOptions::default();
    then.set_snapshot(&snapshot);
    for i in 0..KEYS {
        match i % 3 {
            0 => db.delete(key(i)).unwrap(),
            1 => db.put(key(i), b"newer").unwrap(),
            _ => {}
        }
    }
    let as_then = |stage: &str| {
        for (key, value) in &model {
            let found = [db.get_opt(key, &then), snapshot.get(key)];
            let found = found.map(Result::unwrap);
            assert_eq!(found, [Some(value.clone()), Some(value.clone())], "{stage}");
        }
    };
    as_then("in the memtable");
    db.consolidate().unwrap();
    as_then("consolidated");
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    db.consolidate().unwrap();
    as_then("compacted and consolidated");
    for i in (0..KEYS).step_by(3) {
        assert_eq!(db.get(key(i)).unwrap(), None);
    }
    verify_finds_every_key(&db);
}

/// By every read of a snapshot that code written for any of `rocksdb`'s databases may use.
fn found_in(
    db: &impl DBAccess,
    cf: &impl AsColumnFamilyRef,
    key: &[u8],
) -> Result<[bool; 6], Error> {
    let snapshot = SnapshotWithThreadMode::new(db);
    Ok([
        snapshot.get(key)?.is_some(),
        snapshot.get_cf(cf, key)?.is_some(),
        snapshot.get_pinned(key)?.is_some(),
        snapshot.get_pinned_cf(cf, key)?.is_some(),
        snapshot.multi_get([key]).remove(0)?.is_some(),
        snapshot.multi_get_cf([(cf, key)]).remove(0)?.is_some(),
    ])
}

#[test]
fn snapshot_reads_use_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().audit(0).spare_hits(false).transactions(true);
    let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..KEYS);
    db.flush().unwrap();
    cover(&db);
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let stranger = (0..)
        .map(absent_key)
        .find(|key| db.filter_answer(key).is_absent());
    let transaction = db.transaction();
    for (key, is_there) in [(key(1), true), (stranger.unwrap(), false)] {
        let before = db.stats();
        assert_eq!(found_in(&db, &cf, &key).unwrap(), [is_there; 6]);
        assert_eq!(found_in(&transaction, &cf, &key).unwrap(), [is_there; 6]);
        let after = db.stats();
        let expected = if is_there { (0, 12) } else { (12, 0) };
        let denied = after.absent - before.absent;
        assert_eq!(
            (denied, after.engine_reads() - before.engine_reads()),
            expected
        );
    }
}

#[test]
fn deleted_keys_leave_the_filters_with_their_ssts() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    (0..KEYS).for_each(|i| db.delete(key(i)).unwrap());
    assert_eq!(db.filter_answer(key(9)), Answer::Maybe, "it was there");
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    db.consolidate().unwrap();
    let absent = (0..KEYS)
        .filter(|&i| db.filter_answer(key(i)).is_absent())
        .count();
    assert!(absent as u64 * 100 >= KEYS * 97, "{absent} of {KEYS}");
    agree(&db, &Model::new());
}

/// By a handle, or in the default family.
#[test]
fn after_many_hits_reads_skip_the_filters_until_a_miss() {
    const SPARED_AFTER: u64 = 32;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    cover(&db);
    let default = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let reads: [&dyn Fn(Vec<u8>) -> bool; 2] = [&|key| db.get(key).unwrap().is_some(), &|key| {
        db.get_cf(&default, key).unwrap().is_some()
    }];
    for read in reads {
        let before = db.stats();
        assert!((0..SPARED_AFTER).all(|i| read(key(i))));
        let denied = u64::from(db.filter_answer(absent_key(0)).is_absent());
        assert!((0..500).all(|i| read(key(i))));
        assert!((0..3).all(|i| !read(absent_key(i))));
        let after = db.stats();
        assert_eq!(after.found - before.found, 500 + SPARED_AFTER);
        // The first lookup skipped the filters. They deny the others, except for a false positive.
        assert_eq!(after.not_consulted - before.not_consulted, 1);
        let asked =
            (after.absent - before.absent) + (after.false_positives - before.false_positives);
        assert_eq!(asked, denied + 2);
        assert_eq!(
            after.lookups() - before.lookups(),
            after.found - before.found + 1 + asked
        );
    }
}

/// A read limited to the block cache fails if it would have to read a file.
#[test]
fn failed_reads_do_not_make_the_predictor_skip_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    db.flush().unwrap();
    fill(&db, &mut Model::new(), 500..540);
    cover(&db);
    let default = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let mut memory_alone = ReadOptions::default();
    memory_alone.set_read_tier(ReadTier::BlockCache);
    let reads: [&dyn Fn(Vec<u8>) -> Result<_, rocksdb::Error>; 2] =
        [&|key| db.get_opt(key, &memory_alone), &|key| {
            db.get_cf_opt(&default, key, &memory_alone)
        }];
    for read in reads {
        assert!((500..540).all(|i| read(key(i)).unwrap().is_some()));
        assert!(read(key(4)).is_err(), "its block is in no cache");
        assert_eq!(db.get(absent_key(0)).unwrap(), None);
        assert_eq!(db.stats().not_consulted, 0);
    }
}

#[test]
fn strict_reads_always_use_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &strict(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    cover(&db);
    assert!((0..500).all(|i| db.get(key(i)).unwrap().is_some()));
    assert_eq!(db.get(absent_key(0)).unwrap(), None);
    assert_eq!(db.stats().not_consulted, 0);
}

#[test]
fn each_lookup_is_counted_once_by_outcome() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    db.flush().unwrap();
    cover(&db);
    let before = db.stats();
    for i in 0..500 {
        db.get(key(i)).unwrap();
        db.get_pinned(key(i)).unwrap();
        db.get(absent_key(i)).unwrap();
    }
    db.multi_get((0..500).map(key)).into_iter().for_each(drop);
    db.multi_get((0..500).map(absent_key))
        .into_iter()
        .for_each(drop);
    let after = db.stats();
    assert_eq!(after.found - before.found, 1_500);
    assert_eq!(after.uncovered, before.uncovered);
    let misses = (after.absent - before.absent) + (after.false_positives - before.false_positives);
    assert_eq!(misses, 1_000);
    assert_eq!(after.lookups() - before.lookups(), 2_500);
    assert_eq!(db.stats_cf(DEFAULT_COLUMN_FAMILY_NAME), Some(after));
    assert_eq!(db.stats_cf("no such family"), None);
    assert!(after.observed_rate() < 0.05);
    assert_ne!(after, Stats::default());
    // Reads past the filters are not counted.
    db.get_unfiltered(key(1)).unwrap();
    assert_eq!(db.stats(), after);
}

/// A key that, on its second read, may write a batch: after the filters were checked, and before
/// the engine is read.
struct Trap<'a> {
    key: &'static str,
    batch: Option<(&'a Cell<u32>, &'a dyn Fn())>,
}

impl AsRef<[u8]> for Trap<'_> {
    fn as_ref(&self) -> &[u8] {
        if let Some((reads, batch)) = self.batch {
            reads.set(reads.get() + 1);
            if reads.get() == 2 {
                batch();
            }
        }
        self.key.as_bytes()
    }
}

/// `to` and `from`, of which the second writes the batch. `reads` counts its reads.
fn to_and_from<'a>(reads: &'a Cell<u32>, batch: &'a dyn Fn()) -> [Trap<'a>; 2] {
    let trap = |key, batch| Trap { key, batch };
    [trap("to", None), trap("from", Some((reads, batch)))]
}

/// The engine reads many keys at one sequence number, and so does `SieveDb`.
#[test]
fn multi_get_sees_a_write_batch_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    db.put("from", "record").unwrap();
    cover(&db);
    assert!(db.filter_answer("to").is_absent());
    let moving = || {
        let mut batch = WriteBatch::default();
        batch.put("to", "record");
        batch.delete("from");
        db.write(batch).unwrap();
    };
    let reads = Cell::new(0);
    let keys = to_and_from(&reads, &moving);
    let found = db.multi_get(keys).into_iter().map(Result::unwrap);
    let found: Vec<_> = found.collect();
    assert!(reads.get() >= 2, "the batch was written");
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}

/// Each of the two keys was denied at its turn, and yet the record always existed.
#[test]
fn record_that_moves_between_two_absent_answers_is_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    db.put("from", "record").unwrap();
    cover(&db);
    let moving = || {
        let mut batch = WriteBatch::default();
        batch.put("to", "record");
        batch.delete("from");
        db.write(batch).unwrap();
        db.consolidate().unwrap();
        assert!(db.filter_answer("from").is_absent());
    };
    let reads = Cell::new(1);
    let keys = to_and_from(&reads, &moving);
    assert!(db.filter_answer("to").is_absent());
    let found = db.multi_get_cf(keys.into_iter().map(|key| (&cf, key)));
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(reads.get() >= 2, "the batch was written");
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}

/// Until a call through the bare engine has returned, no key is denied.
#[test]
fn every_answer_is_maybe_while_the_bare_engine_is_used() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..200);
    cover(&db);
    db.with_engine_untracked(|engine| {
        engine.put(b"by the engine", b"x").unwrap();
        db.wait_for_maintenance(std::time::Duration::from_secs(5));
        for i in 0..200 {
            assert_eq!(db.filter_answer(absent_key(i)), Answer::Maybe);
        }
        assert!(!db.wait_until_complete(std::time::Duration::ZERO));
    });
    model.insert(b"by the engine".to_vec(), b"x".to_vec());
    check_settled(&db, &model);
}

#[test]
fn filters_resume_after_a_panic_in_the_bare_engine() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..200);
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.with_engine_untracked(|engine| {
            engine.put(b"then it panicked", b"x").unwrap();
            std::panic::resume_unwind(Box::new("planted"));
        });
    }));
    assert!(used.is_err());
    model.insert(b"then it panicked".to_vec(), b"x".to_vec());
    check_settled(&db, &model);
}

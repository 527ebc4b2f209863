//! Every write that reaches a memtable is in the filters before it is visible, and stays there
//! through flush, compaction and consolidation.

use std::sync::atomic::{AtomicBool, Ordering};

use lsm_sieve::{Answer, SieveDb};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, MemtableFactory, Options, WriteBatch, WriteOptions};

use crate::support::binding::options_by_text;
use crate::support::model_db::{
    Dice, KEYS, Model, absent_key, check_cf_reads, check_reads, check_settled, cover, fill, key,
    open, open_cfs, options, sieve, verify_finds_every_key, write_randomly,
};

#[test]
fn random_writes_are_read_back_at_every_stage_of_their_life() {
    for seed in 0..3 {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let mut model = Model::new();
        let mut dice = Dice(seed);
        check_reads(&db, &model);
        for round in 0..5 {
            write_randomly(&db, DEFAULT_COLUMN_FAMILY_NAME, &mut model, &mut dice, 600);
            check_reads(&db, &model);
            match round {
                0 | 2 => db.flush().unwrap(),
                1 => db.compact_range::<&[u8], &[u8]>(None, None),
                3 => db.filters().consolidate().unwrap(),
                _ => cover(&db),
            }
            check_reads(&db, &model);
        }
        check_settled(&db, &model);
        db.compact_range::<&[u8], &[u8]>(None, None);
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
    }
}

#[test]
fn cfs_have_separate_filters() {
    let home = tempfile::tempdir().unwrap();
    let names = ["one", "two"];
    let db = open_cfs(home.path(), names);
    let mut models = [Model::new(), Model::new()];
    let mut dice = Dice(7);
    for _ in 0..4 {
        for (name, model) in names.iter().zip(&mut models) {
            write_randomly(&db, name, model, &mut dice, 300);
            db.flush_cf(&db.cf_handle(name).unwrap()).unwrap();
            check_cf_reads(&db, name, model);
        }
    }
    cover(&db);
    for (name, model) in names.iter().zip(&models) {
        check_cf_reads(&db, name, model);
        let cf = db.cf_handle(name).unwrap();
        let only_here = b"only here";
        db.put_cf(&cf, only_here, b"x").unwrap();
        let elsewhere = names.iter().find(|other| *other != name).unwrap();
        let elsewhere = db.cf_handle(elsewhere).unwrap();
        assert_eq!(db.filters().answer_cf(&cf, only_here), Answer::Maybe);
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
            *o = options_by_text(o, HINTED).unwrap();
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
        check_reads(&db, &model);
        db.flush().unwrap();
        write_randomly(
            &db,
            DEFAULT_COLUMN_FAMILY_NAME,
            &mut model,
            &mut Dice(4),
            400,
        );
        check_settled(&db, &model);
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
    }
}

/// RocksDB inserts such keys by separate calls.
#[test]
fn keys_inserted_by_a_hint_are_in_the_filters() {
    let by_prefix = options_by_text(&options(), HINTED).unwrap();
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
                !db.filters().answer(key(i)).is_absent(),
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
        let maintenance = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.filters().consolidate().unwrap();
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
                    assert_eq!(db.filters().answer(&key), Answer::Maybe);
                    assert!(db.get(&key).unwrap().is_some());
                    assert!(db.get(absent_key(i)).unwrap().is_none());
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        // Before a writer's failure is reported, so that no thread waits for the other.
        done.store(true, Ordering::Relaxed);
        maintenance.join().unwrap();
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

#[test]
fn deleted_keys_leave_the_filters_with_their_ssts() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    (0..KEYS).for_each(|i| db.delete(key(i)).unwrap());
    assert_eq!(db.filters().answer(key(9)), Answer::Maybe, "it was there");
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    db.filters().consolidate().unwrap();
    let absent = (0..KEYS)
        .filter(|&i| db.filters().answer(key(i)).is_absent())
        .count();
    assert!(absent as u64 * 100 >= KEYS * 97, "{absent} of {KEYS}");
    check_reads(&db, &Model::new());
}

//! A database that is read while another instance writes it, and that catches up on request.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a log is damaged past the door to files, as a disk would"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::SieveDb;
use rocksdb::{
    DBRecoveryMode, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, IngestExternalFileOptions, Options,
    SstFileWriter, WriteBatch, WriteOptions,
};
use tempfile::TempDir;

use super::read_only::all_refused;
use crate::support::database_files::contents;
use crate::support::model_db::{
    Dice, KEYS, Model, PATIENCE, absent_key, check_cf_reads, check_reads, cover, fill, key,
    keys_to_read, open, open_cfs, options, settle, sieve,
};

const OTHER: &str = "other";

/// The writer's database, and the secondary's messages.
struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self) -> PathBuf {
        self.0.path().join("db")
    }

    fn messages(&self) -> PathBuf {
        self.0.path().join("secondary")
    }

    fn follow(&self, options: &Options) -> SieveDb {
        let (database, messages) = (self.database(), self.messages());
        SieveDb::builder(database)
            .options(options)
            .filters(&sieve())
            .secondary(messages)
            .open()
            .unwrap()
    }

    /// Opens both families.
    fn follow_both(&self) -> SieveDb {
        let (database, messages) = (self.database(), self.messages());
        SieveDb::builder(database)
            .options(&options())
            .filters(&sieve())
            .cfs([OTHER])
            .secondary(messages)
            .open()
            .unwrap()
    }
}

fn compact(db: &SieveDb) {
    db.compact_range::<&[u8], &[u8]>(None, None);
}

/// Waits until the filters deny nearly all absent keys. Catches up repeatedly, because the writer
/// may remove SSTs before they were read.
fn await_filters(db: &SieveDb) {
    const ABSENT_KEYS: u64 = 1_000;
    let began = Instant::now();
    loop {
        settle(db);
        let denied = (0..ABSENT_KEYS).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
        if denied.count() as u64 > ABSENT_KEYS * 9 / 10 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "the filters never spoke");
        thread::sleep(Duration::from_millis(20));
        db.try_catch_up_with_primary().unwrap();
    }
}

/// Writes with the log and, under separate names, without it. Merges nothing: otherwise reads of
/// RocksDB's secondary disagree among themselves.
fn change(db: &SieveDb, name: &str, model: &mut Model, dice: &mut Dice) {
    let cf = db.cf_handle(name).unwrap();
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    for _ in 0..150 {
        let (number, value) = (dice.below(KEYS), dice.below(1 << 40).to_be_bytes());
        let mut key = key(number);
        match dice.below(10) {
            0..=2 => db.delete_cf(&cf, &key).unwrap(),
            3 => {
                key = [&b"past the log "[..], &value].concat();
                db.put_cf_opt(&cf, &key, value, &unlogged).unwrap();
            }
            4 => {
                let mut batch = WriteBatch::default();
                batch.delete_range_cf(&cf, absent_key(number), absent_key(number + 3));
                batch.put_cf(&cf, &key, value);
                db.write(batch).unwrap();
                model.retain(|key, _| *key < absent_key(number) || *key >= absent_key(number + 3));
            }
            _ => db.put_cf(&cf, &key, value).unwrap(),
        }
        match db.get_unfiltered_cf(&cf, &key).unwrap() {
            Some(value) => model.insert(key, value),
            None => model.remove(&key),
        };
    }
}

/// Checks that every way to read finds what the engine finds past the filters. That need not be
/// what the writer has: see [`SieveDb::open_as_secondary`].
fn finds_engine_keys(db: &SieveDb, name: &str, model: &Model) {
    let cf = db.cf_handle(name).unwrap();
    let keys = keys_to_read(model);
    let there = keys
        .iter()
        .map(|key| db.get_unfiltered_cf(&cf, key).unwrap());
    let there: Vec<_> = there.collect();
    for (key, there) in keys.iter().zip(&there) {
        let name = key.escape_ascii();
        assert_eq!(db.get_cf(&cf, key).unwrap(), *there, "get_cf {name}");
        let denied = db.filters().answer_cf(&cf, key).is_absent();
        assert!(!denied || there.is_none(), "lost {name}");
    }
    let many = db.multi_get_cf(keys.iter().map(|key| (&cf, key)));
    let many: Vec<_> = many.into_iter().map(Result::unwrap).collect();
    assert!(many == there, "multi_get_cf");
    let many = db.batched_multi_get_cf(&cf, &keys, false).into_iter();
    let many = many.map(|value| value.unwrap().map(|value| value.to_vec()));
    assert!(many.eq(there), "batched_multi_get_cf");
}

#[test]
fn secondary_loads_the_writers_filters_and_changes_no_file() {
    let home = Home::new();
    let mut model = Model::new();
    {
        let db = open(&home.database());
        fill(&db, &mut model, 0..900);
        db.flush().unwrap();
        cover(&db);
        // Into the log.
        fill(&db, &mut model, 900..1_000);
    }
    let before = contents(&home.database());
    {
        let secondary = home.follow(&options());
        await_filters(&secondary);
        check_reads(&secondary, &model);
        let counted = secondary.filters().stats();
        (0..1_000).for_each(|i| assert!(secondary.get(absent_key(i)).unwrap().is_none()));
        assert!(secondary.filters().stats().absent > counted.absent + 900);
        cover(&secondary);
        assert!(secondary.filters().consolidate().is_err());
        secondary.filters().scrub().unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        await_filters(&secondary);
        check_reads(&secondary, &model);
    }
    assert!(contents(&home.database()) == before, "a file has changed");
    let db = open(&home.database());
    assert!(
        db.try_catch_up_with_primary().is_err(),
        "it is no secondary"
    );
    check_reads(&db, &model);
}

/// By log, by flush, by compaction and by ingestion. Some of the keys were never in a memtable
/// here.
#[test]
fn keys_from_a_catch_up_are_found_at_once() {
    let home = Home::new();
    let mut models = [Model::new(), Model::new()];
    let names = [DEFAULT, OTHER];
    let db = open_cfs(home.database(), [OTHER]);
    let hide_nothing = |secondary: &SieveDb, models: &[Model]| {
        let families = names.iter().zip(models);
        families.for_each(|(name, model)| finds_engine_keys(secondary, name, model));
    };
    let secondary = home.follow_both();
    let file = home.0.path().join("ingested.sst");
    let mut dice = Dice(20);
    for round in 0..24 {
        for (name, model) in names.iter().zip(&mut models) {
            change(&db, name, model, &mut dice);
        }
        if round % 3 == 0 {
            compact(&db);
        }
        if round % 4 == 1 {
            let (key, value) = (format!("ingested-{round}"), b"from outside");
            let settings = options();
            let mut writer = SstFileWriter::create(&settings);
            writer.open(&file).unwrap();
            writer.put(&key, value).unwrap();
            writer.finish().unwrap();
            let mut moved = IngestExternalFileOptions::default();
            moved.set_move_files(true);
            db.ingest_external_file_opts(&moved, vec![&file]).unwrap();
            models[0].insert(key.into_bytes(), value.to_vec());
        }
        secondary.try_catch_up_with_primary().unwrap();
        hide_nothing(&secondary, &models);
        if round % 2 == 0 {
            settle(&secondary);
            hide_nothing(&secondary, &models);
        }
        for name in names {
            db.flush_cf(&db.cf_handle(name).unwrap()).unwrap();
        }
        secondary.try_catch_up_with_primary().unwrap();
        hide_nothing(&secondary, &models);
    }
    // The writer removes SSTs before they were read here, until it has nothing left to compact.
    let began = Instant::now();
    while !secondary
        .filters()
        .wait_until_complete(Duration::from_secs(1))
    {
        assert!(began.elapsed() < PATIENCE, "the filters never covered");
        secondary.try_catch_up_with_primary().unwrap();
    }
    await_filters(&secondary);
    hide_nothing(&secondary, &models);
    drop(secondary);
    let secondary = home.follow_both();
    await_filters(&secondary);
    for (name, model) in names.iter().zip(&models) {
        check_cf_reads(&secondary, name, model);
    }
}

/// It stops after the manifest was read and before the log was: readers still have the earlier
/// state.
#[test]
fn interrupted_catch_up_hides_no_key() {
    let home = Home::new();
    let mut model = Model::new();
    let db = open(&home.database());
    fill(&db, &mut model, 0..300);
    db.flush().unwrap();
    settle(&db);
    let mut strict = options();
    strict.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    let secondary = home.follow(&strict);
    await_filters(&secondary);
    let (gone, value) = (key(100), model.remove(&key(100)).unwrap());
    db.delete(&gone).unwrap();
    db.flush().unwrap();
    compact(&db);
    cover(&db);
    settle(&db);
    fill(&db, &mut model, 300..400);
    let log = newest_log(&home.database());
    let whole = fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&log, damaged).unwrap();

    assert!(secondary.try_catch_up_with_primary().is_err());
    for _ in 0..3 {
        assert_eq!(
            secondary.get_unfiltered(&gone).unwrap(),
            Some(value.clone())
        );
        assert_eq!(secondary.get(&gone).unwrap(), Some(value.clone()));
        settle(&secondary);
    }
    fs::write(&log, whole).unwrap();
    db.flush().unwrap();
    compact(&db);
    settle(&db);
    drop(secondary);
    let secondary = home.follow(&strict);
    await_filters(&secondary);
    check_reads(&secondary, &model);
}

fn newest_log(database: &Path) -> PathBuf {
    let files = fs::read_dir(database).unwrap();
    let logs = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.max().unwrap()
}

/// During one catch-up after another.
#[test]
fn secondary_hides_no_key_beside_a_busy_writer() {
    const WRITTEN: u64 = 6_000;
    let home = Home::new();
    let db = open(&home.database());
    let secondary = home.follow(&options());
    let name = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for i in 0..WRITTEN {
                db.put(name(i), b"value").unwrap();
                match i % 500 {
                    0 => db.flush().unwrap(),
                    250 => compact(&db),
                    _ => {}
                }
            }
        });
        for seed in 0..2 {
            let (over, secondary) = (&over, &secondary);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                while !over.load(Ordering::Acquire) {
                    let never = absent_key(dice.below(KEYS));
                    assert!(secondary.get(never).unwrap().is_none());
                    let key = name(dice.below(WRITTEN));
                    // These keys are never deleted, so what the engine has before and after, it has
                    // in between.
                    let engine = || secondary.get_unfiltered(key).unwrap().is_some();
                    let had = engine();
                    let found = secondary.get(key).unwrap().is_some();
                    assert!(found || !had || !engine(), "{key:?}");
                }
            });
        }
        while !writer.is_finished() {
            secondary.try_catch_up_with_primary().unwrap();
            // Time for the coverage to become complete.
            thread::sleep(Duration::from_millis(3));
        }
        over.store(true, Ordering::Release);
    });
    assert_eq!(secondary.filters().false_negative(), None);
    secondary.try_catch_up_with_primary().unwrap();
    await_filters(&secondary);
    assert!((0..WRITTEN).all(|i| secondary.get(name(i)).unwrap().is_some()));
}

/// RocksDB makes a version of every family at each catch-up, and gives readers those of the others.
#[test]
fn empty_catch_ups_keep_coverage() {
    let home = Home::new();
    let mut model = Model::new();
    let db = open_cfs(home.database(), [OTHER]);
    fill(&db, &mut model, 0..500);
    db.flush().unwrap();
    settle(&db);
    let secondary = home.follow_both();
    let other = db.cf_handle(OTHER).unwrap();
    for i in 0..4_u64 {
        if i > 1 {
            db.put_cf(&other, key(i), b"value").unwrap();
            db.flush_cf(&other).unwrap();
        }
        secondary.try_catch_up_with_primary().unwrap();
        await_filters(&secondary);
        check_reads(&secondary, &model);
    }
    secondary.filters().scrub().unwrap();
}

#[test]
fn calls_that_change_the_database_are_refused() {
    let home = Home::new();
    let mut options = options();
    options.set_atomic_flush(true);
    options.set_manual_wal_flush(true);
    let mut model = Model::new();
    {
        let db = SieveDb::builder(home.database())
            .options(&options)
            .filters(&sieve())
            .cfs([OTHER])
            .open()
            .unwrap();
        fill(&db, &mut model, 0..500);
        db.flush().unwrap();
        settle(&db);
        fill(&db, &mut model, 500..600);
    }
    let before = contents(&home.database());
    {
        let families = [(OTHER, options.clone())];
        let (database, messages) = (home.database(), home.messages());
        let secondary = SieveDb::builder(database)
            .options(&options)
            .filters(&sieve())
            .cfs_with_opts(families)
            .secondary(messages)
            .open();
        let secondary = secondary.unwrap();
        all_refused(&secondary, OTHER, home.0.path(), "secondary mode");
        let made = secondary.create_cf("new", &options).unwrap_err();
        assert!(made.as_ref().contains("secondary mode"), "{made}");
        compact(&secondary);
        settle(&secondary);
        check_reads(&secondary, &model);
        check_cf_reads(&secondary, OTHER, &Model::new());
    }
    assert!(contents(&home.database()) == before, "a file has changed");
    let none = home.0.path().join("none/at/all");
    assert!(
        SieveDb::builder(&none)
            .options(&options)
            .filters(&sieve())
            .secondary(home.messages())
            .open()
            .is_err()
    );
    assert!(!none.parent().unwrap().exists(), "a folder was made");
}

/// Its SSTs have no filters of ours. They are built here, and stored in no folder.
#[test]
fn secondary_follows_a_writer_without_the_plugin() {
    let home = Home::new();
    let db = rocksdb::DB::open(&options(), home.database()).unwrap();
    let secondary = home.follow(&options());
    for i in 0..200_u64 {
        db.put(key(i), b"value").unwrap();
        if i % 50 == 0 {
            db.flush().unwrap();
            secondary.try_catch_up_with_primary().unwrap();
            settle(&secondary);
        }
    }
    secondary.try_catch_up_with_primary().unwrap();
    for i in 0..200 {
        assert!(secondary.get(key(i)).unwrap().is_some(), "{i}");
        assert!(secondary.get(absent_key(i)).unwrap().is_none(), "{i}");
    }
    await_filters(&secondary);
    assert!(!home.database().join("sieve").exists());
}

//! Copies, checkpoints, backups and repairs: filters that are missing, older or newer than the
//! database, or of another one.

use std::path::Path;

use lsm_sieve::SieveDb;
use lsm_sieve_format::disk::{Disk as _, RealDisk};
use rocksdb::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Env};

use crate::support::database_files::{copy, sidecars, summaries};
use crate::support::model_db::{
    Dice, KEYS, Model, check_reads, check_settled, cover, fill, key, open, options, sieve,
    write_randomly,
};

/// Files are copied while maintenance publishes sidecars: any mixture of old and new must work.
#[test]
fn copy_taken_at_any_time_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let original = home.path().join("db");
    let db = open(&original);
    let mut model = Model::new();
    for round in 0..8 {
        fill(&db, &mut model, round * 150..(round + 1) * 150);
        db.flush().unwrap();
        // A checkpoint has SSTs and log. The filter folder is copied beside it.
        let image = home.path().join(format!("image-{round}"));
        let filters = home.path().join(format!("filters-{round}"));
        copy_existing(&original.join("sieve"), &filters);
        db.with_engine_untracked(|engine| {
            let checkpoint = Checkpoint::new(engine).unwrap();
            checkpoint.create_checkpoint(&image).unwrap();
        });
        let options_there = sieve().folder(&filters);
        let copy = SieveDb::open(&options(), &options_there, &image).unwrap();
        check_reads(&copy, &model);
        check_settled(&copy, &model);
        if round % 3 == 2 {
            db.compact_range::<&[u8], &[u8]>(None, None);
        }
    }
    check_settled(&db, &model);
}

/// Copies those files of a folder that still exist when their turn comes.
fn copy_existing(from: &Path, to: &Path) {
    std::fs::create_dir(to).expect("a new folder");
    for name in file_names(from) {
        drop(std::fs::copy(from.join(&name), to.join(&name)));
    }
}

fn file_names(folder: &Path) -> Vec<std::ffi::OsString> {
    let entries = std::fs::read_dir(folder).expect("the folder of filters");
    entries.flatten().map(|entry| entry.file_name()).collect()
}

#[test]
fn checkpoint_without_filters_is_read_and_covered() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let mut model = Model::new();
    write_randomly(&db, DEFAULT, &mut model, &mut Dice(5), 700);
    let image = home.path().join("checkpoint");
    db.with_engine_untracked(|engine| {
        Checkpoint::new(engine)
            .unwrap()
            .create_checkpoint(&image)
            .unwrap();
    });
    assert!(!image.join("sieve").exists());
    let copy = open(&image);
    check_reads(&copy, &model);
    check_settled(&copy, &model);
}

#[test]
fn restored_backup_is_read_and_covered() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let mut model = Model::new();
    write_randomly(&db, DEFAULT, &mut model, &mut Dice(6), 700);
    let folder = BackupEngineOptions::new(home.path().join("backups")).unwrap();
    let mut backups = BackupEngine::open(&folder, &Env::new().unwrap()).unwrap();
    backups.create_new_backup_flush(&*db, true).unwrap();
    cover(&db);
    let absent = (1_000_000..1_000_100).filter(|&i| db.filters().answer(key(i)).is_absent());
    assert!(absent.count() >= 80, "the filters still answer");
    let restored = home.path().join("restored");
    let options = RestoreOptions::default();
    backups
        .restore_from_latest_backup(&restored, &restored, &options)
        .unwrap();
    assert!(!restored.join("sieve").exists());
    let copy = open(&restored);
    check_reads(&copy, &model);
    check_settled(&copy, &model);
}

/// A repair turns logs into SSTs, moves other SSTs, and does not know of filters.
#[test]
fn repaired_database_is_correct_at_once_and_covered_soon() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(3), 900);
        db.flush().unwrap();
        cover(&db);
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(4), 300);
    }
    RealDisk.remove(&home.path().join("CURRENT")).unwrap();
    SieveDb::open(&options(), &sieve(), home.path()).unwrap_err();
    rocksdb::DB::repair(&options(), home.path()).unwrap();
    let db = open(home.path());
    check_reads(&db, &model);
    check_settled(&db, &model);
}

/// Newer filters beside an older backup: filters are bound to SSTs, never to a time.
#[test]
fn older_database_with_newer_filters_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let mut old_model = Model::new();
    {
        let db = open(&path);
        write_randomly(&db, DEFAULT, &mut old_model, &mut Dice(8), 700);
        db.flush().unwrap();
        fill(&db, &mut old_model, 0..50);
    }
    let backup = home.path().join("backup");
    copy(&path, &backup);
    {
        let db = open(&path);
        (0..KEYS).for_each(|i| db.delete(key(i)).unwrap());
        db.compact_range::<&[u8], &[u8]>(None, None);
        cover(&db);
        db.filters().consolidate().unwrap();
    }
    std::fs::remove_dir_all(backup.join("sieve")).unwrap();
    copy(&path.join("sieve"), &backup.join("sieve"));
    let db = open(&backup);
    check_reads(&db, &old_model);
    check_settled(&db, &old_model);
}

/// The same file numbers come back with other contents.
#[test]
fn new_database_ignores_filters_of_a_destroyed_one() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let filters = home.path().join("filters");
    let there = sieve().folder(&filters);
    for round in 0..3_u64 {
        let mut model = Model::new();
        let db = SieveDb::open(&options(), &there, &path).unwrap();
        check_reads(&db, &model);
        fill(&db, &mut model, round * 300..round * 300 + 300);
        db.flush().unwrap();
        check_settled(&db, &model);
        drop(db);
        rocksdb::DB::destroy(&options(), &path).unwrap();
        assert!(!sidecars(&filters).is_empty() && !summaries(&filters).is_empty());
    }
}

//! After a close or a crash, every key is found at once, and the filters become complete again.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lsm_sieve::disk::{Disk as _, RealDisk};
use lsm_sieve::{CfReport, HashId, SieveDb, SieveOptions};
use rocksdb::backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

use crate::copy::{copy, sidecars, stamps, summaries};
use crate::twin::{
    Dice, KEYS, Model, agree, check_settled, cover, fill, key, open, options, settle, sieve,
    verify_finds_every_key, write_randomly,
};

const DEFAULT: &str = DEFAULT_COLUMN_FAMILY_NAME;

/// The default column family's report.
fn report(db: &SieveDb) -> CfReport {
    let mut columns = db.inspect().expect("the tables can be listed").cfs;
    columns.remove(0)
}

/// The segment filters and the summary that an open with read-only filters, which reads no SST,
/// finds.
fn found_with_read_only_filters(path: &Path, options: &Options) -> CfReport {
    let db = SieveDb::open(options, &sieve().read_only_filters(true), path).expect("it opens");
    settle(&db);
    report(&db)
}

#[test]
fn after_a_clean_close_coverage_is_complete_and_no_sst_is_read() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(1), 900);
        db.flush().unwrap();
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(2), 900);
        db.flush().unwrap();
        cover(&db);
    }
    let before = stamps(&home.path().join("sieve"), "");
    let read_only_filters = found_with_read_only_filters(home.path(), &options());
    assert_eq!(
        read_only_filters.uncovered,
        Some(0),
        "the snapshot covers all tables"
    );
    assert!(!read_only_filters.segments.is_empty());
    for segment in &read_only_filters.segments {
        assert!(segment.covered && segment.consulted && segment.saved);
        let filter = segment.filter.as_ref().unwrap();
        assert_eq!(filter.source, "table capture", "not from the table's keys");
    }
    assert_eq!(before, stamps(&home.path().join("sieve"), ""), "frozen");
    let db = open(home.path());
    agree(&db, &model);
    check_settled(&db, &model);
}

/// The log is replayed into memtables, which feed the filters as usual.
#[test]
fn after_a_crash_every_key_is_found_and_covered_again() {
    for keep_in_memtable in [false, true] {
        for seed in 0..2 {
            let home = tempfile::tempdir().unwrap();
            let mut options = options();
            let text = format!("avoid_flush_during_recovery={keep_in_memtable}");
            let options = options.get_options_from_string(text).unwrap();
            let db = SieveDb::open(&options, &sieve(), home.path().join("db")).unwrap();
            let mut model = Model::new();
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed), 500);
            db.flush().unwrap();
            cover(&db);
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed + 10), 500);
            // Unlogged writes may be lost in a crash, so there must be none from here on.
            db.flush().unwrap();
            fill(&db, &mut model, 500..700);
            db.delete(key(600)).unwrap();
            model.remove(&key(600));
            db.merge(key(601), b"+").unwrap();
            model.get_mut(&key(601)).unwrap().push(b'+');
            for (stage, name) in ["before", "after"].iter().enumerate() {
                let image = home.path().join(name);
                copy(&home.path().join("db"), &image);
                let crashed = SieveDb::open(&options, &sieve(), &image).unwrap();
                agree(&crashed, &model);
                check_settled(&crashed, &model);
                drop(crashed);
                let again = SieveDb::open(&options, &sieve(), &image).unwrap();
                check_settled(&again, &model);
                if stage == 0 {
                    db.consolidate().unwrap();
                    fill(&db, &mut model, 700..750);
                }
            }
        }
    }
}

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
        agree(&copy, &model);
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
    agree(&copy, &model);
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
    db.create_new_backup_flush(&mut backups, true).unwrap();
    assert!(
        db.filter_answer(key(1_000_000)).is_absent(),
        "the front goes on"
    );
    let restored = home.path().join("restored");
    let options = RestoreOptions::default();
    backups
        .restore_from_latest_backup(&restored, &restored, &options)
        .unwrap();
    assert!(!restored.join("sieve").exists());
    let copy = open(&restored);
    agree(&copy, &model);
    check_settled(&copy, &model);
}

/// SSTs that are deleted by a call take their keys with them, and no other keys.
#[test]
fn ssts_deleted_by_a_call_lose_no_other_key() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    let row = |i: u32| format!("row {i:04}");
    (0..900).for_each(|i| db.put(row(i), b"value").unwrap());
    // Only SSTs below the first level can be deleted.
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let mut left = Model::new();
    fill(&db, &mut left, 0..300);
    db.flush().unwrap();
    cover(&db);
    db.disable_file_deletions().unwrap();
    db.delete_file_in_range(row(0), row(900)).unwrap();
    db.enable_file_deletions().unwrap();
    agree(&db, &left);
    fill(&db, &mut left, 0..100);
    agree(&db, &left);
    check_settled(&db, &left);
}

/// An SST that a compaction only moves is its input and its output at once.
#[test]
fn trivially_moved_sst_keeps_its_filter_and_keys() {
    let home = tempfile::tempdir().unwrap();
    let filters = home.path().join("sieve");
    let db = open(home.path());
    db.set_options(&[("disable_auto_compactions", "true")])
        .unwrap();
    let mut model = Model::new();
    for numbers in [10..400, 400..800] {
        fill(&db, &mut model, numbers);
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    let written = || -> Vec<_> {
        let files = sidecars(&filters).into_iter();
        files
            .map(|path| path.metadata().unwrap().modified().unwrap())
            .collect()
    };
    let places = || {
        let tables = report(&db).segments.into_iter();
        tables.map(|table| (table.file, table.level)).unzip()
    };
    let (files, levels): (BTreeSet<String>, Vec<Option<u32>>) = places();
    assert_eq!(levels, [Some(0); 2]);
    let before = written();
    assert_eq!(before.len(), 2);
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    let (moved, levels) = places();
    assert_eq!(files, moved, "RocksDB moved them and wrote none anew");
    assert!(levels.iter().all(|level| *level > Some(0)), "{levels:?}");
    // A filter is dropped after two listings in a row lack its SST.
    for _ in 0..3 {
        db.consolidate().unwrap();
        settle(&db);
        agree(&db, &model);
    }
    assert_eq!(before, written());
    check_settled(&db, &model);
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
    agree(&db, &model);
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
        db.consolidate().unwrap();
    }
    std::fs::remove_dir_all(backup.join("sieve")).unwrap();
    copy(&path.join("sieve"), &backup.join("sieve"));
    let db = open(&backup);
    agree(&db, &old_model);
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
        agree(&db, &model);
        fill(&db, &mut model, round * 300..round * 300 + 300);
        db.flush().unwrap();
        check_settled(&db, &model);
        drop(db);
        rocksdb::DB::destroy(&options(), &path).unwrap();
        assert!(!sidecars(&filters).is_empty() && !summaries(&filters).is_empty());
    }
}

#[test]
fn another_hash_rebuilds_all_filters_and_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    for (seed, hash) in [HashId::Xxh3, HashId::SipHash13, HashId::Xxh3]
        .into_iter()
        .enumerate()
    {
        let db = SieveDb::open(&options(), &sieve().hash(hash), home.path()).unwrap();
        agree(&db, &model);
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed as u64), 400);
        check_settled(&db, &model);
        db.flush().unwrap();
        cover(&db);
    }
}

/// RocksDB's cache may outlive the database and hand its filter readers to the next one.
#[test]
fn block_cache_shared_across_opens_yields_no_wrong_filter() {
    let home = tempfile::tempdir().unwrap();
    let cache = rocksdb::Cache::new_lru_cache(8 << 20);
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_bloom_filter(10.0, false);
    let mut options = options();
    options.set_block_based_table_factory(&table);
    let mut model = Model::new();
    for hash in [HashId::Xxh3, HashId::SipHash13, HashId::Xxh3] {
        {
            let db = SieveDb::open(&options, &sieve().hash(hash), home.path()).unwrap();
            agree(&db, &model);
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(hash as u64), 300);
            db.flush().unwrap();
            check_settled(&db, &model);
        }
        let plain = rocksdb::DB::open(&options, home.path()).unwrap();
        for (key, value) in &model {
            assert_eq!(plain.get(key).unwrap().as_ref(), Some(value));
        }
    }
    verify_finds_every_key(&SieveDb::open(&options, &sieve(), home.path()).unwrap());
}

#[test]
fn second_open_of_one_database_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    settle(&db);
    let filters = home.path().join("sieve");
    // As if the first instance were about to publish it: the holder of the lock removes such files.
    let unfinished = filters.join("identity.0123456789abcdef.tmp");
    drop(RealDisk.create_new(&unfinished).unwrap());
    let before = stamps(&filters, "");
    let error = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap_err();
    let cause = error.source().unwrap().to_string();
    assert!(cause.contains("lock"), "{cause}");
    assert_eq!(before, stamps(&filters, ""));
    assert!(unfinished.exists());
    db.put(b"still", b"here").unwrap();
    assert!(db.get(b"still").unwrap().is_some());
}

/// An open with read-only filters must not replace the secret that the filters were built with.
#[test]
fn read_only_filters_of_another_hash_are_unused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let strong = sieve().hash(HashId::SipHash13);
        let db = SieveDb::open(&options(), &strong, home.path()).unwrap();
        fill(&db, &mut model, 0..500);
        db.flush().unwrap();
        cover(&db);
    }
    let before = stamps(&home.path().join("sieve"), "");
    {
        let db = SieveDb::open(&options(), &sieve().read_only_filters(true), home.path()).unwrap();
        settle(&db);
        assert_eq!(report(&db).uncovered, Some(0));
        verify_finds_every_key(&db);
        agree(&db, &model);
        let refused = db.consolidate().unwrap_err().to_string();
        assert!(refused.contains("frozen"), "{refused}");
    }
    assert_eq!(stamps(&home.path().join("sieve"), ""), before);
    // Nor does it create a missing folder.
    let plain = tempfile::tempdir().unwrap();
    drop(rocksdb::DB::open(&options(), plain.path()).unwrap());
    drop(SieveDb::open(&options(), &sieve().read_only_filters(true), plain.path()).unwrap());
    assert!(!plain.path().join("sieve").exists());
}

/// A key in the range of an unreadable SST is *maybe*, and the engine then reports the damage: a
/// filter of the keys before the damage would deny those behind it.
#[test]
fn unreadable_sst_is_never_covered() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_compression_type(rocksdb::DBCompressionType::None);
    let mut model = Model::new();
    let table = {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 0..5_000);
        db.flush().unwrap();
        report(&db).segments[0].file.clone()
    };
    std::fs::remove_dir_all(home.path().join("sieve")).unwrap();
    let middle = std::fs::metadata(&table).unwrap().len() / 2;
    let file = std::fs::File::options().write(true).open(&table).unwrap();
    file.write_all_at(&[0xee; 64], middle).unwrap();

    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    settle(&db);
    let error = db.consolidate().unwrap_err().to_string();
    assert!(error.contains("cannot read the keys of"), "{error}");
    let denied = model.keys().filter(|key| db.filter_answer(key).is_absent());
    assert_eq!(denied.count(), 0);
    let unread = model.keys().filter(|key| db.get(key).is_err());
    assert!(unread.count() > 0, "nothing was damaged");
}

/// It was retried at once, each time with a new summary, a flush and all SSTs read. The flush woke
/// maintenance, and beside a writer that never ended.
#[test]
fn unreadable_sst_causes_no_endless_flushes() {
    const LOOKS: u64 = 30;
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_disable_auto_compactions(true);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 10..3_000);
        db.flush().unwrap();
        fill(&db, &mut model, 5_000..10_000);
        db.flush().unwrap();
    }
    std::fs::remove_dir_all(home.path().join("sieve")).unwrap();
    let read_only_filters = found_with_read_only_filters(home.path(), &options);
    let tables = read_only_filters.segments.iter();
    let damaged = &tables.max_by_key(|table| table.entries).unwrap().file;
    let middle = std::fs::metadata(damaged).unwrap().len() / 2;
    let file = std::fs::File::options().write(true).open(damaged).unwrap();
    file.write_all_at(&[0xee; 64], middle).unwrap();

    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    for i in 0..LOOKS {
        fill(&db, &mut model, 20_000 + i..20_001 + i);
        settle(&db);
    }
    let flushed = report(&db).segments.len() - read_only_filters.segments.len();
    assert!(flushed <= 2, "{flushed} flushes in {LOOKS} looks");
    for table in report(&db).segments {
        let whole = table.file != *damaged;
        assert_eq!(table.covered, whole, "{}", table.file);
        assert_eq!(table.filter.is_some() && table.saved, whole);
    }
    let denied = model.keys().filter(|key| db.filter_answer(key).is_absent());
    assert_eq!(denied.count(), 0);
}

/// RocksDB probes a segment filter before it reads the SST: without its tombstones in the filter,
/// the value of an older SST would come back.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it stands for a disk that loses a file"
)]
fn rebuilt_filter_has_the_tombstones_of_its_sst() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_disable_auto_compactions(true);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 0..KEYS);
        db.flush().unwrap();
        for i in (0..KEYS).step_by(2) {
            db.delete(key(i)).unwrap();
            model.remove(&key(i));
        }
        db.flush().unwrap();
    }
    // Without the summary, all filters are built during its rebuild; without the sidecars alone,
    // one by one.
    let filters = home.path().join("sieve");
    for lost in [
        sidecars(&filters),
        [sidecars(&filters), summaries(&filters)].concat(),
    ] {
        for file in lost {
            std::fs::remove_file(file).unwrap();
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_settled(&db, &model);
        let segments = report(&db).segments;
        assert!(segments.len() >= 2, "keys and deletions lie apart");
        for segment in segments {
            assert!(segment.consulted);
            assert_eq!(segment.filter.unwrap().source, "raw keys");
        }
    }
}

//! SST files that are ingested past the memtables: the filters must know before a reader can see
//! them.

// The C interface of RocksDB 10 cannot ingest them.
#[cfg(not(rocksdb_10))]
mod db_generated_files;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::SieveDb;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, IngestExternalFileOptions, Options, SstFileWriter};

use crate::support::model_db::{
    Dice, Model, PATIENCE, absent_key, check_cf_reads, check_reads, check_settled, cover, fill,
    key, open, open_cfs, options, settle, sieve, verify_finds_every_key, write_randomly,
};

/// Writes an SST file of these keys outside of the database.
fn table_file(options: &Options, path: PathBuf, numbers: std::ops::Range<u64>) -> PathBuf {
    let mut writer = SstFileWriter::create(options);
    writer.open(&path).expect("a new file");
    let mut keys: Vec<_> = numbers.map(key).collect();
    keys.sort();
    for key in keys {
        writer.put(key, b"ingested").expect("sorted keys");
    }
    writer.finish().expect("a whole file");
    path
}

fn ingested(model: &mut Model, numbers: std::ops::Range<u64>) {
    model.extend(numbers.map(|i| (key(i), b"ingested".to_vec())));
}

#[test]
fn ingested_keys_are_read_at_once_and_covered_soon() {
    let home = tempfile::tempdir().unwrap();
    let db = open_cfs(home.path().join("db"), ["other"]);
    let (mut model, mut other) = (Model::new(), Model::new());
    fill(&db, &mut model, 0..300);
    cover(&db);
    let file = |name: &str, numbers| table_file(&options(), home.path().join(name), numbers);

    db.ingest_external_file(vec![file("a", 200..500)]).unwrap();
    ingested(&mut model, 200..500);
    check_reads(&db, &model);
    check_settled(&db, &model);

    let handle = db.cf_handle("other").unwrap();
    let mut settings = IngestExternalFileOptions::default();
    settings.set_move_files(true);
    let files = vec![file("b", 4..100), file("c", 100..300)];
    db.ingest_external_file_cf_opts(&handle, &settings, files)
        .unwrap();
    ingested(&mut other, 4..300);
    check_cf_reads(&db, "other", &other);
    cover(&db);
    check_cf_reads(&db, "other", &other);

    db.with_engine_untracked(|engine| engine.ingest_external_file(vec![file("d", 600..700)]))
        .unwrap();
    ingested(&mut model, 600..700);
    check_reads(&db, &model);
    check_settled(&db, &model);

    // The same contents twice: two SSTs, one identity.
    let copies = [home.path().join("e1"), home.path().join("e2")];
    let written = file("e", 800..900);
    for copy in &copies {
        std::fs::copy(&written, copy).unwrap();
        db.ingest_external_file(vec![copy]).unwrap();
    }
    ingested(&mut model, 800..900);
    check_settled(&db, &model);
    db.delete(key(850)).unwrap();
    model.remove(&key(850));
    db.compact_range::<&[u8], &[u8]>(None, None);
    db.filters().consolidate().unwrap();
    check_settled(&db, &model);
    check_cf_reads(&db, "other", &other);
    drop(handle);
    drop(db);
    let db = open_cfs(home.path().join("db"), ["other"]);
    check_reads(&db, &model);
    check_cf_reads(&db, "other", &other);
    check_settled(&db, &model);
}

/// The call announces the files, and RocksDB tells the family's listener of them.
#[test]
fn cf_created_at_run_time_is_told_of_ingested_files() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    db.create_cf("late", &options()).unwrap();
    cover(&db);
    let file = table_file(&options(), home.path().join("a"), 4..400);
    let handle = db.cf_handle("late").unwrap();
    db.ingest_external_file_cf(&handle, vec![file]).unwrap();
    late_has_all_keys_before_and_after_coverage(&db);
}

/// An SST of another database with filters has a segment id of ours, but no filter here.
#[cfg(not(rocksdb_10))]
#[test]
fn ingested_sst_of_another_filtered_database_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    let donor = open(&from);
    let mut lent = Model::new();
    fill(&donor, &mut lent, 10..400);
    donor.flush().unwrap();
    donor.compact_range::<&[u8], &[u8]>(None, None);
    check_settled(&donor, &lent);
    let table = donor.filters().inspect().unwrap().cfs[0].segments.remove(0);
    let carried = home.path().join("carried.sst");
    std::fs::copy(Path::new(&table.file), &carried).unwrap();
    let db = open(&to);
    // RocksDB ingests such an SST only if its keys do not overlap others, and only if allowed to.
    fill(&db, &mut model, 400..420);
    cover(&db);
    db.ingest_external_file(vec![&carried]).unwrap_err();
    check_settled(&db, &model);
    drop(db);
    db_generated_files::ingest(&options(), &to, &carried).unwrap();
    model.extend(lent);
    let db = open(&to);
    check_reads(&db, &model);
    let segments = db.filters().inspect().unwrap().cfs.remove(0).segments;
    assert!(segments.iter().any(|segment| segment.id == table.id));
    check_settled(&db, &model);
}

/// Readers run at full speed while files are ingested. A key of a finished call is never *absent*.
#[test]
fn readers_see_ingested_keys_as_soon_as_the_call_returns() {
    const FILES: u64 = 30;
    const EACH: u64 = 40;
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let mut model = Model::new();
    fill(&db, &mut model, 0..50);
    cover(&db);
    let arrived = AtomicU64::new(0);
    thread::scope(|scope| {
        let readers = (0..2_u64).map(|seed| {
            let (db, arrived) = (&db, &arrived);
            scope.spawn(move || {
                let mut dice = Dice(seed);
                loop {
                    let files = arrived.load(Ordering::Acquire);
                    if files == FILES {
                        return;
                    }
                    if files > 0 {
                        let i = 1_000 + dice.below(files * EACH);
                        assert!(db.get(key(i)).unwrap().is_some(), "{i} of {files} files");
                    }
                    assert_eq!(db.get(absent_key(files)).unwrap(), None);
                }
            })
        });
        let readers: Vec<_> = readers.collect();
        for file in 0..FILES {
            let from = 1_000 + file * EACH;
            let path = home.path().join(format!("{file}.sst"));
            let path = table_file(&options(), path, from..from + EACH);
            match file % 3 {
                0 => db.ingest_external_file(vec![path]).unwrap(),
                1 => db.with_engine_untracked(|engine| {
                    engine.ingest_external_file(vec![path]).unwrap()
                }),
                _ => {
                    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
                    let settings = IngestExternalFileOptions::default();
                    db.ingest_external_file_cf_opts(&cf, &settings, vec![path])
                        .unwrap();
                }
            }
            arrived.store(file + 1, Ordering::Release);
            if file % 10 == 5 {
                cover(&db);
            }
        }
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
    ingested(&mut model, 1_000..1_000 + FILES * EACH);
    check_reads(&db, &model);
    check_settled(&db, &model);
}

/// Maintenance wakes at the first SST, and has listed the live ones when the second arrives.
#[test]
fn sst_ingested_after_the_listing_is_covered() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path().join("db")).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..200);
    cover(&db);
    for round in 1..4 {
        let numbers = [0, 1].map(|file| 1_000 * round + 20 * file..1_000 * round + 20 * (file + 1));
        let files = numbers.clone().map(|numbers| {
            let path = home.path().join(format!("{}.sst", numbers.start));
            table_file(&options(), path, numbers)
        });
        for file in files {
            db.ingest_external_file(vec![file]).unwrap();
        }
        for numbers in numbers {
            ingested(&mut model, numbers);
        }
        cover(&db);
        settle(&db);
    }
    check_reads(&db, &model);
    verify_finds_every_key(&db);
}

#[test]
fn writes_and_ingested_files_mix() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let mut model = Model::new();
    let mut dice = Dice(12);
    for round in 0..6 {
        write_randomly(&db, DEFAULT_COLUMN_FAMILY_NAME, &mut model, &mut dice, 200);
        let from = 4 + round * 200;
        let path = home.path().join(format!("{round}.sst"));
        let path = table_file(&options(), path, from..from + 150);
        db.ingest_external_file(vec![path]).unwrap();
        ingested(&mut model, from..from + 150);
        check_reads(&db, &model);
    }
    check_settled(&db, &model);
    verify_finds_every_key(&db);
}

/// All keys ingested into the family `late` are found at once, and again when its SSTs are covered.
fn late_has_all_keys_before_and_after_coverage(db: &SieveDb) {
    let mut model = Model::new();
    ingested(&mut model, 4..400);
    check_cf_reads(db, "late", &model);
    cover(db);
    check_cf_reads(db, "late", &model);
    verify_finds_every_key(db);
}

/// A family gets its filters while a use of the engine is announced: external writes may go to it.
#[test]
fn cf_created_during_external_writes_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve(), home.path().join("db")).unwrap();
    let file = table_file(&options(), home.path().join("a"), 4..400);
    db.with_engine_untracked(|engine| {
        db.create_cf("late", &options()).unwrap();
        settle(&db);
        let handle = engine.cf_handle("late").unwrap();
        engine.ingest_external_file_cf(&handle, vec![file]).unwrap();
    });
    late_has_all_keys_before_and_after_coverage(&db);
}

/// Of two external writes that begin at once, one may end long before the other.
#[test]
fn cf_created_during_external_writes_waits_for_the_last() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let file = table_file(&options(), home.path().join("a"), 4..400);
    db.with_engine_untracked(|engine| {
        db.with_engine_untracked(|_| db.create_cf("late", &options()))
            .unwrap();
        settle(&db);
        let handle = engine.cf_handle("late").unwrap();
        engine.ingest_external_file_cf(&handle, vec![file]).unwrap();
    });
    late_has_all_keys_before_and_after_coverage(&db);
}

/// The stored summary of the default family.
fn stored(database: &Path) -> Vec<u8> {
    let name = format!("summary-{:08x}.sieve", crc32fast::hash(b"default"));
    std::fs::read(database.join("sieve").join(name)).expect("a stored summary")
}

/// A crash would have to read little again, while writing a large summary takes seconds.
#[test]
fn ingesting_a_small_file_does_not_store_the_summary_again() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let db = open(&path);
    let mut model = Model::new();
    fill(&db, &mut model, 0..16_000);
    db.flush().unwrap();
    db.filters().consolidate().unwrap();
    let consolidated = stored(&path);
    let mut ingest = |numbers: std::ops::Range<u64>| {
        let file = home.path().join(format!("from {}", numbers.start));
        let file = table_file(&options(), file, numbers.clone());
        db.ingest_external_file(vec![file]).unwrap();
        ingested(&mut model, numbers);
        settle(&db);
        stored(&path)
    };
    assert!(ingest(20_000..20_100) == consolidated);
    assert!(ingest(21_000..21_200) == consolidated);
    ingest(30_000..33_000);
    // Maintenance stores it after it is published to readers.
    let begun = Instant::now();
    while stored(&path) == consolidated {
        assert!(begun.elapsed() < PATIENCE, "a large file has");
        thread::sleep(Duration::from_millis(5));
    }
    let with_many = stored(&path);
    assert!(ingest(22_000..22_010) == with_many);
    drop(db);
    assert!(stored(&path) != with_many, "at the end all is");
    let db = open(&path);
    check_settled(&db, &model);
}

#[test]
fn unchanged_filters_are_not_stored_again() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..2_000);
    db.flush().unwrap();
    db.filters().consolidate().unwrap();
    settle(&db);
    drop(db);
    let changes = || {
        let files = std::fs::read_dir(home.path().join("sieve")).unwrap();
        let times = files.map(|file| file.unwrap().metadata().unwrap().modified().unwrap());
        times.max()
    };
    let before = changes();
    let db = open(home.path());
    settle(&db);
    check_settled(&db, &model);
    drop(db);
    assert_eq!(changes(), before);
    let db = open(home.path());
    db.put(key(9_000), "more").unwrap();
    drop(db);
    assert!(changes() > before);
}

/// A consolidation takes longer than the time between two files. It would never end if each file
/// restarted it.
#[test]
fn consolidation_beside_ingestions_completes() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve(), home.path().join("db")).unwrap();
    (10..200_000).for_each(|i| db.put(key(i), b"value").unwrap());
    db.flush().unwrap();
    cover(&db);
    let ingest = |first: u64| {
        let path = home.path().join(format!("from {first}"));
        let file = table_file(&options(), path, first..first + 10);
        db.ingest_external_file(vec![file]).unwrap();
    };
    for round in 0..3 {
        let ended = thread::scope(|scope| {
            scope.spawn(|| {
                for file in 0..2 {
                    thread::sleep(Duration::from_millis(10));
                    ingest(1_000_000 + 100 * round + 10 * file);
                }
            });
            db.filters().consolidate()
        });
        assert!(ended.is_ok(), "{ended:?}");
    }
    assert!(db.get(key(1_000_005)).unwrap().is_some());
    verify_finds_every_key(&db);
}

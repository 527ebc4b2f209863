//! Table files that come past the memtables: the filters must hear of them before a reader can.

mod generated;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::SieveDb;
use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, IngestExternalFileOptions, Options, SstFileWriter};

use crate::twin::{
    Dice, Model, PATIENCE, absent_key, agree, agree_in, cover, fill, key, nothing_is_lost, open,
    options, scribble, settle, sieve, whole,
};

/// Writes a table file of these keys outside of the database.
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
fn ingested_files_are_read_at_once_and_covered_soon() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open_cf(&options(), &sieve(), home.path().join("db"), ["other"]).unwrap();
    let (mut model, mut other) = (Model::new(), Model::new());
    fill(&db, &mut model, 0..300);
    cover(&db);
    let file = |name: &str, numbers| table_file(&options(), home.path().join(name), numbers);

    db.ingest_external_file(vec![file("a", 200..500)]).unwrap();
    ingested(&mut model, 200..500);
    agree(&db, &model);
    whole(&db, &model);

    let handle = db.cf_handle("other").unwrap();
    let mut settings = IngestExternalFileOptions::default();
    settings.set_move_files(true);
    let files = vec![file("b", 4..100), file("c", 100..300)];
    db.ingest_external_file_cf_opts(&handle, &settings, files)
        .unwrap();
    ingested(&mut other, 4..300);
    agree_in(&db, "other", &other);
    cover(&db);
    agree_in(&db, "other", &other);

    db.with_engine(|engine| engine.ingest_external_file(vec![file("d", 600..700)]))
        .unwrap();
    ingested(&mut model, 600..700);
    agree(&db, &model);
    whole(&db, &model);

    // The same contents twice: two tables, one identity.
    let copies = [home.path().join("e1"), home.path().join("e2")];
    let written = file("e", 800..900);
    for copy in &copies {
        std::fs::copy(&written, copy).unwrap();
        db.ingest_external_file(vec![copy]).unwrap();
    }
    ingested(&mut model, 800..900);
    whole(&db, &model);
    db.delete(key(850)).unwrap();
    model.remove(&key(850));
    db.compact_range::<&[u8], &[u8]>(None, None);
    db.consolidate().unwrap();
    whole(&db, &model);
    agree_in(&db, "other", &other);
    drop(handle);
    drop(db);
    let db = SieveDb::open_cf(&options(), &sieve(), home.path().join("db"), ["other"]).unwrap();
    agree(&db, &model);
    agree_in(&db, "other", &other);
    whole(&db, &model);
}

/// RocksDB tells nobody of the files that come into such a family: the call itself must.
#[test]
fn a_family_made_on_the_way_is_told_of_its_files() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    db.create_cf("late", &options()).unwrap();
    cover(&db);
    let file = table_file(&options(), home.path().join("a"), 4..400);
    let handle = db.cf_handle("late").unwrap();
    db.ingest_external_file_cf(&handle, vec![file]).unwrap();
    late_has_all_at_once_and_once_covered(&db);
}

/// A table of another fronted database carries an identity of ours, and no filter here.
#[test]
fn a_table_of_another_fronted_database_brings_its_keys() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let (from, to) = (home.path().join("from"), home.path().join("to"));
    let donor = open(&from);
    let mut lent = Model::new();
    fill(&donor, &mut lent, 10..400);
    donor.flush().unwrap();
    donor.compact_range::<&[u8], &[u8]>(None, None);
    whole(&donor, &lent);
    let table = donor.inspect().unwrap().columns[0].segments.remove(0);
    let carried = home.path().join("carried.sst");
    std::fs::copy(Path::new(&table.file), &carried).unwrap();
    let db = open(&to);
    // RocksDB takes such a table only beside the keys that it has, and only when told to.
    fill(&db, &mut model, 400..420);
    cover(&db);
    db.ingest_external_file(vec![&carried]).unwrap_err();
    whole(&db, &model);
    drop(db);
    generated::ingest(&DB::open(&options(), &to).unwrap(), &carried).unwrap();
    model.extend(lent);
    let db = open(&to);
    agree(&db, &model);
    let segments = db.inspect().unwrap().columns.remove(0).segments;
    assert!(segments.iter().any(|segment| segment.id == table.id));
    whole(&db, &model);
}

/// Readers run at full speed while files arrive; what a finished call brought in is never absent.
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
                1 => db.with_engine(|engine| engine.ingest_external_file(vec![path]).unwrap()),
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
    agree(&db, &model);
    whole(&db, &model);
}

/// Upkeep wakes at the first table, and has listed those that there are when the second one comes.
#[test]
fn a_table_that_comes_behind_a_listing_is_read() {
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
    agree(&db, &model);
    nothing_is_lost(&db);
}

#[test]
fn writes_and_ingested_files_mix() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let mut model = Model::new();
    let mut dice = Dice(12);
    for round in 0..6 {
        scribble(&db, DEFAULT_COLUMN_FAMILY_NAME, &mut model, &mut dice, 200);
        let from = 4 + round * 200;
        let path = home.path().join(format!("{round}.sst"));
        let path = table_file(&options(), path, from..from + 150);
        db.ingest_external_file(vec![path]).unwrap();
        ingested(&mut model, from..from + 150);
        agree(&db, &model);
    }
    whole(&db, &model);
    nothing_is_lost(&db);
}

/// What was ingested into the family `late` is read at once, and when its tables are covered.
fn late_has_all_at_once_and_once_covered(db: &SieveDb) {
    let mut model = Model::new();
    ingested(&mut model, 4..400);
    agree_in(db, "late", &model);
    cover(db);
    agree_in(db, "late", &model);
    nothing_is_lost(db);
}

/// A family that gets its front while keys arrive by the bare engine: they may be arriving there.
#[test]
fn a_family_made_while_keys_arrive_loses_none_of_them() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve(), home.path().join("db")).unwrap();
    let file = table_file(&options(), home.path().join("a"), 4..400);
    db.with_engine(|engine| {
        db.create_cf("late", &options()).unwrap();
        settle(&db);
        let handle = engine.cf_handle("late").unwrap();
        engine.ingest_external_file_cf(&handle, vec![file]).unwrap();
    });
    late_has_all_at_once_and_once_covered(&db);
}

/// Of two that arrive at once, one may end long before the other.
#[test]
fn a_family_made_while_keys_arrive_is_told_until_the_last_has_come() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"));
    let file = table_file(&options(), home.path().join("a"), 4..400);
    db.with_engine(|engine| {
        db.with_engine(|_| db.create_cf("late", &options()))
            .unwrap();
        settle(&db);
        let handle = engine.cf_handle("late").unwrap();
        engine.ingest_external_file_cf(&handle, vec![file]).unwrap();
    });
    late_has_all_at_once_and_once_covered(&db);
}

/// The stored summary of the default family.
fn stored(database: &Path) -> Vec<u8> {
    let name = format!("summary-{:08x}.sieve", crc32fast::hash(b"default"));
    std::fs::read(database.join("sieve").join(name)).expect("a stored summary")
}

/// What a crash would have to read again is little; a large summary takes seconds to write.
#[test]
fn a_small_file_has_no_summary_stored_anew() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let db = open(&path);
    let mut model = Model::new();
    fill(&db, &mut model, 0..16_000);
    db.flush().unwrap();
    db.consolidate().unwrap();
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
    // Upkeep stores it once readers know of it.
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
    whole(&db, &model);
}

#[test]
fn what_is_stored_as_it_is_is_not_stored_again() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..2_000);
    db.flush().unwrap();
    db.consolidate().unwrap();
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
    whole(&db, &model);
    drop(db);
    assert_eq!(changes(), before);
    let db = open(home.path());
    db.put(key(9_000), "more").unwrap();
    drop(db);
    assert!(changes() > before);
}

/// It takes longer than the time between two files, and would not end if each had it begin again.
#[test]
fn a_consolidation_beside_ingestions_comes_to_an_end() {
    let home = tempfile::tempdir().unwrap();
    let settings = sieve().static_filters(true);
    let db = SieveDb::open(&options(), &settings, home.path().join("db")).unwrap();
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
            db.consolidate()
        });
        assert!(ended.is_ok(), "{ended:?}");
    }
    assert!(db.get(key(1_000_005)).unwrap().is_some());
    nothing_is_lost(&db);
}

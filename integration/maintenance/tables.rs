//! Tables that maintenance finds, or that come: each is covered, whatever brought it.

use std::os::unix::fs::FileExt as _;

use rocksdb::DB;

use super::*;

/// What RocksDB alone wrote in so many tables.
fn written_plainly(path: &Path, tables: u64, keys_a_table: u64) -> DB {
    let db = DB::open(&options(), path).unwrap();
    for table in 0..tables {
        let first = 10 + table * keys_a_table;
        (first..first + keys_a_table).for_each(|i| db.put(key(i), b"value").unwrap());
        db.flush().unwrap();
    }
    db
}

#[test]
fn tables_without_filters_are_covered_after_open() {
    let home = tempfile::tempdir().unwrap();
    drop(written_plainly(home.path(), 3, 500));
    let db = open(home.path(), &roomy());
    becomes("they are covered", || is_covered(&db) && rules_out(&db));
    becomes("they have filters", || {
        sidecars(home.path()).len() == 3 && health(&db).looks_twice
    });
}

#[test]
fn a_family_is_known_after_create_cf() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &roomy());
    db.create_cf("later", &options()).unwrap();
    let later = db.cf_handle("later").unwrap();
    db.put_cf(&later, b"key", b"value").unwrap();
    becomes("an absent key is ruled out", || {
        db.answer_cf(&later, b"absent").is_absent()
    });
    assert!(!db.answer_cf(&later, b"key").is_absent());
}

#[test]
fn a_table_is_covered_after_ingestion() {
    let home = tempfile::tempdir().unwrap();
    let db = made(&home.path().join("db"), &roomy());
    let file = home.path().join("keys.sst");
    write_table(&file, 10..1_500);
    db.ingest_external_file(vec![&file]).unwrap();
    becomes("it is covered", || is_covered(&db) && rules_out(&db));
    assert!((10..1_500).all(|i| !db.answer(key(i)).is_absent()));
}

/// Nothing is ruled out while it has the engine.
#[test]
fn the_filters_speak_again_after_with_engine() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &roomy());
    db.with_engine(|engine| engine.put(key(10), b"value"))
        .unwrap();
    becomes("absent keys are ruled out", || rules_out(&db));
}

#[test]
fn a_table_is_covered_after_the_catch_up_of_a_secondary() {
    let home = tempfile::tempdir().unwrap();
    let [database, messages] = ["db", "messages"].map(|name| home.path().join(name));
    let writer = written_plainly(&database, 1, 100);
    let secondary = SieveDb::open_as_secondary(&options(), &roomy(), &database, &messages).unwrap();
    becomes("what it found is covered", || is_covered(&secondary));
    for i in 110..1_500 {
        writer.put(key(i), b"value").unwrap();
    }
    writer.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    becomes("what came is covered", || {
        is_covered(&secondary) && rules_out(&secondary)
    });
    assert!((10..1_500).all(|i| secondary.get(key(i)).unwrap().is_some()));
}

/// It is damaged, and whole again later; what else there is, is covered meanwhile.
#[test]
fn a_table_that_cannot_be_read_is_tried_again() {
    let home = tempfile::tempdir().unwrap();
    let plain = written_plainly(home.path(), 2, 700);
    let table = plain.live_files().unwrap().remove(0).name;
    drop(plain);
    let table = home.path().join(table.trim_start_matches('/'));
    let middle = std::fs::metadata(&table).unwrap().len() / 2;
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&table)
        .unwrap();
    let mut whole = [0; 64];
    file.read_exact_at(&mut whole, middle).unwrap();
    file.write_all_at(&[0xee; 64], middle).unwrap();

    let db = open(home.path(), &roomy());
    becomes("the other one is covered", || {
        health(&db).uncovered == Some(1)
    });
    file.write_all_at(&whole, middle).unwrap();
    becomes("it is covered as well", || {
        is_covered(&db) && rules_out(&db)
    });
}

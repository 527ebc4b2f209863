//! SSTs that maintenance finds, or that are added: each is covered, whatever created it.

use std::os::unix::fs::FileExt as _;

use rocksdb::DB;

use super::*;

/// This many SSTs, written by RocksDB alone.
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
fn ssts_without_filters_are_covered_after_open() {
    let home = tempfile::tempdir().unwrap();
    drop(written_plainly(home.path(), 3, 500));
    let db = open(home.path(), &with_headroom());
    eventually("they are covered", || is_covered(&db) && rules_out(&db));
    eventually("they have filters", || sidecars(home.path()).len() == 3);
}

#[test]
fn cf_is_complete_after_create_cf() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom());
    db.create_cf("later", &options()).unwrap();
    let later = db.cf_handle("later").unwrap();
    db.put_cf(&later, b"key", b"value").unwrap();
    eventually("an absent key is ruled out", || {
        db.filters().answer_cf(&later, b"absent").is_absent()
    });
    assert!(!db.filters().answer_cf(&later, b"key").is_absent());
}

#[test]
fn sst_is_covered_after_ingestion() {
    let home = tempfile::tempdir().unwrap();
    let db = made(&home.path().join("db"), &with_headroom());
    let file = home.path().join("keys.sst");
    write_table(&file, 10..1_500);
    db.ingest_external_file(vec![&file]).unwrap();
    eventually("it is covered", || is_covered(&db) && rules_out(&db));
    assert!((10..1_500).all(|i| !db.filters().answer(key(i)).is_absent()));
}

/// No key is denied while a use of the engine is announced.
#[test]
fn filters_resume_after_with_engine_untracked() {
    let home = tempfile::tempdir().unwrap();
    let db = made(home.path(), &with_headroom());
    db.with_engine_untracked(|engine| engine.put(key(10), b"value"))
        .unwrap();
    eventually("absent keys are ruled out", || rules_out(&db));
}

#[test]
fn sst_is_covered_after_a_secondary_catches_up() {
    let home = tempfile::tempdir().unwrap();
    let [database, messages] = ["db", "messages"].map(|name| home.path().join(name));
    let writer = written_plainly(&database, 1, 100);
    let secondary = SieveDb::builder(&database)
        .options(&options())
        .filters(&with_headroom())
        .secondary(&messages)
        .open()
        .unwrap();
    eventually("what it found is covered", || is_covered(&secondary));
    for i in 110..1_500 {
        writer.put(key(i), b"value").unwrap();
    }
    writer.flush().unwrap();
    secondary.try_catch_up_with_primary().unwrap();
    eventually("what came is covered", || {
        is_covered(&secondary) && rules_out(&secondary)
    });
    assert!((10..1_500).all(|i| secondary.get(key(i)).unwrap().is_some()));
}

/// The SST is damaged, and restored later. All other SSTs are covered meanwhile.
#[test]
fn unreadable_sst_is_retried() {
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

    let db = open(home.path(), &with_headroom());
    eventually("the other one is covered", || {
        health(&db).uncovered == Some(1)
    });
    file.write_all_at(&whole, middle).unwrap();
    eventually("it is covered as well", || {
        is_covered(&db) && rules_out(&db)
    });
}

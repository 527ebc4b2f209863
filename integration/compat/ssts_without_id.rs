//! SSTs of a RocksDB before 6.24: they have no unique id, so that no filter can be bound to them
//! across opens. They are covered like others, and read once at each open.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::{BlockBasedOptions, ChecksumType, DB, Options, SstFileWriter};

use crate::maintenance::{
    eventually, growing, health, is_covered, rules_out, sidecars, with_headroom,
};
use crate::support::binding::options_by_text;
use crate::support::database_files::copy;
use crate::support::model_db::{self, absent_key, cover, key, report, verify_finds_every_key};

/// Options whose SSTs have no checksums, so that a property can be removed by its name.
pub(crate) fn unchecked() -> Options {
    let mut table = BlockBasedOptions::default();
    table.set_checksum_type(ChecksumType::NoChecksum);
    let mut options = model_db::options();
    options.set_block_based_table_factory(&table);
    options.set_disable_auto_compactions(true);
    let text = "verify_sst_unique_id_in_manifest=false";
    options_by_text(&options, text).unwrap()
}

/// Replaces a part of the only SST in this folder by another of the same length.
#[expect(clippy::disallowed_methods, reason = "it stands for another RocksDB")]
pub(crate) fn replace_in_table(folder: &Path, part: &[u8], by: &[u8]) {
    let table = the_table(folder);
    let mut bytes = std::fs::read(&table).expect("a table");
    let at = bytes.windows(part.len()).position(|bytes| bytes == part);
    let at = at.expect("tables of today have it");
    bytes[at..at + part.len()].copy_from_slice(by);
    std::fs::write(table, bytes).expect("a table");
}

fn the_table(folder: &Path) -> PathBuf {
    let entries = std::fs::read_dir(folder).expect("the database's folder");
    let paths = entries.map(|entry| entry.expect("a file").path());
    let is_table = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "sst");
    let tables: Vec<PathBuf> = paths.filter(is_table).collect();
    let [table] = tables.as_slice() else {
        panic!("not one table: {tables:?}");
    };
    table.clone()
}

/// Removes the properties that the unique id of the only SST in this folder is made of.
pub(crate) fn make_old(folder: &Path) {
    // Properties are sorted by name, and this is the last of its prefix.
    replace_in_table(folder, b"session.identity", b"zession.identity");
}

/// A database of one such SST, written without the plugin.
fn old_database(path: &Path, numbers: impl Iterator<Item = u64>) {
    let db = DB::open(&unchecked(), path).unwrap();
    numbers.for_each(|i| db.put(key(i), b"value").unwrap());
    db.flush().unwrap();
    drop(db);
    make_old(path);
}

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    SieveDb::open(&unchecked(), sieve, path).unwrap()
}

fn finds(db: &SieveDb, numbers: std::ops::Range<u64>) {
    for i in numbers {
        assert!(db.get(key(i)).unwrap().is_some(), "{i}");
        assert!(!db.filters().answer(key(i)).is_absent(), "{i}");
    }
}

#[test]
fn sst_without_unique_id_is_covered_at_each_open_and_not_stored() {
    let home = tempfile::tempdir().unwrap();
    let [path, crashed] = ["db", "crashed"].map(|name| home.path().join(name));
    old_database(&path, 10..1_100);
    for _ in 0..3 {
        let db = open(&path, &with_headroom());
        finds(&db, 10..1_100);
        eventually("it is covered", || is_covered(&db) && rules_out(&db));
        eventually("it has a filter", || {
            report(&db).segments[0].filter.is_some()
        });
        finds(&db, 10..1_100);
        assert!(db.filters().wait_until_complete(Duration::from_secs(30)));
        let table = report(&db).segments.remove(0);
        assert!(table.covered && table.filter.is_some() && !table.saved);
        assert_eq!((table.id, health(&db).without_id), (None, 0));
        verify_finds_every_key(&db);
        if !crashed.exists() {
            copy(&path, &crashed);
        }
        drop(db);
        assert_eq!(sidecars(&path).len(), 0);
    }
    let db = open(&crashed, &with_headroom());
    finds(&db, 10..1_100);
    eventually("it is covered", || is_covered(&db) && rules_out(&db));
    finds(&db, 10..1_100);
}

/// One such SST of a few keys kept the summary of its family at all the stages that it had grown
/// to.
#[test]
fn summary_over_an_sst_without_unique_id_is_consolidated() {
    for sieve in [growing(), growing().speed_over_memory(true)] {
        let home = tempfile::tempdir().unwrap();
        old_database(home.path(), 10..60);
        let db = open(home.path(), &sieve);
        eventually("it is covered", || is_covered(&db));
        (60..1_500).for_each(|i| db.put(key(i), b"value").unwrap());
        db.flush().unwrap();
        // A static stage has one beside it.
        eventually("the summary has few stages", || {
            let health = health(&db);
            health.stages <= 2 && health.keys.get() > 1_400
        });
        assert!(rules_out(&db));
        finds(&db, 10..1_500);
    }
}

/// As after a crash, when a file number comes back with other contents.
#[test]
fn sst_without_unique_id_is_not_matched_by_file_number() {
    let home = tempfile::tempdir().unwrap();
    let paths = ["before", "after"].map(|name| home.path().join(name));
    for (path, rest) in paths.iter().zip([0, 1]) {
        old_database(path, (10..2_000).filter(|i| i % 2 == rest));
    }
    let [before, after] = paths.clone().map(|path| the_table(&path));
    assert_eq!(before.file_name(), after.file_name());
    for (path, rest) in paths.iter().zip([0, 1]) {
        let db = open(path, &with_headroom().folder(home.path().join("filters")));
        let mut numbers = (10..2_000).filter(|i| i % 2 == rest);
        assert!(numbers.all(|i| !db.filters().answer(key(i)).is_absent()));
        eventually("it is covered", || is_covered(&db) && rules_out(&db));
        let mut numbers = (10..2_000).filter(|i| i % 2 == rest);
        assert!(numbers.all(|i| db.get(key(i)).unwrap().is_some()));
        verify_finds_every_key(&db);
    }
}

#[test]
fn ingested_sst_without_unique_id_is_covered() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"), &with_headroom());
    eventually("a new database is known", || is_covered(&db));
    for first in [10, 600] {
        let file = home.path().join("old.sst");
        let options = unchecked();
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        let numbers = first..first + 590;
        numbers.for_each(|i| writer.put(key(i), b"value").unwrap());
        writer.finish().unwrap();
        make_old(home.path());
        db.ingest_external_file(vec![&file]).unwrap();
        finds(&db, 10..first + 590);
        eventually("it is covered", || is_covered(&db));
    }
    assert!(rules_out(&db));
    let tables = report(&db).segments;
    assert!(tables.len() == 2 && tables.iter().all(|table| table.id.is_none()));
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    finds(&db, 10..1_190);
}

/// If another process assigns the file numbers, and no SST is read.
#[test]
fn sst_without_unique_id_stays_uncovered_without_a_writer() {
    let home = tempfile::tempdir().unwrap();
    let [path, messages] = ["db", "messages"].map(|name| home.path().join(name));
    old_database(&path, 10..1_000);
    let readers = [
        SieveDb::builder(&path)
            .options(&unchecked())
            .filters(&with_headroom())
            .secondary(messages)
            .open(),
        SieveDb::builder(&path)
            .options(&unchecked())
            .filters(&with_headroom())
            .read_only(false)
            .open(),
    ];
    for db in readers {
        let db = Arc::new(db.unwrap());
        eventually("it is reported", || health(&db).without_id == 1);
        assert_eq!(health(&db).uncovered, Some(1));
        finds(&db, 10..1_000);
        assert!(
            db.filters().answer(absent_key(5)).is_absent(),
            "before its range"
        );
        assert!(
            !db.filters().answer(absent_key(500)).is_absent(),
            "within its range"
        );
        let (done, ended) = mpsc::channel();
        let waiting = Arc::clone(&db);
        thread::spawn(move || {
            done.send(
                waiting
                    .filters()
                    .wait_until_complete(Duration::from_secs(3_600)),
            )
        });
        let is_covered = ended.recv_timeout(Duration::from_secs(30));
        assert!(!is_covered.expect("it waits for what does not come"));
    }
}

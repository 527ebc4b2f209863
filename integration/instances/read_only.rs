//! A database that is opened read only: its filters are used, and no file of it changes.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;

use lsm_sieve::{FilterSize, OpenError, SieveDb};
use rocksdb::backup::{BackupEngine, BackupEngineOptions};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Env, FlushOptions, WaitForCompactOptions, WriteBatch};

use crate::support::binding::delete_files;
use crate::support::database_files::contents;
use crate::support::model_db::{
    Model, absent_key, check_cf_reads, check_reads, cover, fill, open, options, settle, sieve,
};

fn open_to_read(path: &Path) -> SieveDb {
    let db = SieveDb::builder(path)
        .options(&options())
        .filters(&sieve())
        .read_only(false)
        .open()
        .unwrap();
    settle(&db);
    db
}

fn filters_speak(db: &SieveDb) -> bool {
    const ABSENT_KEYS: u64 = 1_000;
    let denied = (0..ABSENT_KEYS).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
    denied.count() as u64 > ABSENT_KEYS * 9 / 10
}

#[test]
fn read_only_open_uses_filters_and_changes_no_file() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        fill(&db, &mut model, 0..900);
        db.flush().unwrap();
        cover(&db);
        // Into the log.
        fill(&db, &mut model, 900..1_000);
    }
    let before = contents(home.path());
    {
        let db = open_to_read(home.path());
        check_reads(&db, &model);
        assert!(filters_speak(&db));
        assert!(db.filters().consolidate().is_err());
        db.filters()
            .set_filter_size(FilterSize::rate(0.0001).unwrap());
        settle(&db);
        db.filters().scrub().unwrap();
        check_reads(&db, &model);
    }
    assert!(contents(home.path()) == before, "a file has changed");
    let refused = SieveDb::builder(home.path())
        .options(&options())
        .filters(&sieve())
        .read_only(true)
        .open();
    assert!(matches!(refused, Err(OpenError::Engine { .. })));
}

/// Checks that every call that would change a database, or would copy only a part of it, is refused
/// for this reason.
pub(crate) fn all_refused(db: &SieveDb, family: &str, aside: &Path, reason: &str) {
    let cf = db.cf_handle(family).unwrap();
    let backups = tempfile::tempdir().unwrap();
    let backups = BackupEngineOptions::new(backups.path()).unwrap();
    let mut backups = BackupEngine::open(&backups, &Env::new().unwrap()).unwrap();
    let mut wait = WaitForCompactOptions::default();
    wait.set_flush(true);
    let setting = [("disable_auto_compactions", "true")];
    let (from, to) = (&b"a"[..], &b"z"[..]);
    let mut batch = WriteBatch::default();
    batch.put(b"key", b"value");
    let refused = [
        db.put(b"key", b"value"),
        db.merge_cf(&cf, b"key", b"value"),
        db.delete(b"key-00000100"),
        db.write(batch),
        db.flush(),
        db.flush_cfs_opt(&[&cf], &FlushOptions::default()),
        db.flush_wal(false),
        db.wait_for_compact(&wait),
        db.set_options(&setting),
        db.set_options_cf(&cf, &setting),
        db.delete_file_in_range(from, to),
        db.delete_file_in_range_cf(&cf, from, to),
        Checkpoint::new(&**db).and_then(|copy| copy.create_checkpoint(aside.join("copy"))),
        backups.create_new_backup(&**db),
        db.drop_cf(family),
    ];
    let said = delete_files(db, false).unwrap_err();
    assert!(said.contains(reason), "{said}");
    for (call, refused) in refused.iter().enumerate() {
        let said = refused.as_ref().unwrap_err().to_string();
        assert!(said.contains(reason), "call {call}: {said}");
    }
}

/// RocksDB's read-only instance drops families, removes SSTs, and waits for flushes that never
/// come.
#[test]
fn calls_that_change_the_database_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_atomic_flush(true);
    let mut model = Model::new();
    {
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve())
            .cfs(["other", "unnamed"])
            .open()
            .unwrap();
        fill(&db, &mut model, 0..500);
        db.flush().unwrap();
        settle(&db);
        fill(&db, &mut model, 500..600);
    }
    let before = contents(home.path());
    {
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve())
            .cfs(["other"])
            .read_only(false)
            .open();
        let db = db.unwrap();
        all_refused(&db, "other", home.path(), "read only mode");
        assert!(db.create_cf("new", &options).is_err());
        db.compact_range::<&[u8], &[u8]>(None, None);
        settle(&db);
        check_reads(&db, &model);
        check_cf_reads(&db, "other", &Model::new());
    }
    assert!(contents(home.path()) == before, "a file has changed");
    let none = home.path().join("none/at/all");
    assert!(
        SieveDb::builder(&none)
            .options(&options)
            .filters(&sieve())
            .read_only(false)
            .open()
            .is_err()
    );
    assert!(contents(home.path()) == before, "a folder was made");
}

/// Larger than a memtable may be.
#[test]
fn replayed_log_feeds_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    fill(&open(home.path()), &mut model, 0..1_000);
    let before = contents(home.path());
    let mut small = options();
    small.set_write_buffer_size(1 << 16);
    for options in [options(), small] {
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve())
            .read_only(false)
            .open()
            .unwrap();
        settle(&db);
        check_reads(&db, &model);
        assert!(filters_speak(&db));
    }
    assert!(contents(home.path()) == before, "a file has changed");
}

/// Such a writer is not supported. The keys of the reader are found all the same, though SSTs and
/// filters are removed meanwhile.
#[test]
fn read_only_open_beside_a_writer_reads_the_state_at_open() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let db = open(home.path());
    for part in [0..300, 200..500] {
        fill(&db, &mut model, part);
        db.flush().unwrap();
    }
    db.filters().consolidate().unwrap();
    settle(&db);
    fill(&db, &mut model, 500..600);
    let (reader, then) = (open_to_read(home.path()), model.clone());
    assert!(filters_speak(&reader));

    fill(&db, &mut model, 600..900);
    db.delete(b"key-00000250").unwrap();
    model.remove(&b"key-00000250"[..]);
    db.flush().unwrap();
    db.compact_range::<&[u8], &[u8]>(None, None);
    db.filters().consolidate().unwrap();
    assert_eq!(db.live_files().unwrap().len(), 1);

    settle(&reader);
    check_reads(&reader, &then);
    assert!(filters_speak(&reader));
    let late = open_to_read(home.path());
    for (reader, model) in [(&late, &model), (&reader, &then), (&db, &model)] {
        check_reads(reader, model);
    }
}

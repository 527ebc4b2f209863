//! Column families that are created, dropped, and created again under the same name.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::{Answer, SieveDb};
use lsm_sieve_format::disk::{Disk as _, RealDisk};
use rocksdb::DB;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options};

use crate::support::model_db::{
    Dice, Model, check_cf_reads, check_reads, check_settled, cover, for_speed, key, open, open_cfs,
    options, settle, sieve, stats_of, verify_finds_every_key, write_randomly,
};

#[test]
fn recreated_cf_has_its_new_keys_only() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut default = Model::new();
    write_randomly(
        &db,
        DEFAULT_COLUMN_FAMILY_NAME,
        &mut default,
        &mut Dice(1),
        200,
    );
    for round in 0..3 {
        db.create_cf("again", &options()).unwrap();
        let mut model = Model::new();
        check_cf_reads(&db, "again", &model);
        write_randomly(&db, "again", &mut model, &mut Dice(round), 400);
        check_cf_reads(&db, "again", &model);
        db.flush_cf(&db.cf_handle("again").unwrap()).unwrap();
        cover(&db);
        db.filters().consolidate().unwrap();
        check_cf_reads(&db, "again", &model);
        verify_finds_every_key(&db);
        db.drop_cf("again").unwrap();
        assert!(db.cf_handle("again").is_none());
        assert!(stats_of(&db, "again").is_none());
        let files = RealDisk.list(&home.path().join("sieve")).unwrap();
        let summaries = files.iter().filter(|name| name.starts_with("summary-"));
        assert_eq!(summaries.count(), 1, "the default family's: {files:?}");
    }
    check_settled(&db, &default);
}

/// Filters of a created family were not stored, and those of its dead SSTs kept, until another family
/// changed: RocksDB accepts no listener for it. One listener serves all families of a database.
#[test]
fn compaction_in_a_created_cf_wakes_maintenance() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &for_speed(), home.path()).unwrap();
    db.create_cf("late", &options()).unwrap();
    let late = db.cf_handle("late").unwrap();
    for value in 0..3_u32 {
        for key in 0..1_000_u32 {
            db.put_cf(&late, key.to_be_bytes(), value.to_be_bytes())
                .unwrap();
        }
        db.flush_cf(&late).unwrap();
    }
    settle(&db);
    db.compact_range_cf::<&[u8], &[u8]>(&late, None, None);
    let began = Instant::now();
    loop {
        let late = db.filters().inspect().unwrap().cfs;
        let late = late.into_iter().find(|cf| cf.name == "late");
        let tables = late.unwrap().segments;
        assert_eq!(tables.len(), 1);
        if tables[0].saved {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "not saved");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A handle outlives its family: its reads go to the engine, which still has the data.
#[test]
fn handle_of_a_dropped_cf_stays_readable() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.create_cf("old", &options()).unwrap();
    let old = db.cf_handle("old").unwrap();
    db.put_cf(&old, b"kept", b"old").unwrap();
    db.drop_cf("old").unwrap();
    db.create_cf("old", &options()).unwrap();
    let new = db.cf_handle("old").unwrap();
    db.put_cf(&new, b"fresh", b"new").unwrap();
    cover(&db);
    assert_eq!(
        db.get_cf(&old, b"kept").unwrap().as_deref(),
        Some(&b"old"[..])
    );
    assert_eq!(db.get_cf(&old, b"fresh").unwrap(), None);
    assert_eq!(db.filters().answer_cf(&old, b"kept"), Answer::Maybe);
    let both = db.multi_get_cf([(&old, &b"kept"[..]), (&old, b"fresh")]);
    assert!(both[0].as_ref().unwrap().is_some() && both[1].as_ref().unwrap().is_none());
    assert_eq!(db.get_cf(&new, b"kept").unwrap(), None);
    assert!(db.get_cf(&new, b"fresh").unwrap().is_some());
}

#[test]
fn default_cf_cannot_be_dropped() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.put("key", "value").unwrap();
    assert!(db.drop_cf(DEFAULT_COLUMN_FAMILY_NAME).is_err());
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    assert!(db.get_cf(&cf, "key").unwrap().is_some());
    assert!(db.multi_get(["key"])[0].as_ref().unwrap().is_some());
}

/// The binding's own call has given up its handle by then.
#[test]
fn filters_of_a_cf_that_rocksdb_does_not_drop_stay() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.put("key", "value").unwrap();
    cover(&db);
    assert!(db.filters().answer("absent").is_absent());
    let engine: &lsm_sieve::RocksDb = &db;
    assert!(engine.drop_cf(DEFAULT_COLUMN_FAMILY_NAME).is_err());
    assert!(db.filters().answer("absent").is_absent());
    assert!(!db.filters().answer("key").is_absent());
    assert_eq!(db.filters().health().cfs.len(), 1);
}

#[test]
fn created_cfs_have_filters_after_a_reopen() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        db.create_cf("late", &options()).unwrap();
        write_randomly(&db, "late", &mut model, &mut Dice(4), 500);
    }
    let db = open_cfs(home.path(), ["late"]);
    check_cf_reads(&db, "late", &model);
    cover(&db);
    let tally = check_cf_reads(&db, "late", &model);
    assert!(tally.ruled_out * 10 > tally.missing * 5, "{tally:?}");
    verify_finds_every_key(&db);
}

/// A family that was created by the plain database, while a use of the engine is announced.
#[test]
fn cf_created_during_a_use_of_the_engine_is_read() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.with_engine_untracked(|engine| {
        engine.create_cf("bare", &Options::default()).unwrap();
        let cf = engine.cf_handle("bare").unwrap();
        engine.put_cf(&cf, b"k", b"v").unwrap();
    });
    let cf = db.cf_handle("bare").unwrap();
    assert_eq!(db.filters().answer_cf(&cf, b"k"), Answer::Maybe);
    assert!(db.get_cf(&cf, b"k").unwrap().is_some());
    assert!(db.get_cf(&cf, b"none").unwrap().is_none());
    assert!(
        db.multi_get_cf([(&cf, b"k")])[0]
            .as_ref()
            .unwrap()
            .is_some()
    );
    drop(cf);
    cover(&db);
    drop(db);
    let db = open_cfs(home.path(), ["bare"]);
    let model = Model::from([(b"k".to_vec(), b"v".to_vec())]);
    check_cf_reads(&db, "bare", &model);
    check_reads(&db, &Model::new());
}

/// Two names with one CRC-32 share the file of their summary filters.
#[test]
fn cfs_with_colliding_names_do_not_share_filters() {
    // CRC-32 of both is 0x4ddb0c25 (a known pair of English words).
    let names = ["plumless", "buckeroo"];
    let crc = |name: &str| crc32fast::hash(name.as_bytes());
    assert_eq!(crc(names[0]), crc(names[1]));
    let home = tempfile::tempdir().unwrap();
    let mut models = [Model::new(), Model::new()];
    for round in 0..3 {
        let db = open_cfs(home.path(), names);
        for ((name, model), seed) in names.iter().zip(&mut models).zip(0..) {
            check_cf_reads(&db, name, model);
            write_randomly(&db, name, model, &mut Dice(seed * 10 + round), 200);
            db.flush_cf(&db.cf_handle(name).unwrap()).unwrap();
            check_cf_reads(&db, name, model);
        }
        cover(&db);
        for (name, model) in names.iter().zip(&models) {
            check_cf_reads(&db, name, model);
        }
        assert_eq!(db.get(key(1)).unwrap(), None);
        verify_finds_every_key(&db);
    }
}

/// A family that the plain database dropped and created again. The old filters must neither answer
/// for it nor be stored for it.
#[test]
fn cf_recreated_by_the_bare_engine_loses_no_key_after_a_reopen() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open_cfs(home.path(), ["a"]);
        cover(&db);
        db.with_engine_untracked(|engine| {
            engine.drop_cf("a").unwrap();
            engine.create_cf("a", &options()).unwrap();
        });
        settle(&db);
        let handle = db.cf_handle("a").unwrap();
        for i in 0..500 {
            db.put_cf(&handle, key(i), b"new").unwrap();
            model.insert(key(i), b"new".to_vec());
        }
        db.flush_cf(&handle).unwrap();
        settle(&db);
        settle(&db);
        check_cf_reads(&db, "a", &model);
    }
    let db = open_cfs(home.path(), ["a"]);
    check_cf_reads(&db, "a", &model);
    cover(&db);
    check_cf_reads(&db, "a", &model);
    verify_finds_every_key(&db);
}

/// The handle under a name may be that of another family by the time it is used.
#[test]
fn two_threads_create_and_drop_cfs_of_one_name() {
    const ROUNDS: u64 = 150;
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let read_back = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..2_u64 {
            let (db, read_back) = (&db, &read_back);
            scope.spawn(move || {
                // If the threads run in lockstep, nearly all writes find their family dropped.
                let enough = |round| round >= ROUNDS && read_back.load(Ordering::Relaxed) > 0;
                for round in (0..100 * ROUNDS).take_while(|&round| !enough(round)) {
                    // Either call may fail: the other thread was faster.
                    drop(db.create_cf("a", &options()));
                    if let Some(family) = db.cf_handle("a") {
                        let key = key(2 * round + thread);
                        if db.put_cf(&family, &key, b"x").is_ok() {
                            let found = db.get_cf(&family, &key).unwrap();
                            assert_eq!(found.as_deref(), Some(&b"x"[..]), "round {round}");
                            read_back.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                    drop(db.drop_cf("a"));
                }
            });
        }
    });
    assert!(read_back.into_inner() > 0, "no write was taken");
    drop(db.create_cf("a", &options()));
    assert!(
        stats_of(&db, "a").is_some(),
        "the column family has no filters"
    );
}

/// While the database opens, RocksDB also creates the dropped family, and drops it again.
#[test]
fn recreated_cf_has_filters_after_a_reopen() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        db.create_cf("again", &options()).unwrap();
        db.drop_cf("again").unwrap();
        db.create_cf("again", &options()).unwrap();
        write_randomly(&db, "again", &mut model, &mut Dice(5), 300);
    }
    let db = open_cfs(home.path(), ["again"]);
    cover(&db);
    check_cf_reads(&db, "again", &model);
    let family = db.cf_handle("again").unwrap();
    assert!(
        db.filters()
            .answer_cf(&family, b"certainly nowhere")
            .is_absent(),
        "the filters are not checked"
    );
}

/// As `list_cf` and the default family's name together yield. RocksDB takes the options of the
/// first.
#[test]
fn cf_named_twice_is_opened_once() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open_cfs(home.path(), ["other"]);
        write_randomly(&db, "other", &mut model, &mut Dice(7), 300);
        db.flush_cf(&db.cf_handle("other").unwrap()).unwrap();
    }
    let mut names = DB::list_cf(&options(), home.path()).unwrap();
    names.extend([DEFAULT_COLUMN_FAMILY_NAME.to_owned(), "other".to_owned()]);
    let families = names.iter().map(|name| (name, options()));
    drop(DB::open_cf_with_opts(&options(), home.path(), families).unwrap());

    let one_memtable = |number| {
        let mut options = options();
        options.set_max_write_buffer_number(number);
        options
    };
    let mut families: Vec<_> = names.iter().map(|name| (name, one_memtable(3))).collect();
    let twice = names.iter().map(|name| (name, one_memtable(5)));
    families.extend(twice);
    {
        let db = SieveDb::open_cf_with_opts(&options(), &sieve(), home.path(), families).unwrap();
        cover(&db);
        check_cf_reads(&db, "other", &model);
        write_randomly(&db, "other", &mut model, &mut Dice(8), 300);
        check_cf_reads(&db, "other", &model);
        let families = db.filters().health().cfs;
        let names: Vec<_> = families.iter().map(|family| &*family.name).collect();
        assert_eq!(names, [DEFAULT_COLUMN_FAMILY_NAME, "other"]);
    }
    let file = newest_options(home.path());
    let numbers = file
        .lines()
        .filter(|line| line.contains("max_write_buffer_number="));
    assert!(numbers.clone().count() == 2 && numbers.clone().all(|line| line.ends_with("=3")));

    let (options, path) = (options(), home.path());
    let messages = tempfile::tempdir().unwrap();
    let open = || {
        SieveDb::builder(path)
            .options(&options)
            .filters(&sieve())
            .cfs(&names)
            .open()
    };
    let to_read = || {
        SieveDb::builder(path)
            .options(&options)
            .filters(&sieve())
            .cfs(&names)
            .read_only(false)
            .open()
    };
    let as_secondary = || {
        SieveDb::builder(path)
            .options(&options)
            .filters(&sieve())
            .cfs(&names)
            .secondary(messages.path())
            .open()
    };
    check_cf_reads(&open().unwrap(), "other", &model);
    check_cf_reads(&to_read().unwrap(), "other", &model);
    check_cf_reads(&as_secondary().unwrap(), "other", &model);
}

/// The options file that RocksDB wrote at the last open.
fn newest_options(database: &std::path::Path) -> String {
    let files = RealDisk.list(database).unwrap();
    let newest = files
        .iter()
        .filter(|name| name.starts_with("OPTIONS-"))
        .max();
    std::fs::read_to_string(database.join(newest.unwrap())).unwrap()
}

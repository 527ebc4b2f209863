//! Error texts of a failed open, the lock, and the options that a database is opened with.

use std::error::Error as _;

use lsm_sieve::{OpenError, SieveDb, SieveOptions};
use lsm_sieve_format::disk::{Disk as _, RealDisk};
use rocksdb::{DB, IteratorMode, Options};

use crate::support::database_files::stamps;
use crate::support::model_db::{
    Model, check_cf_reads, cover, key, open, options, settle, sieve, verify_finds_every_key,
};

/// The text of a refused open, and those of its causes.
fn said(opened: Result<SieveDb, OpenError>) -> (String, Vec<String>) {
    let error = opened.expect_err("a refusal");
    let mut causes = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        causes.push(error.to_string());
        cause = error.source();
    }
    (error.to_string(), causes)
}

#[test]
fn open_errors_state_and_keep_their_cause() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    drop(
        SieveDb::builder(&path)
            .options(&options())
            .filters(&sieve())
            .cfs(["a", "b"])
            .open()
            .unwrap(),
    );
    let (text, causes) = said(SieveDb::open(&options(), &sieve(), &path));
    let [cause] = causes.as_slice() else {
        panic!("{causes:?}");
    };
    assert!(cause.starts_with("Invalid argument: Column families not opened: "));
    let stated = format!("RocksDB cannot open {}: {cause}; ", path.display());
    assert!(
        text.starts_with(&stated) && text.contains("list_cf"),
        "{text}"
    );

    let folder = home.path().join("a file");
    drop(RealDisk.create_new(&folder).unwrap());
    let elsewhere = sieve().folder(folder.join("sieve"));
    for (options, sieve, path) in [
        (&Options::default(), sieve(), home.path().join("none")),
        (&options(), elsewhere, path),
    ] {
        let (text, causes) = said(SieveDb::open(options, &sieve, path));
        assert!(!causes.is_empty(), "{text}");
        let is_stated = |cause: &String| text.contains(cause.as_str());
        assert!(
            causes.iter().all(is_stated),
            "{text}, not all of {causes:?}"
        );
    }
}

#[test]
fn file_in_place_of_a_database_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("users.db");
    drop(RealDisk.create_new(&file).unwrap());
    let (options, sieve) = (options(), SieveOptions::default());
    let messages = home.path().join("messages");
    for opened in [
        SieveDb::open(&options, &sieve, &file),
        SieveDb::builder(&file)
            .options(&options)
            .filters(&sieve)
            .cfs(["a"])
            .open(),
        SieveDb::builder(&file)
            .options(&options)
            .filters(&sieve)
            .read_only(false)
            .open(),
        SieveDb::builder(&file)
            .options(&options)
            .filters(&sieve)
            .secondary(&messages)
            .open(),
    ] {
        let (text, _) = said(opened);
        assert!(text.contains("users.db: it is a file"), "{text}");
    }
    assert!(file.is_file() && !messages.exists());
}

/// A family in reverse order, or with another number of levels, opens with no other options.
#[test]
fn cfs_open_with_their_stored_options() {
    let home = tempfile::tempdir().unwrap();
    let text = "comparator=rocksdb.ReverseBytewiseComparator;num_levels=9";
    let reverse = options().get_options_from_string(text).unwrap();
    let mut model = Model::new();
    {
        // First without the plugin, then written by it.
        let families = [("reverse", reverse.clone())];
        let plain = DB::open_cf_with_opts(&options(), home.path(), families).unwrap();
        let family = plain.cf_handle("reverse").unwrap();
        for i in 10..300 {
            plain.put_cf(&family, key(i), b"plain").unwrap();
            model.insert(key(i), b"plain".to_vec());
        }
        plain.flush_cf(&family).unwrap();
    }
    let latest = || SieveDb::latest_options(&Options::default(), home.path()).unwrap();
    for round in 0..2_u64 {
        let (options, families) = latest();
        let names: Vec<_> = families.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["default", "reverse"]);
        let db = SieveDb::open_cf_with_opts(&options, &sieve(), home.path(), families).unwrap();
        cover(&db);
        check_cf_reads(&db, "reverse", &model);
        let family = db.cf_handle("reverse").unwrap();
        let new = 1_000 + round;
        db.put_cf(&family, key(new), b"with filters").unwrap();
        model.insert(key(new), b"with filters".to_vec());
        let first = db.iterator_cf(&family, IteratorMode::Start).next();
        assert_eq!(&*first.unwrap().unwrap().0, key(new));
        verify_finds_every_key(&db);
    }
    let (options, families) = latest();
    let messages = home.path().join("messages");
    let secondary = SieveDb::builder(home.path())
        .options(&options)
        .filters(&sieve())
        .cfs_with_opts(families)
        .secondary(messages)
        .open();
    check_cf_reads(&secondary.unwrap(), "reverse", &model);

    let nothing = SieveDb::latest_options(&options, home.path().join("none"));
    assert!(nothing.is_err());
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

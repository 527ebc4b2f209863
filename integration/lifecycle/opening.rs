//! Error texts of a failed open, the lock, and the options that a database is opened with.

use std::error::Error as _;

use lsm_sieve::{OpenError, Prefix, SieveDb, SieveOptions};
use lsm_sieve_format::disk::{Disk as _, RealDisk};
use rocksdb::{DB, IteratorMode, Options, SliceTransform};

use crate::support::binding::options_by_text;
use crate::support::database_files::stamps;
use crate::support::model_db::{
    Model, check_cf_reads, cover, key, open, open_cfs, options, settle, sieve,
    verify_finds_every_key,
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
    drop(open_cfs(&path, ["a", "b"]));
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

/// Such settings used to be taken: the database was created first, and prefixes beyond the eighth
/// were left out without a word. Refusals spoke of a column family that "cannot have filters".
#[test]
fn settings_that_cannot_be_used_are_refused_before_anything_is_created() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let functions = |number: usize| (0..number).map(Prefix::fixed);
    let mut extracting = options();
    extracting.set_prefix_extractor(SliceTransform::create_fixed_prefix(20));
    let too_many = "9 functions give prefixes";
    for (options, settings, reason) in [
        (
            options(),
            sieve().folder(""),
            "the folder of the filters has no name",
        ),
        (
            options(),
            sieve().exclude_cfs(["default"]),
            "cannot be left out",
        ),
        (
            options(),
            sieve().prefixes("default", functions(9)),
            too_many,
        ),
        (options(), sieve().prefixes("later", functions(9)), too_many),
        (
            extracting.clone(),
            sieve().prefixes("default", functions(8)),
            too_many,
        ),
    ] {
        let (text, _) = said(SieveDb::open(&options, &settings, &path));
        let stated = "cannot open with these settings: ";
        assert!(text.starts_with(stated) && text.contains(reason), "{text}");
        assert!(!path.exists(), "{text}");
    }
    // Of a column family that is created later, its extractor is one more.
    let settings = sieve().prefixes("later", functions(8));
    let db = SieveDb::open(&options(), &settings, &path).unwrap();
    let error = db
        .create_cf("later", &extracting)
        .unwrap_err()
        .into_string();
    assert!(
        error.contains(too_many) && error.contains("8 are the most"),
        "{error}"
    );
    db.create_cf("later", &options()).unwrap();
}

/// Found out once the database was there, and then blamed on the disk.
#[test]
#[cfg(unix)]
fn folder_of_filters_that_cannot_be_used_is_refused_before_the_database_is_created() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    drop(RealDisk.create_new(&home.path().join("file")).unwrap());
    std::os::unix::fs::symlink(home.path(), home.path().join("link")).unwrap();
    let long = "a".repeat(300);
    for (folder, remedy) in [
        ("missing/filters", "create the folder that it is in"),
        ("db/deep/filters", "create the folder that it is in"),
        ("file", "use another path"),
        ("file/filters", "use another path"),
        ("link", "use another path"),
        (&long, "use a shorter path"),
        ("a\0b", "without a zero byte"),
    ] {
        let settings = sieve().folder(home.path().join(folder));
        let (text, causes) = said(SieveDb::open(&options(), &settings, &path));
        assert!(
            text.contains(remedy) && !text.contains("lookups go"),
            "{text}"
        );
        assert!(causes.iter().all(|cause| text.contains(cause)), "{text}");
        assert!(!path.exists(), "{text}");
    }
    for folder in [&b"\xff"[..], b"db", b"db/sieve too", b"new"] {
        for _ in 0..2 {
            let settings = sieve().folder(home.path().join(OsStr::from_bytes(folder)));
            let db = SieveDb::open(&options(), &settings, &path).unwrap();
            db.put("key", "value").unwrap();
            cover(&db);
            assert!(db.get("key").unwrap().is_some() && db.get("absent").unwrap().is_none());
        }
    }
}

/// The path of the database used to be an error of the filters' identity.
#[test]
fn path_that_no_database_can_have_is_refused_with_the_reason() {
    let home = tempfile::tempdir().unwrap();
    drop(RealDisk.create_new(&home.path().join("file")).unwrap());
    let long = "a".repeat(6_000);
    for path in [&*long, "file/db"].map(|path| home.path().join(path)) {
        let opened = SieveDb::open(&options(), &sieve(), &path);
        assert!(matches!(opened, Err(OpenError::Path { .. })), "{opened:?}");
        let (text, causes) = said(opened);
        assert!(
            text.ends_with(&causes[0]) && !text.contains("identity"),
            "{text}"
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
    let reverse = options_by_text(&options(), text).unwrap();
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

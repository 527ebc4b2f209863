//! Every refusal says what is wrong, where, and what to do.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::error::Error as _;
use std::ops::ControlFlow;
use std::path::Path;

use lsm_sieve::{Bits, SieveDb, SieveOptions};
use lsm_sieve_differential::{
    DifferentialOptions, DifferentialStore, FilterChoice, MainFile, OpenDifferentialError,
};
use lsm_sieve_filter::math::Probes;
use rocksdb::{CompactionDecision, DB, DBCompactionStyle, Options};

use super::model::key;
use super::{engine, open, with_filter};

fn refused(path: &Path) -> String {
    open(path, FilterChoice::Scalable).unwrap_err().to_string()
}

/// Creates a store without a record.
pub(super) fn make(path: &Path) {
    open(path, FilterChoice::Scalable).unwrap().close().unwrap();
}

/// Opens the bare database of the store.
pub(super) fn bare(path: &Path) -> DB {
    let names = DB::list_cf(&engine(), path).unwrap();
    DB::open_cf(&engine(), path, names).unwrap()
}

#[test]
fn missing_database_is_not_created_by_default() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("nothing");
    let options = DifferentialOptions::default();
    let error = DifferentialStore::open(&Options::default(), &options, &path).unwrap_err();
    assert!(
        matches!(error, OpenDifferentialError::Missing { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("set `create_if_missing`"),
        "{error}"
    );
}

#[test]
fn unrelated_database_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&engine(), &SieveOptions::default(), home.path()).unwrap();
    db.put(b"mine", b"1").unwrap();
    drop(db);
    assert!(refused(home.path()).contains("is not a differential store: it has no main file"));
    assert_eq!(DB::list_cf(&engine(), home.path()).unwrap(), ["default"]);

    let mut options = engine();
    options.create_missing_column_families(true);
    drop(DB::open_cf(&options, home.path(), ["users"]).unwrap());
    assert!(refused(home.path()).contains("it has a column family \"users\"; name another folder"));
}

#[test]
fn second_writer_is_refused_until_the_first_closes() {
    let home = tempfile::tempdir().unwrap();
    let first = open(home.path(), FilterChoice::Scalable).unwrap();
    first.put(b"a", b"1").unwrap();
    let error = open(home.path(), FilterChoice::Scalable).unwrap_err();
    assert!(
        matches!(error, OpenDifferentialError::Locked { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("close the other first"),
        "{error}"
    );
    assert!(error.source().is_some());
    first.close().unwrap();
    let second = open(home.path(), FilterChoice::Scalable).unwrap();
    assert_eq!(second.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// An error of the lock file itself, or a folder of its name, is not a second writer.
#[test]
fn lock_file_error_is_not_reported_as_a_second_writer() {
    let home = tempfile::tempdir().unwrap();
    let [lock, folder] = ["store", "LOCKS"].map(|name| home.path().join(name));
    std::fs::create_dir_all(lock.join("LOCK")).unwrap();
    std::fs::create_dir_all(folder.join("CURRENT")).unwrap();
    for path in [lock, folder] {
        let error = open(&path, FilterChoice::Scalable).unwrap_err();
        assert!(
            matches!(error, OpenDifferentialError::Engine { .. }),
            "{error}"
        );
    }
}

#[test]
fn lost_generation_is_damage_and_not_an_empty_one() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    store.put(b"a", b"1").unwrap();
    store.freeze().unwrap();
    store.close().unwrap();
    let mut db = bare(home.path());
    db.drop_cf("differential-1").unwrap();
    drop(db);
    let text = refused(home.path());
    assert!(
        text.contains("is damaged: its column family \"differential-1\" is missing"),
        "{text}"
    );
    assert!(text.contains("restore it from a checkpoint"), "{text}");

    let mut db = bare(home.path());
    db.drop_cf("differential-2").unwrap();
    drop(db);
    assert!(refused(home.path()).contains("it has no differential file"));
}

#[test]
fn damaged_or_newer_state_is_reported() {
    let cases: [(&[u8], &[u8], &str); 4] = [
        (b"state", b"\x01\x01", "its state is cut short"),
        (
            b"state",
            b"\x09",
            "has layout 9, newer than this release's 1: upgrade lsm-sieve",
        ),
        (b"format", b"other", "its format record is missing"),
        (b"state", b"", "its state is empty"),
    ];
    for (key, bytes, expected) in cases {
        let home = tempfile::tempdir().unwrap();
        open(home.path(), FilterChoice::Scalable)
            .unwrap()
            .close()
            .unwrap();
        bare(home.path()).put(key, bytes).unwrap();
        let text = refused(home.path());
        assert!(text.contains(expected), "{text}");
    }
}

/// A new state would name the first generation alone, and not know what was moved.
#[test]
fn store_without_its_state_is_refused() {
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    bare(home.path()).delete("state").unwrap();
    let text = refused(home.path());
    assert!(text.contains("its state record is missing"), "{text}");
}

/// The first generation is 1. A family with a lower number is not ours to drop.
#[test]
fn cf_of_no_generation_is_refused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    let mut db = bare(home.path());
    db.create_cf("differential-0", &engine()).unwrap();
    let family = db.cf_handle("differential-0").unwrap();
    db.put_cf(family, b"mine", b"1").unwrap();
    drop(db);
    let text = refused(home.path());
    assert!(
        text.contains("it has a column family \"differential-0\""),
        "{text}"
    );
    let db = bare(home.path());
    let family = db.cf_handle("differential-0").unwrap();
    assert_eq!(db.get_cf(family, b"mine").unwrap().unwrap(), b"1");
}

#[test]
fn damaged_record_is_reported_and_not_moved() {
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    let db = bare(home.path());
    db.put_cf(
        db.cf_handle("differential-1").unwrap(),
        b"\xab\x01",
        b"\x09value",
    )
    .unwrap();
    drop(db);
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    let alone = store.get(b"\xab\x01").unwrap_err().to_string();
    let moved = store.reorganize(|_| ControlFlow::Continue(())).unwrap_err();
    let scanned = store
        .snapshot()
        .scan::<&[u8]>(..)
        .next()
        .unwrap()
        .unwrap_err();
    for text in [alone, moved.to_string(), scanned.to_string()] {
        assert!(
            text.contains("generation 1 of the differential file is damaged at key ab01"),
            "{text}"
        );
        assert!(text.contains("tag 9; restore"), "{text}");
    }
}

#[test]
fn engine_errors_about_damaged_files_are_passed_on() {
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    let current = home.path().join("CURRENT");
    let manifest = std::fs::read_to_string(current).unwrap();
    let manifest = home.path().join(manifest.trim());
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(manifest)
        .unwrap();
    file.set_len(30).unwrap();
    let text = refused(home.path());
    assert!(
        text.contains("is damaged: ") && text.contains("restore it"),
        "{text}"
    );
}

#[test]
fn external_main_file_is_read_and_never_written() {
    let home = tempfile::tempdir().unwrap();
    let (main, store) = (home.path().join("main"), home.path().join("store"));
    let db = DB::open(&engine(), &main).unwrap();
    (0..100).for_each(|index| db.put(key(index), b"main").unwrap());
    drop(db);

    let options = DifferentialOptions {
        main: MainFile::Elsewhere {
            path: main.clone(),
            family: "default".to_owned(),
        },
        ..DifferentialOptions::default()
    };
    let opened = DifferentialStore::open(&engine(), &options, &store).unwrap();
    opened.delete(key(3)).unwrap();
    let before = opened.snapshot();
    opened.put(key(200), b"new").unwrap();
    assert_eq!(before.scan::<&[u8]>(..).count(), 99);
    assert_eq!(opened.snapshot().scan::<&[u8]>(..).count(), 100);
    assert_eq!(opened.get(key(3)).unwrap(), None);
    assert_eq!(opened.get(key(4)).unwrap().as_deref(), Some(&b"main"[..]));
    for refusal in [
        opened
            .reorganize(|_| ControlFlow::Continue(()))
            .unwrap_err(),
        opened.load([(b"a", b"b")]).unwrap_err(),
    ] {
        let text = refusal.to_string();
        assert!(
            text.contains("open read-only: reorganise in a store that owns"),
            "{text}"
        );
    }
    drop(before);
    opened.flush().unwrap();
    opened.close().unwrap();

    let text = refused(&store);
    assert!(
        text.contains("is another database's, the options say its own"),
        "{text}"
    );
    let reopened = DifferentialStore::open(&engine(), &options, &store).unwrap();
    assert_eq!(reopened.get(key(3)).unwrap(), None);
    drop(reopened);
    std::fs::remove_dir_all(&main).unwrap();
    let error = DifferentialStore::open(&engine(), &options, &store).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("cannot open the main file, column family \"default\"")
    );
}

#[test]
fn impossible_filter_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let filter = FilterChoice::Fixed {
        bits: Bits::new(100),
        probes: Probes::new(4),
    };
    let error = DifferentialStore::open(&engine(), &with_filter(filter), home.path()).unwrap_err();
    let source = error.source().map(ToString::to_string);
    assert!(
        source.is_some_and(|text| text.contains("needs a positive multiple of 64")),
        "{error}"
    );
}

#[test]
fn reverse_comparator_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let text = "comparator=rocksdb.ReverseBytewiseComparator";
    let reversed = engine().get_options_from_string(text).unwrap();
    for _ in 0..2 {
        let options = DifferentialOptions::default();
        let error = DifferentialStore::open(&reversed, &options, home.path()).unwrap_err();
        assert!(
            matches!(error, OpenDifferentialError::Order { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("use the default comparator"));
    }
}

#[test]
fn checkpoint_does_not_overwrite() {
    let home = tempfile::tempdir().unwrap();
    let store = open(&home.path().join("store"), FilterChoice::Scalable).unwrap();
    let error = store.checkpoint(home.path()).unwrap_err().to_string();
    assert!(error.contains("it must not exist"), "{error}");
}

/// Part of the log may be lost, and with it the note of a new generation, while its records are
/// still there.
#[test]
fn generation_unknown_to_the_state_is_not_dropped() {
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    store.put(key(1), b"first").unwrap();
    drop(store);
    let state = bare(home.path()).get("state").unwrap().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    store.freeze().unwrap();
    store.put(key(2), b"second").unwrap();
    store.flush().unwrap();
    drop(store);
    let later = {
        let db = bare(home.path());
        let later = db.get("state").unwrap().unwrap();
        db.put("state", state).unwrap();
        later
    };
    let error = refused(home.path());
    assert!(error.contains("generation 2 holds records"), "{error}");
    bare(home.path()).put("state", later).unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    assert_eq!(store.get(key(2)).unwrap().unwrap(), b"second");
}

/// A compaction filter would drop deletes, and the main file's values would come back.
#[test]
fn options_that_drop_or_change_records_are_refused() {
    let settings: [fn(&mut Options); 2] = [
        |options| {
            options.set_compaction_filter("keep", |_, _: &[u8], _: &[u8]| CompactionDecision::Keep);
        },
        |options| options.set_compaction_style(DBCompactionStyle::Fifo),
    ];
    for set in settings {
        let home = tempfile::tempdir().unwrap();
        let mut options = engine();
        set(&mut options);
        let store = DifferentialStore::open(&options, &DifferentialOptions::default(), home.path());
        let error = store.unwrap_err().to_string();
        assert!(error.contains("open it without"), "{error}");
    }
}

//! Column families without filters, beside others that have some.

use std::path::Path;

use lsm_sieve::{OpenError, SieveDb, SieveOptions};
use rocksdb::{Options, SstFileWriter};

use crate::support::binding::options_by_text;
use crate::support::database_files::{sidecars, summaries};
use crate::support::model_db::{
    Dice, Model, absent_key, check_cf_reads, check_settled, cover, for_speed, options, settle,
    sieve, stats_of, verify_finds_every_key, write_randomly,
};

const LEFT_OUT: &str = "archive";

fn excluded() -> SieveOptions {
    sieve().exclude_cfs([LEFT_OUT])
}

fn open(path: &Path, settings: &SieveOptions) -> SieveDb {
    SieveDb::builder(path)
        .options(&options())
        .filters(settings)
        .cfs([LEFT_OUT])
        .open()
        .expect("it opens")
}

/// Writes to both families, and flushes.
fn write(db: &SieveDb, models: &mut [Model; 2], dice: &mut Dice) {
    for (name, model) in ["default", LEFT_OUT].into_iter().zip(models) {
        write_randomly(db, name, model, dice, 600);
        let family = db.cf_handle(name).expect("it is there");
        db.flush_cf(&family).expect("it flushes");
    }
    cover(db);
    settle(db);
}

#[test]
fn excluding_and_including_a_cf_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let filters = home.path().join("sieve");
    let mut models = [Model::new(), Model::new()];
    let mut dice = Dice(11);
    for round in 0..3 {
        {
            let db = open(home.path(), &excluded());
            check_cf_reads(&db, LEFT_OUT, &models[1]);
            write(&db, &mut models, &mut dice);
            check_settled(&db, &models[0]);
            let tally = check_cf_reads(&db, LEFT_OUT, &models[1]);
            assert_eq!(tally.ruled_out, 0, "a key was ruled out: {tally:?}");
            assert_eq!(stats_of(&db, LEFT_OUT), None);
            let with_filters = db.filters().health().cfs;
            assert_eq!(with_filters.len(), 1, "round {round}: {with_filters:?}");
        }
        assert_eq!(summaries(&filters).len(), 1, "the default family's");
        let db = open(home.path(), &for_speed());
        check_cf_reads(&db, LEFT_OUT, &models[1]);
        write(&db, &mut models, &mut dice);
        let tally = check_cf_reads(&db, LEFT_OUT, &models[1]);
        assert!(tally.ruled_out > 0, "round {round}: {tally:?}");
        verify_finds_every_key(&db);
        let tables = db.live_files().unwrap().len();
        drop(db);
        assert!(sidecars(&filters).len() >= tables, "round {round}");
        assert_eq!(summaries(&filters).len(), 2);
    }
}

/// A family without filters has no false negatives.
#[test]
fn ingestion_into_an_excluded_cf_keeps_coverage_of_others() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&home.path().join("db"), &excluded());
    let mut models = [Model::new(), Model::new()];
    write(&db, &mut models, &mut Dice(12));
    let ruled_out = |i: &u64| db.filters().answer(absent_key(*i)).is_absent();
    let absent = (0..100).find(ruled_out).expect("some key is ruled out");
    let family = db.cf_handle(LEFT_OUT).unwrap();
    for number in 0..20 {
        let file = home.path().join(number.to_string());
        let plain = Options::default();
        let mut writer = SstFileWriter::create(&plain);
        writer.open(&file).unwrap();
        writer.put(format!("file {number}"), b"ingested").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file_cf(&family, vec![file]).unwrap();
        // At once, before maintenance can run.
        assert!(ruled_out(&absent), "file {number}");
        let read = db.get_cf(&family, format!("file {number}")).unwrap();
        assert_eq!(read.as_deref(), Some(&b"ingested"[..]));
    }
}

/// Of one that is created late, no id was known at the open.
#[test]
fn ingestion_into_an_excluded_cf_that_was_created_late_keeps_coverage_of_others() {
    let home = tempfile::tempdir().unwrap();
    let settings = excluded().exclude_cfs(["late"]);
    let db = open(&home.path().join("db"), &settings);
    let mut models = [Model::new(), Model::new()];
    write(&db, &mut models, &mut Dice(14));
    let ruled_out = |i: &u64| db.filters().answer(absent_key(*i)).is_absent();
    let absent = (0..100).find(ruled_out).expect("some key is ruled out");
    db.create_cf("late", &options()).unwrap();
    let family = db.cf_handle("late").unwrap();
    for number in 0..5 {
        let file = home.path().join(number.to_string());
        let plain = Options::default();
        let mut writer = SstFileWriter::create(&plain);
        writer.open(&file).unwrap();
        writer.put(format!("file {number}"), b"ingested").unwrap();
        writer.finish().unwrap();
        db.ingest_external_file_cf(&family, vec![file]).unwrap();
        // At once, before maintenance can run.
        assert!(ruled_out(&absent), "file {number}");
        let read = db.get_cf(&family, format!("file {number}")).unwrap();
        assert_eq!(read.as_deref(), Some(&b"ingested"[..]));
    }
    check_settled(&db, &models[0]);
}

#[test]
fn excluded_cf_may_have_unsupported_options() {
    let home = tempfile::tempdir().unwrap();
    let mut by_length = options();
    by_length.set_comparator(
        "by length",
        Box::new(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b))),
    );
    let families = || [(LEFT_OUT, by_length.clone())];
    let open = |settings: &SieveOptions| {
        SieveDb::open_cf_with_opts(&options(), settings, home.path(), families())
    };
    let refused = open(&sieve()).map(|_| ());
    assert!(
        matches!(refused, Err(OpenError::Unsupported { .. })),
        "{refused:?}"
    );
    let db = open(&excluded()).unwrap();
    let family = db.cf_handle(LEFT_OUT).unwrap();
    for key in ["aaa", "bb", "c"] {
        db.put_cf(&family, key, b"value").unwrap();
    }
    let mut first = db.raw_iterator_cf(&family);
    first.seek_to_first();
    assert_eq!(first.key(), Some(&b"c"[..]));
    assert!(db.get_cf(&family, b"bb").unwrap().is_some());
}

#[test]
fn created_cf_with_an_excluded_name_has_no_filters() {
    let home = tempfile::tempdir().unwrap();
    let settings = sieve().exclude_cfs(["late"]).exclude_cfs([LEFT_OUT]);
    let db = open(home.path(), &settings);
    for _ in 0..2 {
        db.create_cf("late", &options()).unwrap();
        let mut model = Model::new();
        write_randomly(&db, "late", &mut model, &mut Dice(13), 300);
        assert_eq!(check_cf_reads(&db, "late", &model).ruled_out, 0);
        assert_eq!(db.filters().health().cfs.len(), 1);
        db.drop_cf("late").unwrap();
    }
    drop(db);
    let refused = SieveDb::open(&options(), &sieve().exclude_cfs(["default"]), home.path());
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("cannot be left out"), "{refused}");
}

/// Nothing is known of its prefixes. RocksDB takes a start that is shorter than a prefix for a whole
/// one, if it is asked so.
#[test]
fn prefixes_of_an_excluded_cf_are_found() {
    let home = tempfile::tempdir().unwrap();
    let capped = "prefix_extractor=rocksdb.CappedPrefix.3";
    let options = options_by_text(&options(), capped).unwrap();
    let db = SieveDb::builder(home.path())
        .options(&options)
        .filters(&excluded())
        .cfs_with_opts([LEFT_OUT].map(|name| (name, options.clone())))
        .open()
        .unwrap();
    let family = db.cf_handle(LEFT_OUT).unwrap();
    for flushes in [false, true] {
        db.put_cf(&family, "abcde", "value").unwrap();
        if flushes {
            db.flush_cf(&family).unwrap();
        }
        cover(&db);
        for start in ["", "a", "ab", "abc", "abcd", "abcde"] {
            assert!(db.filters().prefix_may_exist_cf(&family, start), "{start}");
            assert_eq!(
                db.filters().prefixes_may_exist_cf(&family, &["b", start]),
                [true; 2]
            );
            assert!(db.prefix_exists_cf(&family, start).unwrap(), "{start}");
            assert!(db.range_exists_cf(&family, start.."abcdf").unwrap());
            assert!(!db.range_exists_cf(&family, "abcdf".."b").unwrap());
            let many = db.prefixes_exist_cf(&family, &["b", start]);
            let many: Vec<bool> = many.into_iter().map(Result::unwrap).collect();
            assert_eq!(many, [false, true], "{start}");
        }
    }
}

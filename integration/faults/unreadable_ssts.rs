//! SSTs that the engine cannot read: their keys are *maybe*, and reading them again is not tried
//! without end.

use std::os::unix::fs::FileExt as _;

use lsm_sieve::SieveDb;

use crate::support::model_db::{
    Model, fill, options, report, report_with_read_only_filters, settle, sieve,
};

/// A filter of the keys before the damage would deny those behind it. A key in the range of an
/// unreadable SST is *maybe*, and the engine then reports the damage.
#[test]
fn unreadable_sst_is_never_covered() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_compression_type(rocksdb::DBCompressionType::None);
    let mut model = Model::new();
    let table = {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 0..5_000);
        db.flush().unwrap();
        report(&db).segments[0].file.clone()
    };
    std::fs::remove_dir_all(home.path().join("sieve")).unwrap();
    let middle = std::fs::metadata(&table).unwrap().len() / 2;
    let file = std::fs::File::options().write(true).open(&table).unwrap();
    file.write_all_at(&[0xee; 64], middle).unwrap();

    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    settle(&db);
    let error = db.filters().consolidate().unwrap_err().to_string();
    assert!(error.contains("cannot read the keys of"), "{error}");
    let denied = model
        .keys()
        .filter(|key| db.filters().answer(key).is_absent());
    assert_eq!(denied.count(), 0);
    let unread = model.keys().filter(|key| db.get(key).is_err());
    assert!(unread.count() > 0, "nothing was damaged");
}

/// One damaged SST caused flush after flush beside a writer: maintenance retried at once, with a new
/// summary filter, a flush and all SSTs read, and the flush woke it again. The wait between tries
/// doubles, and the SST is quarantined meanwhile.
#[test]
fn unreadable_sst_causes_no_endless_flushes() {
    const RUNS: u64 = 30;
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_disable_auto_compactions(true);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 10..3_000);
        db.flush().unwrap();
        fill(&db, &mut model, 5_000..10_000);
        db.flush().unwrap();
    }
    std::fs::remove_dir_all(home.path().join("sieve")).unwrap();
    let read_only_filters = report_with_read_only_filters(home.path(), &options);
    let tables = read_only_filters.segments.iter();
    let damaged = &tables.max_by_key(|table| table.entries).unwrap().file;
    let middle = std::fs::metadata(damaged).unwrap().len() / 2;
    let file = std::fs::File::options().write(true).open(damaged).unwrap();
    file.write_all_at(&[0xee; 64], middle).unwrap();

    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    for i in 0..RUNS {
        fill(&db, &mut model, 20_000 + i..20_001 + i);
        settle(&db);
    }
    let flushed = report(&db).segments.len() - read_only_filters.segments.len();
    assert!(flushed <= 2, "{flushed} flushes in {RUNS} runs");
    for table in report(&db).segments {
        let whole = table.file != *damaged;
        assert_eq!(table.covered, whole, "{}", table.file);
        assert_eq!(table.filter.is_some() && table.saved, whole);
    }
    let denied = model
        .keys()
        .filter(|key| db.filters().answer(key).is_absent());
    assert_eq!(denied.count(), 0);
}

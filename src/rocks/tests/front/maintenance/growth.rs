//! `maintenance::growth` of `lsm-sieve-front`, over RocksDB.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rocksdb::{Options, SstFileWriter};

use crate::math::Items;
use crate::rocks::{SieveDb, SieveOptions};
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::prefix::Prefix;

const LIMIT: Duration = Duration::from_secs(60);

/// The keys of the first stage, which is soon outgrown.
const FIRST: u32 = 1 << 16;

fn open(home: &Path, options: &Options) -> (SieveDb, Arc<CfFilter>) {
    open_expecting(FIRST, home, options)
}

fn open_expecting(keys: u32, home: &Path, options: &Options) -> (SieveDb, Arc<CfFilter>) {
    let sieve = SieveOptions::default().expected_keys(Items::new(keys.into()));
    let db = SieveDb::open(options, &sieve, home).unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    (db, cf_filter)
}

fn small_memtables() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(1 << 20);
    options
}

fn write(db: &SieveDb, keys: std::ops::Range<u32>) {
    keys.for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
}

/// Writes until the summary filter is rebuilt from the log or, without one, from SSTs.
fn write_until_rebuilt(db: &SieveDb, cf_filter: &CfFilter, from: u32) -> u32 {
    let before = cf_filter.view().summary;
    write_until(db, from, || {
        !Arc::ptr_eq(&before, &cf_filter.view().summary)
    })
}

fn write_until(db: &SieveDb, from: u32, is_over: impl Fn() -> bool) -> u32 {
    let mut to = from;
    while !is_over() {
        assert!(to < 100 * FIRST, "it never happens");
        write(db, to..to + 1_000);
        to += 1_000;
        db.shared_wakeup().notify();
    }
    to
}

fn assert_no_key_is_denied(db: &SieveDb, keys: u32) {
    for key in 0..keys {
        assert!(!db.filter_answer(key.to_be_bytes()).is_absent(), "{key}");
    }
}

#[test]
fn a_summary_that_grows_is_rebuilt_with_all_keys_of_the_log() {
    let home = tempfile::tempdir().unwrap();
    let (db, cf_filter) = open(home.path(), &small_memtables());
    assert!(cf_filter.key_log().is_whole(), "from the start");
    let mut keys = 0;
    for _ in 0..3 {
        keys = write_until_rebuilt(&db, &cf_filter, keys);
        assert!(cf_filter.key_log().is_whole());
        assert_no_key_is_denied(&db, keys);
    }
    assert!(keys > FIRST);
    let absent = (keys..keys + 1_000).filter(|key| db.filter_answer(key.to_be_bytes()).is_absent());
    assert!(absent.count() > 900);
}

/// Once written, a prefix is only in the log, in memtables, and in SSTs that are not read.
#[test]
fn the_log_has_the_prefixes_of_its_keys() {
    let home = tempfile::tempdir().unwrap();
    let by_three_bytes = Prefix::fixed(3);
    let sieve = SieveOptions::default()
        .expected_keys(Items::new(FIRST.into()))
        .prefixes("default", [by_three_bytes]);
    let db = SieveDb::open(&small_memtables(), &sieve, home.path()).unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    let keys = write_until_rebuilt(&db, &cf_filter, 0);
    assert!(cf_filter.key_log().is_whole());
    let in_summary = |prefix: &[u8]| {
        let hash = cf_filter.hasher().hash(prefix).for_summary();
        cf_filter.view().summary.may_contain(hash)
    };
    for prefix in (0..keys).step_by(1 << 8) {
        let prefix = &prefix.to_be_bytes()[..3];
        assert!(
            in_summary(prefix) && db.prefix_may_exist(prefix),
            "{prefix:?}"
        );
    }
    let beyond = (keys >> 8) + 1;
    let absent = |number: &u32| !in_summary(&(number << 8).to_be_bytes()[..3]);
    assert!((beyond..beyond + 1_000).filter(absent).count() > 900);
}

/// Its flush may be under way: past the log, and not yet in the list of SSTs.
#[test]
fn no_log_begins_beside_a_memtable_with_keys() {
    let home = tempfile::tempdir().unwrap();
    let (db, cf_filter) = open(home.path(), &small_memtables());
    cf_filter.key_log().end();
    let looked = || {
        db.shared_wakeup().notify();
        assert!(db.wait_for_maintenance(LIMIT));
        cf_filter.key_log().is_whole()
    };
    assert!(looked(), "an empty database");
    cf_filter.key_log().end();
    db.put("key", "value").unwrap();
    assert!(!looked());
}

#[test]
fn a_database_with_keys_has_no_log_until_its_ssts_are_read() {
    // All stages together hold fewer keys than a log may have when the writer pauses.
    const FEW: u32 = 1 << 12;
    let home = tempfile::tempdir().unwrap();
    let options = small_memtables();
    let (db, _) = open_expecting(FEW, home.path(), &options);
    write(&db, 0..1_000);
    drop(db);
    let (db, cf_filter) = open_expecting(FEW, home.path(), &options);
    assert!(db.wait_until_complete(LIMIT) && db.wait_for_maintenance(LIMIT));
    assert!(!cf_filter.key_log().is_whole());
    // Not by the next rebuild if it is one of writers that are taken for quiet.
    let keys = write_until(&db, 1_000, || cf_filter.key_log().is_whole());
    let keys = write_until_rebuilt(&db, &cf_filter, keys);
    let keys = write_until_rebuilt(&db, &cf_filter, keys);
    assert_no_key_is_denied(&db, keys);
}

/// Its keys are read in the memtable.
#[test]
fn a_growing_summary_makes_no_ssts() {
    let home = tempfile::tempdir().unwrap();
    let mut options = small_memtables();
    options.set_write_buffer_size(64 << 20);
    let (db, cf_filter) = open(home.path(), &options);
    for part in 0..8 {
        write(&db, part * FIRST / 2..(part + 1) * FIRST / 2);
        db.shared_wakeup().notify();
        assert!(db.wait_for_maintenance(LIMIT));
    }
    assert!(db.live_files().unwrap().is_empty());
    assert!(cf_filter.view().summary.stages() <= lsm_sieve_front::maintenance::growth::STAGES);
    assert_no_key_is_denied(&db, 4 * FIRST);
}

/// The next summary filter must have the ingested keys too.
#[test]
fn ingested_files_end_the_log() {
    let home = tempfile::tempdir().unwrap();
    let options = small_memtables();
    let (db, cf_filter) = open(&home.path().join("db"), &options);
    let file = home.path().join("keys.sst");
    let mut writer = SstFileWriter::create(&options);
    writer.open(&file).unwrap();
    (0..100_u32).for_each(|key| writer.put(key.to_be_bytes(), "value").unwrap());
    writer.finish().unwrap();
    db.ingest_external_file(vec![&file]).unwrap();
    assert!(!cf_filter.key_log().is_whole());
    assert!(db.wait_until_complete(LIMIT));
    let keys = write_until_rebuilt(&db, &cf_filter, 100);
    assert_no_key_is_denied(&db, keys);
}

/// RocksDB says what an SST is made from, unless it filters by prefix alone.
#[test]
fn compactions_keep_the_log_and_ssts_without_whole_keys_end_it() {
    let home = tempfile::tempdir().unwrap();
    let (db, cf_filter) = open(home.path(), &small_memtables());
    // The same keys: otherwise the SSTs are moved, and none is written.
    for _ in 0..3 {
        write(&db, 0..3_000);
        db.flush().unwrap();
    }
    let flushed = cf_filter.key_log().hashes();
    db.compact_range::<&[u8], &[u8]>(None, None);
    assert!(cf_filter.key_log().is_whole());
    assert_eq!(cf_filter.key_log().hashes(), flushed, "no key is new");
    let change = [("block_based_table_factory", "{whole_key_filtering=false}")];
    db.engine().set_options(&change).unwrap();
    write(&db, 3_000..4_000);
    db.flush().unwrap();
    assert_eq!(cf_filter.key_log().hashes(), None);
    assert!(db.wait_for_maintenance(LIMIT));
    db.consolidate().unwrap();
    assert_no_key_is_denied(&db, 4_000);
}

/// Keys that are written again and again would fill the disk.
#[test]
fn a_log_of_the_same_keys_ends() {
    let home = tempfile::tempdir().unwrap();
    let (db, cf_filter) = open(home.path(), &small_memtables());
    write(&db, 0..100);
    db.flush().unwrap();
    let again = 2 * lsm_sieve_front::maintenance::growth::LOGGED_AGAIN;
    let hash = cf_filter.hasher().hash(b"key");
    let hashes = (0..again).map(|_| hash);
    cf_filter.key_log().append(hashes);
    write(&db, 0..100);
    db.flush().unwrap();
    assert!(db.wait_for_maintenance(LIMIT));
    assert!(!cf_filter.key_log().is_whole());
}

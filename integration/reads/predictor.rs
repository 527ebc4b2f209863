//! Reads skip the filters after many hits, and check them again after a miss.

use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, ReadOptions, ReadTier};

use crate::support::model_db::{Model, absent_key, always_filtered, cover, fill, key, options};

/// By a handle, or in the default family.
#[test]
fn after_many_hits_reads_skip_the_filters_until_a_miss() {
    const HITS_UNTIL_SKIPPED: u64 = 32;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    cover(&db);
    let default = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let reads: [&dyn Fn(Vec<u8>) -> bool; 2] = [&|key| db.get(key).unwrap().is_some(), &|key| {
        db.get_cf(&default, key).unwrap().is_some()
    }];
    for read in reads {
        let before = db.filters().stats();
        assert!((0..HITS_UNTIL_SKIPPED).all(|i| read(key(i))));
        let denied = u64::from(db.filters().answer(absent_key(0)).is_absent());
        assert!((0..500).all(|i| read(key(i))));
        assert!((0..3).all(|i| !read(absent_key(i))));
        let after = db.filters().stats();
        assert_eq!(after.found - before.found, 500 + HITS_UNTIL_SKIPPED);
        // An *absent* of the filters ends the row of hits.
        let unchecked = 500 - HITS_UNTIL_SKIPPED * denied;
        assert_eq!(after.found_unchecked - before.found_unchecked, unchecked);
        // The first lookup skipped the filters. They deny the others, except for a false positive.
        assert_eq!(after.not_consulted - before.not_consulted, 1);
        let checked =
            (after.absent - before.absent) + (after.false_positives - before.false_positives);
        assert_eq!(checked, denied + 2);
        assert_eq!(
            after.lookups() - before.lookups(),
            after.found - before.found + 1 + checked
        );
    }
}

/// A read limited to the block cache fails if it would have to read a file.
#[test]
fn failed_reads_do_not_make_the_predictor_skip_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    db.flush().unwrap();
    fill(&db, &mut Model::new(), 500..540);
    cover(&db);
    let default = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let mut memory_alone = ReadOptions::default();
    memory_alone.set_read_tier(ReadTier::BlockCache);
    let reads: [&dyn Fn(Vec<u8>) -> Result<_, rocksdb::Error>; 2] =
        [&|key| db.get_opt(key, &memory_alone), &|key| {
            db.get_cf_opt(&default, key, &memory_alone)
        }];
    for read in reads {
        assert!((500..540).all(|i| read(key(i)).unwrap().is_some()));
        assert!(read(key(4)).is_err(), "its block is in no cache");
        assert_eq!(db.get(absent_key(0)).unwrap(), None);
        assert_eq!(db.filters().stats().not_consulted, 0);
    }
}

#[test]
fn strict_reads_always_use_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &always_filtered(), home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..500);
    cover(&db);
    assert!((0..500).all(|i| db.get(key(i)).unwrap().is_some()));
    assert_eq!(db.get(absent_key(0)).unwrap(), None);
    assert_eq!(db.filters().stats().not_consulted, 0);
}

//! RocksDB's block cache keeps readers of SSTs, and so their filters, when a database is closed.

use std::time::Duration;

use crate::{SieveDb, SieveOptions};

const KEYS: u32 = 2_000;

const LIMIT: Duration = Duration::from_secs(60);

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

fn settle(db: &SieveDb) {
    assert!(db.filters().wait_for_maintenance(LIMIT));
    assert!(db.filters().wait_until_complete(LIMIT));
    assert!(db.filters().wait_for_maintenance(LIMIT));
}

/// They are no longer scrubbed, and the cache may pass them on to the next filters of the same SSTs.
#[test]
fn filters_of_a_closed_database_rule_nothing_out() {
    let home = tempfile::tempdir().unwrap();
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_block_cache(&rocksdb::Cache::new_lru_cache(8 << 20));
    table.set_cache_index_and_filter_blocks(true);
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table);
    let sieve = SieveOptions::default().audit(0);
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), b"value").unwrap());
    db.flush().unwrap();
    settle(&db);
    let registry = db.shared_registry();
    let id = *registry.ids().iter().next().unwrap();
    let segment = registry.get(id).unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    assert!(db.get(key(0)).unwrap().is_some(), "its reader is cached");
    drop(db);
    let rules_out = |i: u32| !segment.may_contain(&key(i), None);
    assert!(!(KEYS..2 * KEYS).any(rules_out));
    let is_absent = |i: u32| {
        let hash = cf_filter.hasher().hash(&key(i));
        cf_filter.view().answer(hash, &key(i)).is_absent()
    };
    assert!(!(KEYS..2 * KEYS).any(is_absent));
    assert!(
        cf_filter.size_of_summaries().get() <= 512,
        "its memory is given back"
    );
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    settle(&db);
    assert!((0..KEYS).all(|i| db.get(key(i)).unwrap().is_some()));
    let absent = (KEYS..2 * KEYS).filter(|&i| db.filters().answer(key(i)).is_absent());
    assert!(absent.count() > 1_900);
    let report = db.filters().verify(true).unwrap();
    assert!(report.lost.is_empty() && report.damaged.is_empty());
}

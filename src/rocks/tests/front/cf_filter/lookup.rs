//! `cf_filter::lookup` of `lsm-sieve-front`, over RocksDB.

use std::time::Duration;

use crate::rocks::{SieveDb, SieveOptions};
use lsm_sieve_front::cf_filter::lookup::OwnSlot;

const LIMIT: Duration = Duration::from_secs(60);

/// A database with one key in a table and one in a memtable.
fn filled(home: &std::path::Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let db = SieveDb::open(&options, sieve, home).unwrap();
    db.put("in a table", "value").unwrap();
    db.flush().unwrap();
    db.put("in a memtable", "value").unwrap();
    assert!(db.wait_until_complete(LIMIT) && db.wait_for_maintenance(LIMIT));
    db
}

/// Whether the predictor expects that the engine probes segment filters, after a hit of `key`.
fn expects_probes_after(db: &SieveDb, key: &str) -> bool {
    assert!(db.get(key).unwrap().is_some());
    let cf_filter = db.cf_filters().all().remove(0);
    let slot = OwnSlot::known().unwrap();
    cf_filter.counters.predictor(slot).expects_segment_probes()
}

#[test]
fn segment_probes_are_expected_if_the_last_hit_was_in_an_sst() {
    let home = tempfile::tempdir().unwrap();
    let db = filled(home.path(), &SieveOptions::default());
    for _ in 0..2 {
        assert!(expects_probes_after(&db, "in a table"));
        assert!(!expects_probes_after(&db, "in a memtable"));
    }
}

/// RocksDB's own filters cannot be prefetched.
#[test]
fn segment_probes_are_expected_only_with_segment_filters() {
    let home = tempfile::tempdir().unwrap();
    let db = filled(home.path(), &SieveOptions::default().segment_filters(None));
    assert!(!expects_probes_after(&db, "in a table"));
}

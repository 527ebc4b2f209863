//! `maintenance::budget` of `lsm-sieve-front`, over RocksDB.

use std::time::Duration;

use rocksdb::Options;

use crate::math::{Bits, Items};
use crate::rocks::{SieveDb, SieveOptions};

const FAMILIES: usize = 40;

const BUDGET: Bits = Bits::new(6_500_000);

const LIMIT: Duration = Duration::from_secs(60);

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options
}

#[test]
fn a_budget_for_a_summary_alone_has_room_for_one() {
    let home = tempfile::tempdir().unwrap();
    let keys = Items::new(50_000);
    let sieve = SieveOptions::default()
        .segment_filters(None)
        .expected_keys(keys);
    let alone = sieve.memory_for(keys);
    let sieve = sieve.memory_budget(alone.summary + alone.overhead);
    let open = || SieveDb::open(&options(), &sieve, home.path()).unwrap();
    let is_saturated = |db: &SieveDb| {
        let cf_filter = db.cf_filters().all().remove(0);
        cf_filter.view().summary.is_saturated()
    };
    for _ in 0..2 {
        let db = open();
        (0..keys.get()).for_each(|key| db.put(key.to_be_bytes(), b"value").unwrap());
        db.flush().unwrap();
        assert!(db.wait_until_complete(LIMIT));
        db.consolidate().unwrap();
        assert!(!is_saturated(&db));
    }
}

#[test]
fn many_families_within_a_budget_keep_their_summaries() {
    let home = tempfile::tempdir().unwrap();
    let sieve = SieveOptions::default()
        .expected_keys(Items::new(100))
        .memory_budget(BUDGET);
    let names = (0..FAMILIES).map(|i| format!("family-{i}"));
    let db = SieveDb::builder(home.path())
        .options(&options())
        .filters(&sieve)
        .cfs(names)
        .open()
        .unwrap();
    assert!(db.wait_until_complete(LIMIT));
    for cf_filter in db.cf_filters().all() {
        let cf = db.cf_handle(cf_filter.name()).unwrap();
        db.put_cf(&cf, b"key", b"value").unwrap();
    }
    for _ in 0..3 {
        assert!(db.wait_for_maintenance(LIMIT));
    }
    for cf_filter in db.cf_filters().all() {
        assert!(
            !cf_filter.view().summary.is_saturated(),
            "{}",
            cf_filter.name()
        );
    }
    let memory = db.health().memory;
    assert!(memory.summary + memory.overhead <= BUDGET, "{memory:?}");
}

//! What RocksDB says an SST is made from. The log of keys depends on it.

use std::time::Duration;

use rocksdb::Options;

use crate::math::Items;
use crate::{SieveDb, SieveOptions};

const LIMIT: Duration = Duration::from_secs(60);

/// RocksDB says what an SST is made from, unless it filters by prefix alone.
#[test]
fn compactions_keep_the_log_and_ssts_without_whole_keys_end_it() {
    let home = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_write_buffer_size(1 << 20);
    let sieve = SieveOptions::default().expected_keys(Items::new(1 << 16));
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    let write = |keys: std::ops::Range<u32>| {
        keys.for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
    };
    // The same keys: otherwise the SSTs are moved, and none is written.
    for _ in 0..3 {
        write(0..3_000);
        db.flush().unwrap();
    }
    let flushed = cf_filter.key_log().hashes();
    db.compact_range::<&[u8], &[u8]>(None, None);
    assert!(cf_filter.key_log().is_whole());
    assert_eq!(cf_filter.key_log().hashes(), flushed, "no key is new");
    let change = [("block_based_table_factory", "{whole_key_filtering=false}")];
    db.set_options(&change).unwrap();
    write(3_000..4_000);
    db.flush().unwrap();
    assert_eq!(cf_filter.key_log().hashes(), None);
    assert!(db.filters().wait_for_maintenance(LIMIT));
    db.filters().consolidate().unwrap();
    for key in 0..4_000_u32 {
        assert!(!db.filters().answer(key.to_be_bytes()).is_absent(), "{key}");
    }
}

//! A RocksDB with filters in front: `cargo run --example front`.

use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);

    let db = SieveDb::open(&options, &SieveOptions::default(), folder.path())?;
    for user in 0..10_000_u32 {
        db.put(user.to_be_bytes(), b"a record")?;
    }
    db.flush()?;
    assert!(db.filters().wait_until_complete(Duration::from_secs(60)));

    // Present keys are always found; most lookups of absent keys do not reach the engine.
    assert!(db.get(42_u32.to_be_bytes())?.is_some());
    let absent = 10_000..20_000_u32;
    let spared = absent
        .filter(|user| db.filters().answer(user.to_be_bytes()).is_absent())
        .count();
    assert!(spared > 9_500, "only {spared} of 10,000 misses avoided");
    Ok(())
}

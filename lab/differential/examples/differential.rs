//! A differential file in front of a main file: `cargo run --example differential`.

use std::ops::ControlFlow;
use std::time::Duration;

use lsm_sieve_differential::{DifferentialOptions, DifferentialStore};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = rocksdb::Options::default();
    options.create_if_missing(true);
    let store = DifferentialStore::open(&options, &DifferentialOptions::default(), folder.path())?;

    // Records as of the last reorganisation, and a night of updates.
    store.load((0..30_000_u32).map(|student| (student.to_be_bytes(), "enrolled")))?;
    for student in (0..30_000_u32).step_by(5) {
        store.put(student.to_be_bytes(), "moved house")?;
    }
    store.delete(5_u32.to_be_bytes())?;
    assert!(
        store
            .db()
            .filters()
            .wait_until_complete(Duration::from_secs(60))
    );

    // The filter of the differential file sends most reads straight to the main file.
    let before = store.snapshot();
    for student in 0..30_000_u32 {
        store.get(student.to_be_bytes())?;
    }
    let stats = store.stats();
    assert_eq!((stats.reads(), stats.found), (30_000, 6_000));
    assert!(stats.avoided > 23_000, "{stats:?}");

    // The updates move into the main file; the snapshot still reads the old state.
    let done = store.reorganize(|_| ControlFlow::Continue(()))?;
    assert!(done.finished && done.records == 6_000);
    store.put(5_u32.to_be_bytes(), "back again")?;
    assert!(before.get(5_u32.to_be_bytes())?.is_none());
    assert_eq!(before.scan::<&[u8]>(..).count(), 29_999);
    drop(before);
    Ok(store.close()?)
}

//! Adds filters to an existing RocksDB database while it serves reads, and removes them again:
//! `cargo run --example adopt`

use std::path::Path;
use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::{DB, Options};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const USERS: std::ops::Range<u32> = 0..10_000;

/// The program before: RocksDB alone.
fn fill(options: &Options, folder: &Path) -> Outcome {
    let db = DB::open(options, folder)?;
    for user in USERS {
        db.put(user.to_be_bytes(), b"a record")?;
    }
    Ok(db.flush()?)
}

/// Opens the database with filters, with the same options. The SSTs are not rewritten.
fn adopt(options: &Options, folder: &Path) -> Outcome {
    let db = SieveDb::open(options, &SieveOptions::default(), folder)?;
    // Answers are right from the start: until the keys of an SST are read, lookups go to the
    // engine.
    assert!(db.get(42_u32.to_be_bytes())?.is_some());
    assert!(db.filters().wait_until_complete(Duration::from_secs(60)));
    for stranger in USERS.end..2 * USERS.end {
        assert!(db.get(stranger.to_be_bytes())?.is_none());
    }
    let stats = db.filters().stats();
    assert!(stats.absent > 9_500, "{stats:?}");
    Ok(())
}

/// Goes back to RocksDB alone.
fn take_out(options: &Options, folder: &Path) -> Outcome {
    let db = DB::open(options, folder)?;
    for user in USERS {
        assert!(db.get(user.to_be_bytes())?.is_some());
    }
    Ok(())
}

fn main() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    fill(&options, folder.path())?;
    adopt(&options, folder.path())?;
    take_out(&options, folder.path())
}

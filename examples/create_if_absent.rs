//! Idempotent requests: each is carried out once, however often it is sent: `cargo run --example
//! create_if_absent`.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::time::Duration;

use lsm_sieve::rocksdb::ErrorKind;
use lsm_sieve::{Isolation, SieveDb, SieveOptions};

/// Carries out a request unless it is recorded, and records it with its result. Returns whether it
/// was new.
fn carry_out(db: &SieveDb, request: &[u8]) -> Result<bool, lsm_sieve::rocksdb::Error> {
    loop {
        let transaction = db.transaction()?;
        // The key is tracked for conflicts even if the filters answer that it is absent.
        if transaction.get_for_update(request, true)?.is_some() {
            return Ok(false);
        }
        transaction.put(request, b"what it led to")?;
        match transaction.commit() {
            // Another transaction recorded it meanwhile, or that cannot be excluded: try again.
            Err(error) if matches!(error.kind(), ErrorKind::Busy | ErrorKind::TryAgain) => {}
            committed => return committed.map(|()| true),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = lsm_sieve::rocksdb::Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().transactions(Isolation::Optimistic);

    let db = SieveDb::open(&options, &sieve, folder.path())?;
    assert!(db.filters().wait_until_complete(Duration::from_secs(60)));
    // Each request is sent three times.
    let mut carried_out = 0;
    for request in (0..30_000_u32).map(|request| request % 10_000) {
        carried_out += usize::from(carry_out(&db, &request.to_be_bytes())?);
    }
    let ruled_out = db.filters().stats().absent;
    println!("{carried_out} requests were new; filters ruled {ruled_out} out");
    Ok(())
}

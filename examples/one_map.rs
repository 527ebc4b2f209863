//! One map in the place of all filters: half the memory, and a hit searches hardly a table without the key:
//! `cargo run --example one_map`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::time::Duration;

use lsm_sieve::{Items, SieveDb, SieveOptions};
use rocksdb::Options;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const RUNS: u32 = 6;
const KEYS: u32 = 600_000;

/// Prints what the filters take.
fn fill(named: &str, sieve: &SieveOptions) -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_disable_auto_compactions(true);
    let db = SieveDb::open(&options, sieve, folder.path())?;
    // Each run spans all keys.
    for run in 0..RUNS {
        for key in (run..KEYS).step_by(RUNS as usize) {
            db.put(key.to_be_bytes(), b"a record")?;
        }
        db.flush()?;
    }
    assert!(db.wait_until_covered(Duration::from_secs(60)));
    // Upkeep does so by itself when the writers pause.
    db.consolidate()?;
    let memory = db.health().memory;
    let bits_a_key = (memory.summary + memory.segments).per_key(Items::new(KEYS.into()));
    println!("{named}: {bits_a_key:.1} bits a key");

    for key in (0..KEYS).step_by(10) {
        assert!(db.get(key.to_be_bytes())?.is_some());
        assert!(db.get((KEYS + key).to_be_bytes())?.is_none());
    }
    let stats = db.stats();
    assert!(stats.absent > u64::from(KEYS) / 10 * 99 / 100, "{stats:?}");
    Ok(())
}

fn main() -> Outcome {
    fill(
        "summary and a filter for each table",
        &SieveOptions::default(),
    )?;
    fill("one map", &SieveOptions::default().run_map(true))
}

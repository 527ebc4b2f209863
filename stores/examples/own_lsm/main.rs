//! An LSM store of one's own, with filters: `cargo run --release --example own_lsm`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

mod store;

use std::time::{Duration, Instant};

use lsm_sieve_stores::FilterOptions;
use lsm_sieve_stores::lsm::Lsm as _;
use store::Store;

const KEYS: u32 = 200_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let store = Store::open(home.path(), &FilterOptions::default())?;
    for number in 0..KEYS {
        store.write(&[(number.to_be_bytes().to_vec(), Some(vec![7; 20]))])?;
    }
    let loaded = (0..1_000_u32).map(|number| {
        (
            (KEYS * 3 + number).to_be_bytes().to_vec(),
            Some(vec![8; 20]),
        )
    });
    store.ingest(&loaded.collect::<Vec<_>>())?;
    store.flush_memtable()?;
    store.merge()?;
    assert!(store.filters.wait_until_complete(Duration::from_secs(60)));

    let absent = || (KEYS..2 * KEYS).map(u32::to_be_bytes);
    let began = Instant::now();
    for key in absent() {
        assert!(store.get(&key)?.is_none());
    }
    let with = began.elapsed() / KEYS;
    let began = Instant::now();
    for key in absent() {
        assert!(!store.contains(&key)?);
    }
    let without = began.elapsed() / KEYS;
    println!("an absent key: {with:?} with filters, {without:?} without");
    println!("{:?}", store.filters.health());
    store.filters.close();
    Ok(())
}

//! Runs a skewed workload on a custom store, here a set: `cargo run --example own_store`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::collections::HashSet;
use std::convert::Infallible;

use lsm_sieve_cli::workload::keys::Distribution;
use lsm_sieve_cli::workload::operation::Mode;
use lsm_sieve_cli::workload::replay;
use lsm_sieve_cli::workload::store::{Space, Store};

#[derive(Default)]
struct Set(HashSet<Vec<u8>>);

impl Store for Set {
    type Error = Infallible;

    fn read(&self, _space: Space, key: &[u8]) -> Result<bool, Infallible> {
        Ok(self.0.contains(key))
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, Infallible> {
        Ok(keys.iter().filter(|key| self.0.contains(**key)).count())
    }

    fn write(&mut self, _space: Space, key: &[u8], _value: &[u8]) -> Result<(), Infallible> {
        self.0.insert(key.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ids = Distribution::Zipf { exponent: 0.99 }
        .over(100_000, 1)
        .take(1_000_000);
    let mut store = Set::default();
    let spent = replay::time(ids.map(Ok), Mode::Upsert, &mut store, &mut ())?;
    println!("{} of 100,000 ids were read, in {spent:?}", store.0.len());
    Ok(())
}

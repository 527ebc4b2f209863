//! What another cache holds, in a byte or two a key (Fan et al., *Summary Cache*, 2000): it is asked
//! only for what its digest has. `cargo run --example cache_digest [-- FILE lis|u64be|u32be|lines]`
//!
//! What the cache evicts must leave its digest, so that counts: each id goes in once and out once.
//! Its peer gets the bits, a quarter of the counters, anew after every fiftieth look-up.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use clap::ValueEnum as _;
use lsm_sieve::hash::{HashId, KeyHasher, Seed};
use lsm_sieve::math::{Items, Rate};
use lsm_sieve_classics::filter::Counting;
use lsm_sieve_cli::workload::keys::{Distribution, trace_key};
use lsm_sieve_cli::workload::trace::{Format, Trace};
use std::{collections::VecDeque, path::Path};

const CACHED: usize = 2_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ids: Vec<u64> = if let [path, format] = &arguments[..] {
        let trace = Trace::open(Path::new(path), Format::from_str(format, false)?)?;
        trace.collect::<Result<_, _>>()?
    } else {
        let skewed = Distribution::Zipf { exponent: 0.8 };
        skewed.over(20_000, 1).take(100_000).collect()
    };
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"what my peer has"));
    let mut cached = VecDeque::new();
    let mut digest = Counting::with_rate(Items::new(CACHED as u64), Rate::ONE_PERCENT)?;
    let mut sent = digest.to_stage()?;
    let (mut found, mut vain, mut overlooked, mut spared) = (0, 0, 0, 0);
    for (turn, id) in ids.into_iter().enumerate() {
        let (hash, held) = (hasher.hash(&trace_key(id)), cached.contains(&id));
        // Every other look-up is the peer's, which knows no more than what was sent.
        match (turn % 2, sent.may_contain(hash), held) {
            (1, true, true) => found += 1,
            (1, true, false) => vain += 1,
            (1, false, true) => overlooked += 1,
            (1, false, false) => spared += 1,
            (_, _, true) => {}
            (_, _, false) => {
                digest.insert(hash);
                cached.push_back(id);
                if cached.len() > CACHED {
                    let oldest = cached.pop_front().unwrap_or(id);
                    digest.remove(hasher.hash(&trace_key(oldest)))?;
                }
            }
        }
        if turn % 50 == 0 {
            sent = digest.to_stage()?;
        }
    }
    println!("{found} found, {vain} asked in vain, {overlooked} overlooked, {spared} spared");
    println!("by a digest of {} bytes", sent.size().get() / 8);
    Ok(())
}

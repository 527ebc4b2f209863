//! A digest of another cache's keys in one or two bytes per key (Fan et al., *Summary Cache*,
//! 2000): a peer queries the cache only for keys in its digest.
//! `cargo run --example cache_digest [-- FILE lis|u64be|u32be|lines]`
//!
//! Evicted keys must be removed from the digest, so it is a counting filter: each id is inserted
//! once and removed once. After every fiftieth lookup, the peer gets the bits again, which take a
//! quarter of the counters.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use clap::ValueEnum as _;
use lsm_sieve_classics::filter::Counting;
use lsm_sieve_cli::workload::keys::{Distribution, trace_key};
use lsm_sieve_cli::workload::trace::{Format, Trace};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
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
    let (mut found, mut false_positives, mut missed, mut avoided) = (0, 0, 0, 0);
    for (turn, id) in ids.into_iter().enumerate() {
        let (hash, held) = (hasher.hash(&trace_key(id)), cached.contains(&id));
        // Every second lookup is the peer's, which has only the digest that was sent last.
        match (turn % 2, sent.may_contain(hash), held) {
            (1, true, true) => found += 1,
            (1, true, false) => false_positives += 1,
            (1, false, true) => missed += 1,
            (1, false, false) => avoided += 1,
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
    println!(
        "{found} found, {false_positives} not found, {missed} missed, {avoided} queries avoided"
    );
    println!("with a digest of {} bytes", sent.size().get() / 8);
    Ok(())
}

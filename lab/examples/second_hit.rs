//! Cache on the second hit: a key that is read only once within a window is not worth a write to
//! the cache. A sliding filter remembers the keys in one or two bytes each. `cargo run --example
//! second_hit [-- FILE lis|u64be|u32be|lines]`; without a trace, it draws keys from Zipf's law.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use clap::ValueEnum as _;
use lsm_sieve_classics::filter::{Kind, Sliding, SlidingOptions, Turn};
use lsm_sieve_cli::workload::keys::{Distribution, trace_key};
use lsm_sieve_cli::workload::trace::{Format, Trace};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::{HashSet, VecDeque};
use std::path::Path;

const CACHED: usize = 5_000;

/// Hits and writes of a FIFO cache that admits keys on every miss, or only on their second miss.
fn run(ids: &[u64], mut seen: Option<Sliding>) -> (usize, usize) {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"seen but not yet"));
    let (mut cached, mut order) = (HashSet::new(), VecDeque::new());
    let (mut hits, mut writes) = (0, 0);
    for &id in ids {
        let first = |seen: &mut Sliding| seen.insert(hasher.hash(&trace_key(id)));
        if cached.contains(&id) {
            hits += 1;
        } else if !seen.as_mut().is_some_and(first) {
            writes += 1;
            cached.insert(id);
            order.push_back(id);
            (order.len() > CACHED).then(|| order.pop_front().map(|old| cached.remove(&old)));
        }
    }
    (hits, writes)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ids: Vec<u64> = if let [path, format] = &arguments[..] {
        let trace = Trace::open(Path::new(path), Format::from_str(format, false)?)?;
        trace.collect::<Result<_, _>>()?
    } else {
        let skewed = Distribution::Zipf { exponent: 0.8 };
        skewed.over(1_000_000, 1).take(500_000).collect()
    };
    let window = Sliding::new(SlidingOptions {
        kind: Kind::Blocked,
        rate: Rate::ONE_PERCENT,
        items: Items::new(CACHED as u64),
        generations: 4,
        turn: Turn::Count,
    })?;
    for (name, seen) in [("every miss", None), ("second hit", Some(window))] {
        let (hits, writes) = run(&ids, seen);
        let share = |count| format!("{:.1} %", 100.0 * count as f64 / ids.len() as f64);
        println!("{name}: {} hits, {} written", share(hits), share(writes));
    }
    Ok(())
}

//! Nanoseconds of one operation, for benchmarks that compare: rounds are interleaved, so that a
//! neighbour on the machine disturbs all contestants alike, and the median of the rounds counts.

use lsm_sieve_filter::hash::KeyHash;
use std::hint::black_box;
use std::time::Instant;

/// Endless distinct hashes, the same for the same seed: SplitMix64, which stands for any good hash.
pub(crate) fn hashes(seed: u64) -> impl Iterator<Item = KeyHash> {
    let mut state = seed << 32;
    std::iter::repeat_with(move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        KeyHash::new(z ^ (z >> 31))
    })
}

/// Nanoseconds a call of `operation` takes, over all `hashes`; and how often it said true.
pub(crate) fn time(hashes: &[KeyHash], operation: impl Fn(KeyHash) -> bool) -> (f64, usize) {
    let start = Instant::now();
    // A count that nobody looks at would let the compiler drop the operation.
    let count = black_box(hashes.iter().filter(|&&hash| operation(hash)).count());
    let ns = start.elapsed().as_nanos() as f64;
    (ns / hashes.len() as f64, count)
}

/// A key of a database; keys in a row are in no order that a cache could follow.
pub(crate) fn key(id: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&id.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[8..].copy_from_slice(&id.to_be_bytes());
    bytes
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The first number on the command line, or `default`. (Cargo adds words of its own.)
pub(crate) fn keys_asked_for(default: usize) -> usize {
    let number = |word: String| word.replace('_', "").parse().ok();
    std::env::args().skip(1).find_map(number).unwrap_or(default)
}

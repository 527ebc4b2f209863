//! The application in Bloom's paper (CACM 13(7), 1970): most words are hyphenated by rule, and the
//! exceptions are on a disk. A filter of the exceptions in memory avoids most reads. `cargo run
//! --example hyphenation` compares his three methods: whole hash codes, truncated codes, and his
//! filter.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve_classics::filter::{Filter, HashCoding, Kind, MAX_CODE_BITS, Stage};
use lsm_sieve_filter::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::HashMap;

/// The words for which the rule is wrong. Stands for the file on disk, which is read once per
/// lookup.
const EXCEPTIONS: &str = include_str!("data/exceptions.txt");

const TEXT: &str = "after winter the children of the bishop put on their number and letter of the \
    program under the garden lantern and every athlete went to the market for butter and silver";

/// The rule: hyphenate between two consonants that are between vowels.
fn by_rule(word: &str) -> String {
    let is_vowel = |at: usize| b"aeiouy".contains(&word.as_bytes()[at]);
    let pattern = |at: usize| [0, 1, 2, 3].map(|i| is_vowel(at + i));
    match (0..word.len().saturating_sub(3)).find(|&at| pattern(at) == [true, false, false, true]) {
        Some(at) => format!("{}-{}", &word[..at + 2], &word[at + 2..]),
        None => word.to_string(),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"bloom, july 1970"));
    let hash = |word: &str| -> KeyHash { hasher.hash(word.as_bytes()) };
    let named = EXCEPTIONS.lines().map(|line| (line.replace('-', ""), line));
    let disk: HashMap<String, &str> = named.collect();

    let (items, rate) = (Items::new(disk.len() as u64), Rate::new(0.1)?);
    let mut whole = HashCoding::with_cells(2 * items.get(), MAX_CODE_BITS)?;
    let mut truncated = HashCoding::with_rate(items, rate)?;
    let filter = Stage::with_rate(Kind::Classic, items, rate)?;
    for word in disk.keys() {
        whole.insert(hash(word))?;
        truncated.insert(hash(word))?;
        filter.insert(hash(word));
    }

    let methods: [&dyn Filter; 3] = [&whole, &truncated, &filter];
    let mut reads = [0; 3];
    for word in TEXT.split_whitespace() {
        let maybe = methods.map(|method| method.may_contain(hash(word)));
        (0..3).for_each(|method| reads[method] += usize::from(maybe[method]));
        // After a false positive, the read finds nothing, and the rule applies.
        let read = maybe[2].then(|| disk.get(word)).flatten();
        print!("{} ", read.map_or_else(|| by_rule(word), |h| h.to_string()));
    }
    let bits = methods.map(|method| method.size().get());
    println!("\nwhole codes, truncated codes, filter: {reads:?} reads, {bits:?} bits");
    Ok(())
}

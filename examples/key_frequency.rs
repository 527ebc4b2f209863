//! How often does each word come? Counted without keeping a word: `cargo run --example
//! key_frequency
//! [-- FILE]`; without a file, over the text of this crate's licence.
//!
//! Estimates are never too low. Minimal increase errs less; minimum selection could also forget.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve::filter::{CounterWidth, MinimalIncrease, Spectral};
use lsm_sieve::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve::math::{Items, Rate};
use std::collections::HashMap;

const TEXT: &str = include_str!("../LICENSE-APACHE");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).map(std::fs::read_to_string);
    let file = file.transpose()?;
    let text = file.as_deref().unwrap_or(TEXT).to_lowercase();
    let words = || {
        text.split(|c: char| !c.is_alphabetic())
            .filter(|word| !word.is_empty())
    };

    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"words and counts"));
    let hash = |word: &str| -> KeyHash { hasher.hash(word.as_bytes()) };
    // The truth, which takes every word, is kept only to compare.
    let mut truth: HashMap<&str, u64> = HashMap::new();
    words().for_each(|word| *truth.entry(word).or_default() += 1);

    let (items, rate) = (Items::new(truth.len() as u64), Rate::new(0.1)?);
    let mut selection = Spectral::with_rate(items, rate, CounterWidth::Sixteen)?;
    let mut increase = MinimalIncrease::with_rate(items, rate, CounterWidth::Sixteen)?;
    for word in words() {
        selection.insert(hash(word));
        increase.insert(hash(word));
    }

    let mut frequent: Vec<_> = truth.iter().collect();
    frequent.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    println!("word            comes  by selection  by minimal increase");
    for (word, count) in frequent.iter().take(10) {
        let [a, b] = [selection.count(hash(word)), increase.count(hash(word))];
        let known = |count: Option<u64>| count.map_or("many".to_string(), |n| n.to_string());
        println!("{word:<14}  {count:>5}  {:>12}  {:>19}", known(a), known(b));
    }
    let wrong = |count: &dyn Fn(KeyHash) -> Option<u64>| {
        truth
            .iter()
            .filter(|&(word, &f)| count(hash(word)) != Some(f))
            .count()
    };
    let (a, b) = (
        wrong(&|h| selection.count(h)),
        wrong(&|h| increase.count(h)),
    );
    println!("of {items} words, {a} are overestimated by selection, {b} by minimal increase");
    println!("in {} bytes each", selection.size().get() / 8);
    Ok(())
}

//! Counts how often each word occurs, in four ways that do not store the words: `cargo run
//! --example key_frequency [-- FILE]`; without a file, over the text of this crate's licence.
//!
//! Only recurring minimum may be too low. Minimal increase errs least, but cannot remove a word.
//! Minimum selection can, and its stages can grow with the words; the others must be sized for the
//! number of words.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve_classics::filter::{CounterWidth, Growing, Growth, Insert};
use lsm_sieve_classics::filter::{MinimalIncrease, RecurringMinimum, Spectral};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::HashMap;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ours = || Ok(include_str!("../../LICENSE-APACHE").to_string());
    let file = std::env::args().nth(1);
    let text = file.map_or_else(ours, std::fs::read_to_string)?;
    let (items, rate, wide) = (Items::new(500), Rate::new(0.1)?, CounterWidth::Sixteen);
    let mut selection = Spectral::with_rate(items, rate, wide)?;
    let mut minimal = MinimalIncrease::with_rate(items, rate, wide)?;
    let mut recurring = RecurringMinimum::with_rate(items, rate, wide)?;
    let mut growing = Growing::<Spectral>::spectral(
        Growth {
            first: Items::new(1),
            rate,
            ..Growth::default()
        },
        wide,
    )?;
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"words and counts"));
    // The exact counts store every word and are kept only for comparison.
    let mut truth: HashMap<String, u64> = HashMap::new();
    let words = text.split(|c: char| !c.is_alphabetic());
    for word in words.filter(|word| !word.is_empty()).map(str::to_lowercase) {
        let hash = hasher.hash(word.as_bytes());
        let ways: [&mut dyn Insert; 4] =
            [&mut selection, &mut minimal, &mut recurring, &mut growing];
        ways.into_iter().for_each(|filter| _ = filter.insert(hash));
        *truth.entry(word).or_default() += 1;
    }

    let mut wrong = [0; 4];
    let mut frequent: Vec<_> = truth.iter().collect();
    frequent.sort_by_key(|&(word, count)| (std::cmp::Reverse(count), word));
    println!("word        comes  selection  minimal  recurring  growing");
    for (rank, (word, count)) in frequent.into_iter().enumerate() {
        let hash = hasher.hash(word.as_bytes());
        let (a, b) = (selection.count(hash), minimal.count(hash));
        let counts = [a, b, recurring.count(hash), growing.count(hash)];
        (0..4).for_each(|way| wrong[way] += usize::from(counts[way] != Some(*count)));
        if rank < 10 {
            let [a, b, c, d] = counts.map(Option::unwrap_or_default);
            println!("{word:<10} {count:>6} {a:>10} {b:>8} {c:>10} {d:>8}");
        }
    }
    println!("of {} words, estimated wrongly: {wrong:?}", truth.len());
    Ok(())
}

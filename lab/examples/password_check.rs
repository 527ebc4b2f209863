//! Checks whether a password is an obvious one, as OPUS does (Spafford, *Computers & Security*
//! 11(3), 1992): a word list of megabytes becomes a filter of kilobytes, which fits on every
//! machine. `cargo run --example password_check -- PASSWORD [WORD_LIST]`
//!
//! A false positive refuses a good password, so its owner has to choose another: one in 10,000
//! here. A site can withdraw words from the list without rebuilding the filter: a second filter has
//! the withdrawn words. Its false positives accept one in 1,000 words that are on the list and were
//! not withdrawn.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve_classics::filter::{Composite, Kind, Membership};
use lsm_sieve_filter::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};

/// Obvious passwords; a real list has millions.
const WORDS: &str = include_str!("data/passwords.txt");

/// Words on the list that are allowed.
const WITHDRAWN: [&str; 2] = ["starwars", "sunshine"];

/// This seed need not be secret: the list is public.
const SEED: Seed = Seed::from_bytes(*b"obvious password");

/// Ignores case, and digits at the end.
fn hash(hasher: &KeyHasher, word: &str) -> KeyHash {
    let word = word.trim().to_lowercase();
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let known = if stem.is_empty() { &word } else { stem };
    hasher.hash(known.as_bytes())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(password) = arguments.next() else {
        println!("usage: password_check PASSWORD [WORD_LIST]");
        return Ok(());
    };
    let read = arguments.next().map(std::fs::read_to_string).transpose()?;
    let words = read.as_deref().unwrap_or(WORDS);

    let hasher = KeyHasher::new(HashId::Xxh3, SEED);
    let count = Items::new(words.lines().count() as u64);
    let kept_out = (Items::new(WITHDRAWN.len() as u64), Rate::new(1e-3)?);
    let list = Composite::with_rates(Kind::Classic, (count, Rate::new(1e-4)?), kept_out)?;
    for word in words.lines() {
        list.insert(hash(&hasher, word))?;
    }
    let withdrawn = WITHDRAWN.iter();
    withdrawn.for_each(|word| list.remove(hash(&hasher, word)));
    let verdict = match list.membership(hash(&hasher, &password)) {
        Membership::ProbablyIn => "refused: it is among the first that an attacker tries",
        Membership::ProbablyOut => "accepted: it was withdrawn from the list",
        Membership::NeverIn => "accepted: it is certainly not on the list",
    };
    let bytes = list.size().get() / 8;
    println!("{verdict} ({count} words in {bytes} bytes)");
    Ok(())
}

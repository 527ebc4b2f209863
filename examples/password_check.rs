//! Is a password one of the obvious ones? After OPUS (Spafford, *Computers & Security* 11(3),
//! 1992): a word list of megabytes becomes a filter of kilobytes that every machine can keep.
//! `cargo run --example password_check -- PASSWORD [WORD_LIST]`
//!
//! A false positive refuses a good password, and costs its owner another idea: one in 10,000 here.
//! What a site withdraws from the list it need not rebuild it for: a second filter has these words,
//! and lets one word in 1,000 pass that is on the list and was not withdrawn.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve::math::{Items, Rate};
use lsm_sieve_classics::filter::{Composite, Kind, Membership};

/// What people type first; a real list has millions.
const WORDS: &str = include_str!("data/passwords.txt");

/// On the list, and allowed nevertheless.
const WITHDRAWN: [&str; 2] = ["starwars", "sunshine"];

/// Nobody gains by guessing this seed: the list is public.
const SEED: Seed = Seed::from_bytes(*b"obvious password");

/// Letters count alike in either case, and digits at the end hide nothing.
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
        Membership::ProbablyIn => "refused: it is among the first that anybody tries",
        Membership::ProbablyOut => "accepted: it was withdrawn from the list",
        Membership::NeverIn => "accepted: it is certainly not on the list",
    };
    let bytes = list.size().get() / 8;
    println!("{verdict} ({count} words in {bytes} bytes)");
    Ok(())
}

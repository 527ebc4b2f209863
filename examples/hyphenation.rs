//! The application that Bloom wrote for (CACM 13(7), 1970): most words hyphenate by rule, the
//! exceptions lie on a disk, and a filter of the exceptions spares most reads. `cargo run --example
//! hyphenation`

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use lsm_sieve::filter::{Kind, Stage};
use lsm_sieve::hash::{HashId, KeyHash, KeyHasher, Seed};
use lsm_sieve::math::{Items, Rate};
use std::collections::HashMap;

/// What the rule gets wrong. Stands for the file on the disk, which is read once a look-up.
const EXCEPTIONS: [(&str, &str); 6] = [
    ("father", "fa-ther"),
    ("weather", "weath-er"),
    ("athlete", "ath-lete"),
    ("bishop", "bish-op"),
    ("program", "pro-gram"),
    ("children", "chil-dren"),
];

const TEXT: &str = "after winter the children of the bishop put on their number and letter of the \
    program under the garden lantern and every athlete went to the market for butter and silver";

fn is_vowel(letter: u8) -> bool {
    b"aeiouy".contains(&letter)
}

/// The rule: between two consonants that stand between vowels.
fn by_rule(word: &str) -> String {
    let bytes = word.as_bytes();
    let split = bytes
        .windows(4)
        .position(|w| [w[0], w[3]].into_iter().all(is_vowel) && !is_vowel(w[1]) && !is_vowel(w[2]));
    split.map_or(word.to_string(), |at| {
        format!("{}-{}", &word[..at + 2], &word[at + 2..])
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"bloom, july 1970"));
    let hash = |word: &str| -> KeyHash { hasher.hash(word.as_bytes()) };
    let disk = HashMap::from(EXCEPTIONS);
    let filter = Stage::with_rate(Kind::Classic, Items::new(6), Rate::new(0.1)?)?;
    EXCEPTIONS
        .iter()
        .for_each(|(word, _)| _ = filter.insert(hash(word)));

    let (mut words, mut reads) = (0, 0);
    for word in TEXT.split_whitespace() {
        words += 1;
        let exception = filter.may_contain(hash(word));
        reads += u32::from(exception);
        // A false positive reads for nothing, and the rule still holds.
        let read = exception.then(|| disk.get(word)).flatten();
        print!("{} ", read.map_or_else(|| by_rule(word), |h| h.to_string()));
    }
    println!("\n{reads} of {words} words were looked up");
    Ok(())
}

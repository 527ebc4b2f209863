//! A directory tree in a key-value store: may a folder be removed, and what is in it? `cargo run
//! --example directory_listing`.
//!
//! The key of an entry is its folder, a zero byte, and its name. So a folder's entries have one
//! prefix, and whether there are any is a question that the filters answer for the empty ones.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::time::Duration;

use lsm_sieve::rocksdb::{Direction, Error, IteratorMode, PrefixRange, ReadOptions};
use lsm_sieve::{Prefix, SieveDb, SieveOptions};

fn entry(folder: &str, name: &str) -> Vec<u8> {
    [folder.as_bytes(), &[0], name.as_bytes()].concat()
}

fn is_empty(db: &SieveDb, folder: &str) -> Result<bool, Error> {
    Ok(!db.prefix_exists(entry(folder, ""))?)
}

fn list(db: &SieveDb, folder: &str) -> Result<Vec<String>, Error> {
    let start = entry(folder, "");
    let mut options = ReadOptions::default();
    // Within these bounds all keys have one prefix: if no key has it, the engine is not entered.
    options.set_iterate_range(PrefixRange(start.clone()));
    let from = IteratorMode::From(&start, Direction::Forward);
    let entries = db.iterator_opt(from, options);
    let name = |key: &[u8]| String::from_utf8_lossy(&key[start.len()..]).into_owned();
    entries
        .map(|entry| entry.map(|(key, _)| name(&key)))
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let mut options = lsm_sieve::rocksdb::Options::default();
    options.create_if_missing(true);
    let sieve = SieveOptions::default().prefixes("default", [Prefix::until(0)]);
    let db = SieveDb::open(&options, &sieve, home.path())?;
    // Of ten thousand folders, each tenth has files.
    let folder = |number: u32| format!("/home/user{number}");
    for number in (0..10_000).step_by(10) {
        for name in ["notes.txt", "photo.jpg"] {
            db.put(entry(&folder(number), name), b"contents")?;
        }
    }
    db.flush()?;
    assert!(db.filters().wait_until_complete(Duration::from_secs(60)));
    let mut removable = 0;
    for number in 0..10_000 {
        removable += u32::from(is_empty(&db, &folder(number))?);
    }
    assert_eq!(list(&db, &folder(10))?, ["notes.txt", "photo.jpg"]);
    assert!(list(&db, &folder(11))?.is_empty());
    let stats = db.filters().stats();
    println!(
        "{removable} folders are empty; the filters answered {} of {} questions",
        stats.prefixes_absent,
        stats.prefixes_absent + stats.prefixes_found + stats.prefix_false_positives
    );
    Ok(())
}

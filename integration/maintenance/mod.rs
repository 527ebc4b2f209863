//! What maintenance does by itself: these tests never wake it.
//!
//! `wait_until_complete`, `wait_for_maintenance`, `consolidate` and `scrub` wake it, and would hide
//! a forgotten wakeup. So these tests poll `health`, `stats`, an answer or the folder, none of
//! which wakes it, until the state is the one that README promises.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::{CfHealth, Items, SieveDb, SieveOptions};
use rocksdb::{Options, SstFileWriter};

use crate::support::model_db::{self, absent_key, always_filtered, key};

mod consolidation;
mod coverage;
mod filters;

const DEADLINE: Duration = Duration::from_secs(30);

/// Polls until the condition holds.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "never: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs `act` beside a writer that never pauses, with one key.
fn beside_a_writer<R>(db: &SieveDb, act: impl FnOnce() -> R) -> R {
    beside_a_writer_of(db, |_| b"written all the time".to_vec(), act)
}

/// Runs `act` beside a writer that never pauses, with a key for each number from 0 on.
fn beside_a_writer_of<R>(
    db: &SieveDb,
    key: impl Fn(u64) -> Vec<u8> + Sync,
    act: impl FnOnce() -> R,
) -> R {
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Also if `act` panics.
        let _over = Over(&is_over);
        scope.spawn(|| {
            let written = (0..).take_while(|_| !is_over.load(Ordering::Acquire));
            for i in written {
                db.put(key(i), b"value").unwrap();
                thread::sleep(Duration::from_millis(1));
            }
        });
        act()
    })
}

/// RocksDB options without automatic compactions.
fn options() -> Options {
    let mut options = model_db::options();
    options.set_disable_auto_compactions(true);
    options
}

/// Settings whose summaries have room for all keys of a test, so that none is consolidated.
pub(crate) fn with_headroom() -> SieveOptions {
    always_filtered().expected_keys(Items::new(50_000))
}

/// Settings whose summaries grow from 100 keys on.
pub(crate) fn growing() -> SieveOptions {
    always_filtered().expected_keys(Items::new(100))
}

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    SieveDb::open(&options(), sieve, path).unwrap()
}

/// An open database whose maintenance has seen that there are no SSTs.
fn made(path: &Path, sieve: &SieveOptions) -> SieveDb {
    let db = open(path, sieve);
    eventually("a new database is known", || is_covered(&db));
    db
}

fn put(db: &SieveDb, numbers: std::ops::Range<u64>) {
    numbers.for_each(|i| db.put(key(i), b"value").unwrap());
}

pub(crate) fn health(db: &SieveDb) -> CfHealth {
    db.filters().health().cfs.remove(0)
}

/// Whether the summaries cover every SST.
pub(crate) fn is_covered(db: &SieveDb) -> bool {
    let families = db.filters().health().cfs;
    families.iter().all(|family| family.uncovered == Some(0))
}

/// Whether nearly all absent keys among the first thousand are denied.
pub(crate) fn rules_out(db: &SieveDb) -> bool {
    let denied = (10..1_000).filter(|&i| db.filters().answer(absent_key(i)).is_absent());
    denied.count() > 900
}

/// The sidecars of segment filters in the folder of a database.
pub(crate) fn sidecars(database: &Path) -> BTreeSet<String> {
    let folder = std::fs::read_dir(database.join(SieveOptions::FOLDER)).unwrap();
    let names = folder.map(|file| file.unwrap().file_name().into_string().unwrap());
    names
        .filter(|name| name.len() == 32 + ".sieve".len() && !name.starts_with("summary"))
        .collect()
}

/// Writes an SST file of these keys outside of a database.
fn write_table(path: &Path, numbers: std::ops::Range<u64>) {
    let options = options();
    let mut writer = SstFileWriter::create(&options);
    writer.open(path).unwrap();
    numbers.for_each(|i| writer.put(key(i), b"value").unwrap());
    writer.finish().unwrap();
}

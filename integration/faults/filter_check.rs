//! Compares the filters of a folder with a RocksDB that does not use the plugin.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lsm_sieve::SieveDb;
use rocksdb::{DB, IteratorMode};

use super::worker::{Failed, engine, sieve};

/// A wait that only a hang outlasts.
const LONG: Duration = Duration::from_secs(60);

/// Every key and value, read without the plugin.
pub(super) type Truth = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Keys that were looked up.
    pub(super) keys: u64,
    /// Of these, keys that the engine holds.
    pub(super) present: u64,
    /// Of these, keys that the filters denied, rightly.
    pub(super) absent: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.keys += more.keys;
        self.present += more.present;
        self.absent += more.absent;
    }
}

/// The truth; an error if RocksDB itself does not open the folder. Changes nothing.
pub(super) fn truth(path: &Path) -> Result<Truth, rocksdb::Error> {
    if !path.join("CURRENT").exists() {
        return Ok(Truth::new());
    }
    let db = DB::open_for_read_only(&engine(), path, false)?;
    let entries = db.iterator(IteratorMode::Start);
    entries
        .map(|entry| entry.map(|(key, value)| (key.into(), value.into())))
        .collect()
}

/// Why a check failed.
pub(super) enum CheckError {
    /// RocksDB itself does not open it.
    Engine(rocksdb::Error),
    /// A wrong answer, or none.
    Wrong(Failed),
}

/// Opens the database and checks every answer: at once, when every SST is covered, and after a
/// consolidation.
pub(super) fn check_database(
    path: &Path,
    truth: &Truth,
    read: impl Iterator<Item = Vec<u8>>,
) -> Result<Tally, Failed> {
    let mut keys: Vec<Vec<u8>> = read.filter(|key| !truth.contains_key(key)).collect();
    keys.extend(truth.keys().cloned());
    let db = SieveDb::open(&engine(), &sieve(), path)?;
    let mut tally =
        check_keys(&db, truth, &keys).map_err(|error| format!("after open: {error}"))?;
    if !db.filters().wait_until_complete(LONG) {
        return Err("not covered after a minute".into());
    }
    tally += check_keys(&db, truth, &keys).map_err(|error| format!("once covered: {error}"))?;
    db.filters().consolidate()?;
    tally += check_keys(&db, truth, &keys).map_err(|error| format!("consolidated: {error}"))?;
    match db.filters().verify(true)?.lost.first() {
        Some(lost) => Err(format!("verify found {lost} LOST").into()),
        None => Ok(tally),
    }
}

/// Looks up all of these keys in every way.
fn check_keys(db: &SieveDb, truth: &Truth, keys: &[Vec<u8>]) -> Result<Tally, Failed> {
    let mut tally = Tally::default();
    for (key, many) in keys.iter().zip(db.multi_get(keys)) {
        let held = truth.get(key);
        let absent = db.filters().answer(key).is_absent();
        let right = (!absent || held.is_none())
            && db.get(key)?.as_ref() == held
            && db.get_unfiltered(key)?.as_ref() == held
            && many?.as_ref() == held;
        if !right {
            return Err(format!("LOST {}: absent is {absent}", key.escape_ascii()).into());
        }
        tally += Tally {
            keys: 1,
            present: u64::from(held.is_some()),
            absent: u64::from(absent),
        };
    }
    Ok(tally)
}

//! Compares the filters of a database with a RocksDB that does not use the plugin.
//!
//! The truth is what a plain, read-only RocksDB iterates over. Compared with it are `SieveDb`'s
//! filter answer for every key ever used and for many never used, its single reads and batch reads,
//! the engine's reads past the filters (which still probe segment filters), and the engine's
//! iterator. All this is done three times: at once after the open, when every SST is covered, and
//! after a consolidation.

use std::collections::BTreeMap;
use std::time::Duration;

use lsm_sieve::{RocksDb, SieveDb};
use rocksdb::{AsColumnFamilyRef, DEFAULT_COLUMN_FAMILY_NAME, IteratorMode};

use super::Failed;

/// A wait that only a hang outlasts.
const LONG: Duration = Duration::from_secs(60);

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Keys that were looked up.
    pub(crate) keys: u64,
    /// Of these, keys that the engine holds.
    pub(crate) present: u64,
    /// Of these, keys that the filters denied, rightly.
    pub(crate) absent: u64,
    /// Absent answers given at once after the open.
    pub(crate) absent_at_open: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.keys += more.keys;
        self.present += more.present;
        self.absent += more.absent;
        self.absent_at_open += more.absent_at_open;
    }
}

/// Every key and value of one family.
pub(crate) type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Every key and value of every family, by name.
pub(crate) type Truth = BTreeMap<String, Entries>;

/// What these families hold.
pub(crate) fn read(db: &RocksDb, names: &[String]) -> Result<Truth, rocksdb::Error> {
    let entries = |name: &String| {
        let family = db.cf_handle(name).expect("a family that was opened");
        let entries = db.iterator_cf(&family, IteratorMode::Start);
        let entries = entries.map(|entry| entry.map(|(key, value)| (key.into(), value.into())));
        Ok((name.clone(), entries.collect::<Result<_, _>>()?))
    };
    names.iter().map(entries).collect()
}

/// Checks an open database three times. `read` are keys that are looked up also where they are not
/// held. A consolidation and a verification are tried this many times.
pub(crate) fn check(
    db: &SieveDb,
    truth: &Truth,
    read: &[Vec<u8>],
    tries: usize,
) -> Result<Tally, Failed> {
    let all = |when| check_all(db, truth, read).map_err(|error| format!("{when}: {error}"));
    let mut tally = all("after open")?;
    tally.absent_at_open = tally.absent;
    if !db.filters().wait_until_complete(LONG) {
        let false_negatives = db.filters().false_negative();
        return Err(format!("not covered after a minute; refuted: {false_negatives:?}").into());
    }
    tally += all("once covered")?;
    let done = first_done(tries, || db.filters().consolidate());
    done.map_err(|error| format!("cannot consolidate: {error}"))?;
    tally += all("consolidated")?;
    match first_done(tries, || db.filters().verify(true))?
        .lost
        .as_slice()
    {
        [] => Ok(tally),
        [lost, more @ ..] => {
            Err(format!("verify found {lost} LOST, and {} more", more.len()).into())
        }
    }
}

fn first_done<T, E>(tries: usize, call: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let done = (1..tries).find_map(|_| call().ok());
    done.map_or_else(call, Ok)
}

fn check_all(db: &SieveDb, truth: &Truth, read: &[Vec<u8>]) -> Result<Tally, Failed> {
    let mut tally = Tally::default();
    for (name, held) in truth {
        let of_family = check_family(db, name, held, read);
        tally += of_family.map_err(|error| format!("family {name}: {error}"))?;
    }
    Ok(tally)
}

fn check_family(
    db: &SieveDb,
    name: &str,
    held: &Entries,
    read: &[Vec<u8>],
) -> Result<Tally, Failed> {
    let family = &db.cf_handle(name).ok_or("it is gone")?;
    let mut entries = held.iter();
    for entry in db.iterator_cf(family, IteratorMode::Start) {
        let (key, value) = entry?;
        if entries.next() != Some((&key.to_vec(), &value.to_vec())) {
            return Err(format!("the iterator differs at {}", key.escape_ascii()).into());
        }
    }
    if let Some((key, _)) = entries.next() {
        return Err(format!("the iterator does not reach {}", key.escape_ascii()).into());
    }
    let never = read.iter().filter(|key| !held.contains_key(*key));
    let keys: Vec<&Vec<u8>> = held.keys().chain(never).collect();
    let mut tally = Tally::default();
    for key in &keys {
        tally += check_key(db, family, key, held.get(*key))?;
    }
    for (key, found) in keys
        .iter()
        .zip(db.batched_multi_get_cf(family, &keys, false))
    {
        same("batched_multi_get_cf", key, found?, held.get(*key))?;
    }
    if name == DEFAULT_COLUMN_FAMILY_NAME {
        for (key, many) in keys.iter().zip(db.multi_get(&keys)) {
            let held = held.get(*key);
            same("multi_get", key, many?, held)?;
            same("get", key, db.get(key)?, held)?;
        }
    }
    Ok(tally)
}

fn check_key(
    db: &SieveDb,
    family: &impl AsColumnFamilyRef,
    key: &[u8],
    held: Option<&Vec<u8>>,
) -> Result<Tally, Failed> {
    let absent = db.filters().answer_cf(family, key).is_absent();
    if absent && held.is_some() {
        return Err(format!("the filters LOST {}", key.escape_ascii()).into());
    }
    let past_the_filters = db.get_unfiltered_cf(family, key)?;
    same("a segment's filter", key, past_the_filters, held)?;
    same("get_cf", key, db.get_cf(family, key)?, held)?;
    Ok(Tally {
        keys: 1,
        present: u64::from(held.is_some()),
        absent: u64::from(absent),
        ..Tally::default()
    })
}

fn same(
    what: &str,
    key: &[u8],
    found: Option<impl AsRef<[u8]>>,
    held: Option<&Vec<u8>>,
) -> Result<(), Failed> {
    if found.as_ref().map(AsRef::as_ref) == held.map(Vec::as_slice) {
        return Ok(());
    }
    Err(format!("{what} LOST {}", key.escape_ascii()).into())
}

/// Why a folder fails its check.
pub(crate) enum CheckError {
    /// RocksDB itself does not open it.
    Engine(rocksdb::Error),
    /// A wrong answer, or none.
    Wrong(Failed),
}

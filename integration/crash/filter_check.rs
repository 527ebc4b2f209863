//! The check after a kill: compares the filters with a RocksDB that does not use the plugin.
//!
//! The truth is what a plain, read-only RocksDB iterates over. Compared with it are `SieveDb`'s
//! filter answer for every key ever used and for many never used, its single reads and batch reads,
//! the engine's reads past the filters (which still probe segment filters), and the engine's
//! iterator. All this is done three times: at once after the open, when every SST is covered, and
//! after a consolidation.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};
use lsm_sieve_format::disk::{self, Disk, RealDisk};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rocksdb::{AsColumnFamilyRef, IteratorMode, Options};

use super::model::Model;
use super::random_options::RandomOptions;
use super::worker::Failed;
use super::workload::{self, FAMILIES, KEYS_READ};

/// A wait that only a hang outlasts.
const LONG: Duration = Duration::from_secs(60);

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    /// Keys that the filters were checked for.
    pub(super) keys: u64,
    /// Of these, keys that the engine holds.
    pub(super) present: u64,
    /// Of these, keys that the filters denied, rightly.
    pub(super) absent: u64,
    /// Absent answers given at once after the open.
    pub(super) absent_at_open: u64,
    /// Unfinished files that were removed at the open.
    pub(super) swept: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Self) {
        self.keys += more.keys;
        self.present += more.present;
        self.absent += more.absent;
        self.absent_at_open += more.absent_at_open;
        self.swept += more.swept;
    }
}

type Family = BTreeMap<Vec<u8>, Vec<u8>>;

/// Every key and value of every family.
pub(super) struct Truth {
    families: BTreeMap<String, Family>,
}

impl Truth {
    /// Read without the plugin; nothing is changed.
    pub(super) fn read(setup: &RandomOptions, path: &Path) -> Result<Self, Failed> {
        let db = setup.open_read_only(path)?;
        let mut families = BTreeMap::new();
        for name in rocksdb::DB::list_cf(&Options::default(), path)? {
            let family = db.cf_handle(&name).ok_or("a family without handle")?;
            let mut held = Family::new();
            for entry in db.iterator_cf(&family, IteratorMode::Start) {
                let (key, value) = entry?;
                held.insert(key.into(), value.into());
            }
            // Without the plugin no filter of ours is probed: reads must agree with the iterator.
            for index in (0..KEYS_READ).step_by(7) {
                let key = workload::key(index);
                if db.get_cf(&family, &key)?.as_ref() != held.get(&key) {
                    return Err(format!("RocksDB itself disagrees on key {index} of {name}").into());
                }
            }
            families.insert(name, held);
        }
        Ok(Self { families })
    }

    /// The number under a key of a permanent family.
    pub(super) fn held(&self, family: usize, key: u32) -> Option<u64> {
        let value = self
            .families
            .get(FAMILIES[family])?
            .get(&workload::key(key))?;
        workload::number(value)
    }

    /// Acknowledged writes must be there; unacknowledged ones may be.
    pub(super) fn check_model(&self, setup: &RandomOptions, model: &Model) -> Result<(), Failed> {
        for family in (0..FAMILIES.len()).filter(|&family| setup.unlogged != Some(family)) {
            for key in 0..KEYS_READ {
                let held = self.held(family, key);
                let possible = model.possible(family, key);
                if !possible.contains(&held) {
                    return Err(format!(
                        "an acknowledged write is gone: family {family} key {key} holds {held:?}, \
                         expected one of {possible:?}"
                    )
                    .into());
                }
            }
        }
        Ok(())
    }
}

/// Opens the database with filters and checks it three times.
pub(super) fn check(
    setup: &RandomOptions,
    sieve: &SieveOptions,
    path: &Path,
    truth: &Truth,
) -> Result<Tally, Failed> {
    let unfinished = temporaries(path)?;
    let db = setup.open(path, sieve)?;
    // Names are random, so a file that was there before and is there now is left over.
    let mut left_over = temporaries(path)?;
    left_over.retain(|name| unfinished.contains(name));
    if !left_over.is_empty() {
        return Err(format!("not swept: {left_over:?}").into());
    }
    let mut tally = check_all(&db, truth).map_err(|error| format!("after open: {error}"))?;
    tally.absent_at_open = tally.absent;
    tally.swept = unfinished.len() as u64;
    if !db.filters().wait_until_complete(LONG) {
        let false_negatives = db.filters().false_negative();
        return Err(format!("not covered after a minute; refuted: {false_negatives:?}").into());
    }
    tally += check_all(&db, truth).map_err(|error| format!("once covered: {error}"))?;
    // A family or an SST may be gone meanwhile. Maintenance then reports it and tries again.
    if let Err(first) = db.filters().consolidate() {
        db.filters()
            .consolidate()
            .map_err(|second| format!("cannot consolidate: {first}; {second}"))?;
    }
    tally += check_all(&db, truth).map_err(|error| format!("consolidated: {error}"))?;
    let report = db
        .filters()
        .verify(true)
        .or_else(|_| db.filters().verify(true))?;
    if let Some(lost) = report.lost.first() {
        let lost_too = report.lost.len() - 1;
        return Err(format!("verify found {lost} LOST, and {lost_too} more").into());
    }
    Ok(tally)
}

fn check_all(db: &SieveDb, truth: &Truth) -> Result<Tally, Failed> {
    let mut tally = Tally::default();
    for (name, held) in &truth.families {
        let family = db.cf_handle(name).ok_or("a family is gone")?;
        let family_tally = check_family(db, &family, held);
        tally += family_tally.map_err(|error| format!("family {name}: {error}"))?;
    }
    Ok(tally)
}

fn check_family(
    db: &SieveDb,
    family: &impl AsColumnFamilyRef,
    held: &Family,
) -> Result<Tally, Failed> {
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
    let never = (0..KEYS_READ)
        .map(workload::key)
        .filter(|key| !held.contains_key(key));
    let keys: Vec<Vec<u8>> = held.keys().cloned().chain(never).collect();
    let mut tally = Tally::default();
    for key in &keys {
        tally += check_key(db, family, key, held.get(key))?;
    }
    for (key, found) in keys
        .iter()
        .zip(db.batched_multi_get_cf(family, &keys, false))
    {
        if found?.as_deref() != held.get(key).map(Vec::as_slice) {
            return Err(format!("batched_multi_get_cf LOST {}", key.escape_ascii()).into());
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
    if db.get_unfiltered_cf(family, key)?.as_ref() != held {
        return Err(format!("a segment's filter LOST {}", key.escape_ascii()).into());
    }
    if db.get_cf(family, key)?.as_ref() != held {
        return Err(format!("get_cf LOST {}", key.escape_ascii()).into());
    }
    Ok(Tally {
        keys: 1,
        present: u64::from(held.is_some()),
        absent: u64::from(absent),
        ..Tally::default()
    })
}

/// The names of files that a killed process left unfinished.
pub(super) fn temporaries(path: &Path) -> Result<Vec<String>, Failed> {
    let folder = path.join("sieve");
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = RealDisk.list(&folder)?;
    names.retain(|name| disk::is_temporary(name));
    Ok(names)
}

/// Damages one sidecar, if there is one: cuts it or changes a byte.
pub(super) fn damage(path: &Path, seed: u64) -> Result<(), Failed> {
    let mut random = StdRng::seed_from_u64(seed);
    let folder = path.join("sieve");
    if !folder.exists() {
        return Ok(());
    }
    let mut names = RealDisk.list(&folder)?;
    names.retain(|name| !disk::is_temporary(name));
    names.sort();
    if names.is_empty() {
        return Ok(());
    }
    let name = names.swap_remove(random.random_range(0..names.len()));
    let mut bytes = disk::read_file(&RealDisk, &folder.join(&name), 1 << 30)?;
    if bytes.is_empty() {
        return Ok(());
    }
    let at = random.random_range(0..bytes.len());
    if random.random_bool(0.3) {
        bytes.truncate(at);
    } else {
        bytes[at] ^= 1 << random.random_range(0..8);
    }
    Ok(disk::publish(&RealDisk, &folder, &name, &bytes)?)
}

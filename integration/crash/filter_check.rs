//! The check after a kill: [`check`](crate::support::history::check), and unfinished files.

use std::path::Path;

use lsm_sieve::SieveOptions;
use lsm_sieve_format::disk::{self, Disk, RealDisk};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rocksdb::Options;

use super::random_options::RandomOptions;
use super::workload::{self, FAMILIES, KEYS_READ};
use crate::support::history::Failed;
use crate::support::history::check::{self, Tally, Truth};
use crate::support::history::model::Model;

/// Every key and value, read without the plugin; nothing is changed.
pub(super) fn truth(setup: &RandomOptions, path: &Path) -> Result<Truth, Failed> {
    let db = setup.open_read_only(path)?;
    let truth = check::read(&db, &rocksdb::DB::list_cf(&Options::default(), path)?)?;
    // Without the plugin no filter of ours is probed: reads must agree with the iterator.
    for (name, held) in &truth {
        let family = db.cf_handle(name).ok_or("a family without handle")?;
        for index in (0..KEYS_READ).step_by(7) {
            let key = workload::key(index);
            if db.get_cf(&family, &key)?.as_ref() != held.get(&key) {
                return Err(format!("RocksDB itself disagrees on key {index} of {name}").into());
            }
        }
    }
    Ok(truth)
}

/// The number under a key of a permanent family.
pub(super) fn held(truth: &Truth, family: usize, key: u32) -> Option<u64> {
    workload::number(truth.get(FAMILIES[family])?.get(&workload::key(key))?)
}

/// Acknowledged writes must be there, where there is a log.
pub(super) fn check_model(
    setup: &RandomOptions,
    truth: &Truth,
    model: &Model,
) -> Result<(), Failed> {
    let mut logged = (0..FAMILIES.len()).filter(|&family| setup.unlogged != Some(family));
    logged.try_for_each(|family| model.check(family, 0..KEYS_READ, |key| held(truth, family, key)))
}

/// Opens the database with filters and checks it. Unfinished files must be gone, which are counted.
pub(super) fn check(
    setup: &RandomOptions,
    sieve: &SieveOptions,
    path: &Path,
    truth: &Truth,
) -> Result<(Tally, u64), Failed> {
    let unfinished = temporaries(path)?;
    let db = setup.open(path, sieve)?;
    // Names are random, so a file that was there before and is there now is left over.
    let mut left_over = temporaries(path)?;
    left_over.retain(|name| unfinished.contains(name));
    if !left_over.is_empty() {
        return Err(format!("not swept: {left_over:?}").into());
    }
    let read: Vec<_> = (0..KEYS_READ).map(workload::key).collect();
    // A family or an SST may be gone meanwhile. Maintenance then reports it and tries again.
    Ok((check::check(&db, truth, &read, 2)?, unfinished.len() as u64))
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

//! The law suite over an LSM store and a key-value store, each with its mutants. None of this needs
//! RocksDB, over which `rocksdb.rs` runs the suite.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod log_store;
#[path = "../../examples/own_lsm/store.rs"]
mod lsm;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lsm_sieve_stores::FilterOptions;
use lsm_sieve_stores::kv::Recovery;
use lsm_sieve_stores::laws::{BoxError, Mutant, Subject, Suite};
use lsm_sieve_stores::lsm::Lsm as _;

use log_store::LogStore;

const LIMIT: Duration = Duration::from_secs(10);

/// The LSM store of the example.
struct OwnLsm(Arc<lsm::Store>);

impl OwnLsm {
    fn open(folder: &Path, options: &FilterOptions) -> Result<Self, BoxError> {
        Ok(Self(lsm::Store::open(folder, options)?))
    }
}

impl Drop for OwnLsm {
    fn drop(&mut self) {
        self.0.filters.close();
    }
}

impl Subject for OwnLsm {
    fn write(&self, batch: &[(Vec<u8>, bool)]) -> Result<(), BoxError> {
        let value = |is_set: bool| is_set.then(|| b"value".to_vec());
        let batch = batch
            .iter()
            .map(|(key, is_set)| (key.clone(), value(*is_set)));
        Ok(self.0.write(&batch.collect::<Vec<_>>())?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.0.get(key)?.is_some())
    }

    fn contains_past_filters(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.0.contains(key)?)
    }

    fn is_denied(&self, key: &[u8]) -> bool {
        self.0.filters.answer(key).is_absent()
    }

    fn settle(&self) -> bool {
        let is_complete = self.0.filters.wait_until_complete(LIMIT);
        is_complete && self.0.filters.wait_for_maintenance(LIMIT)
    }

    fn flush(&self) -> Result<(), BoxError> {
        Ok(self.0.flush_memtable()?)
    }

    fn merge(&self) -> Result<(), BoxError> {
        Ok(self.0.merge()?)
    }

    fn ingest(&self, keys: &[Vec<u8>]) -> Result<bool, BoxError> {
        let entry = |key: &Vec<u8>| (key.clone(), Some(b"ingested".to_vec()));
        self.0.ingest(&keys.iter().map(entry).collect::<Vec<_>>())?;
        Ok(true)
    }

    fn rebuild_filters(&self) {
        _ = self.0.filters.consolidate();
    }
}

#[test]
fn own_lsm_keeps_the_rules_and_its_mutants_are_found() {
    println!("{}", Suite::lsm(OwnLsm::open).run());
}

#[test]
fn store_keeps_the_rules_with_each_recovery_and_its_mutants_are_found() {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        println!("{recovery:?}: {}", Suite::store(open, recovery).run());
    }
}

fn open(folder: &Path) -> Result<LogStore, BoxError> {
    Ok(LogStore::open(folder)?)
}

#[test]
fn store_keeps_the_rules_with_changing_recoveries() {
    let recoveries = [Recovery::Scan, Recovery::Position, Recovery::Journal];
    println!(
        "{}",
        Suite::store_with(open, &recoveries).histories(20).run()
    );
}

#[test]
fn reads_that_fail_and_writes_that_are_not_synced_are_noticed() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let mutants = [Mutant::NothingSynced, Mutant::ScanEndsEarly];
        let suite = Suite::store(open, recovery).histories(1).mutants(mutants);
        println!("{recovery:?}: {}", suite.run());
    }
}

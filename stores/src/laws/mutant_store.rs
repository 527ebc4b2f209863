//! A [`Store`] that breaks a rule.

use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kv::{Record, Store};
use crate::sync::{Mutex, unpoisoned};
use lsm_sieve_front::mutant::Mutant;

/// Commits in a row that leave out their records, after an open and then by turns.
const LEFT_OUT: u64 = 16;

/// A [`Store`] that breaks a rule, or none.
#[derive(Debug)]
pub(super) struct MutantStore<S: Store> {
    pub(super) store: S,
    mutant: Option<Mutant>,
    commits: AtomicU64,
    /// Records of a commit whose keys are in the store already.
    late: Mutex<Vec<Record>>,
}

impl<S: Store> MutantStore<S> {
    pub(super) fn new(store: S, mutant: Option<Mutant>) -> Self {
        Self {
            store,
            mutant,
            commits: AtomicU64::new(0),
            late: Mutex::default(),
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn commit_late(&self) -> Result<(), S::Error> {
        match mem::take(&mut *unpoisoned(self.late.lock())) {
            late if late.is_empty() => Ok(()),
            late => self.store.commit(S::Batch::default(), &late),
        }
    }
}

impl<S: Store> Drop for MutantStore<S> {
    fn drop(&mut self) {
        _ = self.commit_late();
    }
}

impl<S: Store> Store for MutantStore<S> {
    type Batch = S::Batch;
    type Value = S::Value;
    type Error = S::Error;

    fn get(&self, key: &[u8]) -> Result<Option<S::Value>, S::Error> {
        self.store.get(key)
    }

    fn keys_of(&self, batch: &S::Batch, each: &mut dyn FnMut(&[u8])) {
        self.store.keys_of(batch, &mut |key| {
            if !(self.is(Mutant::MissedKey) && Mutant::misses(key)) {
                each(key);
            }
        });
    }

    fn commit(&self, batch: S::Batch, records: &[Record]) -> Result<(), S::Error> {
        if self.is(Mutant::RecordsApart) {
            self.commit_late()?;
            self.store.commit(batch, &[])?;
            // A store that writes its files later may otherwise lose the keys with the records.
            self.store.sync()?;
            *unpoisoned(self.late.lock()) = records.to_vec();
            return Ok(());
        }
        let count = self.commits.fetch_add(1, Ordering::Relaxed);
        let left_out = self.is(Mutant::RecordsLeftOut) && (count / LEFT_OUT).is_multiple_of(2);
        self.store
            .commit(batch, if left_out { &[] } else { records })
    }

    fn sync(&self) -> Result<(), S::Error> {
        match self.is(Mutant::NothingSynced) {
            true => Ok(()),
            false => self.store.sync(),
        }
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), S::Error> {
        let mut left = if self.is(Mutant::ShortScan) {
            50
        } else {
            u64::MAX
        };
        let scanned = self.store.scan(&mut |key| {
            left -= 1;
            left > 0 && each(key)
        });
        match self.is(Mutant::ScanEndsEarly) {
            true => Ok(()),
            false => scanned,
        }
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, S::Error> {
        let late = unpoisoned(self.late.lock());
        let of_key = late.iter().rev().find_map(|record| match record {
            Record::Put { key: of, value } => (of == key).then(|| Some(value.clone())),
            Record::Delete { key: of } => (of == key).then_some(None),
        });
        match of_key {
            Some(value) => Ok(value),
            None => self.store.record(key),
        }
    }

    fn approximate_len(&self) -> u64 {
        self.store.approximate_len()
    }
}

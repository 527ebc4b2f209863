//! A [`Store`] that breaks a rule.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::kv::{Record, Store};
use crate::mutant::Mutant;

/// Commits in a row that leave out their records, after an open and then by turns.
const LEFT_OUT: u64 = 16;

/// A [`Store`] that breaks a rule, or none.
#[derive(Debug)]
pub(super) struct MutantStore<S> {
    store: S,
    mutant: Option<Mutant>,
    commits: AtomicU64,
}

impl<S> MutantStore<S> {
    pub(super) fn new(store: S, mutant: Option<Mutant>) -> Self {
        Self {
            store,
            mutant,
            commits: AtomicU64::new(0),
        }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
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
        let count = self.commits.fetch_add(1, Ordering::Relaxed);
        let left_out = self.is(Mutant::RecordsLeftOut) && (count / LEFT_OUT).is_multiple_of(2);
        self.store
            .commit(batch, if left_out { &[] } else { records })
    }

    fn sync(&self) -> Result<(), S::Error> {
        self.store.sync()
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), S::Error> {
        let mut left = if self.is(Mutant::ShortScan) {
            50
        } else {
            u64::MAX
        };
        self.store.scan(&mut |key| {
            left -= 1;
            left > 0 && each(key)
        })
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, S::Error> {
        self.store.record(key)
    }

    fn approximate_len(&self) -> u64 {
        self.store.approximate_len()
    }
}

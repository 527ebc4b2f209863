//! One write: its keys go to the filter before the store commits them.

use std::thread;

use crate::fault::fault;
use crate::hash::KeyHash;
use crate::kv::link::StoredFilter;
use crate::kv::recovery::Commits;
use crate::kv::store::Record;
use crate::sync::{Mutex, MutexGuard, unpoisoned};
use lsm_sieve_front::intake::Hold;

/// A write that is under way.
pub struct Write<'a> {
    /// Its keys are in the store when the write ends.
    _hold: Hold,
    stored: &'a StoredFilter,
    turn: Turn<'a>,
    hashes: Vec<KeyHash>,
    has_keys: bool,
    has_records: bool,
}

/// Access to the state of commits. With a journal it is held for the whole write, so that commits
/// come one at a time.
enum Turn<'a> {
    Held(MutexGuard<'a, Commits>),
    Shared(&'a Mutex<Commits>),
}

impl<'a> Write<'a> {
    pub(super) fn begin(stored: &'a StoredFilter, commits: &'a Mutex<Commits>) -> Self {
        let held = unpoisoned(commits.lock());
        let turn = match held.keeps_hashes() {
            true => Turn::Held(held),
            false => Turn::Shared(commits),
        };
        Self {
            _hold: stored.cf.intake().hold(),
            stored,
            turn,
            hashes: Vec::new(),
            has_keys: false,
            has_records: false,
        }
    }

    /// Adds a key that the commit may bring. Keys that it removes need not be added.
    pub fn insert(&mut self, key: &[u8]) {
        let hash = self.stored.cf.intake().add(key);
        self.has_keys = true;
        // Those that were given lack this key.
        self.has_records = false;
        if let Turn::Held(_) = self.turn {
            self.hashes.push(hash);
        }
    }

    /// The records to commit with the keys: ask for them when all keys are added.
    pub fn records(&mut self) -> Vec<Record> {
        self.has_records = true;
        let hashes = std::mem::take(&mut self.hashes);
        let records = self.commits(|commits| commits.next(&hashes));
        self.hashes = hashes;
        records
    }

    /// Whether keys may have been committed without the records.
    pub(super) fn lacks_records(&self) -> bool {
        self.has_keys && !self.has_records
    }

    /// The number of hashes in its journal entry.
    pub(super) fn journaled(&self) -> u64 {
        self.hashes.len() as u64
    }

    pub(super) fn commits<R>(&mut self, act: impl FnOnce(&mut Commits) -> R) -> R {
        match &mut self.turn {
            Turn::Held(commits) => act(commits),
            Turn::Shared(commits) => {
                let mut commits = unpoisoned(commits.lock());
                act(&mut commits)
            }
        }
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let mut is_doubtful = thread::panicking() && self.lacks_records();
        fault!(PanickedWriteTrusted, is_doubtful = false);
        // The store may be what panicked, so it is not called.
        if is_doubtful && let Err(error) = self.stored.forget() {
            tracing::error!(%error, "remove the folder of the filter before the next open");
        }
    }
}

impl std::fmt::Debug for Write<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Write").finish_non_exhaustive()
    }
}

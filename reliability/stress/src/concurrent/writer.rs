//! A writer of its own keys, by every method.

use std::path::PathBuf;

use lsm_sieve::TransactionSettings;
use lsm_sieve_cli::workload::random::Random;
use rocksdb::{IngestExternalFileOptions, WriteOptions};

use super::super::check::{Checked, Tally, Violation};
use super::super::checker::{Checker, commit};
use super::super::closed_db::remove_if_there;
use super::super::model::{Change, value};
use super::super::session::write_to;
use super::super::step::{KeyRange, Update};
use super::Shared;
use super::versions::{is_absent, next};

pub(super) struct Writer<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) checker: Checker<'a>,
    pub(super) random: Random,
    /// The first of the writer's keys, and how many there are.
    pub(super) from: usize,
    pub(super) count: usize,
    pub(super) path: PathBuf,
    pub(super) tally: Tally,
}

/// A change, and the version that it results in.
struct Next {
    update: Update,
    version: u64,
}

impl Writer<'_> {
    pub(super) fn step(&mut self) -> Checked {
        if self.shared.uses_bare_engine(&mut self.random, 500) {
            return if self.random.one_in(2) {
                self.one(true)
            } else {
                self.ingest()
            };
        }
        match self.random.below(100) {
            0..=79 => self.one(false),
            80..=96 => self.batch(),
            _ => self.delete_range(),
        }
    }

    fn family(&mut self) -> usize {
        self.random.index(self.shared.families)
    }

    fn key(&mut self) -> usize {
        self.from + self.random.index(self.count)
    }

    /// Another version of a key: a put, a merge onto its value, or a delete.
    fn next(&mut self, family: usize, key: usize) -> Next {
        let last = self.shared.versions.last(family, key);
        let version = last + 1;
        let held = if is_absent(last) { 0 } else { last };
        let change = match self.random.below(4) {
            _ if is_absent(version) => Change::Delete,
            0 => Change::Merge(version - held),
            _ => Change::Put(version),
        };
        let update = Update {
            family,
            key,
            change,
        };
        Next { update, version }
    }

    fn begin(&self, changes: &[Next]) {
        let versions = &self.shared.versions;
        let changes = changes.iter();
        changes.for_each(|next| versions.begin(next.update.family, next.update.key, next.version));
    }

    fn end(&mut self, changes: &[Next]) {
        for next in changes {
            let (family, key) = (next.update.family, next.update.key);
            self.shared.versions.end(family, key, next.version);
        }
        self.tally.wrote(changes.len());
    }

    /// Writes one key, by `SieveDb` or by the bare engine.
    fn one(&mut self, by_bare_engine: bool) -> Checked {
        let (family, key) = (self.family(), self.key());
        let next = self.next(family, key);
        let (Some(handle), Some(bytes)) = (self.checker.handle(family), self.checker.keys.get(key))
        else {
            return Ok(());
        };
        self.begin(std::slice::from_ref(&next));
        let (db, change) = (self.checker.db, next.update.change);
        match change {
            _ if by_bare_engine => {
                db.with_engine_untracked(|engine| write_to(engine, handle, bytes, change))?;
            }
            Change::Put(number) => db.put_cf(handle, bytes, value(number))?,
            Change::Merge(number) => db.merge_cf(handle, bytes, value(number))?,
            Change::Delete => db.delete_cf(handle, bytes)?,
        }
        self.end(&[next]);
        Ok(())
    }

    fn batch(&mut self) -> Checked {
        let mut changes: Vec<Next> = Vec::new();
        for _ in 0..self.random.below(20) {
            let (family, key) = (self.family(), self.key());
            let twice = |next: &Next| (next.update.family, next.update.key) == (family, key);
            if !changes.iter().any(twice) {
                changes.push(self.next(family, key));
            }
        }
        let updates = changes.iter().map(|next| &next.update);
        let mut options = WriteOptions::default();
        options.disable_wal(self.shared.unlogged && self.random.one_in(2));
        self.begin(&changes);
        let by_transaction = self.shared.settings.has_transactions() && self.random.one_in(2);
        if !by_transaction || !self.transact(updates.clone(), &options)? {
            let batch = self.checker.batch_of(updates);
            self.checker.db.write_opt(batch, &options)?;
        }
        self.end(&changes);
        Ok(())
    }

    /// No other thread writes these keys, so there is no conflict. Returns false as [`commit`]
    /// does.
    fn transact<'u>(
        &self,
        updates: impl Iterator<Item = &'u Update>,
        options: &WriteOptions,
    ) -> Result<bool, Violation> {
        let transaction = self
            .checker
            .db
            .transaction_opt(options, TransactionSettings::Default)?;
        for update in updates {
            self.checker.update_in(&transaction, update)?;
        }
        commit(transaction)
    }

    fn delete_range(&mut self) -> Checked {
        let (family, from) = (self.family(), self.key());
        // The last key is left out: the range ends before a key of the writer's own.
        let count = (1 + self.random.index(20)).min(self.from + self.count - from);
        let keys = KeyRange {
            family,
            from,
            count,
        };
        let (Some(handle), Some((first, end, ranks))) =
            (self.checker.handle(family), self.checker.bounds(&keys))
        else {
            return Ok(());
        };
        let changes: Vec<Next> = ranks
            .map(|key| Next {
                update: Update {
                    family,
                    key,
                    change: Change::Delete,
                },
                version: next(self.shared.versions.last(family, key), true),
            })
            .collect();
        self.begin(&changes);
        self.checker.db.delete_range_cf(handle, first, end)?;
        self.end(&changes);
        Ok(())
    }

    fn ingest(&mut self) -> Checked {
        let (family, from) = (self.family(), self.key());
        let to = (from + 1 + self.random.index(50)).min(self.from + self.count);
        let changes: Vec<Next> = (from..to).map(|key| self.next(family, key)).collect();
        let updates: Vec<Update> = changes.iter().map(|next| next.update).collect();
        let Some(handle) = self.checker.handle(family) else {
            return Ok(());
        };
        self.checker.write_table(&self.path, family, &updates)?;
        self.begin(&changes);
        let path = &self.path;
        let ingesting = self.shared.ingesting.read();
        if self.random.one_in(3) {
            self.checker.ingest(|db| {
                db.with_engine_untracked(|engine| {
                    engine.ingest_external_file_cf(handle, vec![path])
                })
            })?;
        } else {
            let mut options = IngestExternalFileOptions::default();
            options.set_move_files(true);
            self.checker
                .ingest(|db| db.ingest_external_file_cf_opts(handle, &options, vec![path]))?;
        }
        drop(ingesting);
        self.end(&changes);
        Ok(remove_if_there(&self.path)?)
    }
}

//! An open database and every way to read it, each compared with the model.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use lsm_sieve::{SieveDb, Snapshot, Transaction};
use rocksdb::{
    BoundColumnFamily, Direction, Error, ErrorKind, IteratorMode, ReadOptions, SstFileWriter,
    WriteBatch,
};

use super::check::{Certainty, Checked, Tally, Violation};
use super::keys::KeySpace;
use super::model::{Change, Contents, FAMILIES, Model, number, value};
use super::settings::Settings;
use super::step::{Api, KeyRange, Update};

/// The pause before something is tried again.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// A family's handle, looked up once.
pub type Handle<'a> = Arc<BoundColumnFamily<'a>>;

pub struct Checker<'a> {
    pub db: &'a SieveDb,
    pub settings: &'a Settings,
    pub keys: &'a KeySpace,
    handles: [Option<Handle<'a>>; FAMILIES.len()],
    plain: ReadOptions,
}

/// One family, and its expected contents.
struct Family<'g, 'a> {
    index: usize,
    handle: &'g Handle<'a>,
    contents: &'g Contents,
}

impl<'a> Checker<'a> {
    pub fn new(db: &'a SieveDb, settings: &'a Settings, keys: &'a KeySpace) -> Self {
        Self {
            db,
            settings,
            keys,
            handles: FAMILIES.map(|name| db.cf_handle(name)),
            plain: ReadOptions::default(),
        }
    }

    /// Looks up the handle of a family that was created or dropped.
    pub fn refresh_handle(&mut self, family: usize) {
        self.handles[family] = self.db.cf_handle(FAMILIES[family]);
    }

    pub fn handle(&self, family: usize) -> Option<&Handle<'a>> {
        self.handles.get(family)?.as_ref()
    }

    fn family<'g>(&'g self, index: usize, model: &'g Model) -> Option<Family<'g, 'a>> {
        Some(Family {
            index,
            handle: self.handle(index)?,
            contents: model.family(index)?,
        })
    }

    /// The first key and the one after the last, in the family's order, and the ranks between them.
    pub fn bounds(&self, keys: &KeyRange) -> Option<(&'a [u8], &'a [u8], Range<usize>)> {
        let space = self.keys;
        let to = keys.from.checked_add(keys.count)?;
        self.settings.families.get(keys.family)?;
        if self.settings.is_reversed(keys.family) {
            let (first, end) = (to.checked_sub(1)?, keys.from.checked_sub(1)?);
            Some((space.get(first)?, space.get(end)?, keys.from..to))
        } else {
            Some((space.get(keys.from)?, space.get(to)?, keys.from..to))
        }
    }

    /// The updates whose families exist, as one batch.
    pub fn batch_of<'u>(&self, updates: impl IntoIterator<Item = &'u Update>) -> WriteBatch {
        let mut batch = WriteBatch::default();
        for update in updates {
            let (Some(handle), Some(key)) = (self.handle(update.family), self.keys.get(update.key))
            else {
                continue;
            };
            match update.change {
                Change::Put(number) => batch.put_cf(handle, key, value(number)),
                Change::Merge(number) => batch.merge_cf(handle, key, value(number)),
                Change::Delete => batch.delete_cf(handle, key),
            }
        }
        batch
    }

    /// One update in a transaction, if its family exists.
    pub fn update_in(&self, transaction: &Transaction<'_>, update: &Update) -> Checked {
        let (Some(handle), Some(key)) = (self.handle(update.family), self.keys.get(update.key))
        else {
            return Ok(());
        };
        Ok(match update.change {
            Change::Put(number) => transaction.put_cf(handle, key, value(number)),
            Change::Merge(number) => transaction.merge_cf(handle, key, value(number)),
            Change::Delete => transaction.delete_cf(handle, key),
        }?)
    }

    /// Writes the updates in a transaction, which reads each key before and after it. Returns false
    /// as [`commit`] does.
    pub fn transact(
        &self,
        updates: &[Update],
        model: &Model,
        tally: &mut Tally,
    ) -> Result<bool, Violation> {
        let transaction = self.db.transaction()?;
        let mut seen = model.clone();
        for update in updates {
            let (Some(handle), Some(key)) = (self.handle(update.family), self.keys.get(update.key))
            else {
                continue;
            };
            let before = transaction.get_for_update_cf(handle, key, true)?;
            self.agrees_within(&seen, update, before.as_deref(), tally)?;
            self.update_in(&transaction, update)?;
            if let Some(contents) = seen.family_mut(update.family) {
                contents.apply(update.key, update.change);
            }
            let after = transaction.get_cf(handle, key)?;
            self.agrees_within(&seen, update, after.as_deref(), tally)?;
        }
        commit(transaction)
    }

    /// Compares a transaction's read with the model as the transaction would leave it.
    fn agrees_within(
        &self,
        seen: &Model,
        &Update { family, key, .. }: &Update,
        found: Option<&[u8]>,
        tally: &mut Tally,
    ) -> Checked {
        let Some(family) = self.family(family, seen) else {
            return Ok(());
        };
        let expected = family.contents.get(key);
        tally.read(Certainty::of(expected));
        compare(found, expected)
            .map_err(|what| self.wrong(&family, key, "get in a transaction", what))
    }

    /// Writes an SST file outside the database, without the plugin. The updates are of one family,
    /// sorted by rank.
    pub fn write_table(&self, path: &Path, family: usize, updates: &[Update]) -> Checked {
        let options = self.settings.family(family)?;
        let mut writer = SstFileWriter::create(&options);
        writer.open(path)?;
        let mut updates: Vec<&Update> = updates.iter().collect();
        if self.settings.is_reversed(family) {
            updates.reverse();
        }
        for update in updates {
            let key = self.keys.get(update.key).unwrap_or_default();
            match update.change {
                Change::Put(number) => writer.put(key, value(number))?,
                Change::Merge(number) => writer.merge(key, value(number))?,
                Change::Delete => writer.delete(key)?,
            }
        }
        Ok(writer.finish()?)
    }

    /// Runs an ingestion until it succeeds. With `atomic_flush`, RocksDB 11.8.1 may go on before
    /// its own flush has ended, and find memtables that it does not expect. It then returns an
    /// error and has changed nothing.
    pub fn ingest(&self, ingest: impl Fn(&SieveDb) -> Result<(), Error>) -> Checked {
        loop {
            match ingest(self.db) {
                Err(error) if error.kind() == ErrorKind::TryAgain => thread::sleep(RETRY_PAUSE),
                done => return Ok(done?),
            }
        }
    }

    // -------------------------------------------------------------- keys

    /// Reads neighbouring keys; none if the family does not exist.
    pub fn read(&self, model: &Model, keys: &KeyRange, api: Api, tally: &mut Tally) -> Checked {
        let Some(family) = self.family(keys.family, model) else {
            return Ok(());
        };
        let to = keys.from.saturating_add(keys.count).min(self.keys.len());
        let ranks = keys.from.min(to)..to;
        for rank in ranks.clone() {
            tally.read(Certainty::of(family.contents.get(rank)));
        }
        if api == Api::Multi {
            return self.read_many(&family, ranks, tally);
        }
        for rank in ranks {
            self.read_one(&family, rank, api, tally)?;
        }
        Ok(())
    }

    fn read_one(
        &self,
        family: &Family<'_, 'a>,
        rank: usize,
        api: Api,
        tally: &mut Tally,
    ) -> Checked {
        let Some(key) = self.keys.get(rank) else {
            return Ok(());
        };
        let (db, handle) = (self.db, family.handle);
        let default = family.index == 0;
        let found = match api {
            Api::Answer => return self.ask(family, rank, tally),
            Api::MayExist if default => return self.may_exist(family, rank),
            Api::Get if default => db.get(key),
            Api::GetWithOptions if default => db.get_opt(key, &self.plain),
            Api::GetWithOptions => db.get_cf_opt(handle, key, &self.plain),
            Api::Pinned => {
                let pinned = if default {
                    db.get_pinned(key)?
                } else {
                    db.get_pinned_cf(handle, key)?
                };
                return self.compare(family, rank, "get_pinned", pinned.as_deref(), tally);
            }
            Api::Unfiltered if default => db.get_unfiltered(key),
            Api::Unfiltered => db.get_unfiltered_cf(handle, key),
            Api::Transaction if !self.settings.has_transactions() => db.get_cf(handle, key),
            Api::Transaction if default => db.transaction()?.get(key),
            Api::Transaction => db.transaction()?.get_for_update_cf(handle, key, true),
            _ => db.get_cf(handle, key),
        };
        self.compare(family, rank, "get", found?.as_deref(), tally)
    }

    fn read_many(
        &self,
        family: &Family<'_, 'a>,
        ranks: Range<usize>,
        tally: &mut Tally,
    ) -> Checked {
        let keys: Vec<&[u8]> = ranks
            .clone()
            .filter_map(|rank| self.keys.get(rank))
            .collect();
        let before = self.db.filters().stats().lookups();
        let found = if family.index == 0 {
            self.db.multi_get(&keys)
        } else {
            let keys = keys.iter().map(|key| (family.handle, key));
            self.db.multi_get_cf(keys)
        };
        if found.len() != keys.len() {
            let (asked, got) = (keys.len(), found.len());
            return Err(Violation::other(format!(
                "multi_get of {asked} keys: {got} answers"
            )));
        }
        // All of them or, in a family without filters, none.
        let asked = keys.len() as u64;
        let counted = self.db.filters().stats().lookups() - before;
        if counted != asked && counted != 0 {
            return Err(Violation::other(format!(
                "multi_get of {asked} keys: {counted} were counted"
            )));
        }
        for (rank, found) in ranks.zip(found) {
            self.compare(family, rank, "multi_get", found?.as_deref(), tally)?;
        }
        Ok(())
    }

    /// Reads keys in a snapshot, and compares them with the model of its time.
    pub fn read_at(
        &self,
        snapshot: &Snapshot<'_>,
        model: &Model,
        keys: &KeyRange,
        tally: &mut Tally,
    ) -> Checked {
        let Some(family) = self.family(keys.family, model) else {
            return Ok(());
        };
        let mut options = ReadOptions::default();
        options.set_snapshot(snapshot);
        for rank in keys.from..keys.from.saturating_add(keys.count) {
            let Some(key) = self.keys.get(rank) else {
                return Ok(());
            };
            let found = self.db.get_cf_opt(family.handle, key, &options)?;
            let expected = family.contents.get(rank);
            tally.read(Certainty::of(expected));
            compare(found.as_deref(), expected)
                .map_err(|what| self.wrong(&family, rank, "get at a snapshot", what))?;
        }
        Ok(())
    }

    /// Compares a value with the model. The engine is read as well for an absent key.
    fn compare(
        &self,
        family: &Family<'_, 'a>,
        rank: usize,
        api: &str,
        found: Option<&[u8]>,
        tally: &mut Tally,
    ) -> Checked {
        let expected = family.contents.get(rank);
        compare(found, expected).map_err(|what| self.wrong(family, rank, api, what))?;
        if found.is_none() {
            self.ask(family, rank, tally)?;
        }
        Ok(())
    }

    /// Checks the filter answer: a key that it denies must be absent in the model and in the
    /// engine.
    fn ask(&self, family: &Family<'_, 'a>, rank: usize, tally: &mut Tally) -> Checked {
        let Some(key) = self.keys.get(rank) else {
            return Ok(());
        };
        let expected = family.contents.get(rank);
        if !self.db.filters().answer_cf(family.handle, key).is_absent() {
            tally.false_positives += u64::from(expected.is_none());
            return Ok(());
        }
        compare(None, expected).map_err(|what| self.wrong(family, rank, "filter_answer", what))?;
        let engine = self.db.get_unfiltered_cf(family.handle, key)?;
        // If the model does not have it, the engine alone must not have it either.
        if let Some(bytes) = engine {
            let what = Wrong::Lost(number(&bytes));
            return Err(self.wrong(family, rank, "the engine behind a negative", what));
        }
        tally.checked_negatives += 1;
        Ok(())
    }

    fn may_exist(&self, family: &Family<'_, 'a>, rank: usize) -> Checked {
        let Some(key) = self.keys.get(rank) else {
            return Ok(());
        };
        let expected = family.contents.get(rank);
        if expected.is_some() && !self.db.key_may_exist(key) {
            return Err(self.wrong(family, rank, "key_may_exist", Wrong::Lost(expected)));
        }
        Ok(())
    }

    fn wrong(&self, family: &Family<'_, 'a>, rank: usize, api: &str, what: Wrong) -> Violation {
        let name = FAMILIES[family.index];
        let key = self.keys.get(rank).unwrap_or_default();
        // Whether the filters or the engine said so.
        let filters = if self.db.filters().answer_cf(family.handle, key).is_absent() {
            "rule it out"
        } else {
            "let it by"
        };
        let engine = match self.db.get_unfiltered_cf(family.handle, key) {
            Ok(Some(_)) => "has it".to_owned(),
            Ok(None) => "has none".to_owned(),
            Err(error) => error.into_string(),
        };
        let key = key[..key.len().min(60)].escape_ascii();
        let lost = matches!(what, Wrong::Lost(_));
        let what = match what {
            Wrong::Lost(expected) => format!("nothing, where {expected:?} is"),
            Wrong::Stale { found, expected } => format!("{found:?}, where {expected:?} is right"),
        };
        Violation {
            lost,
            what: format!(
                "{api} of key {rank} ({key}) of family {name:?}: {what}; now the filters {filters}, \
                 and the engine {engine}"
            ),
        }
    }

    // -------------------------------------------------------------- ranges

    /// Neighbouring records by a new iterator, in either direction.
    pub fn scan(&self, model: &Model, keys: &KeyRange, back: bool, tally: &mut Tally) -> Checked {
        let (Some(family), Some(key)) = (self.family(keys.family, model), self.keys.get(keys.from))
        else {
            return Ok(());
        };
        let direction = if back {
            Direction::Reverse
        } else {
            Direction::Forward
        };
        let mode = IteratorMode::From(key, direction);
        let snapshot = self.db.snapshot();
        let found = snapshot.iterator_cf_opt(family.handle, everything(), mode);
        let ascending = back == self.settings.is_reversed(keys.family);
        let expected: Vec<_> = if ascending {
            let held = family.contents.held(keys.from..self.keys.len());
            held.take(keys.count).collect()
        } else {
            let held = family.contents.held(0..keys.from + 1);
            held.rev().take(keys.count).collect()
        };
        self.compare_records(&family, found.take(keys.count), &expected, tally)
    }

    fn compare_records(
        &self,
        family: &Family<'_, 'a>,
        found: impl Iterator<Item = Result<(Box<[u8]>, Box<[u8]>), rocksdb::Error>>,
        expected: &[(usize, u64)],
        tally: &mut Tally,
    ) -> Checked {
        let mut expected = expected.iter();
        for record in found {
            let (key, value) = record?;
            tally.read(Certainty::MustExist);
            let right = expected.next().is_some_and(|&(rank, right)| {
                self.keys.get(rank) == Some(&key) && number(&value) == Some(right)
            });
            if !right {
                let name = FAMILIES[family.index];
                let key = key.escape_ascii();
                let what = format!("an iterator over {name:?} stands at {key}, out of turn");
                return Err(Violation::other(what));
            }
        }
        match expected.next() {
            None => Ok(()),
            Some(&(rank, value)) => {
                Err(self.wrong(family, rank, "an iterator", Wrong::Lost(Some(value))))
            }
        }
    }

    // -------------------------------------------------------------- all

    /// Every key of every family, by `multi_get` and by iterators.
    pub fn agree(&self, model: &Model, tally: &mut Tally) -> Checked {
        for index in model.existing() {
            let Some(family) = self.family(index, model) else {
                let name = FAMILIES[index];
                return Err(Violation::lost(format!("the family {name:?} is gone")));
            };
            for from in (0..self.keys.len()).step_by(100) {
                let keys = KeyRange {
                    family: index,
                    from,
                    count: 100,
                };
                self.read(model, &keys, Api::Multi, tally)?;
            }
            let mut expected: Vec<_> = family.contents.held(0..self.keys.len()).collect();
            if self.settings.is_reversed(index) {
                expected.reverse();
            }
            if self.settings.has_prefixes(index) {
                let snapshot = self.db.snapshot();
                let (options, mode) = (everything(), IteratorMode::Start);
                let found = snapshot.iterator_cf_opt(family.handle, options, mode);
                self.compare_records(&family, found, &expected, tally)?;
            } else {
                let found = self.db.iterator_cf(family.handle, IteratorMode::Start);
                self.compare_records(&family, found, &expected, tally)?;
            }
        }
        Ok(())
    }

    /// Every filter against the raw keys of its SST.
    pub fn verify(&self, tally: &mut Tally) -> Checked {
        let report = self.db.filters().verify(true)?;
        tally.entries_verified += report.entries_checked;
        match report.lost.first() {
            None => Ok(()),
            Some(first) => Err(Violation::lost(format!("verify: {first}"))),
        }
    }
}

/// Commits a transaction. Returns false if nothing was committed because the memtables needed for
/// the conflict check are gone.
pub fn commit(transaction: Transaction<'_>) -> Result<bool, Violation> {
    match transaction.commit() {
        Err(error) if error.kind() == ErrorKind::TryAgain => Ok(false),
        committed => Ok(committed.map(|()| true)?),
    }
}

/// For iterators that skip no prefix.
pub fn everything() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_total_order_seek(true);
    options
}

/// How a value differs from the expected one.
enum Wrong {
    /// It is missing.
    Lost(Option<u64>),
    /// It is another, or there should be none; `None` for bytes that are no value.
    Stale {
        found: Option<u64>,
        expected: Option<u64>,
    },
}

fn compare(found: Option<&[u8]>, expected: Option<u64>) -> Result<(), Wrong> {
    match (found, expected) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Wrong::Lost(expected)),
        (Some(bytes), _) => {
            let found = number(bytes);
            if found.is_some() && found == expected {
                return Ok(());
            }
            Err(Wrong::Stale { found, expected })
        }
    }
}

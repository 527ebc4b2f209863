//! A database from one open to the next: steps on it, on its model, and their comparison.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lsm_sieve::{FilterSize, RocksDb, Snapshot};
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Error, IngestExternalFileOptions, WriteBatch, WriteOptions};

use super::check::{Certainty, Checked, Tally, Violation};
use super::checker::{Checker, Handle};
use super::closed_db;
use super::model::{Change, FAMILIES, Model, value};
use super::secondary::Secondary;
use super::step::{Api, KeyRange, Step, Update, Way};

/// Snapshots that are held at once.
const MAX_SNAPSHOTS: usize = 3;

/// Longer than any wait on a database of a few thousand keys takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A snapshot and the model of its time.
struct HeldSnapshot<'a> {
    snapshot: Snapshot<'a>,
    model: Model,
}

pub struct Session<'a> {
    pub checker: Checker<'a>,
    pub model: &'a mut Model,
    pub tally: &'a mut Tally,
    /// For files outside the database.
    pub home: &'a Path,
    /// Opened with read-only filters.
    pub read_only_filters: bool,
    snapshots: VecDeque<HeldSnapshot<'a>>,
    secondary: Option<Secondary>,
    /// Files written so far.
    files: u64,
}

impl<'a> Session<'a> {
    pub fn new(
        checker: Checker<'a>,
        model: &'a mut Model,
        tally: &'a mut Tally,
        home: &'a Path,
        read_only_filters: bool,
    ) -> Self {
        Self {
            checker,
            model,
            tally,
            home,
            read_only_filters,
            snapshots: VecDeque::new(),
            secondary: None,
            files: 0,
        }
    }

    /// Compares every key of every family with the model.
    pub fn agree(&mut self) -> Checked {
        self.checker.agree(self.model, self.tally)
    }

    /// Checks every filter against the raw keys of every SST.
    pub fn verify(&mut self) -> Checked {
        self.checker.verify(self.tally)
    }

    /// Carries out one step on the database and on its model. Its reads must be right.
    pub fn apply(&mut self, step: &Step) -> Checked {
        match step {
            Step::Write { update, way } => self.write(*update, *way),
            Step::Batch { updates, way } => self.batch(updates, *way),
            Step::DeleteRange { keys, way } => self.delete_range(keys, *way),
            Step::Once {
                family,
                number,
                flush,
            } => self.once(*family, *number, *flush),
            Step::Ingest { keys, number, way } => self.ingest(keys, *number, *way),
            Step::Read { keys, api } => self.read(keys, *api),
            Step::Scan { keys, back } => self.checker.scan(self.model, keys, *back, self.tally),
            Step::Snapshot => self.take_snapshot(),
            Step::Release => self.release(),
            Step::Flush { family } => self.flush(*family),
            Step::Compact { keys } => self.compact(keys),
            Step::Consolidate => match self.checker.db.filters().consolidate() {
                Err(_) if self.read_only_filters => Ok(()),
                Ok(()) if self.read_only_filters => {
                    Err(Violation::other("read-only filters were consolidated"))
                }
                done => Ok(done?),
            },
            Step::Cover => self.cover(),
            Step::Rate(rate) => self.set_rate(*rate),
            Step::Verify => self.verify(),
            Step::Create { family, way } => self.create(*family, *way),
            Step::Drop { family, way } => self.drop_family(*family, *way),
            Step::Checkpoint { filters } => self.checkpoint(*filters),
            Step::CatchUp { reopen } => self.catch_up(*reopen),
            Step::Reopen(_) => Ok(()),
            Step::LoseWrite { family, key } => self.lose_write(*family, *key),
        }
    }

    // -------------------------------------------------------------- writes

    fn write(&mut self, update: Update, way: Way) -> Checked {
        let (Some(handle), Some(key)) = (
            self.checker.handle(update.family),
            self.checker.keys.get(update.key),
        ) else {
            return Ok(());
        };
        let (db, default) = (self.checker.db, update.family == 0);
        match (way, update.change) {
            (Way::Batch | Way::Unlogged | Way::Transaction, _) => {
                return self.batch(&[update], way);
            }
            (Way::Engine, change) => {
                db.with_engine_untracked(|engine| write_to(engine, handle, key, change))?;
            }
            (Way::SieveDb, Change::Put(number)) if default => db.put(key, value(number))?,
            (Way::SieveDb, Change::Put(number)) => db.put_cf(handle, key, value(number))?,
            (Way::SieveDb, Change::Merge(number)) if default => db.merge(key, value(number))?,
            (Way::SieveDb, Change::Merge(number)) => db.merge_cf(handle, key, value(number))?,
            (Way::SieveDb, Change::Delete) if default => db.delete(key)?,
            (Way::SieveDb, Change::Delete) => db.delete_cf(handle, key)?,
        }
        self.note(&[update]);
        Ok(())
    }

    fn batch(&mut self, updates: &[Update], way: Way) -> Checked {
        let by_transaction = way == Way::Transaction && self.checker.settings.has_transactions();
        if !by_transaction || !self.checker.transact(updates, self.model, self.tally)? {
            self.commit(self.checker.batch_of(updates), way)?;
        }
        self.note(updates);
        Ok(())
    }

    fn commit(&self, batch: WriteBatch, way: Way) -> Result<(), Error> {
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        match way {
            Way::SieveDb | Way::Batch | Way::Transaction => self.checker.db.write(batch),
            Way::Unlogged => self.checker.db.write_opt(batch, &unlogged),
            Way::Engine => self
                .checker
                .db
                .with_engine_untracked(|engine| engine.write(batch)),
        }
    }

    fn note(&mut self, updates: &[Update]) {
        for update in updates {
            if let Some(contents) = self.model.family_mut(update.family) {
                contents.apply(update.key, update.change);
            }
        }
        self.tally.wrote(updates.len());
    }

    fn delete_range(&mut self, keys: &KeyRange, way: Way) -> Checked {
        let Some((from, to, ranks)) = self.checker.bounds(keys) else {
            return Ok(());
        };
        let Some(handle) = self.checker.handle(keys.family) else {
            return Ok(());
        };
        // RocksDB's locks refuse such a batch.
        if way == Way::SieveDb || self.checker.settings.has_locks() {
            self.checker.db.delete_range_cf(handle, from, to)?;
        } else {
            let mut batch = WriteBatch::default();
            batch.delete_range_cf(handle, from, to);
            self.commit(batch, way)?;
        }
        if let Some(contents) = self.model.family_mut(keys.family) {
            contents.clear(ranks);
        }
        self.tally.wrote(1);
        Ok(())
    }

    /// RocksDB leaves a mixture of single deletes with other writes undefined. So these keys are in
    /// no key space, and nothing is left of them.
    fn once(&mut self, family: usize, number: u64, flush: bool) -> Checked {
        // RocksDB's locks refuse such a batch.
        if self.checker.settings.has_locks() {
            return Ok(());
        }
        let Some(handle) = self.checker.handle(family) else {
            return Ok(());
        };
        let db = self.checker.db;
        let key = format!("zz once {number:016x}");
        db.put_cf(handle, &key, value(number))?;
        if flush {
            db.flush_cf(handle)?;
        }
        if db.get_cf(handle, &key)?.is_none() || db.multi_get_cf([(handle, &key)])[0] == Ok(None) {
            return Err(Violation::lost(format!("{key}, which was just written")));
        }
        let mut batch = WriteBatch::default();
        batch.single_delete_cf(handle, &key);
        self.commit(batch, Way::SieveDb)?;
        if db.get_cf(handle, &key)?.is_some() {
            return Err(Violation::other(format!("{key} is there, single-deleted")));
        }
        self.tally.wrote(2);
        self.tally.read(Certainty::MustExist);
        self.tally.read(Certainty::MustExist);
        self.tally.read(Certainty::MustNotExist);
        Ok(())
    }

    fn ingest(&mut self, keys: &KeyRange, number: u64, way: Way) -> Checked {
        let ranks = keys.from
            ..keys
                .from
                .saturating_add(keys.count)
                .min(self.checker.keys.len());
        let updates: Vec<Update> = ranks
            .filter(|rank| rank.is_multiple_of(2))
            .map(|key| Update {
                family: keys.family,
                key,
                change: if key.is_multiple_of(3) {
                    Change::Delete
                } else {
                    Change::Put(number.wrapping_add(key as u64))
                },
            })
            .collect();
        let Some(handle) = self.checker.handle(keys.family) else {
            return Ok(());
        };
        if updates.is_empty() {
            return Ok(());
        }
        self.files += 1;
        let path = self.home.join(format!("ingested-{}.sst", self.files));
        self.checker.write_table(&path, keys.family, &updates)?;
        self.checker.ingest(|db| match way {
            Way::Engine => db.with_engine_untracked(|engine| {
                engine.ingest_external_file_cf(handle, vec![&path])
            }),
            _ if keys.family == 0 => db.ingest_external_file(vec![&path]),
            _ => {
                let mut options = IngestExternalFileOptions::default();
                options.set_move_files(true);
                db.ingest_external_file_cf_opts(handle, &options, vec![&path])
            }
        })?;
        closed_db::remove_if_there(&path)?;
        self.note(&updates);
        Ok(())
    }

    fn lose_write(&mut self, family: usize, key: usize) -> Checked {
        self.note(&[Update {
            family,
            key,
            change: Change::Put(0),
        }]);
        Ok(())
    }

    // -------------------------------------------------------------- reads

    fn read(&mut self, keys: &KeyRange, api: Api) -> Checked {
        let moment = match api {
            Api::OldSnapshot => self.snapshots.front(),
            Api::NewSnapshot => self.snapshots.back(),
            _ => return self.checker.read(self.model, keys, api, self.tally),
        };
        let Some(HeldSnapshot { snapshot, model }) = moment else {
            return Ok(());
        };
        self.checker.read_at(snapshot, model, keys, self.tally)
    }

    fn take_snapshot(&mut self) -> Checked {
        if self.snapshots.len() == MAX_SNAPSHOTS {
            self.snapshots.pop_front();
        }
        self.snapshots.push_back(HeldSnapshot {
            snapshot: self.checker.db.snapshot(),
            model: self.model.clone(),
        });
        Ok(())
    }

    fn release(&mut self) -> Checked {
        self.snapshots.pop_front();
        Ok(())
    }

    // -------------------------------------------------------------- tables and filters

    fn flush(&mut self, family: usize) -> Checked {
        match self.checker.handle(family) {
            Some(_) if family == 0 => Ok(self.checker.db.flush()?),
            Some(handle) => Ok(self.checker.db.flush_cf(handle)?),
            None => Ok(()),
        }
    }

    fn compact(&mut self, keys: &KeyRange) -> Checked {
        let bounds = self.checker.bounds(keys);
        let (from, to) = bounds.map(|(from, to, _)| (from, to)).unzip();
        match self.checker.handle(keys.family) {
            Some(_) if keys.family == 0 => self.checker.db.compact_range(from, to),
            Some(handle) => self.checker.db.compact_range_cf(handle, from, to),
            None => {}
        }
        Ok(())
    }

    fn cover(&mut self) -> Checked {
        if self.read_only_filters || self.checker.db.filters().wait_until_complete(PATIENCE) {
            return Ok(());
        }
        let what = format!("the filters do not cover within {} s", PATIENCE.as_secs());
        Err(Violation::other(what))
    }

    fn set_rate(&mut self, rate: f64) -> Checked {
        self.checker
            .db
            .filters()
            .set_filter_size(FilterSize::rate(rate)?);
        Ok(())
    }

    // -------------------------------------------------------------- families

    fn create(&mut self, family: usize, way: Way) -> Checked {
        if family == 0 || family >= FAMILIES.len() || self.model.family(family).is_some() {
            return Ok(());
        }
        let name = FAMILIES[family];
        let options = self.checker.settings.family(family)?;
        if way == Way::Engine {
            self.checker
                .db
                .with_engine_untracked(|engine| engine.create_cf(name, &options))?;
        } else {
            self.checker.db.create_cf(name, &options)?;
        }
        self.checker.refresh_handle(family);
        self.model.make_empty(family);
        // A new family was empty in every earlier snapshot.
        let snapshots = self.snapshots.iter_mut();
        snapshots.for_each(|moment| moment.model.make_empty(family));
        Ok(())
    }

    fn drop_family(&mut self, family: usize, way: Way) -> Checked {
        if family == 0 || self.model.family(family).is_none() {
            return Ok(());
        }
        let name = FAMILIES[family];
        if way == Way::Engine {
            self.checker
                .db
                .with_engine_untracked(|engine| engine.drop_cf(name))?;
        } else {
            self.checker.db.drop_cf(name)?;
        }
        self.checker.refresh_handle(family);
        self.model.remove(family);
        let snapshots = self.snapshots.iter_mut();
        snapshots.for_each(|moment| moment.model.remove(family));
        Ok(())
    }

    // -------------------------------------------------------------- copies

    fn catch_up(&mut self, reopen: bool) -> Checked {
        let checker = &self.checker;
        let secondary = match self.secondary.take().filter(|_| !reopen) {
            Some(secondary) => secondary,
            None => {
                let sieve = checker
                    .settings
                    .filters
                    .options()
                    .map_err(Violation::other)?;
                let messages = self.home.join("secondary");
                self.tally.opened += 1;
                Secondary::open(
                    checker.settings,
                    &sieve,
                    checker.db.path(),
                    &messages,
                    self.model,
                )?
            }
        };
        let goes_on = secondary.catch_up(checker.keys, self.tally)?;
        self.secondary = goes_on.then_some(secondary);
        Ok(())
    }

    fn checkpoint(&mut self, filters: bool) -> Checked {
        self.files += 1;
        let copy: PathBuf = self.home.join(format!("copy-{}", self.files));
        self.checker
            .db
            .with_engine_untracked(|engine| Checkpoint::new(engine)?.create_checkpoint(&copy))?;
        if filters {
            closed_db::copy_filters(self.checker.db.path(), &copy)?;
        }
        let sieve = self
            .checker
            .settings
            .filters
            .options()
            .map_err(Violation::other)?;
        let db = closed_db::open(self.checker.settings, &sieve, &copy, self.model)?;
        self.tally.opened += 1;
        let checker = Checker::new(&db, self.checker.settings, self.checker.keys);
        checker.agree(self.model, self.tally)?;
        if !db.filters().wait_until_complete(PATIENCE) {
            return Err(Violation::other("the filters of a checkpoint do not cover"));
        }
        checker.agree(self.model, self.tally)?;
        checker.verify(self.tally)?;
        drop(checker);
        drop(db);
        Ok(std::fs::remove_dir_all(&copy)?)
    }
}

/// One write by the bare engine.
pub fn write_to(
    engine: &RocksDb,
    handle: &Handle<'_>,
    key: &[u8],
    change: Change,
) -> Result<(), Error> {
    match change {
        Change::Put(number) => engine.put_cf(handle, key, value(number)),
        Change::Merge(number) => engine.merge_cf(handle, key, value(number)),
        Change::Delete => engine.delete_cf(handle, key),
    }
}

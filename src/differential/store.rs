//! The store: its parts, its writers, and which lock is for what.
//!
//! - Readers take no lock: the list of generations is [`Published`], the main file never changes.
//! - Writers share `writing`, and [`DifferentialStore::freeze`] takes it alone: when it has it, no
//!   write is under way to the generation that is to be frozen.
//! - `state` is held by whoever changes the list of files; `moving` by whoever moves records.
//!   They are taken in the order `moving`, `state`, `writing`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use rocksdb::{Options, ReadOptions, WriteBatch, WriteOptions};

use super::batch::Batch;
use super::error::{DifferentialError, OpenDifferentialError};
use super::generation::Generation;
use super::open;
use super::options::{DifferentialOptions, MainFile};
use super::record::{self, Record};
use super::state::{State, family_name};
use super::stats::DifferentialStats;
use crate::planted::planted;
use crate::rcu::Published;
use crate::rocks::{Family, Sample, SieveDb};
use crate::stats::Counters;
use crate::sync::unpoisoned;

/// The generations before the main file, newest first.
pub(super) type Generations = Arc<[Arc<Generation>]>;

/// A main file, the differential file before it, and the filters of that.
///
/// Any number of threads may read, write and reorganise at once. See the [module](super) for what
/// is where.
pub struct DifferentialStore {
    pub(super) view: Published<Generations>,
    /// The generation that takes the writes.
    pub(super) writing: RwLock<Arc<Generation>>,
    pub(super) main: Family,
    /// The default column family, for the store's own records.
    pub(super) home: Family,
    pub(super) state: Mutex<State>,
    pub(super) moving: Mutex<()>,
    pub(super) counters: Counters,
    /// Which of the reads that no generation was searched for are audited.
    pub(super) sample: Sample,
    writes: AtomicU64,
    /// Transactions until the last reorganisation was through.
    moved_at: AtomicU64,
    /// For reads of now: making them anew costs an allocation a read.
    pub(super) reading: ReadOptions,
    pub(super) engine_options: Options,
    pub(super) options: DifferentialOptions,
    pub(super) db: SieveDb,
}

/// The parts of an opened store.
pub(super) struct Parts {
    pub(super) generations: Vec<Arc<Generation>>,
    pub(super) current: Arc<Generation>,
    pub(super) main: Family,
    pub(super) home: Family,
    pub(super) state: State,
    pub(super) engine_options: Options,
    pub(super) options: DifferentialOptions,
    pub(super) db: SieveDb,
}

impl DifferentialStore {
    /// Opens a store, or makes one where there is none and `create_if_missing` is set. A
    /// reorganisation that was cut short waits to be continued.
    ///
    /// # Errors
    /// [`OpenDifferentialError`] says what is wrong and what to do.
    pub fn open(
        engine: &Options,
        options: &DifferentialOptions,
        path: impl AsRef<Path>,
    ) -> Result<Self, OpenDifferentialError> {
        open::open(engine, options, path.as_ref())
    }

    pub(super) fn assemble(parts: Parts) -> Self {
        Self {
            view: Published::new(parts.generations.into()),
            writing: RwLock::new(parts.current),
            main: parts.main,
            home: parts.home,
            state: Mutex::new(parts.state),
            moving: Mutex::default(),
            counters: Counters::new(),
            sample: Sample::one_in(parts.options.front.get_audit()),
            writes: AtomicU64::new(0),
            moved_at: AtomicU64::new(0),
            reading: ReadOptions::default(),
            engine_options: parts.engine_options,
            options: parts.options,
            db: parts.db,
        }
    }

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When the engine does not take the record. It is not seen then; but a log that could not be
    /// synced may hold it, and bring it back when the store is opened again.
    pub fn put(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), DifferentialError> {
        self.update(key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key.
    ///
    /// # Errors
    /// As [`DifferentialStore::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), DifferentialError> {
        self.update(key.as_ref(), None)
    }

    fn update(&self, key: &[u8], record: Record<&[u8]>) -> Result<(), DifferentialError> {
        if planted!(DeleteNotRecorded) && record.is_none() {
            return Ok(());
        }
        let current = self.writing();
        current.expect(key);
        let handle = current.family().handle();
        let engine = self.db.engine();
        let done = engine.put_cf_opt(handle, key, record::encode(record), &self.write_options());
        done.map_err(DifferentialError::write("write a record"))?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Applies a batch, all of it or nothing.
    ///
    /// # Errors
    /// As [`DifferentialStore::put`].
    pub fn write(&self, batch: &Batch) -> Result<(), DifferentialError> {
        let current = self.writing();
        let mut writes = WriteBatch::default();
        for (key, record) in batch.updates() {
            current.expect(key);
            writes.put_cf(current.family().handle(), key, record);
        }
        self.commit(writes, "write a batch")?;
        self.writes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Writes records into the main file, over what it has of their keys; what the differential
    /// file says of them stays newer. For the first filling of a store.
    ///
    /// # Errors
    /// When the main file is another database's, or the engine refuses; the records before the one
    /// that failed may be there.
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DifferentialError> {
        self.main_is_ours()?;
        // Over a record that was just moved here, an older one would be an update lost.
        let _nothing_moves = unpoisoned(self.moving.lock());
        self.move_again()?;
        let mut batch = WriteBatch::default();
        for (key, value) in records {
            batch.put_cf(self.main.handle(), key, value);
            if batch.size_in_bytes() >= self.options.batch_bytes {
                self.commit(std::mem::take(&mut batch), "load records")?;
            }
        }
        self.commit(batch, "load records")
    }

    pub(super) fn commit(
        &self,
        batch: WriteBatch,
        operation: &'static str,
    ) -> Result<(), DifferentialError> {
        let done = self.db.write_opt(batch, &self.write_options());
        done.map_err(DifferentialError::write(operation))
    }

    fn write_options(&self) -> WriteOptions {
        let mut options = WriteOptions::default();
        options.set_sync(self.options.sync);
        options
    }

    pub(super) fn main_is_ours(&self) -> Result<(), DifferentialError> {
        match &self.options.main {
            MainFile::Here => Ok(()),
            MainFile::Elsewhere { path, .. } => {
                Err(DifferentialError::MainReadOnly { path: path.clone() })
            }
        }
    }

    /// Writes everything in memory to tables and waits for it.
    ///
    /// # Errors
    /// When the engine cannot.
    pub fn flush(&self) -> Result<(), DifferentialError> {
        let generations = self.generations();
        let files = generations.iter().map(|generation| generation.family());
        let own_main = self.main_is_ours().is_ok().then_some(&self.main);
        for family in files.chain(own_main).chain([&self.home]) {
            let done = self.db.flush_cf(family.handle());
            done.map_err(DifferentialError::write("flush"))?;
        }
        Ok(())
    }

    /// Makes every acknowledged write durable and closes the store.
    ///
    /// # Errors
    /// When the disk does not take them; what is lost then is lost at a power cut only.
    pub fn close(self) -> Result<(), DifferentialError> {
        const SYNC: bool = true;
        let done = self.db.engine().flush_wal(SYNC);
        done.map_err(DifferentialError::write("make the log durable"))
    }

    /// Writes a copy of the store as it is now, which opens by itself; its filters are made anew.
    /// A main file elsewhere is not part of it.
    ///
    /// # Errors
    /// When the folder exists or cannot be written.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<(), DifferentialError> {
        // The copy's list of column families and its records are taken one after the other: no
        // generation may come or go between.
        let _no_change = unpoisoned(self.state.lock());
        let path = path.as_ref();
        self.db
            .checkpoint(path)
            .map_err(|source| DifferentialError::Checkpoint {
                path: path.to_owned(),
                source,
            })
    }

    /// What the store did since it was opened.
    pub fn stats(&self) -> DifferentialStats {
        let writes = self.writes.load(Ordering::Relaxed);
        DifferentialStats::new(writes, self.counters.stats())
    }

    pub(super) fn note_moved(&self) {
        let transactions = self.stats().transactions();
        self.moved_at.store(transactions, Ordering::Relaxed);
    }

    /// Transactions since the last reorganisation, or since the store was opened.
    pub(super) fn transactions_since_moved(&self) -> u64 {
        let moved_at = self.moved_at.load(Ordering::Relaxed);
        self.stats().transactions().saturating_sub(moved_at)
    }

    /// The column family that takes the writes now.
    pub fn family(&self) -> String {
        family_name(self.writing().number())
    }

    /// The database below, for its numbers and the upkeep of its filters. Whatever is written or
    /// dropped there goes past the store, and the store's answers no longer hold.
    pub fn front(&self) -> &SieveDb {
        &self.db
    }

    pub(super) fn generations(&self) -> Generations {
        self.view.with(Arc::clone)
    }

    pub(super) fn writing(&self) -> RwLockReadGuard<'_, Arc<Generation>> {
        unpoisoned(self.writing.read())
    }
}

impl std::fmt::Debug for DifferentialStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DifferentialStore")
            .field("path", &self.db.path())
            .finish_non_exhaustive()
    }
}

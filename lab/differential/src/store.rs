//! The store: its parts, its writers, and its locks.
//!
//! - Readers take no lock: the list of generations is [`Published`], and the main file never
//!   changes.
//! - Writers share `writing`, and [`DifferentialStore::freeze`] takes it exclusively. While it has
//!   the lock, no write to the generation to be frozen is under way. The list has the new
//!   generation before that.
//! - Hold `state` to change the list of files, and `moving` to move records.
//!   The order of locking is `moving`, `state`, `writing`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Options, ReadOptions, WriteBatch, WriteOptions};

use super::batch::Batch;
use super::error::DifferentialError;
use super::generation::Generation;
use super::options::{DifferentialOptions, MainFile};
use super::record::{self, Record};
use super::state::{State, family_name};
use super::stats::DifferentialStats;
use lsm_sieve::{CfReader, RocksDb, SieveDb};
use lsm_sieve_front::audit::{Sampler, Throttle};
use lsm_sieve_front::rcu::Published;
use lsm_sieve_front::stats::Counters;
use lsm_sieve_support::fault::fault;
use lsm_sieve_support::sync::unpoisoned;

/// Sync the log, instead of only handing it to the system.
pub(super) const SYNC: bool = true;

/// The generations in front of the main file, newest first.
pub(super) type Generations = Arc<[Arc<Generation>]>;

/// A main file, the differential file in front of it, and the filters of the latter.
///
/// Any number of threads may read, write and reorganise at the same time. See the [module](super)
/// for the files and their filters.
pub struct DifferentialStore {
    pub(super) view: Published<Generations>,
    /// The generation that takes writes.
    pub(super) writing: RwLock<Arc<Generation>>,
    pub(super) main: CfReader,
    /// The default column family, for the store's own records.
    pub(super) home: CfReader,
    pub(super) state: Mutex<State>,
    pub(super) moving: Mutex<()>,
    pub(super) counters: Counters,
    /// Samples the reads for which no generation was searched, for audits.
    pub(super) sample: Sampler,
    /// Limits how often they are audited.
    pub(super) throttle: Throttle,
    writes: AtomicU64,
    /// Number of transactions when the last reorganisation finished.
    moved_at: AtomicU64,
    /// Read options for reads outside snapshots. Creating them costs an allocation for each read.
    pub(super) reading: ReadOptions,
    pub(super) engine_options: Options,
    pub(super) options: DifferentialOptions,
    pub(super) db: SieveDb,
}

/// The parts of an opened store.
pub(super) struct Parts {
    pub(super) generations: Vec<Arc<Generation>>,
    pub(super) current: Arc<Generation>,
    pub(super) main: CfReader,
    pub(super) home: CfReader,
    pub(super) state: State,
    pub(super) engine_options: Options,
    pub(super) options: DifferentialOptions,
    pub(super) db: SieveDb,
}

impl DifferentialStore {
    pub(super) fn assemble(parts: Parts) -> Self {
        Self {
            view: Published::new(parts.generations.into()),
            writing: RwLock::new(parts.current),
            main: parts.main,
            home: parts.home,
            state: Mutex::new(parts.state),
            moving: Mutex::default(),
            counters: Counters::default(),
            sample: Sampler::configured(parts.options.filters.audit_one_in()),
            throttle: Throttle::configured(parts.options.filters.audit_one_in()),
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
    /// If the engine does not accept the record. The record is not visible then. But if the log
    /// could not be synced, it may have the record, which then comes back when the store is opened
    /// again.
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
    /// The same as [`DifferentialStore::put`].
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), DifferentialError> {
        self.update(key.as_ref(), None)
    }

    fn update(&self, key: &[u8], record: Record<&[u8]>) -> Result<(), DifferentialError> {
        fault!(
            DeleteNotRecorded,
            if record.is_none() {
                return Ok(());
            }
        );
        let current = self.writing();
        fault!(FrozenBeneathAWrite, {
            let unlocked = Arc::clone(&current);
            drop(current);
            return self.add(&unlocked, key, record);
        });
        self.add(&current, key, record)
    }

    /// Adds a record to the generation that takes writes. It must not be frozen meanwhile.
    fn add(
        &self,
        current: &Generation,
        key: &[u8],
        record: Record<&[u8]>,
    ) -> Result<(), DifferentialError> {
        fault!(FilterAfterRecord, {
            self.write_record(current, key, record)?;
            std::thread::sleep(std::time::Duration::from_millis(1));
            current.expect(key);
            return Ok(());
        });
        current.expect(key);
        self.write_record(current, key, record)
    }

    fn write_record(
        &self,
        current: &Generation,
        key: &[u8],
        record: Record<&[u8]>,
    ) -> Result<(), DifferentialError> {
        let handle = current.family().handle();
        let engine: &RocksDb = &self.db;
        let done = engine.put_cf_opt(handle, key, record::encode(record), &self.write_options());
        done.map_err(DifferentialError::write("write a record"))?;
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Applies a batch, all of it or nothing.
    ///
    /// # Errors
    /// The same as [`DifferentialStore::put`].
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

    /// Writes records into the main file and overwrites the values that it has for their keys.
    /// Records in the differential file still count as newer. Use this to fill a store for the
    /// first time.
    ///
    /// Waits for a [reorganisation](DifferentialStore::reorganize) that is under way, and keeps
    /// others waiting until the last record is written. So the iterator of records must neither
    /// load nor reorganise: it would wait for itself.
    ///
    /// # Errors
    /// If the main file is in another database, or the engine fails. Records before the one that
    /// failed may have been written.
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DifferentialError> {
        self.main_is_ours()?;
        fault!(LoadsBesideMoves, return self.load_records(records));
        // Writing an older record over one that was just moved would lose an update.
        let _nothing_moves = unpoisoned(self.moving.lock());
        self.load_records(records)
    }

    /// Loads records; needs the lock of `moving`.
    fn load_records<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DifferentialError> {
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
        fault!(WritesNotSynced, options.set_sync(false));
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

    /// Flushes all memtables to SSTs and waits for it.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn flush(&self) -> Result<(), DifferentialError> {
        for generation in self.generations().iter() {
            self.flush_generation(generation)?;
        }
        if self.main_is_ours().is_ok() {
            self.flush_family(&self.main)?;
        }
        self.flush_family(&self.home)
    }

    /// A generation that was dropped meanwhile cannot be flushed, and need not be: its records are
    /// in the main file.
    fn flush_generation(&self, generation: &Arc<Generation>) -> Result<(), DifferentialError> {
        let is_it = |other: &Arc<Generation>| Arc::ptr_eq(other, generation);
        match self.flush_family(generation.family()) {
            Err(_) if !self.generations().iter().any(is_it) => Ok(()),
            done => done,
        }
    }

    fn flush_family(&self, family: &CfReader) -> Result<(), DifferentialError> {
        let done = self.db.flush_cf(family.handle());
        done.map_err(DifferentialError::write("flush"))
    }

    /// Makes every acknowledged write durable and closes the store.
    ///
    /// # Errors
    /// If the disk fails. The writes are then lost only if the power is cut.
    pub fn close(self) -> Result<(), DifferentialError> {
        self.sync()
    }

    pub(super) fn sync(&self) -> Result<(), DifferentialError> {
        let done = self.db.flush_wal(SYNC);
        done.map_err(DifferentialError::write("make the log durable"))
    }

    /// Writes a copy of the store as it is now. The copy can be opened by itself; its filters are
    /// rebuilt. A main file elsewhere is not part of it.
    ///
    /// # Errors
    /// If the folder exists or cannot be written.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<(), DifferentialError> {
        let path = path.as_ref();
        fault!(CopiedBesideChanges, return self.copy_to(path));
        // The list of column families and the records are copied one after the other: no generation
        // may start or end in between.
        let _no_change = unpoisoned(self.state.lock());
        self.copy_to(path)
    }

    /// Copies the store; needs the lock of `state`.
    fn copy_to(&self, path: &Path) -> Result<(), DifferentialError> {
        let copied = Checkpoint::new(&*self.db).and_then(|copy| copy.create_checkpoint(path));
        copied.map_err(|source| DifferentialError::Checkpoint {
            path: path.to_owned(),
            source,
        })
    }

    /// Counters since the store was opened.
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

    /// The column family that takes writes now.
    pub fn family(&self) -> String {
        family_name(self.generations()[0].number())
    }

    /// The underlying database, for its statistics and the maintenance of its filters. Writes and
    /// drops there bypass the store, whose answers are then wrong.
    pub fn db(&self) -> &SieveDb {
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

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use rocksdb::SliceTransform;

    use super::*;

    fn engine() -> Options {
        let mut engine = Options::default();
        engine.create_if_missing(true);
        engine
    }

    fn open(engine: &Options, path: &Path) -> DifferentialStore {
        let store = DifferentialStore::open(engine, &DifferentialOptions::default(), path);
        store.expect("a new store")
    }

    /// The key whose writer is stopped inside the engine.
    const HELD: &[u8] = b"held";
    static IS_HELD: AtomicBool = AtomicBool::new(false);
    static IN_HAND: Barrier = Barrier::new(2);
    static LOOKED_AT: Barrier = Barrier::new(2);

    /// RocksDB calls this for each key that a memtable takes.
    fn stop_its_writer(key: &[u8]) -> bool {
        if key == HELD && !IS_HELD.swap(true, Ordering::SeqCst) {
            IN_HAND.wait();
            LOOKED_AT.wait();
        }
        true
    }

    /// A record that reached a generation at a key that was already passed by the move would be
    /// lost.
    #[test]
    fn no_generation_is_frozen_beneath_a_write() {
        let home = tempfile::tempdir().unwrap();
        let mut engine = engine();
        let stopping = SliceTransform::create("stopping", |key| key, Some(stop_its_writer));
        engine.set_prefix_extractor(stopping);
        engine.set_memtable_prefix_bloom_ratio(0.1);
        let store = open(&engine, home.path());
        let may_be_frozen = thread::scope(|scope| {
            let writer = scope.spawn(|| store.put(HELD, b"value"));
            IN_HAND.wait();
            let may_be_frozen = store.writing.try_write().is_ok();
            LOOKED_AT.wait();
            writer.join().unwrap().unwrap();
            may_be_frozen
        });
        assert!(!may_be_frozen);
    }

    /// Otherwise an older record could overwrite one that is moved at the same time.
    #[test]
    fn nothing_moves_while_records_are_loaded() {
        let home = tempfile::tempdir().unwrap();
        let store = open(&engine(), home.path());
        let mut may_move = true;
        let records = std::iter::once_with(|| {
            may_move = store.moving.try_lock().is_ok();
            (b"key", b"old")
        });
        store.load(records).unwrap();
        assert!(!may_move);
    }

    /// RocksDB writes a copy under another name until it is complete.
    #[test]
    fn no_generation_comes_or_goes_while_a_copy_is_written() {
        const COPIES: u32 = 3;
        let home = tempfile::tempdir().unwrap();
        let store = open(&engine(), &home.path().join("store"));
        for number in 0..COPIES {
            store.put(b"key", b"value").unwrap();
            let copy = home.path().join(format!("copy-{number}"));
            let unfinished = copy.with_extension("tmp");
            thread::scope(|scope| {
                let copying = scope.spawn(|| store.checkpoint(&copy));
                while !copying.is_finished() {
                    // If this thread gets the lock, it could change the list of generations.
                    if unfinished.exists()
                        && let Ok(_changing) = store.state.try_lock()
                    {
                        assert!(!unfinished.exists());
                    }
                }
                copying.join().unwrap().unwrap();
            });
        }
    }

    #[test]
    fn a_flush_does_without_a_generation_that_is_dropped_beside_it() {
        let home = tempfile::tempdir().unwrap();
        let store = open(&engine(), home.path());
        store.put(b"key", b"value").unwrap();
        let listed = store.generations();
        store.reorganize(|_| ControlFlow::Continue(())).unwrap();
        store.flush_family(listed[0].family()).unwrap_err();
        store.flush_generation(&listed[0]).unwrap();
    }
}

//! The store: who writes where, who reads what, and which lock is for what.
//!
//! - Readers take no lock: the list of generations is [`Published`], the main file never changes.
//! - Writers share `writing`, and [`DifferentialStore::freeze`] takes it alone: when it has it, no
//!   write is under way to the generation that is to be frozen.
//! - `state` is held by whoever changes the list of files; `moving` by whoever moves records.
//!   They are taken in the order `moving`, `state`, `writing`.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rocksdb::checkpoint::Checkpoint;
use rocksdb::{Options, ReadOptions, WriteBatch, WriteOptions};

use super::batch::Batch;
use super::error::{DifferentialError, OpenDifferentialError};
use super::generation::Generation;
use super::open;
use super::options::{DifferentialOptions, MainFile, Trigger};
use super::record::{self, Record};
use super::snapshot::Snapshot;
use super::state::{State, family_name};
use super::stats::{DifferentialStats, Extent};
use crate::math::{Bits, Items};
use crate::rcu::Published;
use crate::rocks::{Family, SieveDb};
use crate::stats::{Counters, Event};

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
    counters: Counters,
    writes: AtomicU64,
    /// For reads of now: making them anew costs an allocation a read.
    reading: ReadOptions,
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
            writes: AtomicU64::new(0),
            reading: ReadOptions::default(),
            engine_options: parts.engine_options,
            options: parts.options,
            db: parts.db,
        }
    }

    // -------------------------------------------------------------- reads

    /// The value of a key.
    ///
    /// # Errors
    /// When a file cannot be read, or a record in it is damaged.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DifferentialError> {
        let key = key.as_ref();
        let searched = self.view.with(|generations| {
            let first = generations.iter().position(|file| file.may_contain(key))?;
            Some((Arc::clone(generations), first))
        });
        let how = Sight::of_now(&self.reading);
        match searched {
            None => self.read_main(key, how),
            Some((generations, first)) => self.read(&generations[first..], key, how),
        }
    }

    /// The values of several keys, in their order. Each file is asked once, for the keys that may
    /// be there. The values need not be of one moment; a [`Snapshot`]'s are.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        self.read_many(&self.generations(), keys, Sight::of_now(&self.reading))
    }

    /// Whether the filters send a read of the key to the differential file first. When false, no
    /// generation has a record of it.
    pub fn may_be_modified(&self, key: impl AsRef<[u8]>) -> bool {
        let key = key.as_ref();
        let asked = |files: &Generations| files.iter().any(|file| file.may_contain(key));
        self.view.with(asked)
    }

    /// Whether the differential file has a record of the key, be it a delete; past the filters.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn is_modified(&self, key: impl AsRef<[u8]>) -> Result<bool, DifferentialError> {
        Ok(self.recorded(key.as_ref())?.is_some())
    }

    /// The value of a key as the files say, past the filters; nothing is counted.
    ///
    /// # Errors
    /// As [`DifferentialStore::get`].
    pub fn get_unfiltered(
        &self,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        let key = key.as_ref();
        if let Some(record) = self.recorded(key)? {
            return Ok(record);
        }
        let value = self.main.fetch(key, &self.reading);
        let value = value.map_err(DifferentialError::read("main"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn recorded(&self, key: &[u8]) -> Result<Option<Record<Vec<u8>>>, DifferentialError> {
        for generation in self.generations().iter() {
            if let Some(record) = generation.fetch(key, &self.reading)? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }

    /// All records as they are now, whatever is written or moved from here on.
    pub fn snapshot(&self) -> Snapshot<'_> {
        // No generation can be added between the two, so none is missing; one that is moved
        // meanwhile is still whole for whoever has it.
        let _no_freeze = self.writing();
        Snapshot::new(self, self.generations())
    }

    pub(super) fn generations(&self) -> Generations {
        self.view.with(Arc::clone)
    }

    /// Reads the newest file that has a record of the key.
    pub(super) fn read(
        &self,
        generations: &[Arc<Generation>],
        key: &[u8],
        how: Sight<'_>,
    ) -> Result<Option<Vec<u8>>, DifferentialError> {
        let mut searched = Searched::default();
        for generation in generations {
            if !generation.may_contain(key) {
                continue;
            }
            if let Some(record) = generation.read(key, how.own)? {
                self.counters.add(Event::Found, 1);
                return Ok(record);
            }
            searched.in_vain(generation);
        }
        match searched.event() {
            None => self.read_main(key, how),
            Some(event) => {
                self.counters.add(event, 1);
                self.ask_main(key, how)
            }
        }
    }

    /// Reads the main file, no generation having been searched.
    #[inline]
    fn read_main(&self, key: &[u8], how: Sight<'_>) -> Result<Option<Vec<u8>>, DifferentialError> {
        self.counters.add(Event::Absent, 1);
        self.ask_main(key, how)
    }

    #[inline]
    fn ask_main(&self, key: &[u8], how: Sight<'_>) -> Result<Option<Vec<u8>>, DifferentialError> {
        if !self.main.may_contain(key) {
            return Ok(None);
        }
        let value = self.main.read(key, how.main);
        let value = value.map_err(DifferentialError::read("main"))?;
        Ok(value.map(|value| value.to_vec()))
    }

    /// [`DifferentialStore::read`] for several keys, file by file.
    pub(super) fn read_many<K: AsRef<[u8]>>(
        &self,
        generations: &[Arc<Generation>],
        keys: impl IntoIterator<Item = K>,
        how: Sight<'_>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        let keys: Vec<K> = keys.into_iter().collect();
        let mut many = Many::new(keys.iter().map(AsRef::as_ref).collect());
        for generation in generations {
            let asked = many.open_where(|key| generation.may_contain(key));
            let answers = generation.read_many(&many.keys_at(&asked), how.own);
            for (at, answer) in asked.into_iter().zip(answers) {
                many.searched[at].in_vain(generation);
                many.values[at] = answer.transpose();
            }
        }
        for (value, searched) in many.values.iter().zip(&many.searched) {
            let event = searched.event().unwrap_or(Event::Absent);
            let found = matches!(value, Some(Ok(_)));
            self.counters
                .add(if found { Event::Found } else { event }, 1);
        }
        let asked = many.open_where(|key| self.main.may_contain(key));
        let answers = self.main.read_many(&many.keys_at(&asked), how.main);
        for (at, answer) in asked.into_iter().zip(answers) {
            let answer = answer.map_err(DifferentialError::read("main"));
            many.values[at] = Some(answer.map(|value| value.map(|value| value.to_vec())));
        }
        let values = many.values.into_iter();
        values.map(|value| value.unwrap_or(Ok(None))).collect()
    }

    // -------------------------------------------------------------- writes

    /// Sets the value of a key.
    ///
    /// # Errors
    /// When the engine does not take the record; nothing is changed then.
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

    /// Writes records into the main file, as if they had been there before anything else: what
    /// the differential file says of their keys stays newer. For the first filling of a store.
    ///
    /// # Errors
    /// When the main file is another database's, or the engine refuses; the records before the one
    /// that failed may be there.
    pub fn load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<(), DifferentialError> {
        self.main_is_ours()?;
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

    // -------------------------------------------------------------- the files

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
        let _no_change = lock(&self.state);
        let path = path.as_ref();
        Checkpoint::new(self.db.engine())
            .and_then(|checkpoint| checkpoint.create_checkpoint(path))
            .map_err(|source| DifferentialError::Checkpoint {
                path: path.to_owned(),
                source,
            })
    }

    // -------------------------------------------------------------- numbers

    /// What the store did since it was opened.
    pub fn stats(&self) -> DifferentialStats {
        let writes = self.writes.load(Ordering::Relaxed);
        DifferentialStats::new(writes, self.counters.stats())
    }

    /// How large the differential file is. Reads a fixed filter as a whole.
    ///
    /// # Errors
    /// When the engine does not say.
    pub fn extent(&self) -> Result<Extent, DifferentialError> {
        let generations = self.generations();
        let mut extent = Extent {
            generations: generations.len(),
            records: Items::new(0),
            bytes: 0,
            filters: Bits::new(0),
            predicted_rate: 0.0,
        };
        let mut all_absent = 1.0;
        for generation in generations.iter() {
            let (records, filter, rate) = generation.filter()?;
            extent.records = Items::new(extent.records.get().saturating_add(records.get()));
            extent.filters = Bits::new(extent.filters.get() + filter.get());
            extent.bytes = extent.bytes.saturating_add(generation.bytes()?);
            all_absent *= 1.0 - rate;
        }
        extent.predicted_rate = 1.0 - all_absent;
        Ok(extent)
    }

    /// Whether it is time to [reorganise](DifferentialStore::reorganize). The store has no thread
    /// of its own for that: ask after a batch of writes, and reorganise where it suits.
    ///
    /// # Errors
    /// As [`DifferentialStore::extent`].
    pub fn is_due(&self, trigger: Trigger) -> Result<bool, DifferentialError> {
        let extent = self.extent()?;
        Ok(match trigger {
            Trigger::ByHand => false,
            Trigger::Bytes(most) => extent.bytes >= most,
            Trigger::Records(most) => extent.records >= most,
            Trigger::FilterRate(most) => extent.predicted_rate >= most.get(),
        })
    }

    /// The column family that takes the writes now.
    pub fn family(&self) -> String {
        family_name(self.writing().number())
    }

    /// The database below, with the fronts of all files.
    pub fn front(&self) -> &SieveDb {
        &self.db
    }

    fn writing(&self) -> RwLockReadGuard<'_, Arc<Generation>> {
        self.writing.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for DifferentialStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DifferentialStore")
            .field("path", &self.db.path())
            .finish_non_exhaustive()
    }
}

/// How the store's own files are read, and how a main file is that may be another database's.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) own: &'a ReadOptions,
    pub(super) main: &'a ReadOptions,
}

impl<'a> Sight<'a> {
    fn of_now(options: &'a ReadOptions) -> Self {
        Self {
            own: options,
            main: options,
        }
    }
}

/// Whether generations were searched for a key without finding it.
#[derive(Clone, Copy, Default)]
struct Searched {
    /// Because their filters let it by.
    unnecessarily: bool,
    /// Because their filters were not complete.
    uncovered: bool,
}

impl Searched {
    fn in_vain(&mut self, generation: &Generation) {
        if generation.is_known() {
            self.unnecessarily = true;
        } else {
            self.uncovered = true;
        }
    }

    fn event(self) -> Option<Event> {
        match self {
            Self {
                uncovered: true, ..
            } => Some(Event::Uncovered),
            Self {
                unnecessarily: true,
                ..
            } => Some(Event::FalsePositive),
            _ => None,
        }
    }
}

/// Keys that are looked up together; a key without a value is open.
struct Many<'a> {
    keys: Vec<&'a [u8]>,
    values: Vec<Option<Result<Option<Vec<u8>>, DifferentialError>>>,
    searched: Vec<Searched>,
}

impl<'a> Many<'a> {
    fn new(keys: Vec<&'a [u8]>) -> Self {
        let mut values = Vec::new();
        values.resize_with(keys.len(), || None);
        let searched = vec![Searched::default(); keys.len()];
        Self {
            keys,
            values,
            searched,
        }
    }

    fn open_where(&self, may_contain: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        let open = (0..self.keys.len()).filter(|&at| self.values[at].is_none());
        open.filter(|&at| may_contain(self.keys[at])).collect()
    }

    fn keys_at(&self, indexes: &[usize]) -> Vec<&'a [u8]> {
        indexes.iter().map(|&at| self.keys[at]).collect()
    }
}

/// Every value behind these locks is whole between operations, so a panic elsewhere does not
/// spoil it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

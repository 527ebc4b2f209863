//! A RocksDB behind its filters, in the vocabulary of the `rocksdb` crate.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rocksdb::{
    AsColumnFamilyRef, BoundColumnFamily, CStrLike, DBIteratorWithThreadMode, DBPinnableSlice,
    DBRawIteratorWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, Error, IngestExternalFileOptions,
    IteratorMode, Options, ReadOptions, SnapshotWithThreadMode, WriteBatch, WriteOptions,
};

use super::audit::{Asked, Auditor, Refutation};
use super::bell::Bell;
use super::column::Column;
use super::columns::Columns;
use super::coverage::Answer;
use super::family::Family;
use super::options::SieveOptions;
use super::scrub::{ScrubLog, Scrubbed, Scrubber};
use super::shelf::Shelf;
use super::trust::Trust;
use super::upkeep::Upkeep;
use super::{Engine, OpenError, UpkeepFailed, ffi, probe};
use crate::disk::{Disk, RealDisk};
use crate::filter::Scalable;
use crate::format::Identity;
use crate::hash::KeyHasher;
use crate::math::{Bits, Items, Rate};
use crate::planted::planted;
use crate::segment::{Candidate, IdentityError, Registry, SidecarFolder};
use crate::stats::Stats;

/// How long a call that only needs upkeep to finish what it does may wait.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// A RocksDB whose misses are answered by filters before the engine is entered.
///
/// Every write, by whatever way it reaches a memtable, is in the filters before it is visible.
/// A filter that is missing, damaged or still being made answers *maybe*, and the engine is asked.
///
/// Dropping the database ends its upkeep and saves the summaries; a process that is killed loses
/// nothing but the time to read the tables that came since the last save.
pub struct SieveDb {
    engine: Arc<Engine>,
    default: Arc<Column>,
    columns: Arc<Columns>,
    registry: Arc<Registry>,
    shelf: Arc<Shelf>,
    trust: Arc<Trust>,
    scrubs: Arc<ScrubLog>,
    bell: Arc<Bell>,
    hasher: KeyHasher,
    options: SieveOptions,
    upkeep: Option<JoinHandle<()>>,
}

/// What the fronts of one database share while it opens.
pub(super) struct Opening {
    pub(super) hasher: KeyHasher,
    registry: Arc<Registry>,
    pub(super) shelf: Arc<Shelf>,
    bell: Arc<Bell>,
}

impl SieveDb {
    /// Opens a database with the default column family. The options are the user's own; the
    /// hooks go into a copy of them.
    ///
    /// # Errors
    /// [`OpenError`] names what is wrong and what to do: unsupported options, a filter folder
    /// that cannot be used, or what RocksDB says.
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
    ) -> Result<Self, OpenError> {
        Self::open_cf(options, sieve, path, [DEFAULT_COLUMN_FAMILY_NAME])
    }

    /// Opens a database with these column families, all with the same options.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Self, OpenError> {
        let families = names.into_iter().map(|name| (name, options.clone()));
        Self::open_cf_with_opts(options, sieve, path, families)
    }

    /// Opens a database with these column families, each with options of its own.
    ///
    /// # Errors
    /// As [`SieveDb::open`].
    pub fn open_cf_with_opts<N: AsRef<str>>(
        options: &Options,
        sieve: &SieveOptions,
        path: impl AsRef<Path>,
        families: impl IntoIterator<Item = (N, Options)>,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        probe::hooks_fire()?;
        let sieve = &sieve.clone().publishes_first(ffi::publishes_first(options));
        let mut families: Vec<(String, Options)> = families
            .into_iter()
            .map(|(name, options)| (name.as_ref().to_owned(), options))
            .collect();
        if !families
            .iter()
            .any(|(name, _)| name == DEFAULT_COLUMN_FAMILY_NAME)
        {
            families.push((DEFAULT_COLUMN_FAMILY_NAME.to_owned(), options.clone()));
        }
        let folder = sieve.folder_of(path);
        let (opening, identity) = Opening::prepare(Arc::new(RealDisk), &folder, sieve)?;
        refuse(DEFAULT_COLUMN_FAMILY_NAME, options)?;
        let mut database_options = options.clone();
        let mut hooked = Vec::new();
        let mut fronts = Vec::new();
        let mut taken = 0;
        for (name, options) in families {
            let column = opening.column(&name, sieve, Bits::new(taken));
            taken += column.view().size().get();
            hooked.push((name, hooked_options(&options, &column)?));
            ffi::listen(&mut database_options, Arc::clone(&column));
            fronts.push(column);
        }
        let engine =
            Engine::open_cf_with_opts(&database_options, path, hooked).map_err(|source| {
                OpenError::Engine {
                    path: path.to_owned(),
                    source,
                }
            })?;
        // Only now is the database ours alone.
        if !sieve.is_frozen() {
            opening.keep(&identity)?;
        }
        Self::start(Arc::new(engine), opening, fronts, sieve.clone())
    }

    fn start(
        engine: Arc<Engine>,
        opening: Opening,
        fronts: Vec<Arc<Column>>,
        options: SieveOptions,
    ) -> Result<Self, OpenError> {
        let Opening {
            hasher,
            registry,
            shelf,
            bell,
        } = opening;
        let columns = Arc::new(Columns::new(options.get_summary_rate()));
        let kept = (!options.is_frozen()).then(|| Arc::clone(&shelf));
        let trust = Arc::new(Trust::new(Arc::clone(&registry), kept));
        let mut default = None;
        for column in fronts {
            let id = bound_family(&column)?;
            if column.name() == DEFAULT_COLUMN_FAMILY_NAME {
                default = Some(Arc::clone(&column));
            }
            watch(&column, &engine, &trust);
            columns.insert(id, column);
        }
        let default = default.ok_or(OpenError::HooksSilent {
            what: "the default column family",
        })?;
        let scrubs = Arc::<ScrubLog>::default();
        let upkeep = Upkeep {
            engine: Arc::clone(&engine),
            columns: Arc::clone(&columns),
            registry: Arc::clone(&registry),
            shelf: Arc::clone(&shelf),
            options: options.clone(),
            bell: Arc::clone(&bell),
            dead: HashSet::new(),
            seen: HashSet::new(),
            missing: HashMap::new(),
            sequence: u64::MAX,
            setbacks: HashMap::new(),
            scrubber: Scrubber::new(
                Arc::clone(&columns),
                Arc::clone(&registry),
                Arc::clone(&bell),
                Arc::clone(&scrubs),
                options.get_scrub_every(),
            ),
        };
        bell.ring();
        let upkeep = thread::Builder::new()
            .name("lsm-sieve-upkeep".to_owned())
            .spawn(move || upkeep.run())
            .map_err(OpenError::Thread)?;
        let upkeep = Some(upkeep);
        Ok(Self {
            engine,
            default,
            columns,
            registry,
            shelf,
            trust,
            scrubs,
            bell,
            hasher,
            options,
            upkeep,
        })
    }

    // -------------------------------------------------------------- reads

    /// The value of a key in the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get(key))
    }

    /// [`SieveDb::get`] with read options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_opt(
        &self,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get_opt(key, options))
    }

    /// The value of a key in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf(cf, key))
    }

    /// [`SieveDb::get_cf`] with read options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_cf_opt(cf, key, options))
    }

    /// The value of a key in the default column family, without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        read(&self.default, key, || self.engine.get_pinned(key))
    }

    /// The value of a key in a column family, without a copy.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_pinned_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        let key = key.as_ref();
        self.read_cf(cf, key, || self.engine.get_pinned_cf(cf, key))
    }

    /// The values of several keys of the default column family, in their order and as of one moment.
    /// The engine is asked once, for the keys that may be there; or again for all, if some were
    /// written meanwhile.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        let keys: Vec<K> = keys.into_iter().collect();
        read_many(&self.default, &keys, |left| {
            match self.engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME) {
                Some(handle) => self.ask_engine_many(&handle, left),
                None => self.engine.multi_get(left),
            }
        })
    }

    /// The values of several keys of a column family, as [`SieveDb::multi_get`] gives them.
    pub fn multi_get_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        let keys: Vec<K> = keys.into_iter().collect();
        match self.columns.get(ffi::column_id(cf)) {
            Some(column) => read_many(&column, &keys, |left| self.ask_engine_many(cf, left)),
            None => {
                let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
                self.ask_engine_many(cf, &keys)
            }
        }
    }

    /// Whether the filters can rule a key of the default column family out.
    pub fn answer(&self, key: impl AsRef<[u8]>) -> Answer {
        self.default.look_up(key.as_ref())
    }

    /// Whether the filters can rule a key of a column family out.
    pub fn answer_cf(&self, cf: &impl AsColumnFamilyRef, key: impl AsRef<[u8]>) -> Answer {
        self.look_up_in(ffi::column_id(cf), key.as_ref())
    }

    fn look_up_in(&self, id: u32, key: &[u8]) -> Answer {
        match self.columns.with(id, |column| column.ask(key)) {
            Some(Asked::Absent(proof)) => Answer::Absent(proof),
            Some(Asked::Doubted(proof)) => self
                .columns
                .get(id)
                .map_or(Answer::Maybe, |column| column.audit(key, proof)),
            Some(Asked::Maybe) | None => Answer::Maybe,
        }
    }

    /// False when a key of the default column family is certainly absent; otherwise RocksDB's own
    /// answer from memory, which may be true for an absent key.
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> bool {
        !self.answer(&key).is_absent() && self.engine.key_may_exist(key)
    }

    /// The value of a key as the engine says, past the filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_unfiltered(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, Error> {
        self.engine.get(key)
    }

    /// The value of a key of a column family as the engine says, past the filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_unfiltered_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.engine.get_cf(cf, key)
    }

    fn read_cf<V>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: &[u8],
        ask: impl Fn() -> Result<Option<V>, Error>,
    ) -> Result<Option<V>, Error> {
        let id = ffi::column_id(cf);
        if self.look_up_in(id, key).is_absent() {
            return Ok(None);
        }
        let value = ask()?;
        let found = value.is_some();
        let doubted = self
            .columns
            .with(id, |column| column.engine_answered(found));
        if doubted == Some(true) && self.columns.get(id).is_some_and(|c| c.tables_hide(key)) {
            return ask();
        }
        Ok(value)
    }

    fn ask_engine_many(
        &self,
        cf: &impl AsColumnFamilyRef,
        keys: &[&[u8]],
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        // What a batch sets up costs more than it saves for one key.
        if let [one] = keys {
            return vec![self.engine.get_cf(cf, one)];
        }
        let answers = self.engine.batched_multi_get_cf(cf, keys, false);
        answers
            .into_iter()
            .map(|answer| Ok(answer?.map(|value| value.to_vec())))
            .collect()
    }

    /// An iterator over the default column family; filters are not asked.
    pub fn iterator(&self, mode: IteratorMode<'_>) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator(mode)
    }

    /// An iterator over a column family; filters are not asked.
    pub fn iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        mode: IteratorMode<'_>,
    ) -> DBIteratorWithThreadMode<'_, Engine> {
        self.engine.iterator_cf(cf, mode)
    }

    /// A raw iterator over the default column family; filters are not asked.
    pub fn raw_iterator(&self) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator()
    }

    /// A raw iterator over a column family; filters are not asked.
    pub fn raw_iterator_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> DBRawIteratorWithThreadMode<'_, Engine> {
        self.engine.raw_iterator_cf(cf)
    }

    /// A snapshot. Give it to [`ReadOptions::set_snapshot`] for filtered reads of that moment.
    pub fn snapshot(&self) -> SnapshotWithThreadMode<'_, Engine> {
        self.engine.snapshot()
    }

    // -------------------------------------------------------------- writes

    /// Sets the value of a key in the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.put(key, value)
    }

    /// [`SieveDb::put`] with write options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.engine.put_opt(key, value, options)
    }

    /// Sets the value of a key in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn put_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.put_cf(cf, key, value)
    }

    /// Adds a merge operand to a key in the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn merge(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.merge(key, value)
    }

    /// Adds a merge operand to a key in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn merge_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.merge_cf(cf, key, value)
    }

    /// Removes a key from the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.engine.delete(key)
    }

    /// Removes a key from a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn delete_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.engine.delete_cf(cf, key)
    }

    /// Removes the keys of a column family from `from` up to, not including, `to`.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn delete_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        self.engine.delete_range_cf(cf, from, to)
    }

    /// Applies a batch of writes, all or none.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn write(&self, batch: WriteBatch) -> Result<(), Error> {
        self.engine.write(batch)
    }

    /// [`SieveDb::write`] with write options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn write_opt(&self, batch: WriteBatch, options: &WriteOptions) -> Result<(), Error> {
        self.engine.write_opt(batch, options)
    }

    /// Brings table files into the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn ingest_external_file<P: AsRef<Path>>(&self, paths: Vec<P>) -> Result<(), Error> {
        // Their keys come past the memtables.
        let _arriving = self.columns.expect_foreign_keys(Some(ffi::DEFAULT_ID));
        self.engine.ingest_external_file(paths)
    }

    /// Brings table files into a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn ingest_external_file_cf_opts<P: AsRef<Path>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &IngestExternalFileOptions,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        let _arriving = self.columns.expect_foreign_keys(Some(ffi::column_id(cf)));
        self.engine.ingest_external_file_cf_opts(cf, options, paths)
    }

    // -------------------------------------------------------------- the engine

    /// Writes the default column family's memtables to a table and waits for it.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush(&self) -> Result<(), Error> {
        self.engine.flush()
    }

    /// Writes a column family's memtables to a table and waits for it.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_cf(&self, cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.engine.flush_cf(cf)
    }

    /// Compacts a range of the default column family; `None` is the end of the key space.
    pub fn compact_range<S: AsRef<[u8]>, E: AsRef<[u8]>>(&self, start: Option<S>, end: Option<E>) {
        self.engine.compact_range(start, end);
    }

    /// Compacts a range of a column family; `None` is the end of the key space.
    pub fn compact_range_cf<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: Option<S>,
        end: Option<E>,
    ) {
        self.engine.compact_range_cf(cf, start, end);
    }

    /// A column family's handle.
    pub fn cf_handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        self.engine.cf_handle(name)
    }

    /// A column family to be asked often: looked up once, with its front.
    pub(crate) fn family(&self, name: &str) -> Option<Family> {
        let family = Family::new(&self.engine, name)?;
        let column = self.columns.get(ffi::column_id(family.handle()))?;
        Some(family.behind(column))
    }

    /// Creates a column family with a front of its own.
    ///
    /// # Errors
    /// [`OpenError`] for unsupported options, or what RocksDB says.
    pub fn create_cf(&self, name: &str, options: &Options) -> Result<(), OpenError> {
        let opening = Opening {
            hasher: self.hasher,
            registry: Arc::clone(&self.registry),
            shelf: Arc::clone(&self.shelf),
            bell: Arc::clone(&self.bell),
        };
        let taken = self.columns.size_without(None);
        let column = opening.column(name, &self.settings(), taken);
        let hooked = hooked_options(options, &column)?;
        self.engine
            .create_cf(name, &hooked)
            .map_err(|source| OpenError::Engine {
                path: self.engine.path().to_owned(),
                source,
            })?;
        watch(&column, &self.engine, &self.trust);
        // Not the family that has the name now, which may have been dropped and made again.
        self.columns.insert(bound_family(&column)?, column);
        self.bell.ring();
        Ok(())
    }

    /// Drops a column family and its filters.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn drop_cf(&self, name: &str) -> Result<(), Error> {
        self.engine.drop_cf(name)?;
        self.columns.remove(name);
        if !self.options.is_frozen() {
            self.shelf.remove_summary(name);
        }
        self.bell.ring();
        Ok(())
    }

    /// Runs `use_engine` with the bare engine, for what has no method here. Writes through it are
    /// seen by the filters; so that no other way in can be missed, nothing is ruled out until
    /// upkeep has looked at the tables afterwards.
    pub fn with_engine<R>(&self, use_engine: impl FnOnce(&Engine) -> R) -> R {
        let _arriving = self.columns.expect_foreign_keys(None);
        use_engine(&self.engine)
    }

    /// One of RocksDB's numbers about the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        self.engine.property_int_value(name)
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        self.engine.path()
    }

    // -------------------------------------------------------------- the filters

    /// What the filters of all column families did so far.
    pub fn stats(&self) -> Stats {
        let stats = self.columns.all().into_iter().map(|column| column.stats());
        stats.fold(Stats::default(), |sum, stats| sum + stats)
    }

    /// What the filters of one column family did so far; `None` when there is no such family.
    pub fn stats_cf(&self, name: &str) -> Option<Stats> {
        let columns = self.columns.all();
        let column = columns.iter().find(|column| column.name() == name);
        column.map(|column| column.stats())
    }

    /// Reads every filter in memory and drops those that have changed since they were made; what
    /// is dropped is made anew. Returns what this call read and found.
    ///
    /// # Errors
    /// When upkeep could not finish what it does besides.
    pub fn scrub(&self) -> Result<Scrubbed, UpkeepFailed> {
        let before = self.scrubbed();
        let ticket = self.bell.call(|calls| calls.scrub = true);
        let failure = self.bell.wait_for(ticket, LONG);
        failure.map_or_else(
            || Ok(self.scrubbed() - before),
            |reason| Err(UpkeepFailed(reason)),
        )
    }

    /// What scrubbing has read and found since the database was opened.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubs.so_far()
    }

    /// What ended the trust in the filters: an audit that found a key which a filter had ruled out.
    /// Every look-up goes to the engine then. To open the database again makes all filters anew,
    /// with another seed.
    pub fn refutation(&self) -> Option<Refutation> {
        self.trust.lost().cloned()
    }

    /// Waits until the sidecars that are there are loaded, at most `limit`.
    pub fn wait_until_known(&self, limit: Duration) {
        let ticket = self.bell.call(|calls| calls.retry = true);
        self.bell.wait_for(ticket, limit);
    }

    /// Waits until the summaries speak for every table, at most `limit`; returns whether they do.
    pub fn wait_until_covered(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut asked = false;
        loop {
            let passes = self.bell.passes();
            let columns = self.columns.all();
            if columns.iter().all(|column| column.is_settled()) {
                return true;
            }
            if columns.iter().any(|column| column.has_given_up()) {
                return false;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            // What fails is tried at once, and again in its time.
            if !std::mem::replace(&mut asked, true) {
                self.bell.call(|calls| calls.retry = true);
            }
            self.bell.wait_past(passes, left);
        }
    }

    /// Makes one summary of the right size for each column family, rebuilds segment filters of
    /// another rate, and waits for it. Readers and writers go on; memtables are flushed.
    ///
    /// # Errors
    /// When it could not be finished; the filters stay as they were, and true.
    pub fn consolidate(&self) -> Result<(), UpkeepFailed> {
        if self.trust.lost().is_some() {
            let reason = "an audit refuted the filters; open the database again";
            return Err(UpkeepFailed(reason.to_owned()));
        }
        let ticket = self.bell.call(|calls| calls.consolidate = true);
        self.bell
            .wait_for(ticket, LONG)
            .map_or(Ok(()), |reason| Err(UpkeepFailed(reason)))
    }

    /// Changes the rate of all filters. They are rebuilt in the background, from the keys of the
    /// tables as they are; no table is rewritten. [`SieveDb::consolidate`] waits for it.
    pub fn set_rate(&self, rate: Rate) {
        self.columns.set_summary_rate(rate);
        for column in self.columns.all() {
            let segments = column.segment_rate().map(|_| rate);
            column.set_segment_rate(segments);
        }
        self.bell.call(|calls| calls.consolidate = true);
    }

    /// The settings with the rates of now, which may not be those of the open.
    fn settings(&self) -> SieveOptions {
        let settings = self.options.clone();
        settings
            .summary_rate(self.columns.summary_rate())
            .segment_rate(self.default.segment_rate())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Memory that a filter may take which takes `own` of it now.
    pub(crate) fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.columns, &self.registry, own)
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    #[cfg(test)]
    pub(crate) fn shared_columns(&self) -> Arc<Columns> {
        Arc::clone(&self.columns)
    }

    #[cfg(test)]
    pub(crate) fn shared_registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }
}

impl Drop for SieveDb {
    fn drop(&mut self) {
        self.bell.call(|calls| calls.stop = true);
        // A flush of upkeep's may wait for compactions that nobody will wait for. The engine ends
        // now, unless somebody keeps it open.
        const OURS: usize = 2;
        if Arc::strong_count(&self.engine) <= OURS {
            self.engine.cancel_all_background_work(false);
        }
        if let Some(upkeep) = self.upkeep.take()
            && upkeep.join().is_err()
        {
            tracing::error!("upkeep ended in a panic; filters are remade at the next open");
        }
        // A block cache of the user's may keep readers of our filters, and lend them to the next
        // front of these tables, which could neither check nor drop them.
        self.columns.all().iter().for_each(|column| column.retire());
        self.registry.distrust();
    }
}

impl std::fmt::Debug for SieveDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SieveDb")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// Asks the filters, then the engine for what they do not rule out, once for all.
///
/// The answers are those of one moment, as the engine's own are: what the filters ruled out before
/// the engine was asked, they must rule out after it as well. Otherwise a key was written between the
/// two, perhaps by a batch that took another away, and the engine is asked for all.
fn read_many<K: AsRef<[u8]>>(
    column: &Column,
    keys: &[K],
    ask: impl Fn(&[&[u8]]) -> Vec<Result<Option<Vec<u8>>, Error>>,
) -> Vec<Result<Option<Vec<u8>>, Error>> {
    let mut values: Vec<Result<Option<Vec<u8>>, Error>> = Vec::new();
    values.resize_with(keys.len(), || Ok(None));
    let edition = column.edition();
    let mut left = column.ask_many(keys);
    if left.is_empty() {
        return values;
    }
    let ask_for = |left: &[usize]| {
        let asked: Vec<&[u8]> = left.iter().map(|&at| keys[at].as_ref()).collect();
        ask(&asked)
    };
    let mut answers = ask_for(&left);
    if left.len() < keys.len() && !column.still_denies_all_but(&left, keys, edition) {
        left = (0..keys.len()).collect();
        answers = ask_for(&left);
    }
    for (at, mut answer) in left.into_iter().zip(answers) {
        let key = keys[at].as_ref();
        if let Ok(value) = &answer
            && column.engine_answered(value.is_some())
            && column.tables_hide(key)
        {
            answer = ask(&[key]).pop().unwrap_or(Ok(None));
        }
        let at = if planted!(AnswersShifted) {
            (at + 1) % values.len()
        } else {
            at
        };
        values[at] = answer;
    }
    values
}

/// Asks the filters, then, unless they rule the key out, the engine.
#[inline]
fn read<V>(
    column: &Column,
    key: &[u8],
    ask: impl Fn() -> Result<Option<V>, Error>,
) -> Result<Option<V>, Error> {
    if column.look_up(key).is_absent() {
        return Ok(None);
    }
    read_past(column, key, ask)
}

/// What the engine says where the filters do not rule a key out; apart, so that a miss sets up no
/// frame for it.
#[inline(never)]
fn read_past<V>(
    column: &Column,
    key: &[u8],
    ask: impl Fn() -> Result<Option<V>, Error>,
) -> Result<Option<V>, Error> {
    let value = ask()?;
    if column.engine_answered(value.is_some()) && column.tables_hide(key) {
        return ask();
    }
    Ok(value)
}

/// Lets a front be audited, and fall with the others.
fn watch(column: &Arc<Column>, engine: &Arc<Engine>, trust: &Arc<Trust>) {
    column.audit_with(Auditor::new(Arc::downgrade(engine), Arc::clone(trust)));
    trust.cover(column);
}

/// What the memory budget leaves for a segment's filter that takes `own` of it now.
pub(crate) fn room(
    options: &SieveOptions,
    columns: &Columns,
    registry: &Registry,
    own: Bits,
) -> Bits {
    let Some(budget) = options.get_memory_budget() else {
        return Bits::new(u64::MAX);
    };
    let summaries = columns.size_without(None).get();
    Bits::new(
        budget
            .get()
            .saturating_sub(registry.size().get().saturating_sub(own.get()))
            .saturating_sub(summaries),
    )
}

/// The family that the front was bound to when RocksDB made its first memtable.
fn bound_family(column: &Column) -> Result<u32, OpenError> {
    let what = "the memtable capture";
    column.family().ok_or(OpenError::HooksSilent { what })
}

/// The user's options with the hooks of `column`.
fn hooked_options(options: &Options, column: &Arc<Column>) -> Result<Options, OpenError> {
    refuse(column.name(), options)?;
    let mut hooked = options.clone();
    ffi::install(&mut hooked, Arc::clone(column));
    Ok(hooked)
}

fn refuse(column: &str, options: &Options) -> Result<(), OpenError> {
    ffi::refusal(options).map_or(Ok(()), |reason| {
        Err(OpenError::Unsupported {
            column: column.to_owned(),
            reason,
        })
    })
}

impl Opening {
    /// Reads what an earlier run left in the folder. Writes nothing: the database may be in use.
    pub(super) fn prepare(
        disk: Arc<dyn Disk>,
        folder: &Path,
        sieve: &SieveOptions,
    ) -> Result<(Self, Candidate), OpenError> {
        let candidate = Self::identity(&*disk, folder, sieve)
            .map_err(|source| OpenError::Identity(Box::new(source)))?;
        let identity = candidate.identity();
        let hasher = identity.hasher();
        let folder = SidecarFolder::new(disk, folder.to_owned(), identity.store, hasher.imprint());
        let opening = Self {
            hasher,
            registry: Arc::new(Registry::new(hasher)),
            shelf: Arc::new(Shelf::new(folder)),
            bell: Arc::default(),
        };
        Ok((opening, candidate))
    }

    /// Who the database is; a frozen front takes the filters of whatever hash they are.
    fn identity(
        disk: &dyn Disk,
        folder: &Path,
        sieve: &SieveOptions,
    ) -> Result<Candidate, IdentityError> {
        let kept = if sieve.is_frozen() {
            Identity::load(disk, folder)?
        } else {
            None
        };
        let hash = kept.map_or(sieve.get_hash(), |kept| kept.hash);
        Identity::load_or_new(disk, folder, hash)
    }

    /// Writes down who the database is, now that nobody else can.
    pub(super) fn keep(&self, identity: &Candidate) -> Result<(), OpenError> {
        let folder = self.shelf.folder();
        folder
            .prepare()
            .map_err(|source| OpenError::Folder(Box::new(source)))?;
        let kept = identity.keep(folder.disk(), folder.path());
        kept.map_err(|source| OpenError::Identity(Box::new(source)))
    }

    /// A front beside others that take so much of the budget.
    fn column(&self, name: &str, sieve: &SieveOptions, taken: Bits) -> Arc<Column> {
        let imprint = self.hasher.imprint().remixed();
        let options = sieve.summary(Items::new(0), taken);
        let room = options.budget.unwrap_or(Bits::new(u64::MAX));
        let summary = match self.shelf.load_summary(name, room) {
            Some((chain, covers)) => (Scalable::starting_with(imprint, options, chain), covers),
            None => (Scalable::new(imprint, options), HashSet::new()),
        };
        let (registry, bell) = (Arc::clone(&self.registry), Arc::clone(&self.bell));
        Column::new(name, self.hasher, registry, bell, sieve, summary)
    }
}

//! A small LSM store in memory, with memtables, segments in level 0 and in the last level, and the
//! filters in front.
//!
//! It keeps the rules of [`Engine`]: a key is in the filters before it is visible, a segment's filter
//! is sealed before the segment is listed, and external writes are announced. A test may let its reads
//! fail, counts what it is asked, and may act at each step of a consolidation.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::cf_filter::multi_lookup::{Values, multi_get_cf};
use crate::cf_filter::{CfFilter, lookup, prefix_lookup};
use crate::cf_filters::CfFilters;
use crate::disk::{Disk, MemoryDisk, NewFile, Opened};
use crate::engine::{Engine, EngineError, KeySpace, LiveSegment};
use crate::filters::Filters;
use crate::hash::HashId;
use crate::intake::SegmentOrigin;
use crate::key_range::KeyRange;
use crate::opening::{ONE_KEY_SPACE_ID, Opening};
use crate::options::FrontOptions;
use crate::ranges::Span;
use crate::segment::SegmentId;
use crate::sync::{Mutex, MutexGuard, unpoisoned, yield_now};

/// On the disk in memory. The log of keys alone is a real file, without a name, in the real folder.
pub(super) const FOLDER: &str = "/tmp";

/// A value, or `None` for a tombstone.
pub(super) type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What survives a restart: the segments, newest first, and the disk of the filters.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) disk: MemoryDisk,
    segments: Vec<Segment>,
    next: u64,
}

/// What a read of all keys of a segment does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    Whole,
    /// It fails after this many keys.
    FailsAfter(usize),
    /// It panics after this many keys.
    PanicsAfter(usize),
    /// The segment is gone, and another one, without a filter, has its keys. Nobody is told.
    FindsItReplaced,
}

/// A step of a consolidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Writes feed both filters, and no insertion is left that feeds the old one alone.
    BeforeMemtables,
    AfterMemtables,
    /// The segments are listed next, in an epoch that was noted.
    Listing,
    Listed,
    /// A segment was read.
    AfterSegment,
    /// A segment is gone that was listed.
    SegmentGone,
}

type Act = Box<dyn FnOnce() + Send>;

/// Is told each step, and says whether it succeeds.
type Watcher = Box<dyn FnMut(Step) -> bool + Send>;

#[derive(Clone)]
struct Segment {
    path: String,
    id: SegmentId,
    entries: Arc<Entries>,
    is_in_last_level: bool,
}

#[derive(Default)]
struct Tables {
    memtable: Entries,
    /// Sealed memtables that are not flushed yet, newest first.
    sealed: Vec<Entries>,
    /// Newest first.
    segments: Vec<Segment>,
    under_construction: Option<Segment>,
    next: u64,
    sequence: u64,
}

/// The engine behind the filters.
struct Lsm {
    cf_filter: Arc<CfFilter>,
    /// The filters of further column families: see [`Store::add_family`].
    others: Mutex<Vec<Arc<CfFilter>>>,
    tables: Mutex<Tables>,
    /// Called once, after an audit has read the store and before it returns.
    after_audit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Called once, when the summary filter was stored.
    after_save: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What the next reads of segments do; then they are whole.
    next_scans: Mutex<VecDeque<Scan>>,
    /// A segment that no read can read.
    unreadable: Mutex<Option<SegmentId>>,
    /// What a test does at a step of the next consolidation.
    acts: Mutex<Vec<(Step, Act)>>,
    watcher: Mutex<Option<Watcher>>,
    /// Whether the next read of the memtables fails.
    memtables_fail: Mutex<bool>,
    scans: AtomicU64,
    listings: AtomicU64,
    is_building: AtomicBool,
    /// Whether a compaction of other segments is under way.
    is_compacting: AtomicBool,
}

/// An open store.
pub(super) struct Store {
    lsm: Arc<Lsm>,
    pub(super) filters: Filters,
    disk: MemoryDisk,
    writes: Arc<AtomicU64>,
}

/// A disk that counts the files that are created, renamed and removed.
#[derive(Debug)]
struct CountingDisk {
    disk: MemoryDisk,
    writes: Arc<AtomicU64>,
}

impl CountingDisk {
    fn writing(&self) -> &MemoryDisk {
        self.writes.fetch_add(1, Ordering::Relaxed);
        &self.disk
    }
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        self.disk.open(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.writing().create_new(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.writing().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.writing().remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.create_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }
}

impl Stored {
    pub(super) fn new() -> Self {
        Self {
            disk: MemoryDisk::new(),
            segments: Vec::new(),
            next: 0,
        }
    }
}

impl Store {
    /// Opens the store with the filters that its disk has.
    pub(super) fn open(stored: Stored, options: &FrontOptions) -> Self {
        let store = Self::open_without_thread(stored, options);
        store.filters.start_thread().unwrap();
        store
    }

    /// As [`Store::open`], but maintenance runs only in [`Store::turn`] and in calls that wait for
    /// it. So a test knows how often it ran.
    pub(super) fn open_without_thread(stored: Stored, options: &FrontOptions) -> Self {
        Self::open_in(FOLDER, stored, options)
    }

    /// As [`Store::open_without_thread`], with another real folder for the log of keys.
    pub(super) fn open_in(folder: &str, stored: Stored, options: &FrontOptions) -> Self {
        let Stored {
            disk,
            segments,
            next,
        } = stored;
        let writes = Arc::<AtomicU64>::default();
        let shared: Arc<dyn Disk> = Arc::new(CountingDisk {
            disk: disk.clone(),
            writes: Arc::clone(&writes),
        });
        let folder = Path::new(folder);
        let opened = Opening::of_one_key_space(shared, folder, options, HashId::Xxh3);
        let (opening, cf_filter) = opened.unwrap();
        let lsm = Arc::new(Lsm {
            cf_filter: Arc::clone(&cf_filter),
            others: Mutex::default(),
            tables: Mutex::new(Tables {
                segments,
                next,
                ..Tables::default()
            }),
            after_audit: Mutex::default(),
            after_save: Mutex::default(),
            next_scans: Mutex::default(),
            unreadable: Mutex::default(),
            acts: Mutex::default(),
            watcher: Mutex::default(),
            memtables_fail: Mutex::default(),
            scans: AtomicU64::new(0),
            listings: AtomicU64::new(0),
            is_building: AtomicBool::new(false),
            is_compacting: AtomicBool::new(false),
        });
        let engine: Arc<dyn Engine> = Arc::<Lsm>::clone(&lsm);
        let filters = Filters::of_one_key_space(engine, (opening, &cf_filter), options.clone());
        Self {
            lsm,
            filters,
            disk,
            writes,
        }
    }

    pub(super) fn cf_filter(&self) -> &Arc<CfFilter> {
        &self.lsm.cf_filter
    }

    /// Adds the filters of a further column family. All column families have the same entries, and
    /// the same segments.
    pub(super) fn add_family(&self, name: &str) -> Arc<CfFilter> {
        let Filters {
            cf_filters,
            options,
            ..
        } = &self.filters;
        let taken = cf_filters.size_of_published(None);
        let cf_filter = self.filters.opening().cf_filter(name, options, taken);
        let mut others = unpoisoned(self.lsm.others.lock());
        others.push(Arc::clone(&cf_filter));
        let id = ONE_KEY_SPACE_ID + others.len() as u32;
        cf_filter.key_space().memtable_created(id);
        self.filters.insert(id, Arc::clone(&cf_filter));
        cf_filter
    }

    /// Drops the filters of a further column family, and makes those of another one of its name.
    pub(super) fn renew_family(&self, name: &str, gone: Option<&Arc<CfFilter>>) -> Arc<CfFilter> {
        if let Some(gone) = gone {
            self.filters.cf_filters.remove(gone);
        }
        let mut tables = self.lsm.tables();
        // New filters have seen no memtable.
        self.lsm.flush_tables(&mut tables, SegmentOrigin::Memtables);
        let is_gone = |other: &Arc<CfFilter>| gone.is_some_and(|gone| Arc::ptr_eq(gone, other));
        unpoisoned(self.lsm.others.lock()).retain(|other| !is_gone(other));
        self.add_family(name)
    }

    /// What the thread of maintenance does in one turn. Nothing, unless something is requested or
    /// due.
    pub(super) fn turn(&self) {
        self.filters.maintain();
    }

    /// Wakes maintenance, and lets it run.
    pub(super) fn look(&self) {
        self.filters.wakeup.notify();
        self.turn();
    }

    /// Files that the filters created, renamed or removed.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// As [`Store::writes`], also when the store is closed.
    pub(super) fn write_counter(&self) -> impl Fn() -> u64 + use<> {
        let writes = Arc::clone(&self.writes);
        move || writes.load(Ordering::Relaxed)
    }

    /// Reads of all keys of a segment.
    pub(super) fn scans(&self) -> u64 {
        self.lsm.scans.load(Ordering::Relaxed)
    }

    /// Listings of all segments.
    pub(super) fn listings(&self) -> u64 {
        self.lsm.listings.load(Ordering::Relaxed)
    }

    /// Lets the next reads of segments do this.
    pub(super) fn set_next_scans(&self, scans: impl IntoIterator<Item = Scan>) {
        *unpoisoned(self.lsm.next_scans.lock()) = scans.into_iter().collect();
    }

    /// Lets each read of this segment fail from here on.
    pub(super) fn set_unreadable(&self, id: SegmentId) {
        *unpoisoned(self.lsm.unreadable.lock()) = Some(id);
    }

    /// Lets `act` happen at the next such step.
    pub(super) fn at(&self, step: Step, act: impl FnOnce() + Send + 'static) {
        unpoisoned(self.lsm.acts.lock()).push((step, Box::new(act)));
    }

    /// Calls `watcher` at each step of maintenance from here on, and lets one fail where it says so.
    pub(super) fn watch(&self, watcher: Option<Watcher>) {
        *unpoisoned(self.lsm.watcher.lock()) = watcher;
    }

    /// Lets the next read of the memtables fail at its end.
    pub(super) fn let_memtables_fail(&self) {
        *unpoisoned(self.lsm.memtables_fail.lock()) = true;
    }

    /// What acts on the store while it is consolidated.
    pub(super) fn other_thread(&self) -> OtherThread {
        OtherThread(Arc::clone(&self.lsm))
    }

    /// The memtable takes no more keys, and is flushed later.
    pub(super) fn seal_memtable(&self) {
        self.lsm.seal_memtable();
    }

    /// Whether a compaction of other segments is under way from here on.
    pub(super) fn set_compacting(&self, is_compacting: bool) {
        self.lsm
            .is_compacting
            .store(is_compacting, Ordering::Release);
    }

    /// The ids of the segments, newest first.
    pub(super) fn segments(&self) -> Vec<SegmentId> {
        let tables = self.lsm.tables();
        tables.segments.iter().map(|segment| segment.id).collect()
    }

    /// A flush that is not over: its segment is built, and not yet installed. Nothing may be written
    /// until it is. Returns its id.
    pub(super) fn begin_flush(&self) -> SegmentId {
        self.lsm.is_building.store(true, Ordering::Release);
        let mut tables = self.lsm.tables();
        assert!(!tables.memtable.is_empty());
        let entries = tables.memtable.clone();
        let segment = self
            .lsm
            .built(&mut tables, entries, SegmentOrigin::Memtables);
        let id = segment.id;
        tables.under_construction = Some(segment);
        id
    }

    /// The segment of [`Store::begin_flush`] becomes live.
    pub(super) fn end_flush(&self) {
        self.lsm.flush_memtable(SegmentOrigin::Memtables);
        self.filters.wakeup.notify();
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) {
        self.lsm.write(key, Some(value.to_owned()));
    }

    pub(super) fn delete(&self, key: &[u8]) {
        self.lsm.write(key, None);
    }

    /// Writes several keys at one moment; `None` deletes one.
    pub(super) fn write(&self, batch: Vec<(Vec<u8>, Option<Vec<u8>>)>) {
        let mut tables = self.lsm.tables();
        for (key, value) in batch {
            self.lsm.write_to(&mut tables, &key, value);
        }
    }

    /// The value of a key, by the filters and then by the store, which asks the segment filters.
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_behind(&self.lsm.cf_filter, key)
    }

    /// As [`Store::get`], by the filters of a further column family.
    pub(super) fn get_behind(&self, cf_filter: &CfFilter, key: &[u8]) -> Option<Vec<u8>> {
        let may_have = |segment: &Segment| {
            let known = self.filters.registry.get(segment.id);
            let filtered = known.filter(|known| known.filter().is_some());
            filtered.is_none_or(|known| known.may_contain(key, None))
        };
        let read = || Ok::<_, Infallible>(self.lsm.tables().get_if(key, may_have));
        let Ok(value) = lookup::get(cf_filter, key, read);
        value
    }

    /// Whether the store has the key, whatever the filters say.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.lsm.get(key).is_some()
    }

    /// The sequence number of the last write.
    pub(super) fn sequence(&self) -> u64 {
        self.lsm.tables().sequence
    }

    /// How many keys of segments a filter denies: that of the segment, in memory or on disk, or that
    /// of the store, if the key is not deleted.
    pub(super) fn denied_keys(&self) -> usize {
        let segments = self.lsm.tables().segments.clone();
        let denied = segments.iter().map(|segment| {
            let known = self.filters.registry.get(segment.id);
            let in_memory = known.and_then(|known| known.filter());
            let on_disk = self.filters.filter_store.load(segment.id).map(Arc::new);
            let filters: Vec<_> = in_memory.into_iter().chain(on_disk).collect();
            let is_denied = |(key, value): &(&Vec<u8>, &Option<Vec<u8>>)| {
                let hash = self.filters.hasher.hash(key);
                let mut filters = filters.iter();
                filters.any(|filter| !filter.chain.may_contain(hash))
                    || (value.is_some() && self.rules_out(key))
            };
            segment.entries.iter().filter(is_denied).count()
        });
        denied.sum()
    }

    /// The values of several keys at one moment.
    pub(super) fn multi_get(&self, keys: &[&[u8]]) -> Values<Vec<u8>, Infallible> {
        let filters = || Some(Arc::clone(&self.lsm.cf_filter));
        let with_filters: Vec<_> = keys.iter().map(|&key| (filters(), key)).collect();
        multi_get_cf(&with_filters, |passed| {
            yield_now();
            let tables = self.lsm.tables();
            let values = passed.iter().map(|&at| Ok(tables.get(keys[at])));
            values.collect()
        })
    }

    /// Gives the value of one key to another, in one write.
    pub(super) fn move_record(&self, from: &[u8], to: &[u8]) {
        let mut tables = self.lsm.tables();
        let value = tables.get(from);
        self.lsm.write_to(&mut tables, to, value);
        self.lsm.write_to(&mut tables, from, None);
    }

    /// Calls `act` in the next audit, when it has read the store.
    pub(super) fn after_next_audit(&self, act: impl FnOnce() + Send + 'static) {
        *unpoisoned(self.lsm.after_audit.lock()) = Some(Box::new(act));
    }

    /// Calls `act` when the summary filter was stored the next time.
    pub(super) fn after_next_save(&self, act: impl FnOnce() + Send + 'static) {
        *unpoisoned(self.lsm.after_save.lock()) = Some(Box::new(act));
    }

    pub(super) fn get_past_filters(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.lsm.get(key)
    }

    /// Whether the filters prove that no key is in a span; audited as the settings say.
    pub(super) fn rules_out_span(&self, span: Span<'_>) -> bool {
        !prefix_lookup::span_may_exist(&**self.cf_filter(), span)
    }

    /// Whether a key is there from one on that is below another.
    pub(super) fn has_between(&self, from: &[u8], end: &[u8]) -> bool {
        self.lsm.has_between(from, end)
    }

    /// Whether the filters alone rule the key out; never audited.
    pub(super) fn rules_out(&self, key: &[u8]) -> bool {
        let hash = self.lsm.cf_filter.hasher().hash(key);
        self.lsm.cf_filter.view().answer(hash, key).is_absent()
    }

    pub(super) fn flush(&self) {
        self.lsm.flush_memtable(SegmentOrigin::Memtables);
        self.filters.wakeup.notify();
    }

    /// A flush whose hooks are not told what the segment is made from, as in RocksDB without
    /// `whole_key_filtering`.
    pub(super) fn flush_as_unknown(&self) {
        self.lsm.flush_memtable(SegmentOrigin::Unknown);
        self.filters.wakeup.notify();
    }

    /// Merges all segments into one of the last level, and drops tombstones.
    pub(super) fn compact(&self) {
        self.lsm.compact();
        self.filters.wakeup.notify();
    }

    /// Moves the oldest segment to the last level as it is, if that level has none.
    pub(super) fn move_oldest_to_last_level(&self) {
        let mut tables = self.lsm.tables();
        if let Some(oldest) = tables.segments.last_mut() {
            oldest.is_in_last_level = true;
        }
        drop(tables);
        self.filters.wakeup.notify();
    }

    /// Adds a segment whose keys pass through no memtable, and which has no filter.
    pub(super) fn ingest(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        self.lsm.ingest(&self.filters.cf_filters, entries);
    }

    /// As [`Store::ingest`], over what the memtables have.
    pub(super) fn ingest_over_memtables(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) {
        let _announced = self.filters.cf_filters.begin_external_writes(None);
        let entries = entries.into_iter().map(|(key, value)| (key, Some(value)));
        let mut tables = self.lsm.tables();
        self.lsm.flush_tables(&mut tables, SegmentOrigin::Memtables);
        let segment = tables.segment(SegmentId::random().unwrap(), entries.collect());
        tables.segments.insert(0, segment);
    }

    /// Ingests when the next replay of the log of keys has come to its end.
    pub(super) fn ingest_after_next_replay(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) {
        let (lsm, cf_filters) = (Arc::clone(&self.lsm), Arc::clone(&self.filters.cf_filters));
        let ingest = move || lsm.ingest(&cf_filters, &entries);
        self.cf_filter().key_log().after_next_replay(ingest);
    }

    /// Ingests when the next read of a segment has come to its end.
    pub(super) fn ingest_after_next_scan(&self, entries: Vec<(Vec<u8>, Vec<u8>)>) {
        let (lsm, cf_filters) = (Arc::clone(&self.lsm), Arc::clone(&self.filters.cf_filters));
        let ingest = move || lsm.ingest(&cf_filters, &entries);
        self.at(Step::AfterSegment, ingest);
    }

    /// Rebuilds the summary filter; false if that failed.
    pub(super) fn consolidate(&self) -> bool {
        self.consolidation_failure().is_none()
    }

    /// Rebuilds the summary filter; why that failed, if it did.
    pub(super) fn consolidation_failure(&self) -> Option<String> {
        let done = self.filters.consolidate();
        done.err().map(|error| error.to_string())
    }

    pub(super) fn has_memtable(&self) -> bool {
        !self.lsm.tables().memtable.is_empty()
    }

    /// Waits until maintenance has gone through all segments.
    pub(super) fn settle(&self) {
        let limit = Duration::from_secs(60);
        assert!(self.filters.wait_for_maintenance(limit));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lsm.cf_filter.is_complete()
    }

    /// Closes the store: the memtable is flushed, and the filters are saved.
    pub(super) fn close(self) -> Stored {
        self.lsm.flush_memtable(SegmentOrigin::Memtables);
        self.stored()
    }

    /// What a power cut leaves, and the entries of the log, which is replayed into a new memtable.
    pub(super) fn crash(self, seed: u64) -> (Stored, Entries) {
        let disk = self.disk.after_power_cut(seed).next().unwrap();
        let memtables = self.lsm.tables().take_memtables();
        let log = memtables.into_iter().flatten().collect::<Entries>();
        let stored = Stored {
            disk,
            ..self.stored()
        };
        (stored, log)
    }

    fn stored(self) -> Stored {
        self.filters.stop_maintenance();
        let tables = self.lsm.tables();
        Stored {
            disk: self.disk.clone(),
            segments: tables.segments.clone(),
            next: tables.next,
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.filters.stop_maintenance();
    }
}

/// See [`Store::other_thread`].
pub(super) struct OtherThread(Arc<Lsm>);

impl OtherThread {
    pub(super) fn put(&self, key: &[u8], value: &[u8]) {
        self.0.write(key, Some(value.to_owned()));
    }

    /// A write whose key the filters have already.
    pub(super) fn write_past_filters(&self, key: &[u8], value: &[u8]) {
        let mut tables = self.0.tables();
        tables
            .memtable
            .insert(key.to_owned(), Some(value.to_owned()));
    }

    pub(super) fn flush(&self) {
        self.0.flush_memtable(SegmentOrigin::Memtables);
    }

    pub(super) fn compact(&self) {
        self.0.compact();
    }

    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.0.get(key).is_some()
    }

    pub(super) fn cf_filter(&self) -> &Arc<CfFilter> {
        &self.0.cf_filter
    }

    pub(super) fn seal_memtable(&self) {
        self.0.seal_memtable();
    }

    /// Builds the segment of the sealed memtable at this index, from the oldest on.
    pub(super) fn build(&self, older: usize) {
        self.0.is_building.store(true, Ordering::Release);
        let mut tables = self.0.tables();
        let entries = tables.sealed.iter().rev().nth(older).unwrap().clone();
        let segment = self.0.built(&mut tables, entries, SegmentOrigin::Memtables);
        tables.under_construction = Some(segment);
    }

    /// The segment of [`OtherThread::build`] becomes live; its memtable stays.
    pub(super) fn install(&self) {
        let mut tables = self.0.tables();
        let segment = tables.under_construction.take().unwrap();
        tables.segments.insert(0, segment);
        self.0.is_building.store(false, Ordering::Release);
    }

    /// Removes the sealed memtable at this index, from the oldest on.
    pub(super) fn forget(&self, older: usize) {
        let sealed = &mut self.0.tables().sealed;
        sealed.remove(sealed.len() - 1 - older);
    }

    /// Merges the two oldest segments.
    pub(super) fn compact_two(&self) {
        let mut tables = self.0.tables();
        let at = tables.segments.len() - 2;
        let merged = tables.segments.split_off(at).into_iter();
        let merged = merged.flat_map(|segment| (*segment.entries).clone());
        let segment = self
            .0
            .built(&mut tables, merged.collect(), SegmentOrigin::Segments);
        tables.segments.insert(0, segment);
    }

    /// Adds a segment of this key alone. External writes are announced already.
    pub(super) fn ingest_announced(&self, key: &[u8]) {
        self.0
            .ingest_announced(&[(key.to_owned(), b"value".to_vec())]);
    }
}

impl Lsm {
    /// False if the step is to fail.
    fn act(&self, step: Step) -> bool {
        let mut acts = unpoisoned(self.acts.lock());
        let at = acts.iter().position(|(at, _)| *at == step);
        let act = at.map(|at| acts.remove(at));
        drop(acts);
        if let Some((_, act)) = act {
            act();
        }
        let mut watcher = unpoisoned(self.watcher.lock());
        watcher.as_mut().is_none_or(|watcher| watcher(step))
    }

    fn seal_memtable(&self) {
        let mut tables = self.tables();
        let entries = std::mem::take(&mut tables.memtable);
        tables.sealed.insert(0, entries);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        unpoisoned(self.tables.lock())
    }

    fn write(&self, key: &[u8], value: Option<Vec<u8>>) {
        self.write_to(&mut self.tables(), key, value);
    }

    fn write_to(&self, tables: &mut Tables, key: &[u8], value: Option<Vec<u8>>) {
        tables.sequence += 1;
        let others = unpoisoned(self.others.lock());
        let families = std::iter::once(&self.cf_filter).chain(&*others);
        // As in RocksDB, tombstones are in no summary filter.
        let fed = families.filter(|_| value.is_some());
        let insertions: Vec<_> = fed
            .map(|cf_filter| (cf_filter.intake(), cf_filter.intake().begin_insertion(key)))
            .collect();
        tables.memtable.insert(key.to_owned(), value);
        for (intake, insertion) in insertions {
            intake.end_insertion(insertion, key);
        }
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.tables().get(key)
    }

    fn has_between(&self, from: &[u8], end: &[u8]) -> bool {
        let tables = self.tables();
        let sources = std::iter::once(&tables.memtable).chain(&tables.sealed);
        let sources = sources.chain(tables.segments.iter().map(|segment| &*segment.entries));
        let keys = sources.flat_map(BTreeMap::keys);
        let mut within = keys.filter(|key| (from..end).contains(&&key[..]));
        within.any(|key| tables.get(key).is_some())
    }

    fn ingest(&self, cf_filters: &CfFilters, entries: &[(Vec<u8>, Vec<u8>)]) {
        let _announced = cf_filters.begin_external_writes(None);
        self.ingest_announced(entries);
    }

    fn ingest_announced(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        let entries = entries.iter().cloned();
        let entries = entries.map(|(key, value)| (key, Some(value))).collect();
        let mut tables = self.tables();
        let segment = tables.segment(SegmentId::random().unwrap(), entries);
        tables.segments.insert(0, segment);
    }

    fn flush_memtable(&self, origin: SegmentOrigin) {
        self.flush_tables(&mut self.tables(), origin);
    }

    fn flush_tables(&self, tables: &mut Tables, origin: SegmentOrigin) {
        for entries in tables.take_memtables() {
            let segment = match tables.under_construction.take() {
                Some(segment) => segment,
                None => self.built(tables, entries, origin),
            };
            self.is_building.store(false, Ordering::Release);
            tables.segments.insert(0, segment);
        }
    }

    fn compact(&self) {
        let mut tables = self.tables();
        let mut merged = Entries::new();
        for segment in tables.segments.iter().rev() {
            let entries = segment.entries.iter();
            merged.extend(entries.map(|(key, value)| (key.clone(), value.clone())));
        }
        merged.retain(|_, value| value.is_some());
        tables.segments.clear();
        if !merged.is_empty() {
            let mut segment = self.built(&mut tables, merged, SegmentOrigin::Segments);
            segment.is_in_last_level = true;
            tables.segments.push(segment);
        }
    }

    /// A segment with its filter, if segment filters are on.
    fn built(&self, tables: &mut Tables, entries: Entries, origin: SegmentOrigin) -> Segment {
        let is_in_last_level = origin == SegmentOrigin::Segments;
        // The keys of a flush go into one log.
        let others = unpoisoned(self.others.lock());
        others.iter().for_each(|other| other.key_log().end());
        let Some(mut build) = self
            .cf_filter
            .intake()
            .segments()
            .begin(origin, is_in_last_level)
        else {
            return tables.segment(SegmentId::random().unwrap(), entries);
        };
        entries.keys().for_each(|key| build.add(key));
        assert!(build.finish(entries.len() as u64));
        tables.segment(build.id(), entries)
    }
}

impl Tables {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.get_if(key, |_| true)
    }

    /// The value of a key, from memtables and from the segments that may have it.
    fn get_if(&self, key: &[u8], may_have: impl Fn(&Segment) -> bool) -> Option<Vec<u8>> {
        let memtables = std::iter::once(&self.memtable).chain(&self.sealed);
        let segments = self.segments.iter().filter(|segment| may_have(segment));
        let segments = segments.map(|segment| &*segment.entries);
        let newest = memtables.chain(segments).find_map(|table| table.get(key));
        newest.cloned().flatten()
    }

    /// All memtables with keys, the oldest first.
    fn take_memtables(&mut self) -> Vec<Entries> {
        let mut memtables = std::mem::take(&mut self.sealed);
        memtables.reverse();
        memtables.push(std::mem::take(&mut self.memtable));
        memtables.retain(|entries| !entries.is_empty());
        memtables
    }

    fn segment(&mut self, id: SegmentId, entries: Entries) -> Segment {
        self.next += 1;
        Segment {
            path: format!("{}.segment", self.next),
            id,
            entries: Arc::new(entries),
            is_in_last_level: false,
        }
    }
}

impl Engine for Lsm {
    fn segments(&self, _: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        let failed = || Err(EngineError::Failed("it cannot be listed".to_owned()));
        if !self.act(Step::Listing) {
            return failed();
        }
        let live = |segment: &Segment| {
            let mut keys = segment.entries.keys();
            let first = keys.next();
            let last = keys.next_back().or(first);
            LiveSegment {
                path: segment.path.clone(),
                file: segment.path.clone().into(),
                lasting_id: Some(segment.id),
                instance_id: None,
                is_checked_by_engine: false,
                entries: segment.entries.len() as u64,
                are_entries_exact: true,
                level: Some(segment.is_in_last_level.into()),
                is_in_last_level: segment.is_in_last_level,
                range: first
                    .zip(last)
                    .map(|(first, last)| KeyRange::new(first, last)),
            }
        };
        let live = self.tables().segments.iter().map(live).collect();
        match self.act(Step::Listed) {
            true => Ok(live),
            false => failed(),
        }
    }

    fn raw_keys(
        &self,
        _: &KeySpace,
        segment: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        self.scans.fetch_add(1, Ordering::Relaxed);
        let scan = unpoisoned(self.next_scans.lock()).pop_front();
        let mut tables = self.tables();
        let live = &mut tables.segments;
        let found = live.iter().position(|own| own.path == segment.path);
        let gone = || EngineError::Failed("it was compacted away".to_owned());
        let Some(at) = found else {
            drop(tables);
            self.act(Step::SegmentGone);
            return Err(gone());
        };
        if *unpoisoned(self.unreadable.lock()) == Some(live[at].id) {
            return Err(EngineError::Failed("a damaged segment".to_owned()));
        }
        let entries = Arc::clone(&live[at].entries);
        let most = match scan.unwrap_or(Scan::Whole) {
            Scan::Whole => entries.len(),
            Scan::FailsAfter(keys) | Scan::PanicsAfter(keys) => keys,
            Scan::FindsItReplaced => {
                let id = SegmentId::random().unwrap();
                let successor = tables.segment(id, (*entries).clone());
                tables.segments[at] = successor;
                return Err(gone());
            }
        };
        drop(tables);
        let mut some = entries.iter().take(most);
        some.all(|(key, value)| each(key, value.is_none()));
        self.act(Step::AfterSegment);
        match scan {
            Some(Scan::FailsAfter(_)) => Err(EngineError::Failed("a read error".to_owned())),
            Some(Scan::PanicsAfter(_)) => panic!("a read that panics, for a test"),
            _ => Ok(()),
        }
    }

    fn entries_in_memtables(&self, _: &KeySpace) -> Result<u64, EngineError> {
        let tables = self.tables();
        let memtables = std::iter::once(&tables.memtable).chain(&tables.sealed);
        Ok(memtables.map(|entries| entries.len() as u64).sum())
    }

    fn memtable_keys(
        &self,
        _: &KeySpace,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        let mut fails = !self.act(Step::BeforeMemtables);
        let tables = self.tables();
        let memtables = std::iter::once(&tables.memtable).chain(&tables.sealed);
        let memtables: Vec<_> = memtables.cloned().collect();
        drop(tables);
        let mut entries = memtables.iter().flatten();
        entries.all(|(key, value)| each(key, value.is_none()));
        fails |= !self.act(Step::AfterMemtables);
        fails |= std::mem::take(&mut *unpoisoned(self.memtables_fail.lock()));
        match fails {
            true => Err(EngineError::Failed("a memtable cannot be read".to_owned())),
            false => Ok(()),
        }
    }

    fn is_idle(&self) -> bool {
        let is_busy = [&self.is_building, &self.is_compacting];
        is_busy.iter().all(|flag| !flag.load(Ordering::Acquire))
    }

    fn latest_sequence_number(&self) -> u64 {
        self.tables().sequence
    }

    fn summary_saved(&self, _: &KeySpace, _: &HashSet<SegmentId>) {
        let act = unpoisoned(self.after_save.lock()).take();
        if let Some(act) = act {
            act();
        }
    }

    fn contains(&self, _: &KeySpace, key: &[u8]) -> Option<bool> {
        let found = self.get(key).is_some();
        let act = unpoisoned(self.after_audit.lock()).take();
        if let Some(act) = act {
            act();
        }
        Some(found)
    }

    fn contains_prefix(&self, _: &KeySpace, start: &[u8]) -> Option<bool> {
        // No key of a test has so many bytes of this kind behind its prefix.
        let end = [start, &[u8::MAX; 32]].concat();
        Some(self.has_between(start, &end))
    }

    fn contains_range(&self, _: &KeySpace, from: &[u8], end: &[u8]) -> Option<bool> {
        Some(self.has_between(from, end))
    }
}

//! A small LSM store in memory, with a memtable, segments in one level, and the filters in front.
//!
//! It keeps the rules of [`Engine`]: a key is in the filters of its memtable before it is visible,
//! a segment's filter is sealed before the segment is listed, and external writes are announced.
//! A test may let its reads fail, and counts what it is asked.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::disk::{Disk, MemoryDisk, NewFile, Opened};
use crate::front::cf_filter::multi_lookup::{Values, multi_get_cf};
use crate::front::cf_filter::{CfFilter, lookup};
use crate::front::cf_filters::CfFilters;
use crate::front::engine::{Engine, EngineError, KeySpace, LiveSegment};
use crate::front::filters::Filters;
use crate::front::key_range::KeyRange;
use crate::front::memtables::FilterSet;
use crate::front::opening::{ONE_KEY_SPACE_ID, Opening};
use crate::front::options::FrontOptions;
use crate::front::segment_filter_build::TableOrigin;
use crate::hash::HashId;
use crate::segment::SegmentId;
use crate::sync::unpoisoned;

/// On the disk in memory. The log of keys alone is a real file, without a name, in the real folder.
const FOLDER: &str = "/tmp";

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
    /// It fails after so many keys.
    FailsAfter(usize),
    /// It panics after so many keys.
    PanicsAfter(usize),
    /// The segment is gone, and another one, without a filter, has its keys. Nobody is told.
    FindsItReplaced,
}

#[derive(Clone)]
struct Segment {
    path: String,
    id: SegmentId,
    entries: Arc<Entries>,
}

#[derive(Default)]
struct Tables {
    memtable: Option<(Arc<FilterSet>, Entries)>,
    /// Newest first.
    segments: Vec<Segment>,
    under_construction: Option<Segment>,
    next: u64,
    sequence: u64,
}

/// The engine behind the filters.
struct Lsm {
    cf_filter: Arc<CfFilter>,
    tables: Mutex<Tables>,
    /// Called once, after an audit has read the store and before it returns.
    after_audit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What the next reads of segments do; then they are whole.
    next_scans: Mutex<VecDeque<Scan>>,
    /// Called once, after the next read of a segment.
    after_scan: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// A segment that no read can read.
    unreadable: Mutex<Option<SegmentId>>,
    scans: AtomicU64,
    listings: AtomicU64,
    is_building: AtomicBool,
    is_memtable_small: AtomicBool,
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
        let folder = Path::new(FOLDER);
        let opened = Opening::of_one_key_space(shared, folder, options, HashId::Xxh3);
        let (opening, cf_filter) = opened.unwrap();
        let lsm = Arc::new(Lsm {
            cf_filter: Arc::clone(&cf_filter),
            tables: Mutex::new(Tables {
                segments,
                next,
                ..Tables::default()
            }),
            after_audit: Mutex::default(),
            next_scans: Mutex::default(),
            after_scan: Mutex::default(),
            unreadable: Mutex::default(),
            scans: AtomicU64::new(0),
            listings: AtomicU64::new(0),
            is_building: AtomicBool::new(false),
            is_memtable_small: AtomicBool::new(false),
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

    /// Calls each memtable small from here on: less than half full.
    pub(super) fn set_memtables_small(&self) {
        self.lsm.is_memtable_small.store(true, Ordering::Release);
    }

    /// The ids of the segments, newest first.
    pub(super) fn segments(&self) -> Vec<SegmentId> {
        let tables = self.lsm.tables();
        tables.segments.iter().map(|segment| segment.id).collect()
    }

    /// The memtable's filters, if it has keys. A reader may hold the memtable after its flush.
    pub(super) fn memtable(&self) -> Option<Arc<FilterSet>> {
        let tables = self.lsm.tables();
        tables.memtable.as_ref().map(|(set, _)| Arc::clone(set))
    }

    /// A flush that is not over: its segment is built, and not yet installed. Nothing may be written
    /// until it is. Returns its id.
    pub(super) fn begin_flush(&self) -> SegmentId {
        self.lsm.is_building.store(true, Ordering::Release);
        let mut tables = self.lsm.tables();
        let (_, entries) = tables.memtable.as_ref().unwrap();
        let entries = entries.clone();
        let segment = self.lsm.built(&mut tables, entries, TableOrigin::Memtables);
        let id = segment.id;
        tables.under_construction = Some(segment);
        id
    }

    /// The segment of [`Store::begin_flush`] becomes live.
    pub(super) fn end_flush(&self) {
        self.lsm.flush_memtable(TableOrigin::Memtables);
        self.filters.wakeup.notify();
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) {
        self.lsm.write(key, Some(value.to_owned()));
    }

    pub(super) fn delete(&self, key: &[u8]) {
        self.lsm.write(key, None);
    }

    /// The value of a key, by the filters and then by the store.
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let read = || Ok::<_, Infallible>(self.lsm.get(key));
        let Ok(value) = lookup::get(&*self.lsm.cf_filter, key, read);
        value
    }

    /// Whether the store has the key, whatever the filters say.
    pub(super) fn has(&self, key: &[u8]) -> bool {
        self.lsm.get(key).is_some()
    }

    /// The values of several keys at one moment.
    pub(super) fn multi_get(&self, keys: &[&[u8]]) -> Values<Vec<u8>, Infallible> {
        let filters = || Some(Arc::clone(&self.lsm.cf_filter));
        let with_filters: Vec<_> = keys.iter().map(|&key| (filters(), key)).collect();
        multi_get_cf(&with_filters, |passed| {
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

    /// Whether the filters alone rule the key out; never audited.
    pub(super) fn rules_out(&self, key: &[u8]) -> bool {
        let hash = self.lsm.cf_filter.hasher().hash(key);
        self.lsm.cf_filter.view().answer(hash, key).is_absent()
    }

    pub(super) fn flush(&self) {
        self.lsm.flush_memtable(TableOrigin::Memtables);
        self.filters.wakeup.notify();
    }

    /// A flush whose hooks are not told what the segment is made from, as in RocksDB without
    /// `whole_key_filtering`.
    pub(super) fn flush_as_unknown(&self) {
        self.lsm.flush_memtable(TableOrigin::Unknown);
        self.filters.wakeup.notify();
    }

    /// Merges all segments into one, and drops tombstones.
    pub(super) fn compact(&self) {
        self.lsm.compact();
        self.filters.wakeup.notify();
    }

    /// Adds a segment whose keys pass through no memtable, and which has no filter.
    pub(super) fn ingest(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        self.lsm.ingest(&self.filters.cf_filters, entries);
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
        *unpoisoned(self.lsm.after_scan.lock()) = Some(Box::new(ingest));
    }

    /// Rebuilds the summary filter; false if that failed.
    pub(super) fn consolidate(&self) -> bool {
        self.filters.consolidate().is_ok()
    }

    /// Waits until maintenance has gone through all segments.
    pub(super) fn settle(&self) {
        let limit = Duration::from_secs(60);
        assert!(self.filters.wait_for_maintenance(limit, || true));
    }

    pub(super) fn is_complete(&self) -> bool {
        self.lsm.cf_filter.is_complete()
    }

    /// Closes the store: the memtable is flushed, and the filters are saved.
    pub(super) fn close(self) -> Stored {
        self.lsm.flush_memtable(TableOrigin::Memtables);
        self.stored()
    }

    /// What a power cut leaves, and the entries of the log, which is replayed into a new memtable.
    pub(super) fn crash(self, seed: u64) -> (Stored, Entries) {
        let disk = self.disk.after_power_cut(seed).next().unwrap();
        let memtable = self.lsm.tables().memtable.take();
        let log = memtable.map(|(_, entries)| entries);
        let stored = Stored {
            disk,
            ..self.stored()
        };
        (stored, log.unwrap_or_default())
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

impl Lsm {
    fn tables(&self) -> std::sync::MutexGuard<'_, Tables> {
        unpoisoned(self.tables.lock())
    }

    fn write(&self, key: &[u8], value: Option<Vec<u8>>) {
        self.write_to(&mut self.tables(), key, value);
    }

    fn write_to(&self, tables: &mut Tables, key: &[u8], value: Option<Vec<u8>>) {
        tables.sequence += 1;
        let bind = || (self.cf_filter.memtables().bind(), Entries::new());
        let (filters, entries) = tables.memtable.get_or_insert_with(bind);
        // As in RocksDB, tombstones are in no summary filter.
        if value.is_some() {
            let hash = filters.prepare(key);
            filters.insert(hash, key);
        }
        entries.insert(key.to_owned(), value);
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.tables().get(key)
    }

    fn ingest(&self, cf_filters: &CfFilters, entries: &[(Vec<u8>, Vec<u8>)]) {
        let _announced = cf_filters.begin_external_writes(Some(ONE_KEY_SPACE_ID));
        let entries = entries.iter().cloned();
        let entries = entries.map(|(key, value)| (key, Some(value))).collect();
        let mut tables = self.tables();
        let segment = tables.segment(SegmentId::random().unwrap(), entries);
        tables.segments.insert(0, segment);
    }

    fn flush_memtable(&self, origin: TableOrigin) {
        let mut tables = self.tables();
        if let Some((filters, entries)) = tables.memtable.take() {
            let segment = match tables.under_construction.take() {
                Some(segment) => segment,
                None => self.built(&mut tables, entries, origin),
            };
            self.is_building.store(false, Ordering::Release);
            tables.segments.insert(0, segment);
            filters.seal();
            filters.release();
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
            let segment = self.built(&mut tables, merged, TableOrigin::Tables);
            tables.segments.push(segment);
        }
    }

    /// A segment with its filter, if segment filters are on.
    fn built(&self, tables: &mut Tables, entries: Entries, origin: TableOrigin) -> Segment {
        let Some(mut build) = self.cf_filter.begin_table(origin) else {
            return tables.segment(SegmentId::random().unwrap(), entries);
        };
        entries.keys().for_each(|key| build.add(key));
        assert!(build.finish(entries.len() as u64));
        tables.segment(build.id(), entries)
    }
}

impl Tables {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let memtable = self.memtable.iter().map(|(_, entries)| entries);
        let segments = self.segments.iter().map(|segment| &*segment.entries);
        let newest = memtable.chain(segments).find_map(|table| table.get(key));
        newest.cloned().flatten()
    }

    fn segment(&mut self, id: SegmentId, entries: Entries) -> Segment {
        self.next += 1;
        Segment {
            path: format!("{}.segment", self.next),
            id,
            entries: Arc::new(entries),
        }
    }
}

impl Engine for Lsm {
    fn segments(&self, _: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        self.listings.fetch_add(1, Ordering::Relaxed);
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
                level: Some(0),
                range: first
                    .zip(last)
                    .map(|(first, last)| KeyRange::new(first, last)),
            }
        };
        Ok(self.tables().segments.iter().map(live).collect())
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
        let at = found.ok_or_else(gone)?;
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
        let act = unpoisoned(self.after_scan.lock()).take();
        if let Some(act) = act {
            act();
        }
        match scan {
            Some(Scan::FailsAfter(_)) => Err(EngineError::Failed("a read error".to_owned())),
            Some(Scan::PanicsAfter(_)) => panic!("a read that panics, for a test"),
            _ => Ok(()),
        }
    }

    fn entries_in_memtables(&self, _: &KeySpace) -> Result<u64, EngineError> {
        let tables = self.tables();
        let memtable = tables.memtable.as_ref();
        Ok(memtable.map_or(0, |(_, entries)| entries.len() as u64))
    }

    fn flush(&self, _: &KeySpace) -> Result<(), EngineError> {
        self.flush_memtable(TableOrigin::Memtables);
        Ok(())
    }

    fn is_memtable_half_full(&self, _: &KeySpace) -> bool {
        !self.is_memtable_small.load(Ordering::Acquire)
    }

    fn is_idle(&self) -> bool {
        !self.is_building.load(Ordering::Acquire)
    }

    fn latest_sequence_number(&self) -> u64 {
        self.tables().sequence
    }

    fn contains(&self, _: &KeySpace, key: &[u8]) -> Option<bool> {
        let found = self.get(key).is_some();
        let act = unpoisoned(self.after_audit.lock()).take();
        if let Some(act) = act {
            act();
        }
        Some(found)
    }
}

//! A small LSM store in memory, with a memtable, segments in one level, and the filters in front.
//!
//! It keeps the rules of [`Engine`]: a key is in the filters of its memtable before it is visible,
//! a segment's filter is sealed before the segment is listed, and external writes are announced.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::disk::{Disk, MemoryDisk};
use crate::front::cf_filter::multi_lookup::{Values, multi_get_cf};
use crate::front::cf_filter::{CfFilter, lookup};
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

const FOLDER: &str = "/filters";

/// A value, or `None` for a tombstone.
pub(super) type Entries = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// What survives a restart: the segments, newest first, and the disk of the filters.
#[derive(Clone)]
pub(super) struct Stored {
    pub(super) disk: MemoryDisk,
    segments: Vec<Segment>,
    next: u64,
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
    next: u64,
    sequence: u64,
}

/// The engine behind the filters.
struct Lsm {
    cf_filter: Arc<CfFilter>,
    tables: Mutex<Tables>,
    /// Called once, after an audit has read the store and before it returns.
    after_audit: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

/// An open store.
pub(super) struct Store {
    lsm: Arc<Lsm>,
    filters: Filters,
    disk: MemoryDisk,
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
        let Stored {
            disk,
            segments,
            next,
        } = stored;
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
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
        });
        let engine: Arc<dyn Engine> = Arc::<Lsm>::clone(&lsm);
        let filters = Filters::of_one_key_space(engine, (opening, &cf_filter), options.clone());
        filters.start_thread().unwrap();
        Self { lsm, filters, disk }
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
        self.lsm.flush_memtable();
        self.filters.wakeup.notify();
    }

    /// Merges all segments into one, and drops tombstones.
    pub(super) fn compact(&self) {
        self.lsm.compact();
        self.filters.wakeup.notify();
    }

    /// Adds a segment whose keys pass through no memtable, and which has no filter.
    pub(super) fn ingest(&self, entries: &[(Vec<u8>, Vec<u8>)]) {
        let _announced = self
            .filters
            .cf_filters
            .begin_external_writes(Some(ONE_KEY_SPACE_ID));
        let entries = entries.iter().cloned();
        let entries = entries.map(|(key, value)| (key, Some(value))).collect();
        let mut tables = self.lsm.tables();
        let segment = tables.segment(SegmentId::random().unwrap(), entries);
        tables.segments.insert(0, segment);
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
        self.lsm.flush_memtable();
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

    fn flush_memtable(&self) {
        let mut tables = self.tables();
        if let Some((filters, entries)) = tables.memtable.take() {
            let segment = self.built(&mut tables, entries);
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
            let segment = self.built(&mut tables, merged);
            tables.segments.push(segment);
        }
    }

    /// A segment with its filter, if segment filters are on.
    fn built(&self, tables: &mut Tables, entries: Entries) -> Segment {
        let Some(mut build) = self.cf_filter.begin_table(TableOrigin::Unknown) else {
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
        let tables = self.tables();
        let found = tables.segments.iter().find(|own| own.path == segment.path);
        let Some(entries) = found.map(|own| Arc::clone(&own.entries)) else {
            return Err(EngineError::Failed("it was compacted away".to_owned()));
        };
        drop(tables);
        let mut entries = entries.iter();
        entries.all(|(key, value)| each(key, value.is_none()));
        Ok(())
    }

    fn entries_in_memtables(&self, _: &KeySpace) -> Result<u64, EngineError> {
        let tables = self.tables();
        let memtable = tables.memtable.as_ref();
        Ok(memtable.map_or(0, |(_, entries)| entries.len() as u64))
    }

    fn flush(&self, _: &KeySpace) -> Result<(), EngineError> {
        self.flush_memtable();
        Ok(())
    }

    fn is_idle(&self) -> bool {
        true
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

//! A small LSM store: a log, a memtable, segments and a manifest, with filters beside the data.
//!
//! ```text
//! write    log ─► filters of the memtable ─► memtable
//! flush    memtable ─► segment file with its filter's id ─► manifest ─► the memtable's filters end
//! merge    all segments ─► one
//! read     filters ── absent ─► not found
//!             │ maybe
//!          memtables, newest first ─► segments, newest first, if their filter says maybe
//! ```

#![expect(clippy::disallowed_methods, reason = "the store writes its own files")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use lsm_sieve_stores::lsm::{Lsm, LsmFilters, Memtable, SegmentFilter, SegmentInfo};
use lsm_sieve_stores::{FilterOptions, SegmentId};

/// A value, or `None` for a tombstone.
type Value = Option<Vec<u8>>;
type Entries = BTreeMap<Vec<u8>, Value>;

/// Bytes of keys and values at which a memtable is flushed.
const FLUSH_BYTES: usize = 1 << 20;

/// Segments at which all are merged into one.
const MERGE_SEGMENTS: usize = 6;

/// One entry in this many has its place in the index of a segment.
const INDEXED: usize = 16;

/// The length of the value of a tombstone.
const TOMBSTONE: u32 = u32::MAX;

/// An open store.
pub(crate) struct Store {
    folder: PathBuf,
    /// Filters of all that follows.
    pub(crate) filters: LsmFilters,
    version: RwLock<Arc<Version>>,
    log: Mutex<Log>,
    next_file: AtomicU64,
    sequence: AtomicU64,
    /// Held by a flush or a merge.
    changes: Mutex<()>,
}

/// What a reader sees, newest first.
#[derive(Clone)]
struct Version {
    memtables: Vec<Arc<Table>>,
    segments: Vec<Arc<Segment>>,
}

/// A memtable, with the filters that its keys also go to.
struct Table {
    entries: RwLock<Entries>,
    filters: Memtable,
    log: PathBuf,
}

struct Log {
    file: File,
    bytes: usize,
}

/// An immutable file of sorted entries; its last bytes are its id and the number of entries.
struct Segment {
    path: PathBuf,
    file: File,
    id: SegmentId,
    entries: u64,
    /// The first of each few keys, and where it begins.
    index: Vec<(Vec<u8>, u64)>,
    last: Vec<u8>,
    end: u64,
    filter: SegmentFilter,
}

impl Store {
    /// Opens the store in a folder, which is created if it does not exist.
    pub(crate) fn open(folder: &Path, options: &FilterOptions) -> io::Result<Arc<Self>> {
        fs::create_dir_all(folder)?;
        let filters =
            LsmFilters::open(&folder.join("filters"), options).map_err(io::Error::other)?;
        let manifest = fs::read_to_string(folder.join("MANIFEST")).unwrap_or_default();
        let names = manifest.lines().map(|name| folder.join(name));
        let segments = names.map(|path| Segment::open(path, &filters).map(Arc::new));
        let segments = segments.collect::<io::Result<Vec<_>>>()?;
        let mut logs = files(folder, "log")?;
        let numbers = files(folder, "segment")?.into_iter().chain(logs.clone());
        let next = numbers
            .filter_map(|path| number_of(&path))
            .max()
            .unwrap_or(0)
            + 1;
        let table = Arc::new(Table::new(&filters, folder, next));
        let store = Arc::new(Self {
            folder: folder.to_owned(),
            version: RwLock::new(Arc::new(Version {
                memtables: vec![Arc::clone(&table)],
                segments,
            })),
            log: Mutex::new(Log::create(&table.log)?),
            filters,
            next_file: AtomicU64::new(next + 1),
            sequence: AtomicU64::new(0),
            changes: Mutex::new(()),
        });
        logs.sort();
        for path in &logs {
            read_entries(&mut BufReader::new(File::open(path)?), |key, value| {
                store.write(&[(key.to_vec(), value)])
            })?;
        }
        logs.iter().try_for_each(fs::remove_file)?;
        store.filters.start(&store)?;
        Ok(store)
    }

    /// Sets keys, or deletes them.
    pub(crate) fn write(&self, batch: &[(Vec<u8>, Value)]) -> io::Result<()> {
        let mut log = locked(&self.log);
        let mut bytes = Vec::new();
        batch
            .iter()
            .for_each(|(key, value)| encode(&mut bytes, key, value));
        log.file.write_all(&bytes)?;
        log.bytes += bytes.len();
        let table = Arc::clone(&self.version().memtables[0]);
        // The filters first: a reader must not see a key that they do not know.
        batch.iter().for_each(|(key, _)| table.filters.insert(key));
        let mut entries = table
            .entries
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        entries.extend(batch.iter().cloned());
        drop(entries);
        self.sequence.fetch_add(1, Ordering::Relaxed);
        let is_full = log.bytes >= FLUSH_BYTES;
        drop(log);
        if is_full {
            self.flush_memtable()
        } else {
            Ok(())
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Value> {
        self.filters.get(key, || {
            let hash = self.filters.hash(key);
            self.find(key, |segment| segment.filter.may_contain(hash))
        })
    }

    /// The value of a key, from all memtables and the segments that may have it.
    fn find(&self, key: &[u8], may_have: impl Fn(&Segment) -> bool) -> io::Result<Value> {
        let version = self.version();
        for table in &version.memtables {
            let entries = table.entries.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(value) = entries.get(key) {
                return Ok(value.clone());
            }
        }
        for segment in version.segments.iter().filter(|segment| may_have(segment)) {
            if let Some(value) = segment.get(key)? {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Writes the memtable to a segment.
    pub(crate) fn flush_memtable(&self) -> io::Result<()> {
        let _alone = locked(&self.changes);
        let table = {
            let mut log = locked(&self.log);
            let full = Arc::clone(&self.version().memtables[0]);
            if full.is_empty() {
                return Ok(());
            }
            let new = Arc::new(Table::new(&self.filters, &self.folder, self.next_number()));
            *log = Log::create(&new.log)?;
            self.change(|version| version.memtables.insert(0, new));
            full
        };
        let entries = table.entries.read().unwrap_or_else(PoisonError::into_inner);
        let segment = self.write_segment(&entries)?;
        drop(entries);
        self.install(|version| version.segments.insert(0, segment))?;
        self.change(|version| {
            version
                .memtables
                .retain(|other| !Arc::ptr_eq(other, &table))
        });
        fs::remove_file(&table.log)?;
        // The last reference to the table: its keys are in a segment that is listed.
        drop(table);
        self.filters.segments_changed();
        if self.version().segments.len() >= MERGE_SEGMENTS {
            self.merge_beside(&_alone)?;
        }
        Ok(())
    }

    /// Merges all segments into one, without tombstones.
    pub(crate) fn merge(&self) -> io::Result<()> {
        self.merge_beside(&locked(&self.changes))
    }

    fn merge_beside(&self, _alone: &MutexGuard<'_, ()>) -> io::Result<()> {
        let inputs = self.version().segments.clone();
        let mut merged = Entries::new();
        for segment in inputs.iter().rev() {
            segment.each(|key, value| {
                merged.insert(key.to_vec(), value);
                Ok(())
            })?;
        }
        merged.retain(|_, value| value.is_some());
        let output = match merged.is_empty() {
            true => Vec::new(),
            false => vec![self.write_segment(&merged)?],
        };
        self.install(|version| version.segments = output)?;
        self.filters.segments_changed();
        inputs
            .iter()
            .try_for_each(|segment| fs::remove_file(&segment.path))
    }

    /// Adds a segment of entries that pass through no memtable. They are newer than all others.
    pub(crate) fn ingest(&self, entries: &[(Vec<u8>, Value)]) -> io::Result<()> {
        self.flush_memtable()?;
        let _alone = locked(&self.changes);
        let entries = entries.iter().cloned().collect();
        let _announced = self.filters.external_writes();
        let segment = self.write_segment(&entries)?;
        self.install(|version| version.segments.insert(0, segment))
    }

    fn write_segment(&self, entries: &Entries) -> io::Result<Arc<Segment>> {
        let path = self
            .folder
            .join(format!("{:08}.segment", self.next_number()));
        let mut filter = self.filters.begin_segment()?;
        let mut file = BufWriter::new(File::create(&path)?);
        for (key, value) in entries {
            let mut bytes = Vec::new();
            encode(&mut bytes, key, value);
            file.write_all(&bytes)?;
            filter.add(key);
        }
        file.write_all(filter.id().as_bytes())?;
        file.write_all(&(entries.len() as u64).to_be_bytes())?;
        file.into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        drop(filter.seal());
        Segment::open(path, &self.filters).map(Arc::new)
    }

    /// Publishes a version with other segments, and stores which they are.
    fn install(&self, change: impl FnOnce(&mut Version)) -> io::Result<()> {
        let mut next = Version::clone(&self.version());
        change(&mut next);
        let new = self.folder.join("MANIFEST.new");
        let names = next.segments.iter().map(|segment| segment.name() + "\n");
        fs::write(&new, names.collect::<String>())?;
        fs::rename(new, self.folder.join("MANIFEST"))?;
        let segments = next.segments;
        self.change(|version| version.segments = segments);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Version)) {
        let mut version = self.version.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Version::clone(&version);
        change(&mut next);
        *version = Arc::new(next);
    }

    fn version(&self) -> Arc<Version> {
        Arc::clone(&self.version.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn next_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }
}

impl Lsm for Store {
    fn segments(&self) -> io::Result<Vec<SegmentInfo>> {
        let version = self.version();
        let info = |segment: &Arc<Segment>| SegmentInfo {
            name: segment.name(),
            id: Some(segment.id),
            entries: segment.entries,
            range: Some((segment.index[0].0.clone(), segment.last.clone())),
            level: Some(0),
        };
        Ok(version.segments.iter().map(info).collect())
    }

    fn entries(
        &self,
        info: &SegmentInfo,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> io::Result<()> {
        let version = self.version();
        let named = version
            .segments
            .iter()
            .find(|segment| segment.name() == info.name);
        let segment = named.ok_or_else(|| io::Error::other("it was merged"))?;
        let read = segment.each(|key, value| match each(key, value.is_none()) {
            true => Ok(()),
            false => Err(io::ErrorKind::Interrupted.into()),
        });
        read.or_else(|error| match error.kind() {
            io::ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        })
    }

    fn flush(&self) -> io::Result<()> {
        self.flush_memtable()
    }

    fn contains(&self, key: &[u8]) -> io::Result<bool> {
        Ok(self.find(key, |_| true)?.is_some())
    }

    fn entries_in_memtables(&self) -> u64 {
        let tables = self.version().memtables.clone();
        tables.iter().map(|table| table.len() as u64).sum()
    }

    fn last_sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }
}

impl Table {
    fn new(filters: &LsmFilters, folder: &Path, number: u64) -> Self {
        Self {
            entries: RwLock::default(),
            filters: filters.memtable(),
            log: folder.join(format!("{number:08}.log")),
        }
    }

    fn len(&self) -> usize {
        self.entries
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Log {
    fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(path)?;
        Ok(Self { file, bytes: 0 })
    }
}

impl Segment {
    fn open(path: PathBuf, filters: &LsmFilters) -> io::Result<Self> {
        let file = File::open(&path)?;
        let end = file.metadata()?.len().saturating_sub(24);
        let mut footer = [0; 24];
        file.read_exact_at(&mut footer, end)?;
        let [id, count] = [&footer[..16], &footer[16..]];
        let id = SegmentId::from_bytes(id.try_into().map_err(io::Error::other)?);
        let mut segment = Self {
            filter: filters.segment(id),
            path,
            file,
            id,
            entries: u64::from_be_bytes(count.try_into().map_err(io::Error::other)?),
            index: Vec::new(),
            last: Vec::new(),
            end,
        };
        let (mut index, mut last, mut offset, mut count) = (Vec::new(), Vec::new(), 0, 0);
        segment.each(|key, value| {
            if count % INDEXED == 0 {
                index.push((key.to_vec(), offset));
            }
            count += 1;
            offset += 8 + (key.len() + value.map_or(0, |value| value.len())) as u64;
            last = key.to_vec();
            Ok(())
        })?;
        (segment.index, segment.last) = (index, last);
        Ok(segment)
    }

    fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The newest value of a key here; `None` if the segment has no entry of it.
    fn get(&self, key: &[u8]) -> io::Result<Option<Value>> {
        let after = self
            .index
            .partition_point(|(first, _)| first.as_slice() <= key);
        let Some((_, start)) = after.checked_sub(1).map(|at| &self.index[at]) else {
            return Ok(None);
        };
        let end = self.index.get(after).map_or(self.end, |(_, start)| *start);
        let mut block = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut block, *start)?;
        let mut found = None;
        read_entries(&mut block.as_slice(), |other, value| {
            if other == key {
                found = Some(value);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn each(&self, each: impl FnMut(&[u8], Value) -> io::Result<()>) -> io::Result<()> {
        let entries = File::open(&self.path)?.take(self.end);
        read_entries(&mut BufReader::new(entries), each)
    }
}

fn encode(bytes: &mut Vec<u8>, key: &[u8], value: &Value) {
    let length = value.as_ref().map_or(TOMBSTONE, |value| value.len() as u32);
    bytes.extend((key.len() as u32).to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(key);
    bytes.extend(value.iter().flatten());
}

/// Passes entries until the end. The last one may be cut off: it was not acknowledged.
fn read_entries(
    from: &mut impl Read,
    mut each: impl FnMut(&[u8], Value) -> io::Result<()>,
) -> io::Result<()> {
    let mut take = |length: u32| -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; length as usize];
        match from.read_exact(&mut bytes) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    };
    loop {
        let Some(lengths) = take(8)? else {
            return Ok(());
        };
        let number = |at: usize| u32::from_be_bytes([0, 1, 2, 3].map(|i| lengths[at + i]));
        let Some(key) = take(number(0))? else {
            return Ok(());
        };
        let value = match number(4) {
            TOMBSTONE => None,
            length => match take(length)? {
                Some(value) => Some(value),
                None => return Ok(()),
            },
        };
        each(&key, value)?;
    }
}

fn files(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>()?;
    let ends = |path: &PathBuf| path.extension().is_some_and(|end| end == ending);
    Ok(paths.into_iter().filter(ends).collect())
}

fn number_of(path: &Path) -> Option<u64> {
    path.file_stem()?.to_str()?.parse().ok()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Merges the files of a store. For each key, the record of the newest file counts, and a delete
//! hides the key.
//!
//! There is one cursor per file, so they are few: the least key is found by comparing them all,
//! without a heap.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use rocksdb::{DBRawIteratorWithThreadMode, ReadOptions};

use super::error::DifferentialError;
use super::generation::Generation;
use super::options::MainFile;
use super::snapshot::{Snapshot, at_moment};
use super::store::DifferentialStore;
use lsm_sieve::RocksDb;
use lsm_sieve_support::fault::fault;

/// An iterator over keys and values, in bytewise order of the keys. It ends after an error.
pub struct Scan<'a> {
    /// Newest first, the main file last.
    cursors: Vec<Cursor<'a>>,
    end: Bound<Vec<u8>>,
    failed: bool,
    /// The snapshot that the cursors read, unless the caller keeps it. Dropped after them.
    snapshot: Option<Snapshot<'a>>,
}

impl DifferentialStore {
    /// The records of a range of keys as they are now, ascending; `..` for all. The scan does not
    /// see records that are written or moved meanwhile. Filters are not used.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan<'_> {
        self.snapshot().into_scan(range)
    }
}

impl<'a> Snapshot<'a> {
    /// The records of a range of keys, ascending; `..` for all. Filters are not used.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan<'_> {
        self.merged(range)
    }

    /// [`Snapshot::scan`], but the scan keeps the snapshot alive.
    pub(super) fn into_scan<K: AsRef<[u8]>>(self, range: impl RangeBounds<K>) -> Scan<'a> {
        self.merged(range).holding(self)
    }

    /// Merges the files. The snapshot must outlive the result.
    fn merged<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan<'a> {
        let store = self.store;
        let engine: &RocksDb = &store.db;
        let newer = self.generations.iter().map(|generation| {
            Cursor::of_generation(generation, engine, at_moment(&self.snapshot, true))
        });
        let own = store.options.main == MainFile::Here;
        let main = store.main.iterate(at_moment(&self.snapshot, own));
        let from = range.start_bound().map(AsRef::as_ref);
        let to = range.end_bound().map(AsRef::as_ref);
        Scan::new(newer.chain([Cursor::of_main(main)]), (from, to))
    }
}

/// A position in one file.
pub(super) struct Cursor<'a> {
    records: DBRawIteratorWithThreadMode<'a, RocksDb>,
    /// The generation; `None` for the main file.
    generation: Option<Arc<Generation>>,
}

type Entry = (Vec<u8>, Vec<u8>);

impl<'a> Scan<'a> {
    /// Merges these files: the newest first, the main file last.
    pub(super) fn new(
        files: impl Iterator<Item = Cursor<'a>>,
        (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Self {
        let mut cursors: Vec<Cursor<'a>> = files.collect();
        cursors.iter_mut().for_each(|cursor| cursor.start(from));
        Self {
            cursors,
            end: to.map(<[u8]>::to_vec),
            failed: false,
            snapshot: None,
        }
    }

    /// Keeps the snapshot alive as long as the cursors that read it.
    pub(super) fn holding(self, snapshot: Snapshot<'a>) -> Self {
        Self {
            snapshot: Some(snapshot),
            ..self
        }
    }

    /// The least key of all cursors, if it is within the range.
    fn least(&self) -> Option<Vec<u8>> {
        let keys = self
            .cursors
            .iter()
            .filter_map(|cursor| cursor.records.key());
        let least = keys.min()?;
        let within = match &self.end {
            Bound::Unbounded => true,
            Bound::Included(end) => least <= end.as_slice(),
            Bound::Excluded(end) => least < end.as_slice(),
        };
        within.then(|| least.to_owned())
    }

    /// The value in the newest file that has the key. Moves all cursors past it.
    fn take(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, DifferentialError> {
        let mut newest = None;
        for cursor in &mut self.cursors {
            if cursor.records.key() != Some(key) {
                continue;
            }
            if newest.is_none() {
                newest = Some(cursor.value(key)?);
            }
            cursor.records.next();
        }
        Ok(newest.flatten())
    }

    fn advance(&mut self) -> Result<Option<Entry>, DifferentialError> {
        loop {
            // A cursor that failed looks as if it were at the end, so check for errors first.
            self.cursors.iter().try_for_each(Cursor::check)?;
            let Some(key) = self.least() else {
                return Ok(None);
            };
            if let Some(value) = self.take(&key)? {
                return Ok(Some((key, value)));
            }
        }
    }
}

impl<'a> Cursor<'a> {
    /// A cursor in a generation. Holds the generation, so that its column family outlives the
    /// iterator.
    pub(super) fn of_generation(
        generation: &Arc<Generation>,
        engine: &'a RocksDb,
        options: ReadOptions,
    ) -> Self {
        Self {
            records: engine.raw_iterator_cf_opt(generation.family().handle(), options),
            generation: Some(Arc::clone(generation)),
        }
    }

    pub(super) fn of_main(records: DBRawIteratorWithThreadMode<'a, RocksDb>) -> Self {
        Self {
            records,
            generation: None,
        }
    }

    fn start(&mut self, from: Bound<&[u8]>) {
        match from {
            Bound::Unbounded => self.records.seek_to_first(),
            Bound::Included(key) => self.records.seek(key),
            Bound::Excluded(key) => {
                self.records.seek(key);
                if self.records.key() == Some(key) {
                    self.records.next();
                }
            }
        }
    }

    fn value(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DifferentialError> {
        let bytes = self.records.value().unwrap_or_default();
        match &self.generation {
            Some(generation) => Ok(generation.decode(key, bytes)?.map(<[u8]>::to_vec)),
            None => Ok(Some(bytes.to_vec())),
        }
    }

    fn check(&self) -> Result<(), DifferentialError> {
        let file = match self.generation {
            Some(_) => "differential",
            None => "main",
        };
        fault!(ScanStopsShort, return Ok(()));
        // Only an invalid cursor can have failed. Checking its status each time would cost a call.
        if self.records.valid() {
            return Ok(());
        }
        self.records.status().map_err(DifferentialError::read(file))
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Entry, DifferentialError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance();
        self.failed = next.is_err();
        next.transpose()
    }
}

impl std::fmt::Debug for Scan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("files", &self.cursors.len())
            .field("moment", &self.snapshot)
            .finish_non_exhaustive()
    }
}

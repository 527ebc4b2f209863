//! All files as they were at one moment.

use std::ops::RangeBounds;
use std::sync::Arc;

use rocksdb::{ReadOptions, SnapshotWithThreadMode};

use super::error::DifferentialError;
use super::options::MainFile;
use super::read::Sight;
use super::scan::Scan;
use super::store::{DifferentialStore, Generations};
use crate::rocks::Engine;

/// A view of a store that does not change; see [`DifferentialStore::snapshot`].
///
/// It holds the generations of its moment: one that is moved and dropped meanwhile stays readable,
/// and on disk, as long as a snapshot needs it.
pub struct Snapshot<'a> {
    store: &'a DifferentialStore,
    generations: Generations,
    /// They point at `moment`.
    own: ReadOptions,
    main: ReadOptions,
    moment: SnapshotWithThreadMode<'a, Engine>,
}

impl<'a> Snapshot<'a> {
    /// Of this moment; the generations must be the ones of this moment, or of one before it at which
    /// none has been added since.
    pub(super) fn new(store: &'a DifferentialStore, generations: Generations) -> Self {
        let moment = store.db.snapshot();
        let at_moment = |own: bool| {
            let mut options = ReadOptions::default();
            if own {
                options.set_snapshot(&moment);
            }
            options
        };
        Self {
            store,
            generations,
            own: at_moment(true),
            main: at_moment(store.options.main == MainFile::Here),
            moment,
        }
    }

    /// The value that a key had.
    ///
    /// # Errors
    /// As [`DifferentialStore::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DifferentialError> {
        self.store
            .read(&self.generations, key.as_ref(), self.sight())
    }

    /// The values that several keys had, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        self.store.read_many(&self.generations, keys, self.sight())
    }

    /// The records of a range of keys, ascending; `..` for all. Filters are not asked.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Scan<'_> {
        let from = range.start_bound().map(AsRef::as_ref);
        let to = range.end_bound().map(AsRef::as_ref);
        let generations = self.generations.iter().map(Arc::as_ref);
        let own = self.store.options.main == MainFile::Here;
        Scan::new(generations, &self.store.main, (from, to), |main| {
            let mut options = ReadOptions::default();
            options.set_total_order_seek(true);
            if own || !main {
                options.set_snapshot(&self.moment);
            }
            options
        })
    }

    fn sight(&self) -> Sight<'_> {
        Sight {
            own: &self.own,
            main: &self.main,
        }
    }
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

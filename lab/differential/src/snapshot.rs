//! All files as they were at one point in time.

use std::sync::Arc;

use rocksdb::ReadOptions;

use super::error::DifferentialError;
use super::options::MainFile;
use super::read_options::StoreReadOptions;
use super::store::{DifferentialStore, Generations};
use lsm_sieve::Snapshot as SieveSnapshot;
use lsm_sieve_support::fault::fault;

/// A view of a store that does not change; see [`DifferentialStore::snapshot`].
///
/// It holds the generations that existed when it was taken. One that is moved and dropped meanwhile
/// stays readable, and on disk, as long as a snapshot needs it.
pub struct Snapshot<'a> {
    pub(super) store: &'a DifferentialStore,
    pub(super) generations: Generations,
    /// Both read options refer to `snapshot`.
    own: ReadOptions,
    main: ReadOptions,
    pub(super) snapshot: SieveSnapshot<'a>,
}

impl<'a> Snapshot<'a> {
    /// Takes a snapshot now.
    pub(super) fn new(store: &'a DifferentialStore) -> Self {
        Self::taken(store, || {})
    }

    /// Takes a snapshot now. `between` is called after the generations are listed and before the
    /// engine's snapshot is taken.
    fn taken(store: &'a DifferentialStore, mut between: impl FnMut()) -> Self {
        // List and engine snapshot must be of the same time. Otherwise the records of a generation
        // started between them would be missing. Or a generation moved between them would hide what
        // was loaded into the main file since.
        let (generations, snapshot) = loop {
            let before = store.generations();
            between();
            let snapshot = store.db.snapshot();
            let mut same = Arc::ptr_eq(&before, &store.generations());
            fault!(ListOfAnotherMoment, same = true);
            if same {
                break (before, snapshot);
            }
        };
        Self {
            store,
            generations,
            own: at_moment(&snapshot, true),
            main: at_moment(&snapshot, store.options.main == MainFile::Here),
            snapshot,
        }
    }

    /// The value of a key in the snapshot.
    ///
    /// # Errors
    /// The same as [`DifferentialStore::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>, DifferentialError> {
        self.store
            .read(&self.generations, key.as_ref(), self.read_options())
    }

    /// The values of several keys in the snapshot, in their order.
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Vec<u8>>, DifferentialError>> {
        self.store
            .read_many(&self.generations, keys, self.read_options())
    }

    fn read_options(&self) -> StoreReadOptions<'_> {
        StoreReadOptions {
            own: &self.own,
            main: &self.main,
        }
    }
}

/// Read options for this snapshot, if the file is in the store's `own` database. Another database
/// is read as it is.
pub(super) fn at_moment(snapshot: &SieveSnapshot<'_>, own: bool) -> ReadOptions {
    let mut options = ReadOptions::default();
    // Otherwise a prefix extractor of the user could end a search at the first prefix that it
    // rules out.
    options.set_total_order_seek(true);
    if own {
        options.set_snapshot(snapshot);
    }
    options
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rocksdb::Options;

    use super::*;
    use crate::options::DifferentialOptions;

    /// Otherwise records in a generation that is not in the list would be missing.
    #[test]
    fn a_list_of_another_moment_is_not_taken() {
        let home = tempfile::tempdir().unwrap();
        let mut engine = Options::default();
        engine.create_if_missing(true);
        let options = DifferentialOptions::default();
        let store = DifferentialStore::open(&engine, &options, home.path()).unwrap();
        store.put("key", "old").unwrap();
        let mut looks = 0;
        let snapshot = Snapshot::taken(&store, || {
            looks += 1;
            if looks == 1 {
                store.freeze().unwrap();
                store.put("key", "new").unwrap();
            }
        });
        assert_eq!(snapshot.get("key").unwrap().as_deref(), Some(&b"new"[..]));
        assert_eq!(looks, 2);
    }
}

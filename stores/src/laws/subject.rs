//! The store under test.

use std::path::Path;
use std::time::Duration;

use crate::kv::{Batch, FilteredStore, Store};
use crate::laws::mutant_store::MutantStore;
use lsm_sieve_front::mutant::Mutant;

/// How long a store may take to cover everything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a store under test failed.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A store behind filters. Dropping it closes it.
pub trait Subject: Send + Sync {
    /// Writes a batch: sets each key to some value, or, if the flag is false, deletes it.
    ///
    /// # Errors
    /// If the store fails.
    fn write(&self, batch: &[(Vec<u8>, bool)]) -> Result<(), BoxError>;

    /// Whether a read finds the key, as the store's users read.
    ///
    /// # Errors
    /// If the store fails.
    fn contains(&self, key: &[u8]) -> Result<bool, BoxError>;

    /// Whether the store has the key, whatever the filters say.
    ///
    /// # Errors
    /// If the store fails.
    fn contains_past_filters(&self, key: &[u8]) -> Result<bool, BoxError>;

    /// Whether the filters alone rule the key out.
    fn is_denied(&self, key: &[u8]) -> bool;

    /// Waits until the filters cover everything, some seconds at most; returns whether they do.
    fn settle(&self) -> bool;

    /// Writes what is in memory to segments, if the store has any.
    ///
    /// # Errors
    /// If the store fails.
    fn flush(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Merges segments, if the store has any.
    ///
    /// # Errors
    /// If the store fails.
    fn merge(&self) -> Result<(), BoxError> {
        Ok(())
    }

    /// Brings keys into the store past its usual writes. Returns false if it has no such way.
    ///
    /// # Errors
    /// If the store fails.
    fn ingest(&self, keys: &[Vec<u8>]) -> Result<bool, BoxError> {
        let _ = keys;
        Ok(false)
    }

    /// Rebuilds the summary filter. It may fail: the old one must be right too.
    fn rebuild_filters(&self) {}

    /// Keeps the state that the store is in, and returns its number; `None` if it has no savepoints.
    ///
    /// # Errors
    /// If the store fails.
    fn savepoint(&self) -> Result<Option<u64>, BoxError> {
        Ok(None)
    }

    /// Announces writes past the filters, restores a savepoint and brings keys. Calls `meanwhile`
    /// when they are announced and after each write. Returns whether the savepoint was restored;
    /// `None` if the store has no such way.
    ///
    /// # Errors
    /// If the store or `meanwhile` fails.
    fn write_externally(
        &self,
        savepoint: Option<u64>,
        keys: &[Vec<u8>],
        meanwhile: &mut dyn FnMut() -> Result<(), BoxError>,
    ) -> Result<Option<bool>, BoxError> {
        let _ = (savepoint, keys, meanwhile);
        Ok(None)
    }

    /// Makes the store's next read of all keys fail after this many. Returns false if it cannot.
    fn fail_scan(&self, after: u64) -> bool {
        let _ = after;
        false
    }
}

/// A [`Store`] that the suite can write to.
pub trait TestStore: Store {
    /// A batch that sets each key to some value, or, if the flag is false, deletes it: [`batch`] for
    /// stores that commit a [`Batch`].
    fn batch(entries: &[(Vec<u8>, bool)]) -> Self::Batch;

    /// Keeps the present state, keys and records, for [`TestStore::restore`], and returns its
    /// number; `None` if the store has no savepoints.
    ///
    /// # Errors
    /// The store's.
    fn savepoint(&self) -> Result<Option<u64>, Self::Error> {
        Ok(None)
    }

    /// Goes back to a savepoint. False if it is gone.
    ///
    /// # Errors
    /// The store's.
    fn restore(&self, savepoint: u64) -> Result<bool, Self::Error> {
        let _ = savepoint;
        Ok(false)
    }

    /// Takes what was not synced from a copy of the store's files. False if it is not known.
    ///
    /// # Errors
    /// Of the files.
    fn cut_power(copy: &Path) -> Result<bool, BoxError> {
        let _ = copy;
        Ok(false)
    }

    /// Makes the next [`Store::scan`] fail after this many keys, as for a disk that cannot be read.
    /// False if it cannot.
    fn fail_scan(&self, after: u64) -> bool {
        let _ = after;
        false
    }
}

/// A batch that sets each key to some value, or, if the flag is false, removes it.
pub fn batch(entries: &[(Vec<u8>, bool)]) -> Batch {
    let add = |batch: Batch, (key, is_set): &(Vec<u8>, bool)| match is_set {
        true => batch.insert(key.clone(), *b"value"),
        false => batch.remove(key.clone()),
    };
    entries.iter().fold(Batch::default(), add)
}

/// A [`Store`] behind a filter: see [`Suite::store`](super::Suite::store).
pub struct StoreSubject<S: TestStore> {
    store: FilteredStore<MutantStore<S>>,
    announces: bool,
}

impl<S: TestStore> StoreSubject<S> {
    /// The store itself.
    pub(super) fn inner(&self) -> &S {
        &self.store.store().store
    }

    pub(super) fn new(store: FilteredStore<MutantStore<S>>, mutant: Option<Mutant>) -> Self {
        Self {
            store,
            announces: mutant != Some(Mutant::UnannouncedWrites),
        }
    }
}

impl<S: TestStore> Subject for StoreSubject<S> {
    fn write(&self, batch: &[(Vec<u8>, bool)]) -> Result<(), BoxError> {
        Ok(self.store.commit(S::batch(batch))?)
    }

    fn contains(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.store.get(key)?.is_some())
    }

    fn contains_past_filters(&self, key: &[u8]) -> Result<bool, BoxError> {
        Ok(self.store.store().get(key)?.is_some())
    }

    fn is_denied(&self, key: &[u8]) -> bool {
        self.store.answer(key).is_absent()
    }

    fn settle(&self) -> bool {
        self.store.wait_until_complete(PATIENCE)
    }

    fn ingest(&self, keys: &[Vec<u8>]) -> Result<bool, BoxError> {
        let announced = self.announces.then(|| self.store.external_writes());
        let _announced = announced.transpose()?;
        let entries: Vec<_> = keys.iter().map(|key| (key.clone(), true)).collect();
        self.store.store().commit(S::batch(&entries), &[])?;
        Ok(true)
    }

    fn rebuild_filters(&self) {
        _ = self.store.consolidate();
    }

    fn savepoint(&self) -> Result<Option<u64>, BoxError> {
        Ok(self.inner().savepoint()?)
    }

    fn write_externally(
        &self,
        savepoint: Option<u64>,
        keys: &[Vec<u8>],
        meanwhile: &mut dyn FnMut() -> Result<(), BoxError>,
    ) -> Result<Option<bool>, BoxError> {
        let announced = self.announces.then(|| self.store.external_writes());
        let _announced = announced.transpose()?;
        meanwhile()?;
        let store = self.store.store();
        let restored = savepoint.map(|savepoint| self.inner().restore(savepoint));
        let restored = restored.transpose()?.unwrap_or(false);
        meanwhile()?;
        let (last, others) = keys.split_last().ok_or("no keys")?;
        let set: Vec<_> = others.iter().map(|key| (key.clone(), true)).collect();
        store.commit(S::batch(&set), &[])?;
        meanwhile()?;
        // A write of the usual way beside them.
        self.store.commit(S::batch(&[(last.clone(), true)]))?;
        meanwhile()?;
        Ok(Some(restored))
    }

    fn fail_scan(&self, after: u64) -> bool {
        self.inner().fail_scan(after)
    }
}

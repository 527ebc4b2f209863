//! A store with a filter in front.

use std::collections::HashSet;
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::{Disk, RealDisk};
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::kv::link::{DistrustError, Link, StoredFilter, is_worth_a_look};
use crate::kv::recovery::{Commits, Recovery, State};
use crate::kv::store::Store;
use crate::kv::write::Write;
use crate::sync::Mutex;
use lsm_sieve_front::cf_filter::multi_lookup::multi_get;
use lsm_sieve_front::cf_filter::{CfFilter, lookup};
use lsm_sieve_front::engine::Engine;
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::filters::Filters;
use lsm_sieve_front::opening::{FilterFolderError, FolderLock, Opening};
use lsm_sieve_front::options::{FrontOptions, SummarySaves};
use lsm_sieve_front::view::{Answer, Coverage};

/// A filter could not be put before a store. No key was touched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError<E: std::error::Error + 'static> {
    /// The folder of the filter cannot be used.
    #[error("cannot use the filter folder: {0}")]
    Folder(#[from] FilterFolderError),
    /// The records of the store cannot be read or removed.
    #[error("cannot read or remove the filter's records in the store: {0}")]
    Records(#[source] E),
    /// The maintenance thread cannot be started.
    #[error("cannot start the maintenance thread: {0}")]
    Thread(#[source] io::Error),
}

/// A key-value store with a filter in front. The [module](super) has the rules that the store must
/// keep. The state of the filter and its maintenance are those of [`Filters`], to which it
/// dereferences.
///
/// Dropping it saves the filter.
pub struct FilteredStore<S: Store> {
    filters: Filters,
    cf: Arc<CfFilter>,
    link: Arc<Link<S>>,
    /// Declared last: released when all is written.
    _lock: Option<FolderLock>,
}

impl<S: Store> FilteredStore<S> {
    /// Puts a filter before a store that is open. `folder` is the folder of the filter, which is
    /// created if it does not exist.
    ///
    /// # Errors
    /// [`OpenError`]. A filter that cannot be read is rebuilt instead.
    pub fn open(
        store: S,
        folder: &Path,
        options: &FilterOptions,
        recovery: Recovery,
    ) -> Result<Self, OpenError<S::Error>> {
        let lock = FolderLock::of(folder)?;
        Self::open_on(
            Arc::new(RealDisk),
            store,
            folder,
            options,
            recovery,
            Some(lock),
        )
    }

    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        store: S,
        folder: &Path,
        options: &FilterOptions,
        recovery: Recovery,
        lock: Option<FolderLock>,
    ) -> Result<Self, OpenError<S::Error>> {
        let _span = tracing::info_span!("open", path = %folder.display()).entered();
        let front = FrontOptions {
            unordered_writes: true,
            segment_rate: None,
            summary_saves: match recovery {
                Recovery::Scan => SummarySaves::Never,
                Recovery::Position | Recovery::Journal => SummarySaves::WhenUseful,
            },
            ..options.resolved()
        };
        let hash = options.get_hash();
        let (opening, cf) = Opening::of_one_key_space(disk, folder, &front, hash)?;
        let opened = Commits::open(&store, recovery, &cf.coverage().covered())
            .map_err(OpenError::Records)?;
        let mut found = opened.position.filter(|_| opened.trusted.is_none());
        fault!(FoundNameKept, found = None);
        let trusted = opened.trusted;
        let journaled = trusted.map_or(0, |(state, missing)| complete(&cf, state, &missing));
        let link = Arc::new(Link {
            store,
            recovery,
            commits: Mutex::new(opened.commits),
            journaled: AtomicU64::new(journaled),
            writes: AtomicU64::new(0),
            external: Mutex::default(),
            found,
            stored: StoredFilter {
                cf: Arc::clone(&cf),
                filter_store: Arc::clone(&opening.filter_store),
            },
        });
        let mut commits_lack_records = recovery == Recovery::Scan && opened.position.is_some();
        fault!(EarlierRecordsKept, commits_lack_records = false);
        if commits_lack_records {
            link.distrust_stored().map_err(|error| match error {
                DistrustError::Folder(error) => OpenError::Folder(error),
                DistrustError::Records(error) => OpenError::Records(error),
            })?;
        } else if found.is_some()
            && let Err(error) = link.rename_state()
        {
            tracing::warn!(%error, "all keys are read again at the next open");
        }
        let engine: Arc<dyn Engine> = Arc::<Link<S>>::clone(&link);
        let filters = Filters::of_one_key_space(engine, (opening, &cf), front);
        filters.start_thread().map_err(OpenError::Thread)?;
        Ok(Self {
            filters,
            cf,
            link,
            _lock: lock,
        })
    }

    /// The store. Writes to it must be announced ([`FilteredStore::external_writes`]), unless they
    /// are part of a [`FilteredStore::write`].
    pub fn store(&self) -> &S {
        &self.link.store
    }

    /// The value of a key.
    ///
    /// # Errors
    /// The store's.
    pub fn get(&self, key: &[u8]) -> Result<Option<S::Value>, S::Error> {
        lookup::get(&*self.cf, key, || self.link.store.get(key))
    }

    /// What `read` returns, unless the filter answers absent. For reads other than the store's
    /// [`Store::get`]; they must read the current state.
    ///
    /// # Errors
    /// The errors of `read`.
    pub fn get_with<V, E>(
        &self,
        key: &[u8],
        read: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        lookup::get(&*self.cf, key, read)
    }

    /// The values of several keys, in their order. `read` gets those that the filter does not rule
    /// out, and reads them at one moment; it may be called twice.
    pub fn multi_get_with<V, E, K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        read: impl Fn(&[&[u8]]) -> Vec<Result<Option<V>, E>>,
    ) -> Vec<Result<Option<V>, E>> {
        multi_get(&self.cf, keys, read)
    }

    /// What the filter alone says of a key.
    pub fn answer(&self, key: &[u8]) -> Answer {
        lookup::answer(&*self.cf, key)
    }

    /// Commits a batch.
    ///
    /// # Errors
    /// The store's. The batch may have been committed or not, as without a filter.
    pub fn commit(&self, batch: S::Batch) -> Result<(), S::Error> {
        self.write(|write| {
            let store = &self.link.store;
            store.keys_of(&batch, &mut |key| write.insert(key));
            store.commit(batch, &write.records())
        })
    }

    /// Runs a write of the caller's: `commit` adds the keys that it may bring
    /// ([`Write::insert`]), then commits them to the store together with the records
    /// ([`Write::records`]), and returns `Ok` if all was committed.
    ///
    /// With [`Recovery::Journal`] one write runs at a time. A transaction of the store must begin
    /// within `commit`, and no other method of this type may be called there, or two threads may
    /// wait for each other.
    ///
    /// # Errors
    /// The errors of `commit`.
    ///
    /// A `commit` that panics after it added keys and did not ask for the records, or that returns
    /// so, makes the next open read all keys.
    ///
    /// # Panics
    /// If it succeeded and did not ask for the records after its last key, unless the recovery is
    /// [`Recovery::Scan`].
    pub fn write<R, E>(&self, commit: impl FnOnce(&mut Write<'_>) -> Result<R, E>) -> Result<R, E> {
        let link = &*self.link;
        link.writes.fetch_add(1, Ordering::Relaxed);
        let mut write = Write::begin(&link.stored, &link.commits);
        write.commits(|commits| commits.resume(&link.store));
        let committed = commit(&mut write);
        if link.recovery != Recovery::Scan && write.lacks_records() {
            drop(write);
            if let Err(error) = link.distrust_stored() {
                tracing::error!(%error, "remove the folder of the filter before the next open");
            }
            assert!(
                committed.is_err(),
                "keys were committed without the records of their write"
            );
        } else if committed.is_ok() {
            write.commits(Commits::succeeded);
            self.count_journaled(write.journaled());
        }
        committed
    }

    /// Wakes maintenance if the journal has become long.
    fn count_journaled(&self, more: u64) {
        let before = self.link.journaled.fetch_add(more, Ordering::Relaxed);
        if is_worth_a_look(before, more) {
            self.filters.wakeup.notify();
        }
    }

    /// Must be held while keys come to the store in another way. Meanwhile no key is denied, and
    /// afterwards not until all keys were read. The stored filter is removed first: the store may go
    /// back to an earlier state, or the process may end. To be called before a transaction of the
    /// store begins, and not within a [`FilteredStore::write`].
    ///
    /// # Errors
    /// If the stored filter cannot be removed, or the store cannot commit that it is no longer
    /// complete. Nothing was announced then, and no key may come.
    pub fn external_writes(&self) -> Result<ExternalWrites<'_, S>, DistrustError<S::Error>> {
        self.link.external_writes_begin()?;
        Ok(ExternalWrites { link: &self.link })
    }
}

/// Adds the hashes that the stored filter lacks of this state. Returns their number.
fn complete(cf: &CfFilter, state: State, missing: &[KeyHash]) -> u64 {
    let summary = cf.view().summary;
    let hashes: Vec<_> = missing.iter().map(|hash| hash.for_summary()).collect();
    summary.insert_many(&hashes);
    let covered = HashSet::from([state.id()]);
    cf.publish(&cf.list(|| ()), summary, Coverage::Complete, covered);
    missing.len() as u64
}

/// The state of the filter, and its maintenance.
impl<S: Store> Deref for FilteredStore<S> {
    type Target = Filters;

    fn deref(&self) -> &Filters {
        &self.filters
    }
}

impl<S: Store> Drop for FilteredStore<S> {
    fn drop(&mut self) {
        self.filters.stop_maintenance();
    }
}

impl<S: Store> std::fmt::Debug for FilteredStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FilteredStore").finish_non_exhaustive()
    }
}

/// External writes that are under way; they end when this is dropped.
pub struct ExternalWrites<'a, S: Store> {
    link: &'a Link<S>,
}

impl<S: Store> Drop for ExternalWrites<'_, S> {
    fn drop(&mut self) {
        // A second panic on the way out would end the process.
        let end = || self.link.external_writes_end();
        if catch_unwind(AssertUnwindSafe(end)).is_err() {
            tracing::error!("the store panicked; no key is denied until the next open");
        }
    }
}

impl<S: Store> std::fmt::Debug for ExternalWrites<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExternalWrites").finish_non_exhaustive()
    }
}

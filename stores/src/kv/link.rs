//! The store as the engine behind its filter: one segment that holds all keys and whose id is the
//! name of the store's state.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::fault;
use crate::kv::recovery::{Commits, Recovery, State};
use crate::kv::store::Store;
use crate::reach::reached;
use crate::sync::{Mutex, unpoisoned};
use lsm_sieve_front::cf_filter::{CfFilter, ExternalWrites};
use lsm_sieve_front::engine::{Engine, EngineError, KeySpace, LiveSegment};
use lsm_sieve_front::filter_store::FilterStore;
use lsm_sieve_front::opening::FilterFolderError;
use lsm_sieve_front::segment::SegmentId;

/// The filter is stored again once the journal has more hashes than this,
const LEAST_JOURNAL: u64 = 1 << 16;

/// and more than one for this many keys of the filter.
const PART_OF_KEYS: u64 = 8;

pub(super) struct Link<S> {
    pub(super) store: S,
    pub(super) recovery: Recovery,
    pub(super) commits: Mutex<Commits>,
    /// Hashes in the journal since the filter was stored.
    pub(super) journaled: AtomicU64,
    /// Number of writes since the open.
    pub(super) writes: AtomicU64,
    pub(super) external: Mutex<External>,
    /// The name of the state that the store was opened in, if no stored filter was trusted for it.
    /// The store may have had other keys under that name, so no filter is stored under it.
    pub(super) found: Option<State>,
    pub(super) stored: StoredFilter,
}

/// External writes. While they are under way, no state of the store is covered by its name.
#[derive(Debug, Default)]
pub(super) struct External {
    /// Those whose end could not be recorded stay, so that no key is denied until the next open.
    under_way: Vec<ExternalWrites>,
    /// Grows when they begin and when they end.
    count: u64,
}

/// The filter that is stored. Its folder goes back to no earlier state when the store does.
pub(super) struct StoredFilter {
    pub(super) cf: Arc<CfFilter>,
    pub(super) filter_store: Arc<FilterStore>,
}

impl StoredFilter {
    /// Removes the stored filter, durably. A save that has begun is not published any more.
    pub(super) fn forget(&self) -> Result<(), FilterFolderError> {
        fault!(StoredFilterKept, return Ok(()));
        self.cf.coverage().forget_saved();
        let forgotten = self.filter_store.forget_summary(self.cf.name());
        forgotten.map_err(FilterFolderError::Folder)
    }
}

/// The next open may still trust the stored filter, so external writes must not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DistrustError<E: std::error::Error + 'static> {
    /// The stored filter cannot be removed.
    #[error("cannot remove the stored filter: {0}")]
    Folder(#[source] FilterFolderError),
    /// The filter's records in the store cannot be changed, or not durably.
    #[error("cannot change the filter's records in the store: {0}")]
    Records(#[source] E),
}

impl<S: Store> Link<S> {
    /// The state that the store is in, if it has a name.
    fn state(&self) -> Result<Option<State>, S::Error> {
        match self.recovery {
            Recovery::Scan => Ok(None),
            Recovery::Position | Recovery::Journal => State::read(&self.store),
        }
    }

    /// If the store panics, they count as under way until the next open.
    pub(super) fn external_writes_begin(&self) -> Result<(), DistrustError<S::Error>> {
        {
            let announced = self.stored.cf.begin_external_writes();
            let mut external = unpoisoned(self.external.lock());
            external.under_way.push(announced);
            external.count += 1;
        }
        let begun = self.distrust_stored();
        if begun.is_err() {
            self.end_one();
        }
        begun
    }

    /// Invalidates again: the writes may have brought back older records, and commits beside them
    /// named states. If that fails, they count as under way until the next open.
    pub(super) fn external_writes_end(&self) {
        fault!(InvalidatedOnlyBefore, return self.end_one());
        match self.invalidate() {
            Ok(()) => self.end_one(),
            Err(error) => {
                reached!(ExternalEndUnrecorded);
                tracing::error!(%error, "no key is denied until the next open");
                fault!(EndedWithoutRecord, self.end_one());
            }
        }
    }

    fn end_one(&self) {
        let ended = {
            let mut external = unpoisoned(self.external.lock());
            external.count += 1;
            external.under_way.pop()
        };
        // Wakes maintenance, which lists the store by its new number.
        drop(ended);
    }

    /// Makes the next open read all keys, whatever becomes of the store: one that goes back to an
    /// earlier state brings back its records, and not the stored filter.
    pub(super) fn distrust_stored(&self) -> Result<(), DistrustError<S::Error>> {
        self.stored.forget().map_err(DistrustError::Folder)?;
        self.invalidate().map_err(DistrustError::Records)
    }

    /// Commits, durably, that no filter that is stored by now has all keys, also in another folder.
    fn invalidate(&self) -> Result<(), S::Error> {
        if self.recovery == Recovery::Scan && State::read(&self.store)?.is_none() {
            return Ok(());
        }
        let mut commits = unpoisoned(self.commits.lock());
        commits.resume(&self.store);
        let records = commits.invalidate();
        self.store.commit(S::Batch::default(), &records)?;
        fault!(InvalidationNotSynced, return Ok(()));
        self.store.sync()
    }

    /// Gives the state that the store is in another name.
    pub(super) fn rename_state(&self) -> Result<(), S::Error> {
        let mut commits = unpoisoned(self.commits.lock());
        let records = commits.next(&[]);
        self.store.commit(S::Batch::default(), &records)?;
        commits.succeeded();
        Ok(())
    }

    /// Keys that the filter has, more or less.
    fn filtered_keys(&self) -> u64 {
        self.stored.cf.view().summary.estimated_items().get()
    }
}

impl<S: Store> Engine for Link<S> {
    fn segments(&self, _: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        let external = unpoisoned(self.external.lock());
        let state = self.state().map_err(failed)?;
        let may_name = external.under_way.is_empty() && state != self.found;
        let name = format!("store-{}", external.count);
        Ok(vec![LiveSegment {
            file: name.clone().into_bytes(),
            path: name,
            lasting_id: state.filter(|_| may_name).map(State::id),
            instance_id: None,
            is_checked_by_engine: false,
            entries: self.store.approximate_len().max(self.filtered_keys()),
            are_entries_exact: false,
            level: None,
            is_in_last_level: false,
            range: None,
        }])
    }

    fn raw_keys(
        &self,
        _: &KeySpace,
        _: &LiveSegment,
        each: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        let mut each = |key: &[u8]| each(key, false);
        self.store.scan(&mut each).map_err(failed)
    }

    fn entries_in_memtables(&self, _: &KeySpace) -> Result<u64, EngineError> {
        Ok(0)
    }

    /// A write that is under way has a hold.
    fn memtable_keys(
        &self,
        _: &KeySpace,
        _: &mut dyn FnMut(&[u8], bool) -> bool,
    ) -> Result<(), EngineError> {
        Ok(())
    }

    fn is_idle(&self) -> bool {
        true
    }

    fn latest_sequence_number(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    fn contains(&self, _: &KeySpace, key: &[u8]) -> Option<bool> {
        Some(self.store.get(key).ok()?.is_some())
    }

    fn wants_summary_saved(&self, _: &KeySpace) -> bool {
        let journaled = self.journaled.load(Ordering::Relaxed);
        journaled > LEAST_JOURNAL.max(self.filtered_keys() / PART_OF_KEYS)
    }

    fn summary_saved(&self, _: &KeySpace, covered: &HashSet<SegmentId>) {
        let mut commits = unpoisoned(self.commits.lock());
        let mut journaled = 0;
        fault!(
            JournalCountKept,
            journaled = self.journaled.load(Ordering::Relaxed)
        );
        self.journaled.store(journaled, Ordering::Relaxed);
        covered.iter().for_each(|&id| commits.filter_stored(id));
    }
}

fn failed(error: impl std::error::Error) -> EngineError {
    EngineError::Failed(error.to_string())
}

/// Whether to check, after `more` hashes, if the filter should be stored: once per `LEAST_JOURNAL`.
pub(super) fn is_worth_a_look(before: u64, more: u64) -> bool {
    before / LEAST_JOURNAL != (before + more) / LEAST_JOURNAL
}

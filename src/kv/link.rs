//! The store as the engine behind its filter: one segment that holds all keys and whose id is the
//! name of the store's state.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::fault;
use crate::front::cf_filter::CfFilter;
use crate::front::engine::{Engine, EngineError, KeySpace, LiveSegment};
use crate::kv::recovery::{Commits, Recovery, State};
use crate::kv::store::Store;
use crate::segment::SegmentId;
use crate::sync::{Mutex, unpoisoned};

/// Hashes in the journal at which the filter is stored again, at least.
const LEAST_JOURNAL: u64 = 1 << 16;

/// And this part of the filter's keys.
const PART_OF_KEYS: u64 = 8;

pub(super) struct Link<S> {
    pub(super) store: S,
    pub(super) recovery: Recovery,
    pub(super) commits: Mutex<Commits>,
    /// Hashes in the journal since the filter was stored.
    pub(super) journaled: AtomicU64,
    /// Grows with each write.
    pub(super) writes: AtomicU64,
    pub(super) external: Mutex<External>,
    pub(super) cf: Arc<CfFilter>,
}

/// External writes. While they are under way, no state of the store is covered by its name.
#[derive(Debug, Default)]
pub(super) struct External {
    under_way: usize,
    /// Grows when they begin and when they end.
    count: u64,
}

impl<S: Store> Link<S> {
    /// The state that the store is in, if it has a name.
    fn state(&self) -> Result<Option<State>, S::Error> {
        match self.recovery {
            Recovery::Scan => Ok(None),
            Recovery::Position | Recovery::Journal => State::read(&self.store),
        }
    }

    pub(super) fn external_writes_begin(&self) -> Result<(), S::Error> {
        {
            let mut external = unpoisoned(self.external.lock());
            external.under_way += 1;
            external.count += 1;
        }
        self.invalidate_stored_filters()
    }

    /// Invalidates again: the writes may have brought back older records, and commits beside them
    /// named states. If that fails, they count as under way until the next open.
    pub(super) fn external_writes_end(&self) {
        fault!(InvalidatedOnlyBefore, {
            unpoisoned(self.external.lock()).under_way -= 1;
            return;
        });
        match self.invalidate_stored_filters() {
            Ok(()) => {
                let mut external = unpoisoned(self.external.lock());
                external.under_way -= 1;
                external.count += 1;
            }
            Err(error) => tracing::error!(
                %error,
                "no key is denied until the next open; remove the folder of the filter before it"
            ),
        }
    }

    /// If a stored filter may be trusted at all: [`Link::commit_invalidation`].
    pub(super) fn invalidate_stored_filters(&self) -> Result<(), S::Error> {
        match self.recovery {
            Recovery::Scan => Ok(()),
            Recovery::Position | Recovery::Journal => self.commit_invalidation(),
        }
    }

    /// Commits, durably, that no filter that is stored by now has all keys.
    pub(super) fn commit_invalidation(&self) -> Result<(), S::Error> {
        let mut commits = unpoisoned(self.commits.lock());
        commits.resume(&self.store);
        let records = commits.invalidate();
        self.store.commit(S::Batch::default(), &records)?;
        self.store.sync()
    }

    /// Keys that the filter has, more or less.
    fn filtered_keys(&self) -> u64 {
        self.cf.view().summary.estimated_items().get()
    }
}

impl<S: Store> Engine for Link<S> {
    fn segments(&self, _: &KeySpace) -> Result<Vec<LiveSegment>, EngineError> {
        let external = unpoisoned(self.external.lock());
        let state = self.state().map_err(failed)?;
        let may_name = external.under_way == 0;
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

    /// A commit is in the store when its write ends.
    fn flush(&self, _: &KeySpace) -> Result<(), EngineError> {
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

    fn wants_summary_stored(&self, _: &KeySpace) -> bool {
        let journaled = self.journaled.load(Ordering::Relaxed);
        journaled > LEAST_JOURNAL.max(self.filtered_keys() / PART_OF_KEYS)
    }

    fn summary_stored(&self, _: &KeySpace, covered: &HashSet<SegmentId>) {
        let mut commits = unpoisoned(self.commits.lock());
        self.journaled.store(0, Ordering::Relaxed);
        covered.iter().for_each(|&id| commits.filter_stored(id));
    }
}

fn failed(error: impl std::error::Error) -> EngineError {
    EngineError::Failed(error.to_string())
}

/// Whether this many hashes more make it worth a look whether the filter should be stored.
pub(super) fn is_worth_a_look(before: u64, more: u64) -> bool {
    before / LEAST_JOURNAL != (before + more) / LEAST_JOURNAL
}

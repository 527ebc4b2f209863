//! The folder of filters, as maintenance uses it. What cannot be read or written is logged and
//! skipped; lookups then take longer, but their answers stay right.

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fault::fault;
use crate::filter::{Chain, Scalable, Stage};
use crate::format::{Identity, PrefixId, Sidecar, Source, Subject};
use crate::math::{Bits, Items, Rate};
use crate::reach::reached;
use crate::segment::{
    IDENTITY_FILE, IdentityError, SealedFilter, SegmentId, SidecarError, SidecarFolder, SidecarName,
};
use crate::sync::{Mutex, unpoisoned};

/// A summary filter as it was stored.
#[derive(Debug)]
pub struct Snapshot {
    pub chain: Chain,
    /// The segments whose keys are all in it.
    pub covered: HashSet<SegmentId>,
    /// The rate that it was built for.
    pub(crate) rate: Rate,
    /// The prefix functions for which it also has the prefixes of all keys.
    pub(crate) prefixes: Vec<PrefixId>,
}

/// Loads and stores filters on disk.
#[derive(Debug)]
pub struct FilterStore {
    folder: SidecarFolder,
    /// Set once the next open would not trust what is stored from now on.
    distrusted_runs: AtomicBool,
    /// Held while a filter is published or forgotten.
    publishing: Mutex<()>,
}

impl FilterStore {
    pub(crate) fn new(folder: SidecarFolder) -> Self {
        Self {
            folder,
            distrusted_runs: AtomicBool::new(false),
            publishing: Mutex::default(),
        }
    }

    pub(crate) fn folder(&self) -> &SidecarFolder {
        &self.folder
    }

    /// The filter of a segment, if a valid one is stored.
    pub fn load(&self, id: SegmentId) -> Option<SealedFilter> {
        self.load_checked(id).unwrap_or_else(|error| {
            warn(
                &error,
                "a filter is unusable; lookups read the SST until it is rebuilt",
            );
            reached!(SidecarUnusable);
            None
        })
    }

    /// The filter of a segment, if a valid one of at most `room` is stored. Nothing larger is read,
    /// whatever the file says.
    pub(crate) fn load_within(&self, id: SegmentId, room: Bits) -> Option<SealedFilter> {
        match self.folder.header(SidecarName::Segment(id)) {
            Ok(Some(header)) if header.size() > room => None,
            // The load logs what is wrong with it.
            _ => self.load(id).filter(|filter| filter.chain.size() <= room),
        }
    }

    /// The filter of a segment; `None` if it has no sidecar.
    pub fn load_checked(&self, id: SegmentId) -> Result<Option<SealedFilter>, SidecarError> {
        let loaded = self.folder.load_stages(SidecarName::Segment(id));
        fault!(
            DamagedIsEmpty,
            if matches!(loaded, Err(SidecarError::Damaged { .. })) {
                let nothing = Chain::new(*self.folder.imprint(), Vec::new());
                let rate = crate::math::Rate::ONE_PERCENT;
                return Ok(Some(SealedFilter::new(nothing, 0, rate, Source::RawKeys)));
            }
        );
        let Some(sidecar) = loaded? else {
            return Ok(None);
        };
        let chain = Chain::new(sidecar.imprint, sidecar.stages);
        let (entries, rate, source) = (sidecar.entries, sidecar.rate, sidecar.source);
        let filter = SealedFilter::new(chain, entries, rate, source);
        Ok(Some(filter.with_prefixes(sidecar.prefixes.into())))
    }

    /// Stores a segment's filter; false if it could not.
    pub fn save(&self, id: SegmentId, filter: &SealedFilter) -> bool {
        let sidecar = Sidecar {
            store: self.folder.store_id(),
            imprint: *self.folder.imprint(),
            subject: Subject::Segment(id),
            source: filter.source,
            entries: filter.entries,
            rate: filter.rate,
            prefixes: filter.prefixes.to_vec(),
            stages: filter.chain.stages().iter().collect(),
        };
        // Checked after the write: a filter that was damaged before it would have got a valid
        // checksum.
        self.put(&sidecar, || {
            let intact = filter.is_intact();
            if !intact {
                tracing::error!(segment = %id, "a filter changed in memory; it is not stored");
            }
            intact
        })
    }

    /// The summary filter of a key space and the segments that it covers, if a valid one of at most
    /// `room` is stored.
    pub fn load_summary(&self, name: &str, room: Bits) -> Option<Snapshot> {
        let header = self.folder.header(summary_of(name));
        if header.is_ok_and(|header| header.is_some_and(|header| header.size() > room)) {
            tracing::warn!(
                cf_filter = name,
                "the memory budget has no room for the stored summary filter"
            );
            return None;
        }
        let loaded = self.folder.load_stages(summary_of(name));
        let mut sidecar = loaded.unwrap_or_else(|error| {
            warn(
                &error,
                "a stored summary filter is unusable; it will be rebuilt",
            );
            reached!(SummaryUnusable);
            None
        })?;
        let Subject::Summary { covered, .. } = &mut sidecar.subject else {
            return None;
        };
        let covered = std::mem::take(covered);
        Some(Snapshot {
            rate: sidecar.rate,
            prefixes: sidecar.prefixes,
            covered: set_of(covered)?,
            chain: Chain::new(sidecar.imprint, sidecar.stages),
        })
    }

    /// Whether a column family has a stored summary filter, and its checksums match.
    ///
    /// # Errors
    /// If the stored filter cannot be read or used.
    pub fn check_summary(&self, name: &str) -> Result<bool, SidecarError> {
        Ok(self.folder.verify(summary_of(name))?.is_some())
    }

    /// Whether the folder still has the identity by which all its files are read.
    pub fn check_identity(&self) -> Result<(), IdentityError> {
        let folder = &self.folder;
        let kept = Identity::load(folder.disk(), folder.path())?;
        if kept.is_some_and(|kept| kept.store == folder.store_id()) {
            return Ok(());
        }
        let path = folder.path().join(IDENTITY_FILE);
        Err(IdentityError::Lost { path })
    }

    /// Stores a summary filter, the segments that it covers and the prefixes that it has, if it is
    /// intact after the write. False if it is not stored.
    pub fn save_summary(
        &self,
        name: &str,
        summary: &Scalable,
        covered: &HashSet<SegmentId>,
        prefixes: Vec<PrefixId>,
        is_good: impl FnOnce() -> bool,
    ) -> bool {
        let covered = gathered(covered.len(), covered.iter().copied());
        let (Some(mut covered), Some(stages)) = (covered, summary.all_stages()) else {
            return false;
        };
        // A filter with a full stage would never answer *absent*.
        if stages.iter().any(|stage| stage.is_full()) {
            return false;
        }
        covered.sort_unstable();
        let items: Items = stages.iter().map(|stage| stage.items()).sum();
        let sidecar = Sidecar {
            store: self.folder.store_id(),
            imprint: self.folder.imprint().for_summary(),
            subject: Subject::Summary {
                key_space: key_space(name),
                covered,
            },
            source: Source::Snapshot,
            entries: items.get(),
            rate: summary.options().rate,
            prefixes,
            stages,
        };
        self.put(&sidecar, is_good)
    }

    /// Makes the next open reject everything stored here, durably; false if it could not.
    pub(crate) fn distrust_stored(&self) -> bool {
        reached!(StoredDistrusted);
        self.distrusted_runs.store(true, Ordering::Release);
        let distrusted_runs = Identity::distrust_stored(self.folder.disk(), self.folder.path());
        if let Err(error) = &distrusted_runs {
            tracing::error!(
                %error,
                "filters that an audit found wrong may be loaded again; remove the folder before \
                 the next open"
            );
        }
        distrusted_runs.is_ok()
    }

    /// How many runs ended with the stored filters distrusted; 0 if that cannot be read.
    pub fn distrusted_runs(&self) -> usize {
        Identity::distrusted_runs(self.folder.disk(), self.folder.path()).unwrap_or_else(|error| {
            warn(
                &error,
                "cannot tell whether earlier runs found a false negative",
            );
            0
        })
    }

    /// Stores a sidecar if its filter is intact after the write.
    fn put(&self, sidecar: &Sidecar<&Stage>, is_good: impl FnOnce() -> bool) -> bool {
        if self.distrusted_runs.load(Ordering::Acquire) {
            return false;
        }
        let stored = self.folder.draft(sidecar).and_then(|draft| {
            let _publishing = unpoisoned(self.publishing.lock());
            let good = is_good() && !self.distrusted_runs.load(Ordering::Acquire);
            if good {
                draft.publish()?;
            }
            Ok(good)
        });
        if let Err(error) = &stored {
            warn(error, "a filter was not stored; it stays in memory");
        }
        stored.unwrap_or(false)
    }

    /// The segments that have a sidecar; none if the folder cannot be read.
    pub(crate) fn list(&self) -> Vec<SegmentId> {
        self.folder.list().unwrap_or_else(|error| {
            warn(&error, "cannot list the stored filters; none is removed");
            Vec::new()
        })
    }

    pub fn remove(&self, id: SegmentId) {
        if let Err(error) = self.folder.remove(SidecarName::Segment(id)) {
            warn(&error, "a stored filter without an SST stays for now");
        }
    }

    /// Removes a summary filter, durably. One that is being stored is published before, or not at
    /// all if its `is_good` says no from here on.
    ///
    /// # Errors
    /// If it may come back.
    pub fn forget_summary(&self, name: &str) -> Result<(), SidecarError> {
        let _publishing = unpoisoned(self.publishing.lock());
        let removed = self.folder.remove_durably(summary_of(name));
        if let Err(error) = &removed {
            tracing::error!(
                %error,
                "a stored filter that is not trusted may be loaded again; remove the folder before \
                 the next open"
            );
        }
        removed
    }

    pub fn remove_summary(&self, name: &str) {
        if let Err(error) = self.folder.remove(summary_of(name)) {
            warn(
                &error,
                "the stored summary filter of a dropped column family stays",
            );
        }
    }
}

fn summary_of(name: &str) -> SidecarName {
    SidecarName::Summary(key_space(name))
}

/// A number for a column family in file names. Two names with the same number only overwrite each
/// other's summary filter: coverage is stated by segments, never by this number.
fn key_space(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}

/// Collects `count` values, allocating fallibly.
fn gathered<T>(count: usize, values: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    if let Err(error) = all.try_reserve_exact(count) {
        tracing::warn!(%error, "no memory to store a filter; it stays in memory");
        return None;
    }
    all.extend(values);
    Some(all)
}

/// A file says how many there are, so the allocation may fail.
fn set_of(covered: Vec<SegmentId>) -> Option<HashSet<SegmentId>> {
    let mut set = HashSet::new();
    if let Err(error) = set.try_reserve(covered.len()) {
        tracing::warn!(%error, "no memory to load a summary filter; it will be rebuilt");
        return None;
    }
    set.extend(covered);
    Some(set)
}

/// Logs an error with its causes.
fn warn(error: &(dyn Error + 'static), consequence: &str) {
    tracing::warn!(error, "{consequence}");
}

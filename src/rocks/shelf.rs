//! The folder of filters as upkeep uses it: what cannot be read or written is logged and does
//! without; reads then cost time, never an answer.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::filter::{Chain, Scalable, Stage};
use crate::format::{Identity, Sidecar, Source, Subject};
use crate::math::{Bits, Items, Rate};
use crate::planted::planted;
use crate::segment::{
    IDENTITY_FILE, IdentityError, SealedFilter, SegmentId, SidecarError, SidecarFolder, SidecarName,
};

/// A summary as it was stored.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) chain: Chain,
    /// The segments whose keys are all in it.
    pub(crate) covers: HashSet<SegmentId>,
    /// The rate that it was made for.
    pub(crate) rate: Rate,
}

/// Filters on disk, in and out.
#[derive(Debug)]
pub(crate) struct Shelf {
    folder: SidecarFolder,
    /// What is kept from now on would not be believed by the next open.
    disowned: AtomicBool,
}

impl Shelf {
    pub(crate) fn new(folder: SidecarFolder) -> Self {
        Self {
            folder,
            disowned: AtomicBool::new(false),
        }
    }

    pub(crate) fn folder(&self) -> &SidecarFolder {
        &self.folder
    }

    /// The filter of a segment, if a good one is there.
    pub(crate) fn load(&self, id: SegmentId) -> Option<SealedFilter> {
        self.load_checked(id).unwrap_or_else(|error| {
            tracing::warn!(%error, "a filter is unusable; look-ups ask the table until it is rebuilt");
            None
        })
    }

    /// The filter of a segment, if a good one is there that takes at most `room`: nothing larger is
    /// read, whatever the file.
    pub(crate) fn load_within(&self, id: SegmentId, room: Bits) -> Option<SealedFilter> {
        match self.folder.header(SidecarName::Segment(id)) {
            Ok(Some(header)) if header.size() > room => None,
            // What is wrong with it is said by the load.
            _ => self.load(id).filter(|filter| filter.chain.size() <= room),
        }
    }

    /// The filter of a segment; `None` when it has no sidecar.
    pub(crate) fn load_checked(&self, id: SegmentId) -> Result<Option<SealedFilter>, SidecarError> {
        let loaded = self.folder.load_stages(SidecarName::Segment(id));
        if planted!(DamagedIsEmpty) && matches!(loaded, Err(SidecarError::Damaged { .. })) {
            let nothing = Chain::new(*self.folder.imprint(), Vec::new());
            let rate = crate::math::Rate::ONE_PERCENT;
            return Ok(Some(SealedFilter::new(nothing, 0, rate, Source::RawKeys)));
        }
        let Some(sidecar) = loaded? else {
            return Ok(None);
        };
        let chain = Chain::new(sidecar.imprint, sidecar.stages);
        let (entries, rate, source) = (sidecar.entries, sidecar.rate, sidecar.source);
        Ok(Some(SealedFilter::new(chain, entries, rate, source)))
    }

    /// Stores a segment's filter; false when it could not.
    pub(crate) fn save(&self, id: SegmentId, filter: &SealedFilter) -> bool {
        let sidecar = Sidecar {
            store: self.folder.store_id(),
            imprint: *self.folder.imprint(),
            subject: Subject::Segment(id),
            source: filter.source,
            entries: filter.entries,
            rate: filter.rate,
            stages: filter.chain.stages().iter().collect(),
        };
        // Once it is written: what was damaged before would have got a good checksum.
        self.put(&sidecar, || {
            let intact = filter.is_intact();
            if !intact {
                tracing::error!(segment = %id, "a filter changed in memory; it is not stored");
            }
            intact
        })
    }

    /// The summary of a key space and the segments that it covers, if a good one is there that takes
    /// at most `room`.
    pub(crate) fn load_summary(&self, name: &str, room: Bits) -> Option<Snapshot> {
        let header = self.folder.header(summary_of(name));
        if header.is_ok_and(|header| header.is_some_and(|header| header.size() > room)) {
            tracing::warn!(
                column = name,
                "the budget has no room for the stored summary"
            );
            return None;
        }
        let loaded = self.folder.load_stages(summary_of(name));
        let mut sidecar = loaded.unwrap_or_else(|error| {
            tracing::warn!(%error, "a summary is unusable; it will be made anew from the tables");
            None
        })?;
        let Subject::Summary { covers, .. } = &mut sidecar.subject else {
            return None;
        };
        let covers = std::mem::take(covers);
        Some(Snapshot {
            rate: sidecar.rate,
            covers: set_of(covers)?,
            chain: Chain::new(sidecar.imprint, sidecar.stages),
        })
    }

    /// Whether a key space has a stored summary.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn check_summary(&self, name: &str) -> Result<bool, SidecarError> {
        Ok(self.folder.verify(summary_of(name))?.is_some())
    }

    /// Whether the identity that all here is read by is the one in the folder.
    pub(crate) fn check_identity(&self) -> Result<(), IdentityError> {
        let folder = &self.folder;
        let kept = Identity::load(folder.disk(), folder.path())?;
        if kept.is_some_and(|kept| kept.store == folder.store_id()) {
            return Ok(());
        }
        let path = folder.path().join(IDENTITY_FILE);
        Err(IdentityError::Lost { path })
    }

    /// Stores a summary together with the segments that it covers, if it is good once it is written. False when it is
    /// not stored.
    pub(crate) fn save_summary(
        &self,
        name: &str,
        summary: &Scalable,
        covers: HashSet<SegmentId>,
        is_good: impl FnOnce() -> bool,
    ) -> bool {
        let covers = gathered(covers.len(), covers);
        let (Some(mut covers), Some(stages)) = (covers, summary.complete_stages()) else {
            return false;
        };
        // Of one that is full no answer would be *absent*.
        if stages.iter().any(|stage| stage.is_full()) {
            return false;
        }
        covers.sort_unstable();
        let items: Items = stages.iter().map(|stage| stage.items()).sum();
        let sidecar = Sidecar {
            store: self.folder.store_id(),
            imprint: self.folder.imprint().remixed(),
            subject: Subject::Summary {
                key_space: key_space(name),
                covers,
            },
            source: Source::Snapshot,
            entries: items.get(),
            rate: summary.options().rate,
            stages,
        };
        self.put(&sidecar, is_good)
    }

    /// Makes all that is kept here worthless to the next open, durably; false when it could not.
    pub(crate) fn disown(&self) -> bool {
        self.disowned.store(true, Ordering::Release);
        let disowned = Identity::disown(self.folder.disk(), self.folder.path());
        if let Err(error) = &disowned {
            tracing::error!(
                %error,
                "what an audit refuted may come back; remove the folder before the next open"
            );
        }
        disowned.is_ok()
    }

    /// How often, in all runs, what is kept here was made worthless; 0 when that cannot be read.
    pub(crate) fn disowned(&self) -> usize {
        Identity::disowned(self.folder.disk(), self.folder.path()).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot tell whether filters were refuted before");
            0
        })
    }

    /// Stores a sidecar if it is good once it is written.
    fn put(&self, sidecar: &Sidecar<&Stage>, is_good: impl FnOnce() -> bool) -> bool {
        if self.disowned.load(Ordering::Acquire) {
            return false;
        }
        let stored = self.folder.draft(sidecar).and_then(|draft| {
            let good = is_good() && !self.disowned.load(Ordering::Acquire);
            if good {
                draft.publish()?;
            }
            Ok(good)
        });
        if let Err(error) = &stored {
            tracing::warn!(%error, "a filter was not stored; it stays in memory");
        }
        stored.unwrap_or(false)
    }

    /// The segments that have a sidecar; none when the folder cannot be read.
    pub(crate) fn list(&self) -> Vec<SegmentId> {
        self.folder.list().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot list the filters; nothing is swept");
            Vec::new()
        })
    }

    pub(crate) fn remove(&self, id: SegmentId) {
        if let Err(error) = self.folder.remove(SidecarName::Segment(id)) {
            tracing::warn!(%error, "a filter without a table stays for now");
        }
    }

    pub(crate) fn remove_summary(&self, name: &str) {
        if let Err(error) = self.folder.remove(summary_of(name)) {
            tracing::warn!(%error, "the summary of a dropped column family stays");
        }
    }
}

fn summary_of(name: &str) -> SidecarName {
    SidecarName::Summary(key_space(name))
}

/// Names a column family in file names. Two names with one value would only overwrite each
/// other's summary: what it covers is named by segments, never by this.
fn key_space(name: &str) -> u32 {
    crc32fast::hash(name.as_bytes())
}

/// `count` values, for which memory is asked.
fn gathered<T>(count: usize, values: impl IntoIterator<Item = T>) -> Option<Vec<T>> {
    let mut all = Vec::new();
    if let Err(error) = all.try_reserve_exact(count) {
        tracing::warn!(%error, "no memory to store a filter; it stays in memory");
        return None;
    }
    all.extend(values);
    Some(all)
}

/// A file says how many there are, so memory is asked for them.
fn set_of(covers: Vec<SegmentId>) -> Option<HashSet<SegmentId>> {
    let mut set = HashSet::new();
    if let Err(error) = set.try_reserve(covers.len()) {
        tracing::warn!(%error, "no memory for the tables of a summary; it will be made anew");
        return None;
    }
    set.extend(covers);
    Some(set)
}

//! A segment and the filter that speaks for it, if one is there yet.
//!
//! A segment never changes; its filter may: it is unknown at first, loaded from its sidecar,
//! rebuilt for another rate. Readers see either the old or the new one, whole.

use std::sync::Arc;

use super::SegmentId;
use crate::filter::Chain;
use crate::format::Source;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Rate;
use crate::planted::planted;
use crate::rcu::Published;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Keys that are hashed before the first of them is looked up.
const BATCH: usize = 32;

/// A finished filter over every key of one segment, deleted ones included.
#[derive(Debug)]
pub struct SealedFilter {
    /// The stages.
    pub chain: Chain,
    /// Entries that the segment holds; one key may have several.
    pub entries: u64,
    /// The rate that was asked for.
    pub rate: Rate,
    /// Where its keys came from.
    pub source: Source,
    /// Of the stages, when they were sealed.
    checksum: u32,
}

impl SealedFilter {
    /// Seals stages that hold the keys of so many entries.
    pub fn new(chain: Chain, entries: u64, rate: Rate, source: Source) -> Self {
        Self {
            checksum: chain.checksum(),
            chain,
            entries,
            rate,
            source,
        }
    }

    /// Whether every bit is what it was when the filter was sealed; reads the whole filter.
    pub fn is_intact(&self) -> bool {
        self.chain.checksum() == self.checksum
    }
}

/// One immutable segment: an SST, a differential file.
#[derive(Debug)]
pub struct Segment {
    id: SegmentId,
    hasher: KeyHasher,
    filter: Published<Option<Arc<SealedFilter>>>,
    saved: AtomicBool,
    /// Of all segments of the registry.
    trusted: Arc<AtomicBool>,
}

impl Segment {
    /// A segment of which nothing is known yet: every key may be in it.
    pub(crate) fn unknown(id: SegmentId, hasher: KeyHasher, trusted: &Arc<AtomicBool>) -> Self {
        Self {
            id,
            hasher,
            filter: Published::new(None),
            saved: AtomicBool::new(false),
            trusted: Arc::clone(trusted),
        }
    }

    /// What names it.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Its filter, if there is one.
    pub fn filter(&self) -> Option<Arc<SealedFilter>> {
        self.filter.with(Clone::clone)
    }

    /// Whether the key may be in the segment; true when it has no filter.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.answer(self.hasher.hash(key)).unwrap_or(true)
    }

    /// The filter's answer for a hashed key; `None` when there is no filter.
    #[inline]
    pub fn answer(&self, hash: KeyHash) -> Option<bool> {
        self.filter.with(|filter| {
            let filter = filter.as_ref()?;
            Some(filter.chain.may_contain(hash))
        })
    }

    /// [`Segment::may_contain`] for several keys at once, their memory fetched in parallel.
    /// Answers beyond the keys, and all answers of a segment without filter, stay as they are.
    pub fn may_contain_many<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        answers: &mut [bool],
    ) {
        self.filter.with(|filter| {
            let Some(filter) = filter else { return };
            for answers in answers.chunks_mut(BATCH) {
                let mut hashes = [KeyHash::new(0); BATCH];
                let taken = hashes.iter_mut().zip(keys.by_ref().take(answers.len()));
                let count = taken
                    .map(|(hash, key)| *hash = self.hasher.hash(key))
                    .count();
                let chain = &filter.chain;
                chain.contains_many(&hashes[..count], &mut answers[..count]);
            }
        });
    }

    /// Gives the segment a filter, or another one; none once the registry is distrusted.
    pub fn set_filter(&self, filter: SealedFilter, saved: bool) {
        self.filter.publish(Some(Arc::new(filter)));
        self.saved.store(saved, Ordering::Release);
        // Looked at last: whoever distrusts drops all filters after having said so.
        if !self.trusted.load(Ordering::SeqCst) && !planted!(FilterAfterDistrust) {
            self.drop_filter();
        }
    }

    /// Takes the filter away: every key may be in the segment.
    pub fn drop_filter(&self) {
        self.filter.publish(None);
    }

    /// Whether the sidecar on disk holds this filter.
    pub fn is_saved(&self) -> bool {
        self.saved.load(Ordering::Acquire)
    }

    /// Notes that the sidecar on disk holds this filter.
    pub fn mark_saved(&self) {
        self.saved.store(true, Ordering::Release);
    }
}

//! A segment and the filter that speaks for it, if one is there yet.
//!
//! A segment never changes; its filter may: it is unknown at first, loaded from its sidecar,
//! rebuilt for another rate. Readers see either the old or the new one, whole.

use std::sync::Arc;

use super::SegmentId;
use crate::filter::{Chain, Scalable, Values};
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

/// A segment's part in the map that a summary begins with, which has every key of the segment, deleted
/// ones included: what speaks for it without a filter of its own.
#[derive(Clone, Debug)]
pub struct Share {
    /// Of the column family.
    pub summary: Arc<Scalable>,
    /// What keys of the segment may have for a value.
    pub values: Values,
}

impl Share {
    /// The chance that a key which is not in the segment may be, for all that the map says.
    pub fn predicted_rate(&self) -> f64 {
        self.summary.first_rate_of(self.values)
    }

    /// False only for a key that is not in the segment.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        // As all that is in summaries.
        let hash = hash.remixed();
        self.summary.first_may_have_one(hash, self.values)
    }
}

/// What is asked for a segment.
#[derive(Clone, Debug)]
enum Spokesman {
    Nobody,
    Filter(Arc<SealedFilter>),
    Share(Share),
}

impl Spokesman {
    fn answer_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        match self {
            Self::Nobody => {}
            Self::Filter(filter) => filter.chain.contains_many(hashes, answers),
            Self::Share(share) => {
                for (&hash, answer) in hashes.iter().zip(answers) {
                    *answer = share.may_contain(hash);
                }
            }
        }
    }
}

/// One immutable segment: an SST, a differential file.
#[derive(Debug)]
pub struct Segment {
    id: SegmentId,
    hasher: KeyHasher,
    asked: Published<Spokesman>,
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
            asked: Published::new(Spokesman::Nobody),
            saved: AtomicBool::new(false),
            trusted: Arc::clone(trusted),
        }
    }

    /// What names it.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Its own filter, if there is one.
    pub fn filter(&self) -> Option<Arc<SealedFilter>> {
        self.asked.with(|asked| match asked {
            Spokesman::Filter(filter) => Some(Arc::clone(filter)),
            _ => None,
        })
    }

    /// Its part in a map, if it has one.
    pub fn share(&self) -> Option<Share> {
        self.asked.with(|asked| match asked {
            Spokesman::Share(share) => Some(share.clone()),
            _ => None,
        })
    }

    /// Whether the key may be in the segment; true when nothing speaks for it.
    #[inline]
    pub fn may_contain(&self, key: &[u8]) -> bool {
        self.answer(self.hasher.hash(key)).unwrap_or(true)
    }

    /// The filter's answer for a hashed key, or the map's; `None` when there is neither.
    #[inline]
    pub fn answer(&self, hash: KeyHash) -> Option<bool> {
        self.asked.with(|asked| match asked {
            Spokesman::Nobody => None,
            Spokesman::Filter(filter) => Some(filter.chain.may_contain(hash)),
            Spokesman::Share(share) => Some(share.may_contain(hash)),
        })
    }

    /// [`Segment::may_contain`] for several keys at once, their memory fetched in parallel.
    /// Answers beyond the keys, and all answers of a segment without filter, stay as they are.
    pub fn may_contain_many<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        answers: &mut [bool],
    ) {
        self.asked.with(|asked| {
            if let Spokesman::Nobody = asked {
                return;
            }
            for answers in answers.chunks_mut(BATCH) {
                let mut hashes = [KeyHash::new(0); BATCH];
                let taken = hashes.iter_mut().zip(keys.by_ref().take(answers.len()));
                let count = taken
                    .map(|(hash, key)| *hash = self.hasher.hash(key))
                    .count();
                asked.answer_many(&hashes[..count], &mut answers[..count]);
            }
        });
    }

    /// Gives the segment a filter, or another one; none once the registry is distrusted.
    pub fn set_filter(&self, filter: SealedFilter, saved: bool) {
        self.asked.publish(Spokesman::Filter(Arc::new(filter)));
        self.saved.store(saved, Ordering::Release);
        self.drop_unless_trusted();
    }

    /// Lets a map speak for the segment, in the place of a filter of its own; none once the registry is
    /// distrusted.
    pub fn set_share(&self, share: Share) {
        self.asked.publish(Spokesman::Share(share));
        self.drop_unless_trusted();
    }

    fn drop_unless_trusted(&self) {
        // Looked at last: whoever distrusts drops all filters after having said so.
        if !self.trusted.load(Ordering::SeqCst) && !planted!(FilterAfterDistrust) {
            self.drop_filter();
        }
    }

    /// Takes the filter or the share away: every key may be in the segment.
    pub fn drop_filter(&self) {
        self.asked.publish(Spokesman::Nobody);
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

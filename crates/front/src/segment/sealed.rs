//! A segment and its filter, if it has one already.
//!
//! A segment never changes. Its filter may: at first there is none, then one is loaded from the
//! sidecar, or rebuilt for another false-positive rate. Readers see either the old filter or the
//! new one, whole.

use std::cell::Cell;
use std::sync::Arc;

use crate::fault::fault;
use crate::filter::Chain;
use crate::format::{PrefixId, Source};
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Rate;
use crate::prefix::is_among;
use crate::rcu::Published;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Number of keys that are hashed before the first of them is probed.
const BATCH: usize = 32;

thread_local! {
    static PROBES: Cell<u32> = const { Cell::new(0) };
}

/// How often this thread has checked a segment for a key, modulo 2^32.
#[inline]
pub fn segment_probes() -> u32 {
    PROBES.get()
}

#[inline]
fn count_probe() {
    PROBES.set(PROBES.get().wrapping_add(1));
}

/// A finished filter over every key of one segment, including deleted ones.
#[derive(Debug)]
pub struct SealedFilter {
    /// The stages.
    pub chain: Chain,
    /// Number of entries in the segment. One key may have several.
    pub entries: u64,
    /// The requested false-positive rate.
    pub rate: Rate,
    /// Where its keys came from.
    pub source: Source,
    /// The functions whose prefixes of all keys it has too.
    pub(crate) prefixes: Arc<[PrefixId]>,
    /// Checksum of the stages when they were sealed.
    checksum: u32,
}

impl SealedFilter {
    /// Seals stages that have the keys of `entries` entries.
    pub fn new(chain: Chain, entries: u64, rate: Rate, source: Source) -> Self {
        Self {
            checksum: chain.checksum(),
            chain,
            entries,
            rate,
            source,
            prefixes: Arc::default(),
        }
    }

    /// The same filter, which has the prefixes of these functions too.
    #[must_use]
    pub(crate) fn with_prefixes(self, prefixes: Arc<[PrefixId]>) -> Self {
        Self { prefixes, ..self }
    }

    /// Whether it has the prefixes of this function.
    pub fn has_prefixes_of(&self, id: &PrefixId) -> bool {
        is_among(&self.prefixes, id)
    }

    /// Verifies the checksum that was taken when the filter was sealed. Reads the whole filter.
    pub(crate) fn is_intact(&self) -> bool {
        self.chain.checksum() == self.checksum
    }
}

/// One immutable sorted file of entries: in RocksDB, an SST.
#[derive(Debug)]
pub struct Segment {
    hasher: KeyHasher,
    filter: Published<Option<Arc<SealedFilter>>>,
    saved: AtomicBool,
    /// Shared by all segments of the registry.
    trusted: Arc<AtomicBool>,
}

impl Segment {
    /// A segment without a filter: every key may be in it.
    pub(crate) fn unknown(hasher: KeyHasher, trusted: &Arc<AtomicBool>) -> Self {
        Self {
            hasher,
            filter: Published::new(None),
            saved: AtomicBool::new(false),
            trusted: Arc::clone(trusted),
        }
    }

    /// Its filter, if there is one.
    pub fn filter(&self) -> Option<Arc<SealedFilter>> {
        self.filter.with(Clone::clone)
    }

    /// Whether a key may be in the segment. True if there is no filter. An engine with an
    /// `extractor` may pass a prefix instead of a key, without saying so. So true also if the
    /// filter lacks the prefixes of `extractor`.
    #[inline]
    pub fn may_contain(&self, key: &[u8], extractor: Option<&PrefixId>) -> bool {
        count_probe();
        let hash = self.hasher.hash(key);
        let answer = match extractor {
            None => self.answer(hash),
            Some(id) => self.answer_prefix(id, hash),
        };
        answer.unwrap_or(true)
    }

    /// The filter's answer for a hashed key; `None` if there is no filter.
    #[inline]
    pub fn answer(&self, hash: KeyHash) -> Option<bool> {
        self.filter.with(|filter| {
            let filter = filter.as_ref()?;
            Some(filter.chain.may_contain(hash))
        })
    }

    /// The filter's answer for the hash of a prefix by this function; `None` if there is no filter,
    /// or if it lacks these prefixes (H84).
    pub fn answer_prefix(&self, id: &PrefixId, hash: KeyHash) -> Option<bool> {
        self.filter.with(|filter| {
            let filter = filter.as_ref()?;
            let knows = filter.has_prefixes_of(id);
            knows.then(|| filter.chain.may_contain(hash))
        })
    }

    /// [`Segment::may_contain`] for several keys at once, with their cache lines fetched in
    /// parallel. Answers beyond the keys are left unchanged, and so are all answers if no filter
    /// gives any.
    pub fn may_contain_many<'k>(
        &self,
        mut keys: impl Iterator<Item = &'k [u8]>,
        extractor: Option<&PrefixId>,
        answers: &mut [bool],
    ) {
        count_probe();
        self.filter.with(|filter| {
            let Some(filter) = filter else { return };
            if extractor.is_some_and(|id| !filter.has_prefixes_of(id)) {
                return;
            }
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

    /// Sets or replaces the filter. If the registry is distrusted, the segment has none afterwards.
    pub fn set_filter(&self, filter: SealedFilter, saved: bool) {
        self.set_shared_filter(Arc::new(filter), saved);
    }

    /// [`Segment::set_filter`] with a filter that other segments have too.
    pub fn set_shared_filter(&self, filter: Arc<SealedFilter>, saved: bool) {
        self.filter.publish(Some(filter));
        self.saved.store(saved, Ordering::Release);
        fault!(FilterAfterDistrust, return);
        // Checked last: `Registry::distrust` clears the flag before it drops all filters.
        if !self.trusted.load(Ordering::SeqCst) {
            self.drop_filter();
        }
    }

    /// Drops the filter: every key may be in the segment.
    pub(crate) fn drop_filter(&self) {
        self.filter.publish(None);
    }

    /// Whether the sidecar on disk has this filter.
    pub fn is_saved(&self) -> bool {
        self.saved.load(Ordering::Acquire)
    }

    /// Notes that the sidecar on disk has this filter.
    pub(crate) fn mark_saved(&self) {
        fault!(FilterStoredAgain, return);
        self.saved.store(true, Ordering::Release);
    }
}

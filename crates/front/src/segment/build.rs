//! Builds a segment's filter while the segment is being written.
//!
//! The number of keys is not known while a segment is written, so the filter must grow:
//!
//! - While budget and memory allow, the hashes are kept. Sealing then makes one stage of exactly
//!   the right size.
//! - Past that, the hashes go into a scalable filter, which takes less memory. Sealing returns its
//!   stages.
//!
//! If the segment exists already, its number of entries is known. If its hashes are too many to keep,
//! they go into one stage, sized as if every entry had a different key.

use std::sync::Arc;

use super::{SealedFilter, SegmentId};
use crate::fault::fault;
use crate::filter::{Chain, Kind, Scalable, ScalableOptions, Stage};
use crate::format::{PrefixId, Source};
use crate::hash::{KeyHash, KeyHasher};
use crate::math::{Items, Rate};
use crate::prefix::Prefixes;

/// Number of hashes kept before the builder switches to a scalable filter: 64 MiB of them.
const KEPT_HASHES: usize = 8 << 20;

/// Collects the keys of one segment and seals its filter.
#[derive(Debug)]
pub struct SegmentBuilder {
    id: SegmentId,
    hasher: KeyHasher,
    rate: Rate,
    hashes: Hashes,
    budget: usize,
    last: Option<KeyHash>,
    prefixes: Arc<Prefixes>,
    /// The last prefix of each function.
    last_prefixes: Vec<Option<KeyHash>>,
    added: u64,
}

/// Where the hashes go.
#[derive(Debug)]
enum Hashes {
    Kept(Vec<KeyHash>),
    /// Into a filter that grows.
    Growing(Box<Scalable>),
    /// Into a stage of the size needed.
    Sized(Box<Stage>),
}

impl SegmentBuilder {
    /// A builder for the segment with this id, whose filter is to have the false-positive rate
    /// `rate`.
    pub fn new(id: SegmentId, hasher: KeyHasher, rate: Rate) -> Self {
        Self::with_budget(id, hasher, rate, KEPT_HASHES)
    }

    /// The same for an existing segment with this number of entries.
    #[must_use]
    pub(crate) fn for_entries(self, entries: Items) -> Self {
        self.sized(entries)
    }

    fn with_budget(id: SegmentId, hasher: KeyHasher, rate: Rate, budget: usize) -> Self {
        Self {
            id,
            hasher,
            rate,
            hashes: Hashes::Kept(Vec::new()),
            budget,
            last: None,
            prefixes: Arc::default(),
            last_prefixes: Vec::new(),
            added: 0,
        }
    }

    /// Adds these prefixes of each key too.
    #[must_use]
    pub(crate) fn with_prefixes(mut self, prefixes: &Arc<Prefixes>) -> Self {
        self.last_prefixes = vec![None; prefixes.len()];
        self.prefixes = Arc::clone(prefixes);
        self
    }

    /// If the hashes are too many to keep, allocates one stage for them, if memory suffices.
    fn sized(mut self, entries: Items) -> Self {
        // Each entry may have prefixes of its own.
        let hashes = entries.get().saturating_mul(1 + self.prefixes.len() as u64);
        if entries.get() > self.budget as u64
            && let Ok(stage) = Stage::with_rate(Kind::Blocked, Items::new(hashes), self.rate)
        {
            self.hashes = Hashes::Sized(Box::new(stage));
        }
        self
    }

    /// The id of the segment being built.
    pub(crate) fn id(&self) -> SegmentId {
        self.id
    }

    /// The functions whose prefixes it adds.
    pub(crate) fn prefixes(&self) -> &Arc<Prefixes> {
        &self.prefixes
    }

    /// Adds the key of one entry. Entries with the same key must be consecutive; they count once.
    pub fn add(&mut self, key: &[u8]) {
        let hash = self.hasher.hash(key);
        fault!(
            SegmentKeyMissed,
            if self.added % 97 == 96 {
                self.added += 1;
                return;
            }
        );
        if self.last.replace(hash) != Some(hash) {
            self.keep(hash);
            if !self.prefixes.is_empty() {
                self.add_prefixes(key);
            }
        }
        // Last: if adding an entry panics, the count shows at sealing that one is missing.
        self.added += 1;
    }

    fn add_prefixes(&mut self, key: &[u8]) {
        fault!(TablePrefixMissed, return);
        let (mut new, mut count) = ([KeyHash::new(0); PrefixId::MOST], 0);
        let last = &mut self.last_prefixes;
        self.prefixes.each_new_hash(key, self.hasher, last, |hash| {
            new[count] = hash;
            count += 1;
        });
        new[..count].iter().for_each(|hash| self.keep(*hash));
    }

    fn keep(&mut self, hash: KeyHash) {
        #[cfg(test)]
        tests::panic_if_due();
        match &mut self.hashes {
            Hashes::Kept(kept) => {
                if kept.len() < self.budget && kept.try_reserve(1).is_ok() {
                    kept.push(hash);
                } else {
                    let kept = std::mem::take(kept);
                    self.hashes = Hashes::Growing(Box::new(self.grown(&kept, hash)));
                }
            }
            Hashes::Growing(filter) => _ = filter.insert(hash),
            Hashes::Sized(stage) => _ = stage.insert(hash),
        }
    }

    /// A scalable filter with these hashes.
    fn grown(&self, kept: &[KeyHash], hash: KeyHash) -> Scalable {
        let options = ScalableOptions {
            rate: self.rate,
            first: Items::new(kept.len().max(1) as u64),
            ..ScalableOptions::default()
        };
        let grown = Scalable::new(self.hasher.imprint(), options);
        grown.insert_many(kept);
        grown.insert(hash);
        grown
    }

    /// The hashes of all keys of a segment with this many entries, if they were kept and none is
    /// missing.
    pub(crate) fn kept_hashes(&self, entries: u64) -> Option<&[KeyHash]> {
        match &self.hashes {
            Hashes::Kept(kept) if self.added == entries => Some(kept),
            _ => None,
        }
    }

    /// Invariant 7, H18: whether the builder saw every entry of a segment with this many.
    fn has_all(&self, entries: u64) -> bool {
        fault!(MiscountSealed, return true);
        self.added == entries
    }

    /// Seals the filter of a segment with this many entries. `None` if the builder saw another
    /// number of entries (the filter might lack a key) or if memory ran out.
    pub fn seal(self, entries: u64, source: Source) -> Option<SealedFilter> {
        if !self.has_all(entries) {
            return None;
        }
        let one = |stage| Chain::new(self.hasher.imprint(), vec![stage]);
        let chain = match self.hashes {
            Hashes::Kept(kept) => one(stage_of(&kept, self.rate)?),
            Hashes::Growing(grown) => {
                Some(grown.into_chain()).filter(|chain| !chain.is_saturated())?
            }
            Hashes::Sized(stage) => one(*stage),
        };
        let sealed = SealedFilter::new(chain, entries, self.rate, source);
        Some(sealed.with_prefixes(Arc::clone(self.prefixes.ids())))
    }
}

fn stage_of(hashes: &[KeyHash], rate: Rate) -> Option<Stage> {
    let items = Items::new(hashes.len().max(1) as u64);
    let mut stage = Stage::with_rate(Kind::Blocked, items, rate).ok()?;
    stage.insert_many(hashes);
    Some(stage)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::hash::{HashId, Seed};

    thread_local! {
        /// Whether the next key that this thread adds causes a panic.
        static DUE: Cell<bool> = const { Cell::new(false) };
    }

    pub(super) fn panic_if_due() {
        assert!(!DUE.take(), "a key that cannot be added, for a test");
    }

    fn builder(budget: usize) -> SegmentBuilder {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
        let id = SegmentId::from_bytes([1; 16]);
        SegmentBuilder::with_budget(id, hasher, Rate::ONE_PERCENT, budget)
    }

    fn key(i: u32) -> [u8; 4] {
        i.to_be_bytes()
    }

    #[test]
    fn sealed_filter_has_every_key_within_and_past_the_budget() {
        for budget in [10, 1_000, 100_000] {
            let mut segment = builder(budget);
            (0..20_000).for_each(|i| segment.add(&key(i)));
            let hasher = segment.hasher;
            let sealed = segment.seal(20_000, Source::TableCapture).unwrap();
            assert!((0..20_000).all(|i| sealed.chain.may_contain(hasher.hash(&key(i)))));
            let wrong =
                (20_000..120_000).filter(|&i| sealed.chain.may_contain(hasher.hash(&key(i))));
            assert!(wrong.count() < 1_300, "budget {budget}");
        }
    }

    /// Past four stages, the filter was rebuilt from the keys on disk, and had as many stages
    /// again.
    #[test]
    fn known_number_of_entries_gives_one_stage_of_the_right_size() {
        const ENTRIES: u32 = 20_000;
        for budget in [10, 1_000, 100_000] {
            let entries = Items::new(ENTRIES.into());
            let mut segment = builder(budget).sized(entries);
            (0..ENTRIES).for_each(|i| segment.add(&key(i)));
            let hasher = segment.hasher;
            let sealed = segment.seal(ENTRIES.into(), Source::RawKeys).unwrap();
            assert!((0..ENTRIES).all(|i| sealed.chain.may_contain(hasher.hash(&key(i)))));
            let right = Stage::with_rate(Kind::Blocked, entries, Rate::ONE_PERCENT).unwrap();
            assert_eq!(sealed.chain.stages().len(), 1, "budget {budget}");
            assert!(sealed.chain.size() <= right.size(), "budget {budget}");
            assert!(sealed.chain.predicted_rate() <= 0.01);
        }
    }

    #[test]
    fn versions_of_one_key_count_once() {
        let mut segment = builder(100);
        (0..50).for_each(|_| segment.add(b"same"));
        let sealed = segment.seal(50, Source::TableCapture).unwrap();
        assert_eq!(sealed.chain.items(), Items::new(1));
    }

    /// The log of keys takes them for those of all entries.
    #[test]
    fn hashes_are_kept_within_the_budget_if_every_entry_was_seen() {
        let mut segment = builder(2);
        for (entries, are_kept) in [(1, true), (2, true), (3, false)] {
            segment.add(&key(entries));
            let kept = |entries: u32| segment.kept_hashes(entries.into()).map(<[_]>::len);
            assert_eq!(kept(entries), are_kept.then_some(entries as usize));
            assert_eq!([kept(entries - 1), kept(entries + 1)], [None, None]);
        }
    }

    /// RocksDB's hook catches the panic and continues with the next entry.
    #[test]
    fn entry_whose_addition_panics_counts_as_missed() {
        let mut segment = builder(100);
        segment.add(b"one");
        DUE.set(true);
        assert!(catch_unwind(AssertUnwindSafe(|| segment.add(b"two"))).is_err());
        segment.add(b"six");
        assert!(segment.seal(3, Source::TableCapture).is_none());
    }

    /// A filter built from fewer entries than the segment has would lose reads.
    #[test]
    fn builder_that_missed_an_entry_seals_no_filter() {
        let mut segment = builder(100);
        segment.add(b"one");
        assert!(segment.seal(2, Source::TableCapture).is_none());
    }
}

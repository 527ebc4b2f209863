//! A segment's filter while the segment is being written.
//!
//! How many keys will come is not known, so the filter must grow. While budget and memory allow, the
//! hashes are kept and sealing makes one stage of exactly the right size; past that the hashes go into
//! a scalable filter, which takes less, and whose stages are what sealing returns.

use super::{SealedFilter, SegmentId};
use crate::filter::{Chain, Kind, Scalable, ScalableOptions, Stage};
use crate::format::Source;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::{Items, Rate};
use crate::planted::planted;

/// Hashes kept before the builder turns to a scalable filter: 64 MiB of them.
const KEPT_HASHES: usize = 8 << 20;

/// Collects the keys of one segment and seals its filter.
#[derive(Debug)]
pub struct SegmentBuilder {
    id: SegmentId,
    hasher: KeyHasher,
    rate: Rate,
    kept: Vec<KeyHash>,
    budget: usize,
    grown: Option<Scalable>,
    last: Option<KeyHash>,
    added: u64,
}

impl SegmentBuilder {
    /// A builder for the segment of this id, whose filter shall keep `rate`.
    pub fn new(id: SegmentId, hasher: KeyHasher, rate: Rate) -> Self {
        Self::with_budget(id, hasher, rate, KEPT_HASHES)
    }

    fn with_budget(id: SegmentId, hasher: KeyHasher, rate: Rate, budget: usize) -> Self {
        Self {
            id,
            hasher,
            rate,
            kept: Vec::new(),
            budget,
            grown: None,
            last: None,
            added: 0,
        }
    }

    /// The segment that is being built.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// Adds the key of one entry. Entries of one key follow each other and count once.
    pub fn add(&mut self, key: &[u8]) {
        self.added += 1;
        if planted!(TableKeyMissed) && self.added.is_multiple_of(97) {
            return;
        }
        let hash = self.hasher.hash(key);
        if self.last.replace(hash) == Some(hash) {
            return;
        }
        match &self.grown {
            Some(grown) => {
                grown.insert(hash);
            }
            None => self.keep(hash),
        }
    }

    fn keep(&mut self, hash: KeyHash) {
        if self.kept.len() < self.budget && self.kept.try_reserve(1).is_ok() {
            self.kept.push(hash);
            return;
        }
        let options = ScalableOptions {
            rate: self.rate,
            first: Items::new(self.kept.len().max(1) as u64),
            ..ScalableOptions::default()
        };
        let grown = Scalable::new(self.hasher.imprint(), options);
        for kept in std::mem::take(&mut self.kept) {
            grown.insert(kept);
        }
        grown.insert(hash);
        self.grown = Some(grown);
    }

    /// Seals the filter of a segment that has this many entries. `None` when the builder saw
    /// another number of them (a filter that may lack a key is no filter) or memory ran out.
    pub fn seal(self, entries: u64, source: Source) -> Option<SealedFilter> {
        if self.added != entries && !planted!(MiscountSealed) {
            return None;
        }
        let chain = match self.grown {
            Some(grown) => Some(grown.to_chain()).filter(|chain| !chain.is_saturated())?,
            None => Chain::new(
                self.hasher.imprint(),
                vec![stage_of(&self.kept, self.rate)?],
            ),
        };
        Some(SealedFilter::new(chain, entries, self.rate, source))
    }
}

fn stage_of(hashes: &[KeyHash], rate: Rate) -> Option<Stage> {
    let items = Items::new(hashes.len().max(1) as u64);
    let stage = Stage::with_rate(Kind::Blocked, items, rate).ok()?;
    for &hash in hashes {
        stage.insert(hash);
    }
    Some(stage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Seed};

    fn builder(budget: usize) -> SegmentBuilder {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
        let id = SegmentId::from_bytes([1; 16]);
        SegmentBuilder::with_budget(id, hasher, Rate::ONE_PERCENT, budget)
    }

    fn key(i: u32) -> [u8; 4] {
        i.to_be_bytes()
    }

    #[test]
    fn every_key_is_found_within_and_past_the_budget() {
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

    #[test]
    fn versions_of_one_key_count_once() {
        let mut segment = builder(100);
        (0..50).for_each(|_| segment.add(b"same"));
        let sealed = segment.seal(50, Source::TableCapture).unwrap();
        assert_eq!(sealed.chain.items(), Items::new(1));
    }

    /// A filter built from fewer entries than the segment holds would lose reads.
    #[test]
    fn a_missed_entry_seals_nothing() {
        let mut segment = builder(100);
        segment.add(b"one");
        assert!(segment.seal(2, Source::TableCapture).is_none());
    }
}

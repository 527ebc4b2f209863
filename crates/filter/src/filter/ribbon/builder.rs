//! Builds a static stage whose keys come in parts, in the order of their hashes, so that only the
//! hashes of one part are in memory.

use std::collections::TryReserveError;
use std::num::NonZeroU64;

use super::solve::Filling;
use super::{Ribbon, Slots};
use crate::filter::layout::StoreLayout;
use crate::filter::{Kind, Stage, StageError, probe};
use crate::hash::KeyHash;
use crate::math::ribbon::{self, slot_parts};
use crate::math::{Items, Rate};

/// Builds the stage that [`Stage::ribbon`] builds.
///
/// Besides the stage and a part it needs up to 130 MB.
#[derive(Debug)]
pub struct RibbonBuilder {
    parts: NonZeroU64,
    rate: Rate,
    added: u64,
    items: u64,
    filling: Option<Filling>,
}

impl RibbonBuilder {
    /// A stage at `rate` or below, of keys that come in this many parts. Each part is an equal
    /// range of all hashes.
    pub fn new(parts: NonZeroU64, rate: Rate) -> Self {
        Self {
            parts,
            rate,
            added: 0,
            items: 0,
            filling: None,
        }
    }

    /// Whether a key belongs to the part that is to be added next.
    #[inline]
    pub fn is_next(&self, hash: KeyHash) -> bool {
        probe::fast_range(hash.get(), self.parts.get()) == self.added
    }

    /// Whether all parts were added.
    pub fn is_complete(&self) -> bool {
        self.added == self.parts.get()
    }

    /// Adds the next part: all its keys, in any order; each may come several times. The first part
    /// determines how many keys are expected in all.
    ///
    /// # Errors
    /// If the rate is below 2^-32, a part has many more keys than the first, or there is not enough
    /// memory.
    ///
    /// # Panics
    /// If a key does not belong to the next part, or if all parts were added.
    pub fn with_part(mut self, mut hashes: Vec<KeyHash>) -> Result<Self, StageError> {
        hashes.sort_unstable();
        hashes.dedup();
        assert!(!self.is_complete(), "there is no further part");
        assert!(
            hashes.iter().all(|&hash| self.is_next(hash)),
            "a key is not of part {}",
            self.added
        );
        let count = hashes.len() as u64;
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => self.begin(Items::new(count))?,
        };
        self.added += 1;
        self.items += count;
        let added = filling.add(&hashes);
        if !added.map_err(|source| no_memory(filling.geometry(), source))? {
            return Err(self.crowded());
        }
        self.filling = Some(filling);
        Ok(self)
    }

    fn crowded(&self) -> StageError {
        StageError::Crowded {
            items: Items::new(self.items),
        }
    }

    /// Slots for all keys, estimated from the number of keys in the first part.
    fn begin(&self, first: Items) -> Result<Filling, StageError> {
        let room = ribbon::keys_of_parts(first, self.parts.get());
        let slots = slot_parts(self.rate).and_then(Slots::new);
        let geometry = slots.and_then(|slots| Ribbon::for_keys(room, slots));
        let geometry = geometry.ok_or(StageError::OutOfReach {
            kind: Kind::Ribbon,
            items: room,
            rate: self.rate,
        })?;
        Filling::of(geometry).map_err(|source| no_memory(geometry, source))
    }

    /// The stage of all keys.
    ///
    /// # Errors
    /// If a part has many more keys than the first, or if there is not enough memory.
    ///
    /// # Panics
    /// If a part was not added.
    pub fn finish(mut self) -> Result<Stage, StageError> {
        assert!(self.is_complete(), "part {} is missing", self.added);
        let filling = self.filling.take().expect("there is a part");
        let geometry = filling.geometry();
        let words = filling.finish();
        let words = words.map_err(|source| no_memory(geometry, source))?;
        let words = words.ok_or_else(|| self.crowded())?;
        let items = Items::new(self.items);
        Ok(Stage::of_words(StoreLayout::Ribbon(geometry), items, words))
    }
}

fn no_memory(geometry: Ribbon, source: TryReserveError) -> StageError {
    let bits = geometry.shape().bits;
    StageError::Memory { bits, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    const RATE: Rate = Rate::ONE_PERCENT;

    fn in_parts(keys: &[KeyHash], parts: u64) -> Result<Stage, StageError> {
        let mut builder = RibbonBuilder::new(parts.try_into().unwrap(), RATE);
        while !builder.is_complete() {
            let next = keys.iter().filter(|&&hash| builder.is_next(hash));
            // Each key comes twice.
            let twice = next.clone().chain(next).copied().collect();
            builder = builder.with_part(twice)?;
        }
        builder.finish()
    }

    fn strangers(stage: &Stage) -> usize {
        let strange = hashes(2).take(100_000);
        strange.filter(|&hash| stage.may_contain(hash)).count()
    }

    /// Some shards span several parts, and some parts span several shards.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn stage_built_in_parts_matches_stage_built_at_once() {
        const KEYS: usize = 4_300_000;
        let keys: Vec<KeyHash> = hashes(1).take(KEYS).collect();
        let at_once = Stage::ribbon(keys.clone(), RATE).unwrap();
        for parts in [2, 7] {
            let stage = in_parts(&keys, parts).unwrap();
            let geometry = Ribbon::try_from(stage.shape()).unwrap();
            assert!(geometry.shards > 1, "{parts} parts");
            assert_eq!(stage.items(), at_once.items());
            assert!(keys.iter().all(|&hash| stage.may_contain(hash)));
            assert!(strangers(&stage) < 1_150, "{}", strangers(&stage));
            let ratio = stage.size().get() as f64 / at_once.size().get() as f64;
            assert!((1.0..1.015).contains(&ratio), "{ratio}");
        }
    }

    /// Most parts have no keys, the others ten at most.
    #[test]
    fn few_keys_in_many_parts_are_all_found() {
        for count in [0, 1, 10, 200] {
            let keys: Vec<KeyHash> = hashes(1).take(count).collect();
            let stage = in_parts(&keys, 40).unwrap();
            assert_eq!(stage.items().get(), count as u64);
            assert!(keys.iter().all(|&hash| stage.may_contain(hash)), "{count}");
        }
    }

    #[test]
    fn a_part_with_many_more_keys_than_the_first_is_refused() {
        let builder = RibbonBuilder::new(3.try_into().unwrap(), RATE);
        let builder = builder.with_part(vec![KeyHash::new(1); 9]).unwrap();
        let next = hashes(1).filter(|&hash| builder.is_next(hash));
        let next = next.take(2_000).collect();
        let error = builder.with_part(next).unwrap_err();
        assert!(matches!(error, StageError::Crowded { .. }), "{error}");
    }

    #[test]
    #[should_panic(expected = "not of part 0")]
    fn a_key_of_another_part_is_refused() {
        let builder = RibbonBuilder::new(2.try_into().unwrap(), RATE);
        let _refused = builder.with_part(vec![KeyHash::new(1 << 63)]);
    }

    #[test]
    #[should_panic(expected = "part 1 is missing")]
    fn finish_with_a_missing_part_is_refused() {
        let builder = RibbonBuilder::new(2.try_into().unwrap(), RATE);
        let builder = builder.with_part(vec![KeyHash::new(1)]).unwrap();
        let _refused = builder.finish();
    }
}

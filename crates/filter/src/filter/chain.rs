//! A sealed filter: stages that take no more keys, and the imprint of the hash that filled them.
//!
//! A key is absent if every stage says so. Chained stages keep their bits apart, so their
//! false-positive rates add up. ORed stages share their bits, and the rate grows much faster.

use super::layout::Layout;
use super::merge::{same_count, same_imprint};
use super::stage::Stage;
use super::{Mismatch, test_many};
use crate::hash::{Imprint, KeyHash};
use crate::math::{Bits, Items, growth};

/// An immutable filter of one or more stages. Without stages it holds no key.
#[derive(Debug)]
pub struct Chain<L: Layout> {
    imprint: Imprint,
    stages: Vec<Stage<L>>,
}

impl<L: Layout> Chain<L> {
    /// Seals stages that were filled with hashes of this imprint.
    pub fn new(imprint: Imprint, stages: Vec<Stage<L>>) -> Self {
        Self { imprint, stages }
    }

    /// A filter that answers *maybe* to every key: one small stage without a clear bit.
    ///
    /// It can be stored, chained and ORed like any other.
    pub fn saturated(imprint: Imprint) -> Self {
        Self::new(imprint, vec![Stage::full()])
    }

    /// The hash and seed that the filter was built with.
    pub fn imprint(&self) -> Imprint {
        self.imprint
    }

    /// The stages, oldest first.
    pub fn stages(&self) -> &[Stage<L>] {
        &self.stages
    }

    /// The stages, by value.
    #[doc(hidden)]
    pub fn into_stages(self) -> Vec<Stage<L>> {
        self.stages
    }

    /// False only for a key that was never inserted.
    #[inline]
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        // The newest stage is the largest and answers most hits.
        self.stages
            .iter()
            .rev()
            .any(|stage| stage.may_contain(hash))
    }

    /// Prefetches the lines that [`Chain::may_contain`] will read.
    #[inline]
    pub fn prefetch(&self, hash: KeyHash) {
        self.stages.iter().for_each(|stage| stage.prefetch(hash));
    }

    /// Answers many keys at once and overlaps their cache misses.
    ///
    /// # Panics
    /// If the slices differ in length.
    pub fn contains_many(&self, hashes: &[KeyHash], answers: &mut [bool]) {
        test_many(self.stages.iter(), hashes, answers);
    }

    /// The number of keys in all stages; after a merge, an upper bound.
    pub fn items(&self) -> Items {
        self.stages.iter().map(|stage| stage.items()).sum()
    }

    /// The bits of all stages.
    pub fn size(&self) -> Bits {
        self.stages.iter().map(|stage| stage.size()).sum()
    }

    /// The false-positive rate of all stages together, 1 − ∏ (1 − p).
    pub fn predicted_rate(&self) -> f64 {
        growth::compound(self.stages.iter().map(Stage::predicted_rate))
    }

    /// Whether a stage has no clear bit, so that every answer is *maybe*.
    pub fn is_saturated(&self) -> bool {
        self.stages.iter().any(Stage::is_full)
    }

    /// The CRC-32 of all bits, to be compared with an earlier one. Reads the whole filter.
    pub fn checksum(&self) -> u32 {
        let stages = self.stages.iter();
        stages.fold(0, |before, stage| stage.checksum(before))
    }

    /// Both filters one after the other: their rates add up, and so do their probes.
    ///
    /// # Errors
    /// If the imprints differ.
    pub fn chain(mut self, newer: Self) -> Result<Self, Mismatch> {
        same_imprint(self.imprint, newer.imprint)?;
        self.stages.extend(newer.stages);
        Ok(self)
    }

    /// The bits of both filters in one, stage by stage.
    ///
    /// # Errors
    /// If imprints, stage counts or shapes differ, or if there is not enough memory.
    pub fn or(&self, other: &Self) -> Result<Self, Mismatch> {
        same_imprint(self.imprint, other.imprint)?;
        same_count(self.stages.len(), other.stages.len())?;
        let pairs = self.stages.iter().zip(&other.stages);
        let stages = pairs.map(|(a, b)| {
            let both = a.try_clone()?;
            both.or_with(b)?;
            Ok(both)
        });
        Ok(Self::new(
            self.imprint,
            stages.collect::<Result<_, Mismatch>>()?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Chain, Kind, Stage};
    use crate::hash::HashId;
    use crate::math::Rate;

    fn one_stage(keys: std::ops::Range<usize>) -> Chain {
        let stage = Stage::with_rate(Kind::Blocked, Items::new(1_000), Rate::ONE_PERCENT).unwrap();
        let keys = hashes(1).skip(keys.start).take(keys.len());
        keys.for_each(|hash| _ = stage.insert(hash));
        Chain::new(imprint(1), vec![stage])
    }

    #[test]
    fn chain_and_or_contain_all_keys() {
        let (a, b) = (one_stage(0..500), one_stage(400..900));
        let or = a.or(&b).unwrap();
        let chain = a.chain(b).unwrap();
        assert_eq!((or.stages().len(), chain.stages().len()), (1, 2));
        for hash in hashes(1).take(900) {
            assert!(or.may_contain(hash) && chain.may_contain(hash));
        }
        assert!(chain.predicted_rate() < or.predicted_rate());
        assert_eq!(chain.items(), or.items());
    }

    #[test]
    fn or_of_other_imprint_or_stage_count_is_refused() {
        let own = imprint(1);
        let (hash, known_answer) = (HashId::SipHash13, own.known_answer + 1);
        let refusals = [
            (
                Imprint { hash, ..own },
                Mismatch::Hash {
                    left: own.hash,
                    right: hash,
                },
            ),
            (imprint(2), Mismatch::Seed { left: 1, right: 2 }),
            (
                Imprint {
                    known_answer,
                    ..own
                },
                Mismatch::KnownAnswer {
                    left: own.known_answer,
                    right: known_answer,
                },
            ),
        ];
        for (imprint, expected) in refusals {
            let foreign = || Chain::new(imprint, Vec::new());
            assert_eq!(one_stage(0..9).or(&foreign()).unwrap_err(), expected);
            assert_eq!(one_stage(0..9).chain(foreign()).unwrap_err(), expected);
        }
        let empty = Chain::new(imprint(1), Vec::new());
        let refusal = one_stage(0..9).or(&empty).unwrap_err();
        assert_eq!(refusal, Mismatch::Stages { left: 1, right: 0 });
    }

    #[test]
    fn saturated_chain_answers_maybe() {
        let lost = Chain::saturated(imprint(1));
        assert!(lost.is_saturated());
        assert_eq!(lost.predicted_rate(), 1.0);
        let chain = one_stage(0..9).chain(lost).unwrap();
        assert!(hashes(7).take(1_000).all(|hash| chain.may_contain(hash)));
    }

    #[test]
    fn batch_answers_equal_single_lookups() {
        let chain = one_stage(0..500);
        let asked: Vec<_> = hashes(1).take(1_001).collect();
        let mut answers = vec![false; asked.len()];
        chain.contains_many(&asked, &mut answers);
        let single: Vec<_> = asked.iter().map(|&hash| chain.may_contain(hash)).collect();
        assert_eq!(answers, single);
    }
}

//! The filters of a merge whose keys were not seen.
//!
//! Another process may compact segments, or a manifest may arrive that names the outputs of a
//! merge. The outputs hold no key that the inputs did not hold, so the inputs' filters answer for
//! them at once, and no key is read:
//!
//! ```text
//! Or      one filter with the bits of all, if their shapes agree and it keeps the rate. Fill
//!         ratios add up: two half-full filters of 10 bits per key go from 0.8 % to 13.8 %
//! Chain   the filters one after the other. Rates and probes add up: two such have 1.6 %
//! None    an input has no filter, or the memory has no room: lookups read the outputs
//! ```
//!
//! The filter is rebuilt when the keys are read: at once if a [`SegmentBuild`] sees them, else by
//! maintenance, which reads the outputs if their filter exceeds the rate or has too many stages.
//!
//! [`SegmentBuild`]: super::SegmentBuild

use std::sync::Arc;

use crate::fault::fault;
use crate::filter::{Chain, Stage};
use crate::format::Source;
use crate::hash::Imprint;
use crate::math::{Bits, Items, Rate};
use crate::reach::reached;
use lsm_sieve_front::segment::{Registry, SealedFilter, SegmentId};

/// What became of the filters of a merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergeReport {
    /// The segments that were merged.
    pub inputs: Vec<SegmentId>,
    /// The segments that they were merged into.
    pub outputs: Vec<SegmentId>,
    /// The filter that the outputs have now.
    pub filter: MergedFilter,
    /// Its predicted false-positive rate; 1 if there is none.
    pub predicted_rate: f64,
}

/// The filter of the outputs of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergedFilter {
    /// One filter with the bits of all inputs.
    Or,
    /// The filters of all inputs, one after the other.
    Chain,
    /// None: lookups read the outputs until one is built.
    None,
}

/// Gives the outputs of a merge the filter of its inputs.
pub(super) fn merge(
    registry: &Registry,
    imprint: Imprint,
    rate: Rate,
    room: Bits,
    inputs: &[SegmentId],
    outputs: &[SegmentId],
) -> MergeReport {
    let filter = |&id| registry.get(id).and_then(|segment| segment.filter());
    let filters: Option<Vec<Arc<SealedFilter>>> = inputs.iter().map(filter).collect();
    let filters = filters.unwrap_or_default();
    let merged = merged(imprint, rate, room, &filters);
    let mut report = MergeReport {
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        filter: MergedFilter::None,
        predicted_rate: 1.0,
    };
    if let Some((kind, chain)) = merged {
        report.filter = kind;
        report.predicted_rate = chain.predicted_rate();
        let entries = filters.iter().map(|filter| filter.entries).sum();
        let filter = Arc::new(SealedFilter::new(chain, entries, rate, Source::OrOfInputs));
        let is_shared = is_shared(inputs, outputs);
        reached!(OutputsShareFilter, is_shared);
        for &id in outputs {
            let segment = registry.open(id);
            segment.set_shared_filter(Arc::clone(&filter), is_shared);
        }
    }
    report
}

/// Whether several outputs share the filter. It is not stored for each of them.
fn is_shared(inputs: &[SegmentId], outputs: &[SegmentId]) -> bool {
    fault!(SingleOutputShares, return inputs.len() > 1);
    outputs.len() > 1
}

/// `None` if there is no input, an input has no filter of this imprint, or memory does not suffice.
fn merged(
    imprint: Imprint,
    rate: Rate,
    room: Bits,
    inputs: &[Arc<SealedFilter>],
) -> Option<(MergedFilter, Chain)> {
    let chains: Vec<&Chain> = inputs.iter().map(|filter| &filter.chain).collect();
    let covers = |chain: &&Chain| chain.imprint() == imprint && !chain.stages().is_empty();
    if chains.is_empty() || !chains.iter().all(covers) {
        return None;
    }
    let stages: Vec<&Stage> = chains.iter().flat_map(|chain| chain.stages()).collect();
    let keys = chains.iter().map(|chain| chain.items()).sum();
    // Every input has a stage, so with as many stages it has one.
    if stages.len() == chains.len() && can_be_ored(&stages, keys, rate) {
        let union = (stages[0].size() <= room).then(|| ored(&stages))??;
        return Some((MergedFilter::Or, Chain::new(imprint, vec![union])));
    }
    if stages.iter().map(|stage| stage.size()).sum::<Bits>() > room {
        return None;
    }
    let copies = stages.iter().map(|stage| stage.try_clone().ok());
    let chain = Chain::new(imprint, copies.collect::<Option<_>>()?);
    Some((MergedFilter::Chain, chain))
}

/// Whether there are several stages, of one shape in which `keys` keys keep the rate.
fn can_be_ored(stages: &[&Stage], keys: Items, rate: Rate) -> bool {
    let shape = stages[0].shape();
    stages.len() > 1
        && !shape.kind.is_static()
        && stages.iter().all(|stage| stage.shape() == shape)
        && stages[0].capacity(rate) >= keys
}

/// The bits of all stages in one; `None` if memory does not suffice.
fn ored(stages: &[&Stage]) -> Option<Stage> {
    let union = stages[0].try_clone().ok()?;
    for other in &stages[1..] {
        union.or_with(other).ok()?;
    }
    Some(union)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Kind, Shape};
    use crate::hash::{HashId, KeyHash, KeyHasher, Seed};
    use std::ops::Range;

    const ROOM: Bits = Bits::new(u64::MAX);
    const ONE_PERCENT: Rate = Rate::ONE_PERCENT;

    fn hasher(seed: u8) -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([seed; 16]))
    }

    fn hashes(keys: Range<u64>) -> impl Iterator<Item = KeyHash> {
        let hasher = hasher(1);
        keys.map(move |key| hasher.hash(&key.to_be_bytes()))
    }

    /// A stage for 1,000 keys at 1 %.
    fn roomy() -> Stage {
        Stage::with_rate(Kind::Blocked, Items::new(1_000), ONE_PERCENT).unwrap()
    }

    fn filled(stage: Stage, keys: Range<u64>) -> Stage {
        hashes(keys).for_each(|hash| _ = stage.insert(hash));
        stage
    }

    fn sealed(stages: Vec<Stage>) -> Arc<SealedFilter> {
        let chain = Chain::new(hasher(1).imprint(), stages);
        Arc::new(SealedFilter::new(chain, 1, ONE_PERCENT, Source::OrOfInputs))
    }

    fn roomy_with(keys: Range<u64>) -> Arc<SealedFilter> {
        sealed(vec![filled(roomy(), keys)])
    }

    fn merged(inputs: &[Arc<SealedFilter>]) -> Option<(MergedFilter, Chain)> {
        super::merged(hasher(1).imprint(), ONE_PERCENT, ROOM, inputs)
    }

    /// The filter made of inputs with the keys 0..`keys`, none of which it denies.
    fn kept(inputs: &[Arc<SealedFilter>], keys: u64) -> (MergedFilter, f64) {
        let (kind, chain) = merged(inputs).unwrap();
        assert!(hashes(0..keys).all(|hash| chain.may_contain(hash)));
        (kind, chain.predicted_rate())
    }

    /// An OR costs nothing where it is chosen; elsewhere it ruins the false-positive rate.
    #[test]
    fn inputs_are_ored_only_within_the_rate() {
        let (kind, rate) = kept(&[roomy_with(0..450), roomy_with(450..900)], 900);
        assert_eq!(kind, MergedFilter::Or);
        assert!(rate <= 0.01, "{rate}");

        let full = [roomy_with(0..1_000), roomy_with(1_000..2_000)];
        let (kind, rate) = kept(&full, 2_000);
        assert_eq!(kind, MergedFilter::Chain);
        assert!((0.015..0.021).contains(&rate), "{rate}");
        let [left, right] = full.each_ref().map(|filter| &filter.chain);
        assert!(left.or(right).unwrap().predicted_rate() > 0.08);
    }

    #[test]
    fn inputs_are_ored_up_to_the_last_key_of_the_capacity() {
        let capacity = roomy().capacity(ONE_PERCENT).get();
        let counted = |items| {
            let stage = filled(roomy(), 0..10);
            let words: Vec<u64> = stage.words().collect();
            let read = Stage::from_words(stage.shape(), Items::new(items), words).unwrap();
            sealed(vec![read])
        };
        for (more, expected) in [(0, MergedFilter::Or), (1, MergedFilter::Chain)] {
            let inputs = [counted(10), counted(capacity - 10 + more)];
            assert_eq!(kept(&inputs, 10).0, expected, "{more} more");
        }
    }

    #[test]
    fn inputs_of_other_shapes_are_chained() {
        let larger = Stage::with_rate(Kind::Blocked, Items::new(9_000), ONE_PERCENT).unwrap();
        let shape = roomy().shape();
        let (groups, probes) = (2, crate::math::Probes::new(4));
        assert_ne!((shape.groups, shape.probes), (groups, probes));
        let other = Shape {
            groups,
            probes,
            ..shape
        };
        let fixed = Stage::ribbon(hashes(10..20).collect(), ONE_PERCENT).unwrap();
        let small = roomy_with(0..10);
        for other in [
            sealed(vec![filled(larger, 10..20)]),
            sealed(vec![filled(Stage::new(other).unwrap(), 10..20)]),
            sealed(vec![fixed]),
            sealed(vec![filled(roomy(), 10..20), roomy()]),
        ] {
            assert_eq!(
                kept(&[small.clone(), other.clone()], 20).0,
                MergedFilter::Chain
            );
            assert_eq!(kept(&[other, small.clone()], 20).0, MergedFilter::Chain);
        }
    }

    #[test]
    fn single_input_is_kept() {
        let input = roomy_with(0..900);
        assert_eq!(
            kept(std::slice::from_ref(&input), 900),
            (MergedFilter::Chain, input.chain.predicted_rate())
        );
    }

    /// A merge whose inputs are not all covered must not result in a filter that looks complete.
    #[test]
    fn uncovered_input_leaves_no_filter() {
        let foreign = Chain::new(hasher(2).imprint(), vec![roomy()]);
        let foreign = SealedFilter::new(foreign, 1, ONE_PERCENT, Source::OrOfInputs);
        let covered = || roomy_with(0..10);
        for inputs in [
            vec![],
            vec![sealed(vec![])],
            vec![covered(), sealed(vec![])],
            vec![covered(), Arc::new(foreign)],
        ] {
            assert!(merged(&inputs).is_none(), "{inputs:?}");
        }
    }

    #[test]
    fn filter_beyond_the_room_is_not_made() {
        let one = roomy().size().get();
        let (few, many) = (
            [roomy_with(0..9), roomy_with(9..18)],
            [roomy_with(0..999), roomy_with(0..999)],
        );
        for (inputs, needed) in [(few, one), (many, 2 * one)] {
            let within = |room| {
                let room = Bits::new(room);
                super::merged(hasher(1).imprint(), ONE_PERCENT, room, &inputs).is_some()
            };
            assert!(within(needed) && !within(needed - 1), "{needed}");
        }
    }
}

//! The filters of a merge whose keys were not seen.
//!
//! Another process may compact segments, or a manifest may arrive that names the outputs of a
//! merge. The outputs hold no key that the inputs did not hold. So they get the inputs' filters,
//! chained or ORed, and no key is read. When that costs more false
//! positives or probes than the filters may, maintenance rebuilds them from the outputs' keys.
//! [`plan`](lsm_sieve_filter::plan) decides.

use std::sync::Arc;

use crate::fault::fault;
use crate::filter::{Chain, Stage};
use crate::format::Source;
use crate::hash::Imprint;
use crate::math::{Bits, Items, Rate};
use lsm_sieve_filter::plan::{
    Action, Budget, Decision, Facts, Fraction, Input, InputStage, Keys, plan,
};
use lsm_sieve_front::segment::{Registry, SealedFilter, SegmentId};

/// The most stages that a lookup probes for one segment; maintenance rebuilds filters with more.
const STAGES: u32 = 4;

/// What became of the filters of a merge.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MergeReport {
    /// The segments that were merged.
    pub inputs: Vec<SegmentId>,
    /// The segments that they were merged into.
    pub outputs: Vec<SegmentId>,
    /// What was decided, with the reason and the cost.
    pub decision: Decision,
    /// Whether the outputs have a filter now. If not, lookups read them until it is rebuilt.
    pub has_filter: bool,
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
    let filters: Vec<Option<Arc<SealedFilter>>> = inputs
        .iter()
        .map(|&id| registry.get(id).and_then(|segment| segment.filter()))
        .collect();
    let facts = Facts {
        keys: Keys::OnDisk,
        overlap: Fraction::NONE,
    };
    let budget = Budget {
        rate,
        probed_stages: STAGES,
        bits: room,
    };
    let described: Vec<Input> = inputs
        .iter()
        .zip(&filters)
        .map(|(&id, filter)| input(id, imprint, filter.as_deref()))
        .collect();
    let decision = plan(&described, &facts, &budget);
    let all: Option<Vec<Arc<SealedFilter>>> = filters.into_iter().collect();
    let merged = all.and_then(|all| carried_out(decision.action, imprint, &all));
    let has_filter = merged.is_some();
    if let Some((chain, entries)) = merged {
        let source = Source::OrOfInputs;
        let filter = Arc::new(SealedFilter::new(chain, entries, rate, source));
        // What several outputs share is not stored for each of them.
        let mut is_shared = outputs.len() > 1;
        fault!(SingleOutputShares, is_shared = inputs.len() > 1);
        for &id in outputs {
            let segment = registry.open(id);
            segment.set_shared_filter(Arc::clone(&filter), is_shared);
        }
    }
    MergeReport {
        inputs: inputs.to_vec(),
        outputs: outputs.to_vec(),
        decision,
        has_filter,
    }
}

fn input(id: SegmentId, imprint: Imprint, filter: Option<&SealedFilter>) -> Input {
    let stages = filter.map_or(&[][..], |filter| filter.chain.stages());
    let stage = |stage: &Stage| InputStage {
        shape: stage.shape(),
        rate: Fraction::new(stage.predicted_rate()).unwrap_or(Fraction::ALL),
    };
    Input {
        id,
        items: filter.map_or(Items::new(0), |filter| filter.chain.items()),
        imprint,
        stages: stages.iter().map(stage).collect(),
    }
}

/// The filter that a decision asks for, and the entries of its inputs. Until a rebuild is done, the
/// inputs are chained. `None` if there is to be none, or no memory.
fn carried_out(
    action: Action,
    imprint: Imprint,
    inputs: &[Arc<SealedFilter>],
) -> Option<(Chain, u64)> {
    let entries = inputs.iter().map(|filter| filter.entries).sum();
    let chain = match action {
        Action::Drop => return None,
        Action::Or(_) => ored(inputs).or_else(|| chained(imprint, inputs)),
        Action::Fold { to } => folded(inputs, to).or_else(|| chained(imprint, inputs)),
        Action::Keep | Action::Chain | Action::Rebuild { .. } => chained(imprint, inputs),
    };
    Some((chain?, entries))
}

fn chained(imprint: Imprint, inputs: &[Arc<SealedFilter>]) -> Option<Chain> {
    let stages = inputs.iter().flat_map(|filter| filter.chain.stages());
    Some(Chain::new(imprint, cloned(stages)?))
}

/// `None` if memory does not suffice.
fn cloned<'a>(stages: impl IntoIterator<Item = &'a Stage>) -> Option<Vec<Stage>> {
    let stages = stages.into_iter().map(|stage| stage.try_clone().ok());
    stages.collect()
}

/// `None` if the inputs differ in shape and cannot be expanded to each other's.
fn ored(inputs: &[Arc<SealedFilter>]) -> Option<Chain> {
    let largest = inputs.iter().map(|filter| filter.chain.size()).max()?;
    let mut expanded = inputs.iter().map(|filter| expanded(&filter.chain, largest));
    let first = expanded.next()??;
    expanded.try_fold(first, |merged, next| merged.or(&next?).ok())
}

fn expanded(chain: &Chain, to: Bits) -> Option<Chain> {
    let mut stages = cloned(chain.stages())?;
    while let [stage] = stages.as_slice()
        && stage.size() < to
    {
        stages = vec![stage.expand().ok()?];
    }
    Some(Chain::new(chain.imprint(), stages))
}

fn folded(inputs: &[Arc<SealedFilter>], to: Bits) -> Option<Chain> {
    let merged = ored(inputs)?;
    let imprint = merged.imprint();
    let mut stage = merged.into_stages().pop()?;
    while stage.size() > to {
        stage = stage.fold().ok()?;
    }
    Some(Chain::new(imprint, vec![stage]))
}

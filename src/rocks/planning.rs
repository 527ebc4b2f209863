//! The merge planner's word on the filter of one table.
//!
//! Flush and compaction hand every key of the table that they write to its builder, so its filter
//! is rebuilt at the right size for nothing. A table that came otherwise, or whose filter no longer
//! keeps the promise, has its keys on disk.

use crate::filter::{Chain, Stage};
use crate::hash::Imprint;
use crate::math::{Bits, Items, Rate};
use crate::segment::{Budget, Decision, Facts, Fraction, Input, InputStage, Keys, SegmentId, plan};

/// Stages that the filter of one table may have: each is a cache line of a look-up in it.
const STAGES: u32 = 4;

/// Limits that a decision must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The promised rate of a table's filter.
    pub(crate) rate: Rate,
    /// Memory for this one filter.
    pub(crate) room: Bits,
}

/// What to do about the filter of a table whose keys are at `keys`.
pub(crate) fn decide(
    id: SegmentId,
    filter: Option<&Chain>,
    imprint: Imprint,
    keys: Keys,
    limits: Limits,
) -> Decision {
    let input = Input {
        id,
        items: filter.map_or(Items::new(0), Chain::items),
        imprint: filter.map_or(imprint, Chain::imprint),
        stages: filter.map_or_else(Vec::new, |chain| chain.stages().iter().map(stage).collect()),
    };
    let budget = Budget {
        rate: limits.rate,
        probed_stages: STAGES,
        bits: limits.room,
    };
    plan(
        &[input],
        &Facts {
            keys,
            overlap: Fraction::NONE,
        },
        &budget,
    )
}

fn stage(stage: &Stage) -> InputStage {
    let rate = Fraction::new(stage.predicted_rate()).unwrap_or(Fraction::ALL);
    InputStage {
        shape: stage.shape(),
        rate,
    }
}

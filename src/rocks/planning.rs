//! The merge planner's word on the filter of one table.
//!
//! Flush and compaction hand every key of the table that they write to its builder, so its filter
//! is rebuilt at the right size for nothing. A table that came otherwise, or whose filter no longer
//! keeps the promise, has its keys on disk.

use crate::filter::{Chain, Stage};
use crate::hash::Imprint;
use crate::math::{Bits, Items, Rate, blocked};
use crate::segment::{Budget, Decision, Facts, Fraction, Input, InputStage, Keys, SegmentId, plan};

/// Stages that the filter of one table may have: each is a cache line of a look-up in it.
const STAGES: u32 = 4;

/// Limits that a decision must keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The promised rate of a table's filter.
    pub(crate) rate: Rate,
    /// Memory for this one filter, what it takes now included.
    pub(crate) room: Bits,
}

/// What to do about the filter of a table of so many entries, whose keys are on disk.
pub(crate) fn decide(
    id: SegmentId,
    filter: Option<&Chain>,
    imprint: Imprint,
    entries: Items,
    limits: Limits,
) -> Decision {
    let items = filter.map_or(entries, Chain::items).max(Items::new(1));
    let needed = filter.map_or_else(|| size_of(items, limits.rate), Chain::size);
    let fits = needed <= limits.room;
    let input = Input {
        id,
        items,
        imprint: filter.map_or(imprint, Chain::imprint),
        stages: filter.map_or_else(Vec::new, |chain| chain.stages().iter().map(stage).collect()),
    };
    let budget = Budget {
        rate: limits.rate,
        probed_stages: STAGES,
        // The planner counts a filter of the textbook; ours must fit as it will be built.
        bits: if fits { limits.room } else { Bits::new(0) },
    };
    plan(
        &[input],
        &Facts {
            keys: Keys::OnDisk,
            overlap: Fraction::NONE,
        },
        &budget,
    )
}

/// Bits of the filter that a builder seals.
fn size_of(items: Items, rate: Rate) -> Bits {
    const LINE_BITS: u64 = 512;
    let lines = blocked::size(items, rate).map_or(u64::MAX, |(_, lines)| lines);
    Bits::new(lines.saturating_mul(LINE_BITS))
}

fn stage(stage: &Stage) -> InputStage {
    let rate = Fraction::new(stage.predicted_rate()).unwrap_or(Fraction::ALL);
    InputStage {
        shape: stage.shape(),
        rate,
    }
}

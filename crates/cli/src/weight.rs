//! What the filters of a column family weigh.

use lsm_sieve::{FilterReport, SegmentReport, SieveDb};

use crate::outcome::Stop;

/// The size of the filters of one column family, and how often they were wrong.
#[derive(Clone, Copy, Default)]
pub struct Weight {
    pub summary_bits_per_key: f64,
    pub segment_bits_per_key: f64,
    pub segment_observed_rate: f64,
}

impl Weight {
    /// Of the summary filter and the segment filters together.
    pub fn bits_per_key(self) -> f64 {
        self.summary_bits_per_key + self.segment_bits_per_key
    }
}

/// The weight of the filters of one column family. Means over its segments are weighted by their
/// keys.
pub fn weight(db: &SieveDb, family: &str) -> Result<Weight, Stop> {
    let inspection = db.filters().inspect()?;
    let columns = inspection.cfs.iter();
    let Some(column) = columns.into_iter().find(|column| column.name == family) else {
        return Ok(Weight::default());
    };
    Ok(Weight {
        summary_bits_per_key: column.summary.bits_per_key,
        segment_bits_per_key: segment_bits_per_key(&column.segments),
        // An SST without a filter is always read.
        segment_observed_rate: mean(&column.segments, |filter| filter.observed_rate).unwrap_or(1.0),
    })
}

/// Of all keys, those of SSTs without filters too.
fn segment_bits_per_key(segments: &[SegmentReport]) -> f64 {
    let filters = segments
        .iter()
        .filter_map(|segment| segment.filter.as_ref());
    let bits: u64 = filters.map(|filter| filter.bits).sum();
    let keys: u64 = segments.iter().map(|segment| segment.entries).sum();
    bits as f64 / keys.max(1) as f64
}

fn mean(segments: &[SegmentReport], of: fn(&FilterReport) -> f64) -> Option<f64> {
    let (mut sum, mut keys) = (0.0, 0.0);
    for filter in segments
        .iter()
        .filter_map(|segment| segment.filter.as_ref())
    {
        sum += of(filter) * filter.keys as f64;
        keys += filter.keys as f64;
    }
    (keys > 0.0).then(|| sum / keys)
}

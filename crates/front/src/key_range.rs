//! The key range of a segment.

use crate::fault::fault;

/// All keys from `low` to `high`, bytewise, both included.
#[derive(Clone, Debug)]
pub struct KeyRange {
    low: Vec<u8>,
    high: Vec<u8>,
}

impl KeyRange {
    /// From the smallest key to the largest in the order of a comparator. Under the reverse
    /// comparator, the smallest is the bytewise largest.
    pub fn new(smallest: &[u8], largest: &[u8]) -> Self {
        let range = |low: &[u8], high: &[u8]| Self {
            low: low.to_vec(),
            high: high.to_vec(),
        };
        fault!(RangeNotReversed, return range(smallest, largest));
        range(smallest.min(largest), smallest.max(largest))
    }

    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    pub(crate) fn high(&self) -> &[u8] {
        &self.high
    }
}

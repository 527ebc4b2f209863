//! The key range of an SST.

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
        let mut is_bytewise = smallest <= largest;
        fault!(RangeNotReversed, is_bytewise = true);
        let (low, high) = if is_bytewise {
            (smallest, largest)
        } else {
            (largest, smallest)
        };
        Self {
            low: low.to_vec(),
            high: high.to_vec(),
        }
    }

    pub(crate) fn low(&self) -> &[u8] {
        &self.low
    }

    pub(crate) fn high(&self) -> &[u8] {
        &self.high
    }
}

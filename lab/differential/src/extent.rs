//! Measures the differential file and decides whether it is too large.

use super::error::DifferentialError;
use super::options::Trigger;
use super::store::DifferentialStore;
use lsm_sieve_filter::math::{Bits, Items};

/// The size of the differential file, over all generations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Number of generations: the newest, and those that wait to be moved.
    pub generations: usize,
    /// Approximate number of keys. A key that is in two generations counts twice.
    pub records: Items,
    /// Bytes in memory and on disk.
    pub bytes: u64,
    /// Memory used by the filters.
    pub filters: Bits,
    /// Probability that reading an unmodified record searches some generation, computed from the
    /// filters.
    pub predicted_rate: f64,
}

impl DifferentialStore {
    /// Measures the differential file. Reads the whole of a fixed filter.
    ///
    /// # Errors
    /// If the engine does not return its properties.
    pub fn extent(&self) -> Result<Extent, DifferentialError> {
        let generations = self.generations();
        let mut extent = Extent {
            generations: generations.len(),
            records: Items::new(0),
            bytes: 0,
            filters: Bits::new(0),
            predicted_rate: 0.0,
        };
        let mut all_absent = 1.0;
        for generation in generations.iter() {
            let (records, filter, rate) = generation.filter()?;
            extent.records = Items::new(extent.records.get().saturating_add(records.get()));
            extent.filters = Bits::new(extent.filters.get() + filter.get());
            extent.bytes = extent.bytes.saturating_add(generation.bytes()?);
            all_absent *= 1.0 - rate;
        }
        extent.predicted_rate = 1.0 - all_absent;
        Ok(extent)
    }

    /// Whether it is time to [reorganise](DifferentialStore::reorganize). The store has no thread
    /// of its own for that: call this after a batch of writes, and reorganise when convenient.
    ///
    /// # Errors
    /// The same as [`DifferentialStore::extent`].
    pub fn is_due(&self, trigger: Trigger) -> Result<bool, DifferentialError> {
        let extent = self.extent()?;
        Ok(match trigger {
            Trigger::ByHand => false,
            Trigger::Bytes(most) => extent.bytes >= most,
            Trigger::Records(most) => extent.records >= most,
            Trigger::FilterRate(most) => extent.predicted_rate >= most.get(),
            Trigger::Transactions(most) => {
                extent.records.get() > 0 && self.transactions_since_moved() >= most
            }
        })
    }
}

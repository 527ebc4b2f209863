//! How large the differential file is, and whether that is too large.

use super::error::DifferentialError;
use super::options::Trigger;
use super::store::DifferentialStore;
use crate::math::{Bits, Items};

/// The differential file as it is, over all generations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// How many generations there are: one, and those that wait to be moved.
    pub generations: usize,
    /// Keys, about; one that is in two generations counts twice.
    pub records: Items,
    /// Bytes in memory and on disk.
    pub bytes: u64,
    /// Memory that the filters take.
    pub filters: Bits,
    /// The chance that the read of an unmodified record searches some generation, computed from
    /// the filters.
    pub predicted_rate: f64,
}

impl DifferentialStore {
    /// How large the differential file is. Reads a fixed filter as a whole.
    ///
    /// # Errors
    /// When the engine does not say.
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
    /// of its own for that: ask after a batch of writes, and reorganise where it suits.
    ///
    /// # Errors
    /// As [`DifferentialStore::extent`].
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

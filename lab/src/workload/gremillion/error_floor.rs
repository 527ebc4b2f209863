//! Explains why Gremillion's rates differ from the formula: below it for small filters, above it
//! for large ones.
//!
//! The popularity of records cannot change the mean. Two other facts can, each with a number that
//! he did not print:
//!
//! - A share a of the accesses went to modified records, where no search is unnecessary.
//! - His hash functions started from a base value below r. A record with the base value of a
//!   modified one looked modified in a filter of any size.
//!
//! ```text
//! (1 − a) · folded(r)          folded: see math::differential
//! ```
//!
//! Both numbers are fitted to his 21 rates by the least mean square of ln(printed / model). The
//! good fit is evidence but no proof: his functions are lost.

use crate::math::differential::folded;

use super::published::{self, Printed};

/// The two numbers, and how well they fit.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Floor {
    /// r, the number of base values that the hash distinguishes.
    pub range: u64,
    /// a, the share of accesses to modified records.
    pub modified: f64,
    /// The root of the mean square of ln(printed / model).
    pub deviation: f64,
}

/// The range that [`Floor::fitted`] finds, in whole thousands: the fold of the weak hash.
pub const RANGE: u64 = 190_000;

const STEP: u64 = 1_000;

impl Floor {
    /// The best of all ranges in whole thousands, each with its best share.
    pub fn fitted() -> Self {
        let ranges = (64..512).map(|thousands| Self::with_range(thousands * STEP));
        ranges.fold(Self::with_range(RANGE), |best, next| {
            if next.deviation < best.deviation {
                next
            } else {
                best
            }
        })
    }

    /// The given range, with the share for which the mean of ln(printed / model) is 0.
    pub fn with_range(range: u64) -> Self {
        let bare = Self {
            range,
            modified: 0.0,
            deviation: 0.0,
        };
        let logs = || published::cells().map(|cell| (cell.simulated / bare.rate(&cell)).ln());
        let count = published::cells().count() as f64;
        let mean = logs().sum::<f64>() / count;
        let square = logs().map(|log| (log - mean).powi(2)).sum::<f64>() / count;
        Self {
            modified: -mean.exp_m1(),
            deviation: square.sqrt(),
            ..bare
        }
    }

    /// The model's rate per access.
    pub fn rate(&self, cell: &Printed) -> f64 {
        (1.0 - self.modified) * folded(self.range, cell.bits, cell.probes, published::UPDATED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weak_hash_folds_as_fits_best() {
        let floor = Floor::fitted();
        assert_eq!(floor.range, RANGE);
        assert!((0.18..0.22).contains(&floor.modified), "{floor:?}");
        assert!((0.10..0.12).contains(&floor.deviation), "{floor:?}");
    }

    #[test]
    fn the_floor_explains_what_no_floor_does_not() {
        let fitted = Floor::fitted();
        let without = Floor::with_range(u64::MAX);
        assert!(without.deviation > 3.0 * fitted.deviation, "{without:?}");
        for cell in published::cells() {
            let ratio = cell.simulated / fitted.rate(&cell);
            assert!((0.75..1.25).contains(&ratio), "{cell:?}: {ratio}");
        }
    }
}

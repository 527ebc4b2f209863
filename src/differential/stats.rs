//! What a store did since it was opened.

use crate::stats::Stats;

/// Counts since the store was opened. Each read counts once, however many generations it searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifferentialStats {
    /// Records put or deleted.
    pub writes: u64,
    /// Reads that the filters sent straight to the main file: searches avoided.
    pub avoided: u64,
    /// Reads that found a record, or a delete, in the differential file.
    pub found: u64,
    /// Reads that searched it in vain under complete filters: *unnecessary searches*.
    pub unnecessary: u64,
    /// Reads that searched it in vain because a filter was not complete, as after an open.
    pub uncovered: u64,
    /// Reads sent straight to the main file that an audit searched the differential file for.
    pub audited: u64,
    /// Audited reads whose record was there after all: written that moment, or denied by a filter
    /// that was refuted and is asked no more.
    pub refuted: u64,
}

impl DifferentialStats {
    pub(super) fn new(writes: u64, reads: Stats) -> Self {
        Self {
            writes,
            avoided: reads.absent,
            found: reads.found,
            unnecessary: reads.false_positives,
            uncovered: reads.uncovered,
            audited: reads.audited,
            refuted: reads.refuted,
        }
    }

    /// Reads and writes.
    pub fn transactions(&self) -> u64 {
        self.writes + self.reads()
    }

    /// All reads.
    pub fn reads(&self) -> u64 {
        self.avoided + self.differential_reads()
    }

    /// Reads that searched the differential file.
    pub fn differential_reads(&self) -> u64 {
        self.found + self.unnecessary + self.uncovered
    }

    /// Reads that went on to the main file.
    pub fn main_reads(&self) -> u64 {
        self.reads() - self.found
    }

    /// Unnecessary searches among the reads of unmodified records, under complete filters; 0
    /// without any.
    pub fn observed_rate(&self) -> f64 {
        let unmodified = self.avoided + self.unnecessary;
        if unmodified == 0 {
            0.0
        } else {
            self.unnecessary as f64 / unmodified as f64
        }
    }
}

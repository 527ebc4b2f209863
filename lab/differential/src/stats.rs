//! Counters of a store since it was opened.

use lsm_sieve_front::stats::Stats;

/// Counts since the store was opened. Each read counts once, however many generations it searches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifferentialStats {
    /// Records put or deleted.
    pub writes: u64,
    /// Reads that the filters sent straight to the main file: searches avoided.
    pub avoided: u64,
    /// Reads that found a record, or a delete, in the differential file.
    pub found: u64,
    /// Reads that searched it and found nothing although the filters were complete: *unnecessary
    /// searches*.
    pub unnecessary: u64,
    /// Reads that searched it and found nothing because a filter was not complete, as after an
    /// open.
    pub uncovered: u64,
    /// Reads sent straight to the main file for which an audit searched the differential file.
    pub audited: u64,
    /// Audited reads whose record was there after all. Either it was written at that time, or the
    /// filter had a false negative and is no longer used.
    pub false_negatives: u64,
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
            false_negatives: reads.false_negatives,
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

    /// Share of unnecessary searches among the reads of unmodified records, with complete filters.
    /// 0 if there were no such reads.
    pub fn observed_rate(&self) -> f64 {
        let unmodified = self.avoided + self.unnecessary;
        if unmodified == 0 {
            0.0
        } else {
            self.unnecessary as f64 / unmodified as f64
        }
    }
}

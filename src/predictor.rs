//! Predicts from a thread's last lookups in one column family whether the next one is a hit.
//!
//! A filter that answers *maybe* for a key that is there has saved nothing. So a thread that finds
//! key after key checks fewer filters, until a lookup comes out otherwise:
//!
//! | the thread's last lookups                            | [`Plan`]      | saves                    |
//! |------------------------------------------------------|---------------|--------------------------|
//! | 32 hits in a row                                     | `EngineOnly`  | all filters              |
//! | the last 8 keys that passed the summary were hits    | `SummaryOnly` | segment filters          |
//! | anything else                                        | `AllFilters`  |                          |
//!
//! A wrong prediction costs one read of the engine. For lookups in random order, 32 hits in a row
//! have a probability of 0.98^32 = 52 % if 2 % of the lookups miss, and of 3 % if 10 % do. At the
//! default rate, if one lookup in a hundred is a hit, 70 % of the keys that pass the summary are
//! hits, and 8 in a row have a probability of 6 %.
//!
//! A predictor belongs to one thread, which alone writes it: plain loads and stores.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Hits in a row after which the next lookup is expected to hit.
const EXPECT_HIT: u32 = 2;

/// Hits in a row after which no filter is checked.
const ENGINE_ONLY: u32 = 32;

/// Hits in a row, among keys that passed the summary, after which segment filters are not checked.
const SUMMARY_ONLY: u32 = 8;

/// One hit in so many checks whether the thread's keys are in SSTs or in memtables.
const SAMPLE_SEGMENTS: u32 = 32;

/// Which filters a lookup checks before it enters the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The summary filter, then segment and memtable filters.
    AllFilters,
    /// The summary filter.
    SummaryOnly,
    /// None.
    EngineOnly,
}

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The engine found the key.
    Hit,
    /// The summary filter said *absent*, or no filter was checked and the engine found nothing.
    Miss,
    /// The key passed the summary filter, and is absent or could not be read.
    FalsePositive,
}

/// The last lookups of one thread in one column family.
#[derive(Debug, Default)]
pub(crate) struct Predictor {
    /// Hits in a row.
    hits: AtomicU32,
    /// Hits in a row among keys that passed the summary filter.
    passed_hits: AtomicU32,
    /// Whether the last sampled hit was in no memtable.
    reads_segments: AtomicBool,
}

impl Predictor {
    /// Whether the next lookup is likely to hit, so that a fast probe is not worth it.
    #[inline]
    pub(crate) fn expects_hit(&self) -> bool {
        self.hits.load(Ordering::Relaxed) >= EXPECT_HIT
    }

    /// Which filters the next lookup should check.
    #[inline]
    pub(crate) fn plan(&self) -> Plan {
        if self.hits.load(Ordering::Relaxed) >= ENGINE_ONLY {
            Plan::EngineOnly
        } else if self.passed_hits.load(Ordering::Relaxed) >= SUMMARY_ONLY {
            Plan::SummaryOnly
        } else {
            Plan::AllFilters
        }
    }

    /// Records what became of the last lookup.
    #[inline]
    pub(crate) fn record(&self, outcome: Outcome) {
        match outcome {
            Outcome::Hit => {
                increment(&self.hits);
                increment(&self.passed_hits);
            }
            Outcome::Miss => self.hits.store(0, Ordering::Relaxed),
            Outcome::FalsePositive => {
                self.hits.store(0, Ordering::Relaxed);
                self.passed_hits.store(0, Ordering::Relaxed);
            }
        }
    }

    /// Whether the engine is likely to check segment filters for the next hit; `None` if that is
    /// to be sampled now, and recorded.
    #[inline]
    pub(crate) fn expects_segment_reads(&self) -> Option<bool> {
        let is_known = !self
            .passed_hits
            .load(Ordering::Relaxed)
            .is_multiple_of(SAMPLE_SEGMENTS);
        is_known.then(|| self.reads_segments.load(Ordering::Relaxed))
    }

    /// Records whether the engine checks segment filters for the next hit: it does for a key that
    /// is in no memtable.
    #[inline]
    pub(crate) fn record_segment_reads(&self, reads: bool) {
        self.reads_segments.store(reads, Ordering::Relaxed);
    }
}

#[inline]
fn increment(count: &AtomicU32) {
    let now = count.load(Ordering::Relaxed);
    // Past the thresholds the count only has to go on, for the sampling.
    let next = now
        .checked_add(1)
        .unwrap_or_else(|| now - (SAMPLE_SEGMENTS - 1));
    count.store(next, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: impl IntoIterator<Item = Outcome>) -> Predictor {
        let predictor = Predictor::default();
        outcomes
            .into_iter()
            .for_each(|outcome| predictor.record(outcome));
        predictor
    }

    fn hits(count: usize) -> impl Iterator<Item = Outcome> {
        std::iter::repeat_n(Outcome::Hit, count)
    }

    #[test]
    fn plan_checks_fewer_filters_as_hits_accumulate() {
        for (count, plan) in [
            (0, Plan::AllFilters),
            (7, Plan::AllFilters),
            (8, Plan::SummaryOnly),
            (31, Plan::SummaryOnly),
            (32, Plan::EngineOnly),
            (1_000, Plan::EngineOnly),
        ] {
            assert_eq!(after(hits(count)).plan(), plan, "{count} hits");
        }
        assert!(!after(hits(1)).expects_hit() && after(hits(2)).expects_hit());
    }

    #[test]
    fn miss_ends_engine_only_and_keeps_summary_only() {
        let predictor = after(hits(32).chain([Outcome::Miss]));
        assert_eq!(predictor.plan(), Plan::SummaryOnly);
        assert!(!predictor.expects_hit());
    }

    #[test]
    fn false_positive_ends_both() {
        let predictor = after(hits(32).chain([Outcome::FalsePositive]));
        assert_eq!(predictor.plan(), Plan::AllFilters);
        assert!(!predictor.expects_hit());
    }

    #[test]
    fn segment_reads_are_sampled_at_one_hit_in_32() {
        let predictor = Predictor::default();
        let mut sampled = 0;
        for _ in 0..320 {
            if predictor.expects_segment_reads().is_none() {
                sampled += 1;
                predictor.record_segment_reads(true);
            } else {
                assert_eq!(predictor.expects_segment_reads(), Some(true));
            }
            predictor.record(Outcome::Hit);
        }
        assert_eq!(sampled, 10);
    }

    #[test]
    fn counts_do_not_overflow() {
        let predictor = Predictor::default();
        predictor.hits.store(u32::MAX, Ordering::Relaxed);
        predictor.passed_hits.store(u32::MAX, Ordering::Relaxed);
        for sampled in [false, true] {
            assert_eq!(predictor.plan(), Plan::EngineOnly);
            assert_eq!(predictor.expects_segment_reads().is_none(), sampled);
            predictor.record(Outcome::Hit);
        }
    }
}

//! Predicts the outcome of a thread's next lookup in a column family from its last ones.
//!
//! A filter that answers *maybe* for a key that exists has saved nothing. So a thread that finds
//! key after key enters the engine at once, until a lookup comes out otherwise: after 32 hits in a
//! row. For lookups in random order, that has a probability of 0.98^32 = 52 % if 2 % of them miss,
//! and of 3 % if 10 % do. A wrong prediction costs one read of the engine. An *absent* of the fast
//! probe ends no row, because that would cost the probe a store.
//!
//! A predictor belongs to one thread, which alone writes it: plain loads and stores.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Hits in a row after which the next lookup is expected to hit.
const EXPECT_HIT: u32 = 2;

/// Hits in a row after which no filter is probed.
const ENGINE_ONLY: u32 = 32;

/// What a lookup does before it enters the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It probes the summary filter.
    Probe,
    /// Nothing.
    EngineOnly,
}

/// What a lookup came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The engine found the key.
    Hit,
    /// The key is absent, or could not be read.
    Miss,
}

/// The last lookups of one thread in one column family.
#[derive(Debug, Default)]
pub(crate) struct Predictor {
    /// Hits since the last miss that was not answered by the fast probe.
    hits: AtomicU32,
    /// Whether the engine probed a segment filter for the last key that it was asked for.
    probed_segments: AtomicBool,
}

impl Predictor {
    /// Whether the next lookup is likely to hit, so that a fast probe is not worth it.
    #[inline]
    pub(crate) fn expects_hit(&self) -> bool {
        self.hits.load(Ordering::Relaxed) >= EXPECT_HIT
    }

    /// What the next lookup should do.
    #[inline]
    pub(crate) fn plan(&self) -> Plan {
        if self.hits.load(Ordering::Relaxed) >= ENGINE_ONLY {
            Plan::EngineOnly
        } else {
            Plan::Probe
        }
    }

    /// Records what became of the last lookup.
    #[inline]
    pub(crate) fn record(&self, outcome: Outcome) {
        let hits = match outcome {
            Outcome::Hit => self.hits.load(Ordering::Relaxed).saturating_add(1),
            Outcome::Miss => 0,
        };
        self.hits.store(hits, Ordering::Relaxed);
    }

    /// Whether the engine is likely to probe segment filters for the next key: it does if the key is
    /// in no memtable.
    #[inline]
    pub(crate) fn expects_segment_probes(&self) -> bool {
        self.probed_segments.load(Ordering::Relaxed)
    }

    /// Records whether the engine probed segment filters for the last key.
    #[inline]
    pub(crate) fn record_segment_probes(&self, probed: bool) {
        self.probed_segments.store(probed, Ordering::Relaxed);
    }
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
    fn no_filter_is_probed_after_hits_in_a_row() {
        for (count, plan) in [
            (0, Plan::Probe),
            (31, Plan::Probe),
            (32, Plan::EngineOnly),
            (1_000, Plan::EngineOnly),
        ] {
            assert_eq!(after(hits(count)).plan(), plan, "{count} hits");
        }
        assert!(!after(hits(1)).expects_hit() && after(hits(2)).expects_hit());
    }

    #[test]
    fn a_miss_ends_the_row() {
        let predictor = after(hits(40).chain([Outcome::Miss]));
        assert_eq!(predictor.plan(), Plan::Probe);
        assert!(!predictor.expects_hit());
    }

    #[test]
    fn counts_do_not_overflow() {
        let predictor = Predictor::default();
        predictor.hits.store(u32::MAX, Ordering::Relaxed);
        predictor.record(Outcome::Hit);
        assert_eq!(predictor.plan(), Plan::EngineOnly);
    }
}

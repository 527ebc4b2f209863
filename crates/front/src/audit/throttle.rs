//! Throttles audits: a loop of misses samples thousands per second, far more than tell anything
//! new.

use crate::reach::reached;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Limits work to a small part of the time.
#[derive(Debug)]
pub struct Throttle {
    /// The pause after work, as a multiple of what the work took.
    rest: u32,
    start: Instant,
    /// When the pause is over, in nanoseconds since `start`.
    due: AtomicU64,
}

/// In a loop of batches 0.9 ns would be a tenth of what a negative costs. So after an audit, no
/// other runs for this many times as long as it took. Audits then take 1% of the time, which is
/// still a thousand audits per second.
const AUDITS_REST: u32 = 99;

/// The longest pause. Otherwise work that hung, as the disk did, would not be done again for hours.
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Throttle {
    /// No pause if the sampling rate of audits is set.
    pub fn configured(one_in: Option<u32>) -> Self {
        Self::with_rest(one_in.map_or(AUDITS_REST, |_| 0))
    }

    /// Pauses for `rest` times as long as the work took; 0 for no pause.
    pub(crate) fn with_rest(rest: u32) -> Self {
        Self {
            rest,
            start: Instant::now(),
            due: AtomicU64::new(0),
        }
    }

    /// Does the work, unless it is paused. Threads that come at the same time all do it.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if self.rest == 0 {
            return Some(work());
        }
        let begun = self.start.elapsed();
        if !self.is_due(begun) {
            reached!(AuditThrottled);
            return None;
        }
        let done = work();
        self.rest_after(begun, self.start.elapsed());
        Some(done)
    }

    fn is_due(&self, now: Duration) -> bool {
        let due = Duration::from_nanos(self.due.load(Ordering::Relaxed));
        now >= due
    }

    fn rest_after(&self, begun: Duration, ended: Duration) {
        let took = ended.saturating_sub(begun);
        let due = ended + took.saturating_mul(self.rest).min(LONGEST_REST);
        let due = u64::try_from(due.as_nanos()).unwrap_or(u64::MAX);
        // If several threads did the work, the longest pause counts.
        self.due.fetch_max(due, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rest_lasts_a_multiple_of_the_work() {
        let throttle = Throttle::with_rest(99);
        assert!(throttle.is_due(Duration::ZERO));
        throttle.rest_after(5 * MS, 7 * MS);
        assert!(!throttle.is_due(204 * MS));
        assert!(throttle.is_due(205 * MS));
    }

    #[test]
    fn rest_after_work_that_hung_is_capped() {
        let throttle = Throttle::with_rest(99);
        let ended = Duration::from_secs(600);
        throttle.rest_after(Duration::ZERO, ended);
        assert!(throttle.is_due(ended + LONGEST_REST));
    }

    #[test]
    fn overlapping_rests_end_with_the_longer() {
        let throttle = Throttle::with_rest(99);
        throttle.rest_after(Duration::ZERO, 10 * MS);
        throttle.rest_after(9 * MS, 11 * MS);
        assert!(!throttle.is_due(999 * MS));
    }

    /// Also if another thread's work ended after this one read the clock.
    #[test]
    fn work_without_rests_is_always_done() {
        let throttle = Throttle::with_rest(0);
        throttle.rest_after(Duration::ZERO, Duration::from_secs(3600));
        assert!((0..10).all(|_| throttle.run(|| ()).is_some()));
    }

    #[test]
    fn work_within_a_rest_is_skipped() {
        let throttle = Throttle::with_rest(u32::MAX);
        let slow = || std::thread::sleep(MS);
        assert!(throttle.run(slow).is_some());
        assert!(throttle.run(slow).is_none());
    }
}

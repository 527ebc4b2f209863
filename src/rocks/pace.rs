//! How long audits rest: a loop of misses draws thousands a second, far more than tell anything new.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Lets work be done now and then, so that it takes a small part of the time.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The rest, in times of what the work took.
    rest: u32,
    start: Instant,
    /// When the rest is over, in nanoseconds since `start`.
    due: AtomicU64,
}

/// Work that hung, on a disk that did, is not left undone for hours.
const LONGEST_REST: Duration = Duration::from_secs(10);

impl Pace {
    /// One that rests so many times as long as the work took; 0 for no rest.
    pub(crate) fn resting(rest: u32) -> Self {
        Self {
            rest,
            start: Instant::now(),
            due: AtomicU64::new(0),
        }
    }

    /// Does the work, unless it rests. Threads that come at once all do it.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        if self.rest == 0 {
            return Some(work());
        }
        let begun = self.start.elapsed();
        if !self.is_due(begun) {
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
        // Of several at once, the longest rest counts.
        self.due.fetch_max(due, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn it_rests_so_many_times_as_long_as_the_work_took() {
        let pace = Pace::resting(99);
        assert!(pace.is_due(Duration::ZERO));
        pace.rest_after(5 * MS, 7 * MS);
        assert!(!pace.is_due(204 * MS));
        assert!(pace.is_due(205 * MS));
    }

    #[test]
    fn work_that_hung_is_not_left_for_hours() {
        let pace = Pace::resting(99);
        let ended = Duration::from_secs(600);
        pace.rest_after(Duration::ZERO, ended);
        assert!(pace.is_due(ended + LONGEST_REST));
    }

    #[test]
    fn of_two_rests_the_longer_counts() {
        let pace = Pace::resting(99);
        pace.rest_after(Duration::ZERO, 10 * MS);
        pace.rest_after(9 * MS, 11 * MS);
        assert!(!pace.is_due(999 * MS));
    }

    /// Also when another thread's work ended since this one looked at the clock.
    #[test]
    fn without_rest_all_work_is_done() {
        let pace = Pace::resting(0);
        pace.rest_after(Duration::ZERO, Duration::from_secs(3600));
        assert!((0..10).all(|_| pace.run(|| ()).is_some()));
    }

    #[test]
    fn nothing_is_done_in_a_rest() {
        let pace = Pace::resting(u32::MAX);
        let slow = || std::thread::sleep(MS);
        assert!(pace.run(slow).is_some());
        assert!(pace.run(slow).is_none());
    }
}

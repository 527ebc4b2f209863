//! Backoff: what failed for the filters of one column family, and when it is tried again.
//!
//! What fails once usually fails again: a damaged SST, a full disk. Immediate retries would cost a
//! flush and a read of every SST each time, forever. So the wait doubles with each failure, up to a
//! minute. Meanwhile the SSTs that could not be read are quarantined, and the rest is maintained.
//! An explicit request is served at once.

use crate::reach::reached;
use std::collections::HashSet;
use std::time::{Duration, Instant};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The failures of one column family; none at first.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Paths of the SSTs that could not be read in the last try.
    unread: HashSet<String>,
    /// And in the try before it.
    unread_before: HashSet<String>,
    /// The first failure of the last try.
    failure: Option<String>,
    wait: Duration,
    until: Option<Instant>,
    waiting: bool,
}

impl Backoff {
    /// Begins a maintenance run. It retries what failed, unless the backoff lasts and no retry was
    /// requested.
    pub(crate) fn begin(&mut self, now: Instant, asked: bool) {
        if asked {
            self.wait = Duration::ZERO;
            self.until = None;
        }
        self.waiting = self.until.is_some_and(|until| until > now);
        if !self.waiting {
            reached!(FailureRetried, self.failure.is_some());
            self.until = None;
            self.failure = None;
            self.unread_before = std::mem::take(&mut self.unread);
        }
    }

    /// Whether this run skips what failed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether anything is left to retry.
    pub(crate) fn is_open(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the wait is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Records a failure. Failures during a wait do not extend it.
    pub(crate) fn fail(&mut self, now: Instant, reason: String) {
        self.failure.get_or_insert(reason);
        if !self.waiting && self.until.is_none() {
            self.wait = (self.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
            self.until = Some(now + self.wait);
        }
    }

    /// Records that an SST could not be read.
    pub(crate) fn quarantine(&mut self, now: Instant, path: &str, reason: String) {
        self.unread.insert(path.to_owned());
        self.fail(now, reason);
    }

    /// Whether an SST could not be read and is skipped for now.
    pub(crate) fn is_quarantined(&self, path: &str) -> bool {
        self.unread.contains(path)
    }

    /// Whether an SST could not be read in the try before this one.
    pub(crate) fn failed_twice(&self, path: &str) -> bool {
        self.unread_before.contains(path)
    }

    /// The failure that has not been resolved yet.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn wait_doubles_up_to_a_minute_and_a_request_ends_it() {
        let mut backoff = Backoff::default();
        let mut now = Instant::now();
        for expected in [
            500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
        ] {
            backoff.begin(now, false);
            assert!(!backoff.is_waiting());
            backoff.quarantine(now, "table", "damaged".to_owned());
            backoff.begin(now + (expected - 1) * MS, false);
            assert!(backoff.is_waiting() && backoff.is_quarantined("table"));
            backoff.fail(now, "another".to_owned());
            assert_eq!(backoff.failure(), Some("damaged"));
            now += expected * MS;
            assert!(backoff.is_due(now) && !backoff.is_due(now - MS));
        }
        backoff.begin(now - MS, true);
        assert!(!backoff.is_waiting() && !backoff.is_quarantined("table"));
        assert!(backoff.failed_twice("table"));
        backoff.fail(now, "again".to_owned());
        assert!(backoff.is_due(now + 500 * MS), "it begins anew");
    }

    #[test]
    fn success_ends_the_backoff() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        backoff.fail(now, "a listing".to_owned());
        backoff.begin(now + 500 * MS, false);
        assert!(!backoff.is_open());
        assert_eq!(backoff.failure(), None);
    }
}

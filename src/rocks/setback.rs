//! What went wrong with the filters of one column family, and when it is tried again.
//!
//! What fails once mostly fails again: a damaged table, a full disk. Tried at once, it would cost a
//! flush and the reading of every table each time, for ever. So the wait doubles from failure to
//! failure, up to a minute; meanwhile the tables that could not be read are left alone and the rest
//! is tended. Whoever asks is served at once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The failures of one column family; none at first.
#[derive(Debug, Default)]
pub(crate) struct Setback {
    /// Paths of the tables that could not be read in the last try.
    unread: HashSet<String>,
    /// And in the one before.
    unread_before: HashSet<String>,
    /// What failed first in the last try.
    failure: Option<String>,
    wait: Duration,
    until: Option<Instant>,
    waiting: bool,
}

impl Setback {
    /// Begins a pass: another try, unless it must wait and nobody asked.
    pub(crate) fn begin(&mut self, now: Instant, asked: bool) {
        if asked {
            self.wait = Duration::ZERO;
            self.until = None;
        }
        self.waiting = self.until.is_some_and(|until| until > now);
        if !self.waiting {
            self.until = None;
            self.failure = None;
            self.unread_before = std::mem::take(&mut self.unread);
        }
    }

    /// Whether this pass leaves alone what failed.
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// Whether there is something to try again.
    pub(crate) fn is_open(&self) -> bool {
        self.until.is_some()
    }

    /// Whether the wait is over.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Notes that something failed; what fails within a wait does not make it longer.
    pub(crate) fn fail(&mut self, now: Instant, reason: String) {
        self.failure.get_or_insert(reason);
        if !self.waiting && self.until.is_none() {
            self.wait = (self.wait * 2).clamp(FIRST_WAIT, LONGEST_WAIT);
            self.until = Some(now + self.wait);
        }
    }

    /// Notes that a table could not be read.
    pub(crate) fn set_aside(&mut self, now: Instant, path: &str, reason: String) {
        self.unread.insert(path.to_owned());
        self.fail(now, reason);
    }

    /// Puts off what has not failed.
    pub(crate) fn postpone(&mut self, now: Instant) {
        self.until.get_or_insert(now + FIRST_WAIT);
    }

    /// Whether a table could not be read and is to be left alone.
    pub(crate) fn leaves_alone(&self, path: &str) -> bool {
        self.unread.contains(path)
    }

    /// Whether a table could not be read in the try before this one.
    pub(crate) fn failed_before(&self, path: &str) -> bool {
        self.unread_before.contains(path)
    }

    /// What failed and has not been made good yet.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_wait_doubles_up_to_a_minute_and_whoever_asks_is_served_at_once() {
        let mut setback = Setback::default();
        let mut now = Instant::now();
        for expected in [
            500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000,
        ] {
            setback.begin(now, false);
            assert!(!setback.is_waiting());
            setback.set_aside(now, "table", "damaged".to_owned());
            setback.begin(now + (expected - 1) * MS, false);
            assert!(setback.is_waiting() && setback.leaves_alone("table"));
            setback.fail(now, "another".to_owned());
            assert_eq!(setback.failure(), Some("damaged"));
            now += expected * MS;
            assert!(setback.is_due(now) && !setback.is_due(now - MS));
        }
        setback.begin(now - MS, true);
        assert!(!setback.is_waiting() && !setback.leaves_alone("table"));
        assert!(setback.failed_before("table"));
        setback.fail(now, "again".to_owned());
        assert!(setback.is_due(now + 500 * MS), "it begins anew");
    }

    #[test]
    fn a_try_without_a_failure_ends_the_setback() {
        let mut setback = Setback::default();
        let now = Instant::now();
        setback.fail(now, "a flush".to_owned());
        setback.begin(now + 500 * MS, false);
        assert!(!setback.is_open());
        assert_eq!(setback.failure(), None);
    }

    #[test]
    fn what_is_put_off_has_not_failed() {
        let mut setback = Setback::default();
        let now = Instant::now();
        setback.begin(now, false);
        setback.postpone(now);
        assert_eq!(setback.failure(), None);
        assert!(setback.is_open() && setback.is_due(now + 500 * MS));
    }
}

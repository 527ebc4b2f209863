//! How other threads wake maintenance, and wait for it.

use std::time::{Duration, Instant};

use crate::fault::fault;
use crate::sync::{Condvar, Mutex, MutexGuard, unpoisoned};

/// The longest wait: for what maintenance must finish anyway, and the cap of any caller's limit.
pub const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// What maintenance is requested to do.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests {
    /// List the SSTs again.
    pub list: bool,
    /// Also retry at once what failed before.
    pub retry: bool,
    /// Consolidate every summary filter, and rebuild segment filters of another rate.
    pub consolidate: bool,
    /// Scrub all filters in memory.
    pub scrub: bool,
    /// Save what is worth saving and stop.
    pub stop: bool,
}

impl Requests {
    /// Whether a maintenance run is requested.
    pub(crate) fn any(&self) -> bool {
        self.list || self.retry || self.consolidate || self.scrub
    }
}

/// Why a request was not served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitError {
    Failed(String),
    /// Maintenance ended first.
    Ended,
}

#[derive(Debug, Default)]
struct State {
    requests: Requests,
    requested: u64,
    answered: u64,
    /// Maintenance runs so far, requested or not.
    runs: u64,
    /// The failure of the last run that answered requests.
    failure: Option<String>,
    /// Whether maintenance has stopped. What was not answered is done no more.
    has_ended: bool,
}

/// A notification that many threads may send and one thread serves. Hooks send it: they wait for a
/// short lock, and not for the engine (H71).
#[derive(Debug, Default)]
pub struct Wakeup {
    state: Mutex<State>,
    changed: Condvar,
    /// The part of maintenance that must panic once, for a test.
    #[cfg(test)]
    to_panic: Mutex<Option<&'static str>>,
}

impl Wakeup {
    /// Requests a new listing of the SSTs. Says nothing of what has happened: an event may come late
    /// (H5).
    pub fn notify(&self) {
        self.request(|requests| requests.list = true);
    }

    /// Makes a request; returns a ticket to wait for the answer with.
    pub fn request(&self, ask: impl FnOnce(&mut Requests)) -> u64 {
        let mut state = self.lock();
        ask(&mut state.requests);
        state.requested += 1;
        fault!(OneWaiterWoken, {
            self.changed.notify_one();
            return state.requested;
        });
        self.changed.notify_all();
        state.requested
    }

    /// Whether maintenance must stop.
    pub(crate) fn stopping(&self) -> bool {
        self.lock().requests.stop
    }

    /// Waits at most `limit` until maintenance is told to stop; returns whether it was.
    pub(crate) fn is_stopped_within(&self, limit: Duration) -> bool {
        // No wait of a checker's times out: it is over after a turn of other threads.
        #[cfg(interleave)]
        {
            _ = limit;
            crate::sync::yield_now();
            self.stopping()
        }
        #[cfg(not(interleave))]
        self.wait_while(limit, |state| !state.requests.stop)
            .requests
            .stop
    }

    /// Waits at most `limit` until every request up to `ticket` has been answered; returns the
    /// failure, if there was one.
    pub(crate) fn wait_for(&self, ticket: u64, limit: Duration) -> Result<(), WaitError> {
        let state = self.wait_while(limit, |state| state.answered < ticket);
        if state.answered >= ticket {
            state
                .failure
                .clone()
                .map_or(Ok(()), |reason| Err(WaitError::Failed(reason)))
        } else if state.has_ended {
            Err(WaitError::Ended)
        } else {
            Err(WaitError::Failed(format!("it took longer than {limit:?}")))
        }
    }

    /// Waits at most `limit` until every request up to `ticket` has been answered, with success or
    /// not; returns whether it has.
    pub(crate) fn is_answered(&self, ticket: u64, limit: Duration) -> bool {
        let state = self.wait_while(limit, |state| state.answered < ticket);
        state.answered >= ticket
    }

    /// The number of maintenance runs so far.
    pub fn runs(&self) -> u64 {
        self.lock().runs
    }

    /// Whether maintenance has ended. Then no wait lasts.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().has_ended
    }

    /// Waits at most `limit` until there have been more than `seen` runs.
    pub(crate) fn wait_past(&self, seen: u64, limit: Duration) {
        drop(self.wait_while(limit, |state| state.runs == seen));
    }

    /// Waits for requests, at most `patience`; returns them and the ticket to answer. `stop` stays
    /// set.
    pub(crate) fn wait_for_requests(&self, patience: Duration) -> (Requests, u64) {
        let mut state = self.wait_while(patience, |state| state.answered == state.requested);
        let requests = state.requests;
        state.requests = Requests {
            stop: requests.stop,
            ..Requests::default()
        };
        (requests, state.requested)
    }

    /// Tells waiting threads that everything up to `ticket` is done, except for a `failure`.
    pub(crate) fn answer(&self, ticket: u64, failure: Option<String>) {
        let mut state = self.lock();
        state.answered = ticket;
        state.runs += 1;
        state.failure = failure;
        self.changed.notify_all();
    }

    /// Maintenance answers no request any more. Wakes all that wait.
    pub(crate) fn end(&self) {
        fault!(EndUntold, return);
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Makes a part of maintenance panic the next time that it begins.
    #[cfg(test)]
    pub(crate) fn panic_next(&self, part: &'static str) {
        *unpoisoned(self.to_panic.lock()) = Some(part);
    }

    /// Panics if a test requested it.
    #[cfg(test)]
    pub(crate) fn panic_if_requested(&self, part: &str) {
        let asked = unpoisoned(self.to_panic.lock()).take_if(|asked| *asked == part);
        assert!(asked.is_none(), "{part} fails, for a test");
    }

    /// Waits while `pending` holds, at most `limit`, and only until maintenance has ended.
    fn wait_while(
        &self,
        limit: Duration,
        pending: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + limit.min(LONG);
        let mut state = self.lock();
        while pending(&state)
            && !state.has_ended
            && let Some(left) = deadline.checked_duration_since(Instant::now())
        {
            state = unpoisoned(self.changed.wait_timeout(state, left)).0;
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        unpoisoned(self.state.lock())
    }
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn request_that_comes_during_a_run_is_not_answered_by_it() {
        let wakeup = Wakeup::default();
        wakeup.notify();
        let (_, ticket) = wakeup.wait_for_requests(LONG);
        let later = wakeup.request(|requests| requests.consolidate = true);
        wakeup.answer(ticket, None);
        assert!(wakeup.is_answered(ticket, Duration::ZERO));
        assert!(!wakeup.is_answered(later, Duration::ZERO));
    }

    #[test]
    fn wait_ends_with_maintenance_whenever_the_request_came() {
        let wakeup = Wakeup::default();
        let before = wakeup.request(|requests| requests.consolidate = true);
        thread::scope(|scope| {
            let waits = scope.spawn(|| wakeup.wait_for(before, LONG));
            wakeup.request(|requests| requests.stop = true);
            assert!(wakeup.wait_for_requests(LONG).0.stop);
            wakeup.end();
            assert_eq!(waits.join().unwrap(), Err(WaitError::Ended));
        });
        let after = wakeup.request(|requests| requests.scrub = true);
        assert_eq!(wakeup.wait_for(after, LONG), Err(WaitError::Ended));
        assert!(!wakeup.is_answered(after, LONG));
    }

    /// One of several who wait for the same would sleep on.
    #[test]
    fn answer_and_end_wake_all_who_wait() {
        const LIMIT: Duration = Duration::from_secs(20);
        for ends in [false, true] {
            let wakeup = Wakeup::default();
            let ticket = wakeup.request(|requests| requests.consolidate = true);
            thread::scope(|scope| {
                let waiters = [0; 4].map(|_| {
                    scope.spawn(|| {
                        let began = Instant::now();
                        (wakeup.wait_for(ticket, LIMIT).is_err(), began.elapsed())
                    })
                });
                thread::sleep(Duration::from_millis(100));
                if ends {
                    wakeup.end();
                } else {
                    wakeup.answer(ticket, None);
                }
                for waiter in waiters {
                    let (failed, waited) = waiter.join().unwrap();
                    assert!(failed == ends && waited < LIMIT / 2, "{waited:?}");
                }
            });
        }
    }

    /// All wait for the same to change, and maintenance came last.
    #[test]
    fn request_wakes_maintenance_beside_others_who_wait() {
        const LIMIT: Duration = Duration::from_secs(20);
        let wakeup = Wakeup::default();
        thread::scope(|scope| {
            let waiters = [0; 4].map(|_| scope.spawn(|| wakeup.is_answered(1, LIMIT)));
            thread::sleep(Duration::from_millis(100));
            let maintenance = scope.spawn(|| {
                let began = Instant::now();
                let (requests, ticket) = wakeup.wait_for_requests(LIMIT);
                wakeup.answer(ticket, None);
                (requests.list, began.elapsed())
            });
            thread::sleep(Duration::from_millis(100));
            wakeup.notify();
            let (is_called, waited) = maintenance.join().unwrap();
            assert!(is_called && waited < LIMIT / 2, "{waited:?}");
            assert!(waiters.into_iter().all(|waiter| waiter.join().unwrap()));
        });
    }
}

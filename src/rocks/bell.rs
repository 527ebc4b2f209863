//! How the rest wakes upkeep, and waits for it.

use std::time::{Duration, Instant};

use crate::sync::{Condvar, Mutex, MutexGuard, unpoisoned};

/// The longest wait: for what upkeep must only finish, and whatever limit a caller gives.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// What upkeep is asked to do.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    /// Look at the tables again.
    pub(crate) look: bool,
    /// And try again now what failed before.
    pub(crate) retry: bool,
    /// Make one right-sized summary of each, and rebuild filters of another rate.
    pub(crate) consolidate: bool,
    /// Read all filters in memory again.
    pub(crate) scrub: bool,
    /// Save what is worth saving and end.
    pub(crate) stop: bool,
}

#[derive(Debug, Default)]
struct State {
    calls: Calls,
    rung: u64,
    answered: u64,
    /// Passes so far, called for or not.
    passes: u64,
    /// What went wrong in the pass that answered last.
    failure: Option<String>,
}

/// A bell that many may ring and one answers.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    state: Mutex<State>,
    changed: Condvar,
    /// What of upkeep's is to panic once, for a test.
    #[cfg(test)]
    to_panic: Mutex<Option<&'static str>>,
}

impl Bell {
    /// Asks for a look at the tables. Never blocks for long: RocksDB's callbacks ring it.
    pub(crate) fn ring(&self) {
        self.call(|calls| calls.look = true);
    }

    /// Asks for something; returns a ticket for [`Bell::wait_for`].
    pub(crate) fn call(&self, ask: impl FnOnce(&mut Calls)) -> u64 {
        let mut state = self.lock();
        ask(&mut state.calls);
        state.rung += 1;
        self.changed.notify_all();
        state.rung
    }

    /// Whether upkeep was told to end.
    pub(crate) fn stopping(&self) -> bool {
        self.lock().calls.stop
    }

    /// Waits until upkeep is told to end, at most `limit`; returns whether it is.
    pub(crate) fn stops_within(&self, limit: Duration) -> bool {
        self.wait_while(limit, |state| !state.calls.stop).calls.stop
    }

    /// Waits until everything rung up to `ticket` has been answered, or `limit` has passed;
    /// returns what went wrong.
    pub(crate) fn wait_for(&self, ticket: u64, limit: Duration) -> Option<String> {
        match self.answered(ticket, limit) {
            Some(state) => state.failure.clone(),
            None => Some(format!("it took longer than {limit:?}")),
        }
    }

    /// Waits until everything rung up to `ticket` has been answered, well or not, at most `limit`;
    /// returns whether it has.
    pub(crate) fn is_answered(&self, ticket: u64, limit: Duration) -> bool {
        self.answered(ticket, limit).is_some()
    }

    fn answered(&self, ticket: u64, limit: Duration) -> Option<MutexGuard<'_, State>> {
        let state = self.wait_while(limit, |state| state.answered < ticket);
        (state.answered >= ticket).then_some(state)
    }

    /// How many passes there have been.
    pub(crate) fn passes(&self) -> u64 {
        self.lock().passes
    }

    /// Waits until there have been more passes than `seen`, at most `limit`.
    pub(crate) fn wait_past(&self, seen: u64, limit: Duration) {
        drop(self.wait_while(limit, |state| state.passes == seen));
    }

    /// Waits for calls, at most `patience`; returns them and the ticket to answer. `stop` stays
    /// set.
    pub(crate) fn listen(&self, patience: Duration) -> (Calls, u64) {
        let mut state = self.wait_while(patience, |state| state.answered == state.rung);
        let calls = state.calls;
        state.calls = Calls {
            stop: calls.stop,
            ..Calls::default()
        };
        (calls, state.rung)
    }

    /// Tells those who wait that everything up to `ticket` was done, but for a `failure`.
    pub(crate) fn answer(&self, ticket: u64, failure: Option<String>) {
        let mut state = self.lock();
        state.answered = ticket;
        state.passes += 1;
        state.failure = failure;
        self.changed.notify_all();
    }

    /// Lets a part of upkeep's work panic the next time that it begins.
    #[cfg(test)]
    pub(crate) fn let_panic(&self, part: &'static str) {
        *unpoisoned(self.to_panic.lock()) = Some(part);
    }

    /// Panics where a test asked for it.
    #[cfg(test)]
    pub(crate) fn panic_if_asked(&self, part: &str) {
        let asked = unpoisoned(self.to_panic.lock()).take_if(|asked| *asked == part);
        assert!(asked.is_none(), "{part} fails, for a test");
    }

    /// Waits for as long as `pending` holds, at most `limit`.
    fn wait_while(
        &self,
        limit: Duration,
        pending: impl Fn(&State) -> bool,
    ) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + limit.min(LONG);
        let mut state = self.lock();
        while pending(&state)
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

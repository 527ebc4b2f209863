//! The steps of a case: those that were carried out, and those to come.
//!
//! A store is closed and reopened between some of them. The cursor spans all its sessions, and
//! knows at which step something went wrong.

use lsm_sieve_cli::workload::{Interrupted, Watch};

use super::case::Failure;
use super::check::Violation;

/// Steps between two checks of the watch.
const PATCH: usize = 256;

pub struct StepCursor<'a, Step> {
    steps: &'a [Step],
    done: usize,
}

impl<'a, Step> StepCursor<'a, Step> {
    pub const fn new(steps: &'a [Step]) -> Self {
        Self { steps, done: 0 }
    }

    /// The current step.
    pub fn step(&self) -> Option<&'a Step> {
        self.steps.get(self.done)
    }

    /// Attributes the result of the step, or of the work before it, to the current step.
    pub fn at<T, E: Into<Violation>>(&self, came: Result<T, E>) -> Result<T, Failure> {
        came.map_err(|error| Failure::at(self.done)(error.into()))
    }

    /// Goes on to the next step.
    pub fn advance(&mut self, watch: &mut impl Watch) -> Result<(), Interrupted> {
        self.done += 1;
        if self.done.is_multiple_of(PATCH) {
            watch.advance(PATCH as u64)?;
        }
        Ok(())
    }
}

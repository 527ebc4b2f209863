//! A progress bar, and Ctrl-C.
//!
//! The bar appears on standard error after a second of work, if that is a terminal. Ctrl-C only
//! sets a flag, which every driver checks through its watch. The command then returns as from any
//! error, and removes its temporary files. A second Ctrl-C ends the process at once.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::workload::{Interrupted, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::outcome::Stop;

/// The time of the first Ctrl-C.
static STOP: OnceLock<Instant> = OnceLock::new();

/// A signal sooner after the first does not count as a second Ctrl-C: a shell may signal a command
/// and then its process group.
const SAME: Duration = Duration::from_millis(500);

/// The time from one image of a spinner to the next.
const TURN: Duration = Duration::from_millis(100);

/// Shorter work shows no bar.
const UNSEEN: Duration = Duration::from_secs(1);

/// Installs the handler of Ctrl-C and SIGTERM. From then on, [`Watch::advance`] checks for them.
pub fn handle_interrupts() -> Result<(), Stop> {
    ctrlc::set_handler(|| {
        if STOP.get_or_init(Instant::now).elapsed() > SAME {
            let _ = Stop::input("stopped at once; a temporary folder may be left").report();
            std::process::exit(2);
        }
    })?;
    Ok(())
}

/// The progress of one task.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
}

impl Progress {
    /// Starts a task of `total` steps.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self::with_style(
            what,
            Some(total),
            "{msg:24} {wide_bar} {percent:>3} %, {eta} left",
        )
    }

    /// Starts a task whose number of steps is not known.
    pub fn unbounded(what: &'static str) -> Self {
        Self::with_style(what, None, "{msg:24} {spinner} {human_pos}, {elapsed}")
    }

    /// [`Watch::advance`], for callbacks that return whether to continue.
    pub fn pass(&mut self, steps: u64) -> ControlFlow<()> {
        match self.advance(steps) {
            Ok(()) => ControlFlow::Continue(()),
            Err(Interrupted) => ControlFlow::Break(()),
        }
    }

    fn with_style(what: &'static str, total: Option<u64>, template: &str) -> Self {
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        bar.set_style(style);
        bar.set_message(what);
        Self {
            bar,
            since: Instant::now(),
            shown: false,
        }
    }
}

/// Shows the progress of work that reports none: a spinner, after a second.
pub fn while_working<T>(what: &'static str, work: impl FnOnce() -> T) -> T {
    let (ended, ends) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut progress = Progress::with_style(what, None, "{msg:24} {spinner} {elapsed}");
            while ends.recv_timeout(TURN) == Err(RecvTimeoutError::Timeout) {
                // The work cannot be stopped in its middle; a second Ctrl-C ends the process.
                let _ = progress.advance(1);
            }
        });
        let done = work();
        // Also dropped if the work panics.
        drop(ended);
        done
    })
}

impl Watch for Progress {
    fn advance(&mut self, steps: u64) -> Result<(), Interrupted> {
        if STOP.get().is_some() {
            return Err(Interrupted);
        }
        if !self.shown && self.since.elapsed() > UNSEEN {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps);
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_beside_a_spinner_returns_its_result() {
        let done = while_working("working", || {
            std::thread::sleep(TURN * 2);
            7
        });
        assert_eq!(done, 7);
    }
}

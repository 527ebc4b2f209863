//! A progress bar, and Ctrl-C.
//!
//! The bar appears on standard error after a second of work, and never when that is no terminal.
//! Ctrl-C only sets a flag, which every driver sees through its watch: the command then unwinds
//! as from any error, and what it made is removed on the way. A second Ctrl-C does not wait for that.

use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::workload::{Interrupted, Watch};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::outcome::Stop;

/// When Ctrl-C was pressed first.
static STOP: OnceLock<Instant> = OnceLock::new();

/// What comes sooner after the first is no second Ctrl-C: a shell may signal a command and then its group.
const SAME: Duration = Duration::from_millis(500);

/// Work that ends sooner shows no bar.
const UNSEEN: Duration = Duration::from_secs(1);

/// From now on Ctrl-C and SIGTERM are asked for politely, by [`Watch::advance`].
pub fn heed_interrupts() -> Result<(), Stop> {
    ctrlc::set_handler(|| {
        if STOP.get_or_init(Instant::now).elapsed() > SAME {
            let _ = Stop::input("stopped at once; a temporary folder may be left").report();
            std::process::exit(2);
        }
    })?;
    Ok(())
}

/// How far one stretch of work is.
pub struct Progress {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
}

impl Progress {
    /// Starts a stretch of `total` steps.
    pub fn new(what: &'static str, total: u64) -> Self {
        Self::with_style(
            what,
            Some(total),
            "{msg:24} {wide_bar} {percent:>3} %, {eta} left",
        )
    }

    /// Starts a stretch whose end is not known.
    pub fn unbounded(what: &'static str) -> Self {
        Self::with_style(what, None, "{msg:24} {spinner} {human_pos}, {elapsed}")
    }

    /// [`Watch::advance`], for those who ask whether to go on.
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

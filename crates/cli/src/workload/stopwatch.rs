//! The time that work takes: of the clock, and of the processor.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the clock.
    pub wall: Duration,
    /// Of all processors, for all threads of this process: those of the engine and of maintenance
    /// too. Zero if the system does not report it.
    pub cpu: Duration,
}

impl Spent {
    /// Does the work; returns its result and the time.
    pub fn on<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (start, cpu) = (Instant::now(), process_time());
        let done = work();
        let spent = Self {
            wall: start.elapsed(),
            cpu: process_time().saturating_sub(cpu),
        };
        (done, spent)
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
    }
}

#[cfg(unix)]
fn process_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

#[cfg(not(unix))]
fn process_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_takes_processor_time_and_a_sleeping_one_does_not() {
        let span = Duration::from_millis(50);
        let ((), asleep) = Spent::on(|| std::thread::sleep(span));
        let ((), busy) = Spent::on(|| {
            let start = process_time();
            while process_time() - start < span {}
        });
        assert!(asleep.wall >= span && busy.cpu >= span);
    }
}

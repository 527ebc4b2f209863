//! The time that work takes: of the clock, and of the processor.

use std::ops::AddAssign;
use std::time::{Duration, Instant};

/// Time spent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// By the clock.
    pub wall: Duration,
    /// Of the processor. Zero if the system does not report it.
    pub cpu: Duration,
}

impl Spent {
    /// Does the work; returns its result, and the time of this thread.
    pub fn on<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let (start, cpu) = (Instant::now(), Clock::Thread.now());
        let done = work();
        let spent = Self {
            wall: start.elapsed(),
            cpu: Clock::Thread.now().saturating_sub(cpu),
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

/// The processor time of all threads but this one: the engine's, and those of maintenance.
#[derive(Debug)]
pub struct Background(Duration);

impl Background {
    /// Begins to count.
    pub fn start() -> Self {
        Self(Self::now())
    }

    /// The time since the start.
    pub fn spent(&self) -> Duration {
        Self::now().saturating_sub(self.0)
    }

    fn now() -> Duration {
        Clock::Process.now().saturating_sub(Clock::Thread.now())
    }
}

#[derive(Clone, Copy)]
enum Clock {
    Thread,
    Process,
}

impl Clock {
    #[cfg(unix)]
    fn now(self) -> Duration {
        use rustix::time::{ClockId, clock_gettime};
        let now = clock_gettime(match self {
            Self::Thread => ClockId::ThreadCPUTime,
            Self::Process => ClockId::ProcessCPUTime,
        });
        Duration::try_from(now).unwrap_or_default()
    }

    #[cfg(not(unix))]
    fn now(self) -> Duration {
        Duration::ZERO
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_millis(50);

    fn work() {
        let start = Clock::Thread.now();
        while Clock::Thread.now() - start < SPAN {}
    }

    #[test]
    fn cpu_time_counts_work_and_not_sleep() {
        let ((), asleep) = Spent::on(|| std::thread::sleep(SPAN));
        let ((), busy) = Spent::on(work);
        assert!(asleep.wall >= SPAN && asleep.cpu < SPAN / 2);
        assert!(busy.wall >= SPAN && busy.cpu >= SPAN);
    }

    #[test]
    fn work_of_other_threads_counts_as_background() {
        let background = Background::start();
        let ((), own) = Spent::on(|| std::thread::scope(|scope| _ = scope.spawn(work)));
        assert!(background.spent() >= SPAN && own.cpu < SPAN);
    }
}

//! Properties that must hold in all orders of threads: small programs that a checker runs in every
//! order (loom, up to a bound of preemptions) or in very many (shuttle). Run by `make interleave`.
//!
//! | variable | meaning |
//! |---|---|
//! | `LSM_SIEVE_PREEMPTIONS` | loom: how often a thread may be preempted in one run; default 2 |
//! | `LSM_SIEVE_SECONDS` | loom: maximum time of one program, in seconds; default 20 |
//! | `LSM_SIEVE_SCHEDULES` | shuttle: runs of each program; default 10,000 |
//! | `LSM_SIEVE_SEED` | shuttle: seed that chooses the runs |
//!
//! Each program prints a line when it begins, `begun <checker> <name>`, and one when it ends:
//! `interleavings <checker> <name> schedules=<n> seconds=<s>`. `.ci/interleave` reports programs
//! that began and did not end in time.

#[cfg(all(test, interleave = "shuttle"))]
mod front;
#[cfg(test)]
mod published;
pub mod scalable;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[cfg(interleave = "loom")]
pub use loom::thread;
#[cfg(interleave = "shuttle")]
pub use shuttle::thread;

/// Which of several parts runs on the main thread. It matters: loom lets the main thread go first,
/// and tries other orders only if two accesses conflict with nothing in between.
#[derive(Clone, Copy)]
pub struct Turn(usize);

const TURNS: usize = 3;

/// Runs a program in all interleavings that the checker is configured for.
pub fn explore(name: &str, program: impl Fn(Turn) + Send + Sync + 'static) {
    let schedules = Arc::new(AtomicU64::new(0));
    let program = Arc::new(program);
    let start = Instant::now();
    println!("begun {CHECKER} {name}");
    for turn in (0..TURNS).map(Turn) {
        let (count, program) = (Arc::clone(&schedules), Arc::clone(&program));
        check(move || {
            count.fetch_add(1, Ordering::Relaxed);
            program(turn);
        });
    }
    let (schedules, seconds) = (
        schedules.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64(),
    );
    println!("interleavings {CHECKER} {name} schedules={schedules} seconds={seconds:.1}");
}

#[cfg(interleave = "loom")]
const CHECKER: &str = "loom";
#[cfg(interleave = "shuttle")]
const CHECKER: &str = "shuttle";

#[cfg(interleave = "loom")]
fn check(program: impl Fn() + Send + Sync + 'static) {
    let preemptions = number("LSM_SIEVE_PREEMPTIONS", 2);
    let mut checker = loom::model::Builder::new();
    checker.max_duration =
        Some(std::time::Duration::from_secs(number("LSM_SIEVE_SECONDS", 20)) / TURNS as u32);
    // Iterations between two checks of the time limit.
    checker.checkpoint_interval = 100;
    checker.preemption_bound = Some(usize::try_from(preemptions).unwrap());
    checker.max_branches = 100_000;
    checker.check(program);
}

/// Half of the runs use priorities that change at few points (Burckhardt et al., ASPLOS 2010),
/// which finds bugs that need few preemptions; half are random.
#[cfg(interleave = "shuttle")]
fn check(program: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};

    const DEPTH: usize = 3;
    let runs = usize::try_from(number("LSM_SIEVE_SCHEDULES", 10_000)).unwrap() / (2 * TURNS);
    assert!(runs > 0, "no schedule shows nothing");
    let seed = number("LSM_SIEVE_SEED", 1982);
    let program = Arc::new(program);
    let again = Arc::clone(&program);
    let by_priority = PctScheduler::new_from_seed(seed, DEPTH, runs);
    shuttle::Runner::new(by_priority, shuttle::Config::new()).run(move || program());
    let at_random = RandomScheduler::new_from_seed(seed, runs);
    shuttle::Runner::new(at_random, shuttle::Config::new()).run(move || again());
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).map_or(otherwise, |text| text.parse().unwrap())
}

/// The work of one thread.
pub type Part = Box<dyn FnOnce() + Send>;

pub fn part(work: impl FnOnce() + Send + 'static) -> Part {
    Box::new(work)
}

/// Runs all parts concurrently, one of them on this thread as `turn` says, and waits for them.
pub fn at_once<const N: usize>(turn: Turn, parts: [Part; N]) {
    let mut parts = Vec::from(parts);
    let here = parts.swap_remove(turn.0 % N);
    let others: Vec<_> = parts.into_iter().map(thread::spawn).collect();
    here();
    others.into_iter().for_each(|other| other.join().unwrap());
}

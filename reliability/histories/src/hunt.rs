//! Histories in a row over one door, until one is not linearizable.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::history::{ALL, Call, Change, Clock, Found, History, Key, Recorder, Value};
use crate::plan::{Plan, Step};

/// The store is gone, and the call may have taken effect or not.
#[derive(Debug)]
pub struct Crashed;

/// A store behind filters.
pub trait Door: Sync + Sized {
    /// Does all changes at one moment; returns the name of the function that it called. `choice`
    /// chooses it.
    ///
    /// # Errors
    /// If the store crashed.
    fn write(&self, changes: &[(Key, Change)], choice: u32) -> Result<&'static str, Crashed>;

    /// The values of keys at one moment, and the name of the function that read them.
    ///
    /// # Errors
    /// If the store crashed.
    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed>;

    /// Some work of maintenance or of the engine, which changes no answer.
    fn disturb(&self, choice: u32);

    /// Gives all keys other bytes, which the store never had: until they are written, filters can
    /// deny them.
    fn renew_keys(&mut self);

    /// The store after a crash, or closed and opened again.
    #[must_use]
    fn reopen(self, choice: u32) -> Self;

    /// Whether the door has merges.
    fn merges() -> bool {
        false
    }
}

/// Histories over a door, by real threads.
#[derive(Debug)]
pub struct Hunt {
    door: &'static str,
    seed: u64,
    histories: u64,
}

/// How many histories end with a store that is closed and opened again: one of so many.
const REOPEN_ONE_IN: u32 = 10;

/// Histories over one store, before the next one is opened.
const IN_A_ROW: u64 = 50;

const NONE: [Option<Value>; ALL.len()] = [const { None }; ALL.len()];

impl Hunt {
    /// A hunt over the door of this name. `LSM_SIEVE_LINEARIZABLE` sets the number of histories, and
    /// `LSM_SIEVE_SEED` the seed.
    pub fn new(door: &'static str, histories: u64) -> Self {
        let set = |variable| number(variable, std::env::var(variable).ok());
        Self {
            door,
            seed: set("LSM_SIEVE_SEED").unwrap_or_else(rand::random),
            histories: set("LSM_SIEVE_LINEARIZABLE").unwrap_or(histories),
        }
    }

    /// Runs them, each over the state that the one before left, and prints a line of JSON.
    ///
    /// # Panics
    /// If a history is not linearizable; prints it first.
    pub fn run<D: Door>(&self, open: impl Fn(u32) -> D) {
        let (began, mut calls) = (Instant::now(), 0);
        let mut store = None::<(D, Vec<_>)>;
        for nth in 0..self.histories {
            let seed = self.seed.wrapping_add(nth);
            let mut random = SmallRng::seed_from_u64(!seed);
            let (mut door, mut values) = match store.take() {
                Some(left) if nth % IN_A_ROW != 0 => left,
                _ => (open(random.random()), NONE.to_vec()),
            };
            if random.random() {
                door.renew_keys();
                values = NONE.to_vec();
            }
            let (door, history, values) = one(door, seed, &values, &mut random);
            calls += history.calls.len();
            if !history.is_linearizable() {
                self.print(nth + 1, calls, 1, began);
                panic!(
                    "not linearizable: history {} of {}, LSM_SIEVE_SEED={}\n{}\nin short:\n{}",
                    nth + 1,
                    self.door,
                    self.seed,
                    history,
                    history.reduced()
                );
            }
            store = Some((door, values));
        }
        self.print(self.histories, calls, 0, began);
    }

    #[expect(clippy::print_stdout, reason = "a test's result")]
    fn print(&self, histories: u64, calls: usize, violations: u32, began: Instant) {
        println!(
            r#"{{"part":"histories","door":"{}","seed":{},"histories":{histories},"calls":{calls},"violations":{violations},"seconds":{}}}"#,
            self.door,
            self.seed,
            began.elapsed().as_secs()
        );
    }
}

/// The number that a variable of the environment is set to.
fn number(variable: &str, text: Option<String>) -> Option<u64> {
    let text = text?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable}={text} is no number")),
    )
}

/// One history over a store with these values: threads, then a read of all keys, perhaps after the
/// store was closed and opened again. Returns the store and what that read found.
fn one<D: Door>(
    mut door: D,
    seed: u64,
    values: &[Option<Value>],
    random: &mut SmallRng,
) -> (D, History, Vec<Option<Value>>) {
    let plan = Plan::new(seed, D::merges());
    let clock = Clock::default();
    let mut main = Recorder::new(&clock, 0);
    main.found(values);
    let (mut calls, has_crashed) = beside(&door, plan, &clock, random);
    let mut crash = has_crashed.then(|| clock.tick());
    if has_crashed || random.random_range(0..REOPEN_ONE_IN) == 0 {
        door = door.reopen(random.random());
    }
    let all = loop {
        match main.read(&ALL, |keys| door.read(keys, random.random()).ok()) {
            Some(all) => break all,
            None => {
                crash.get_or_insert_with(|| clock.tick());
                door = door.reopen(random.random());
            }
        }
    };
    calls.extend(main.into_calls());
    (door, History { calls, crash }, all)
}

/// Runs all threads of a plan, and what disturbs them until they end. Returns their calls, and
/// whether the store crashed.
fn beside(door: &impl Door, plan: Plan, clock: &Clock, random: &mut SmallRng) -> (Vec<Call>, bool) {
    let is_done = &AtomicBool::new(false);
    let mut pauses = || {
        let mut random = SmallRng::seed_from_u64(random.random());
        move || pause(&mut random)
    };
    thread::scope(|scope| {
        let threads = (1..).zip(plan.threads).map(|(thread, steps)| {
            let pauses = pauses();
            scope.spawn(move || run(steps, door, Recorder::new(clock, thread), pauses))
        });
        let threads: Vec<_> = threads.collect();
        let mut pause = pauses();
        let disturbing = scope.spawn(move || {
            for choice in plan.beside {
                pause();
                if is_done.load(Ordering::Acquire) {
                    break;
                }
                door.disturb(choice);
            }
        });
        let (mut calls, mut has_crashed) = (Vec::new(), false);
        for thread in threads {
            let ran = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            calls.extend(ran.0);
            has_crashed |= ran.1.is_err();
        }
        is_done.store(true, Ordering::Release);
        disturbing
            .join()
            .unwrap_or_else(|panic| resume_unwind(panic));
        (calls, has_crashed)
    })
}

/// Runs the calls of one thread, each after a `pause`, until they end or the store crashes.
pub fn run(
    steps: Vec<Step>,
    door: &impl Door,
    mut recorder: Recorder<'_>,
    mut pause: impl FnMut(),
) -> (Vec<Call>, Result<(), Crashed>) {
    let mut all = steps.into_iter();
    let done = all.try_for_each(|step| {
        pause();
        let done = match step {
            Step::Write(changes, choice) => {
                recorder.write(changes, |changes| door.write(changes, choice).ok())
            }
            Step::Read(keys, choice) => {
                let read = recorder.read(&keys, |keys| door.read(keys, choice).ok());
                read.map(drop)
            }
        };
        done.ok_or(Crashed)
    });
    (recorder.into_calls(), done)
}

/// Lets other threads go first, for some time.
fn pause(random: &mut SmallRng) {
    for _ in 0..random.random_range(0..4) {
        thread::yield_now();
    }
    for _ in 0..1 << random.random_range(0..15) {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests;

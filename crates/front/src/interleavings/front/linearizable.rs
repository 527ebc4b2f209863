//! Histories of the whole store in memory, with all of maintenance, in random orders of threads. The
//! seed determines them, but for what depends on random ids and the time. Whether they are linearizable
//! is checked as for real threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lsm_sieve_histories::{ALL, Clock, Door as _, History, Plan, Recorder, run};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::memory_door::MemoryDoor;
use crate::interleavings::{explore, number, thread as checker};
use crate::sync::yield_now;

#[test]
fn histories_beside_maintenance_are_linearizable() {
    let seed = number("LSM_SIEVE_SEED", 1982);
    let next = AtomicU64::new(0);
    explore("store_linearizable", move |_| {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        let history = history(seed + nth);
        assert!(
            history.is_linearizable(),
            "not linearizable: history {} of shuttle, LSM_SIEVE_SEED={seed}\n{history}\nin short:\n{}",
            nth + 1,
            history.reduced()
        );
    });
}

/// One history over a new store. The plan of another seed goes first, by one thread.
fn history(seed: u64) -> History {
    let (before, plan) = (Plan::new(!seed, false), Plan::new(seed, false));
    let mut door = MemoryDoor::open(seed as u32, false);
    let clock = Arc::<Clock>::default();
    let mut calls = Vec::new();
    for (steps, choice) in before.threads.into_iter().zip(before.beside) {
        calls.extend(run(steps, &door, Recorder::new(&clock, 0), || ()).0);
        door.disturb(choice);
    }
    if !seed.is_multiple_of(4) {
        door.renew_keys();
        calls.clear();
    }
    let door = Arc::new(door);
    let threads = (1..).zip(plan.threads).map(|(thread, steps)| {
        let (door, clock) = (Arc::clone(&door), Arc::clone(&clock));
        let mut pauses = SmallRng::seed_from_u64(seed ^ (thread as u64) << 32);
        // As long as a part of maintenance, which is long beside a call.
        let pause = move || (0..1 << pauses.random_range(0..10)).for_each(|_| yield_now());
        checker::spawn(move || run(steps, &*door, Recorder::new(&clock, thread), pause).0)
    });
    let threads: Vec<_> = threads.collect();
    for choice in plan.beside {
        door.disturb(choice);
    }
    for thread in threads {
        calls.extend(thread.join().unwrap());
    }
    let mut last = Recorder::new(&clock, 0);
    last.read(&ALL, |keys| door.read(keys, 0).ok());
    calls.extend(last.into_calls());
    History { calls, crash: None }
}

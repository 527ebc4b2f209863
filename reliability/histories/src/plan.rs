//! What the threads of one history will call: the same for the same seed.

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::history::{ALL, Change, Key};

/// One call to come. The last number chooses between the ways in which a door can do it.
#[derive(Clone, Debug)]
pub enum Step {
    /// Changes at one moment.
    Write(Vec<(Key, Change)>, u32),
    /// Reads at one moment.
    Read(Vec<Key>, u32),
}

/// The calls of each thread, and the seeds of what is done beside them.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Two to four threads, each with its calls: 3 to 7 of two threads, 3 to 5 of three, 3 or 4 of
    /// four.
    pub threads: Vec<Vec<Step>>,
    /// What maintenance does meanwhile.
    pub beside: Vec<u32>,
}

impl Plan {
    /// The plan of a seed, with merges if the door has them.
    pub fn new(seed: u64, merges: bool) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let threads = random.random_range(2..=4);
        let longest = 3 + 10 / threads;
        // Each write has a value of its own, so that a read says which it saw.
        let mut next: u8 = random.random();
        let mut step = |random: &mut SmallRng| {
            let mut keys = ALL.to_vec();
            let count = [1, 1, 1, 1, 2, 3][random.random_range(0..6)];
            while keys.len() > count {
                keys.remove(random.random_range(0..keys.len()));
            }
            let choice = random.random();
            if random.random_bool(0.45) {
                return Step::Read(keys, choice);
            }
            let change = |key| {
                next = next.wrapping_add(1);
                let change = match random.random_range(0..10) {
                    0..4 => Change::Delete,
                    4..6 if merges => Change::Merge(next),
                    _ => Change::Put(vec![next]),
                };
                (key, change)
            };
            Step::Write(keys.into_iter().map(change).collect(), choice)
        };
        let threads = (0..threads)
            .map(|_| {
                let calls = random.random_range(3..longest);
                (0..calls).map(|_| step(&mut random)).collect()
            })
            .collect();
        let beside = (0..random.random_range(1..6)).map(|_| random.random());
        let beside = beside.collect();
        Self { threads, beside }
    }
}

#[cfg(test)]
mod tests;

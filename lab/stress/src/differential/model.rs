//! The expected state of a store: the value of each key, and which generations have a record of it.

use std::collections::{HashSet, VecDeque};

use lsm_sieve_stress::model::{Change, Contents};

#[derive(Clone)]
pub(super) struct Model {
    pub(super) contents: Contents,
    /// The keys that each generation has a record of, the newest first. Never empty.
    generations: VecDeque<HashSet<usize>>,
}

impl Model {
    pub(super) fn new(keys: usize) -> Self {
        Self {
            contents: Contents::empty(keys),
            generations: VecDeque::from([HashSet::new()]),
        }
    }

    pub(super) fn write(&mut self, key: usize, number: Option<u64>) {
        self.contents
            .apply(key, number.map_or(Change::Delete, Change::Put));
        self.generations[0].insert(key);
    }

    pub(super) fn load(&mut self, key: usize, number: u64) {
        if !self.is_modified(key) {
            self.contents.apply(key, Change::Put(number));
        }
    }

    pub(super) fn is_modified(&self, key: usize) -> bool {
        self.generations
            .iter()
            .any(|records| records.contains(&key))
    }

    pub(super) fn freeze(&mut self) {
        if !self.generations[0].is_empty() {
            self.generations.push_front(HashSet::new());
        }
    }

    pub(super) fn dropped(&mut self, generations: u64) {
        (0..generations).for_each(|_| _ = self.generations.pop_back());
        if self.generations.is_empty() {
            self.generations.push_back(HashSet::new());
        }
    }
}

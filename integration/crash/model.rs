//! What each key may hold: one value if its write was acknowledged, the old or the new one if not.

use std::collections::HashMap;

use super::workload::{Change, FAMILIES, KEYS, Step};

/// The possible numbers of every key; `None` is "no value".
pub(super) struct Model {
    start: Vec<Option<u64>>,
    possible: HashMap<(usize, u32), Vec<Option<u64>>>,
}

impl Model {
    /// The model of an empty database.
    pub(super) fn empty() -> Self {
        Self {
            start: vec![None],
            possible: HashMap::new(),
        }
    }

    /// The model of an unknown database: a key is known once it was written.
    pub(super) fn unknown() -> Self {
        Self {
            start: Vec::new(),
            possible: HashMap::new(),
        }
    }

    /// What a key may hold. An empty list means that it is unknown.
    pub(super) fn possible(&self, family: usize, key: u32) -> &[Option<u64>] {
        self.possible.get(&(family, key)).unwrap_or(&self.start)
    }

    /// The step was acknowledged.
    pub(super) fn apply(&mut self, step: &Step) {
        for (family, key, change) in step.changes() {
            let held = self.slot(family, key);
            *held = changed(held, change);
        }
    }

    /// The step was begun: it may have happened, in whole or, here, in part.
    pub(super) fn may_apply(&mut self, step: &Step) {
        for (family, key, change) in step.changes() {
            let held = self.slot(family, key);
            for number in changed(held, change) {
                if !held.contains(&number) {
                    held.push(number);
                }
            }
        }
    }

    /// Every key was read.
    pub(super) fn settle(&mut self, held: impl Fn(usize, u32) -> Option<u64>) {
        for family in 0..FAMILIES.len() {
            for key in 0..KEYS {
                self.possible.insert((family, key), vec![held(family, key)]);
            }
        }
    }

    fn slot(&mut self, family: usize, key: u32) -> &mut Vec<Option<u64>> {
        let start = &self.start;
        self.possible
            .entry((family, key))
            .or_insert_with(|| start.clone())
    }
}

fn changed(held: &[Option<u64>], change: Change) -> Vec<Option<u64>> {
    match change {
        Change::Set(number) => vec![Some(number)],
        Change::Remove => vec![None],
        Change::Add(more) => held
            .iter()
            .map(|held| Some(held.unwrap_or(0).wrapping_add(more)))
            .collect(),
    }
}

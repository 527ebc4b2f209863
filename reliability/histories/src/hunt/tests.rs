//! The hunt over a map behind a filter of exact keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A key is visible before the filter has it.
    FedLate,
    /// A rebuilt filter lacks what was fed since its keys were read.
    RebuiltAlone,
    /// A write that was done is lost in a crash.
    Forgets,
}

/// Crashes with its 20th write.
struct Map {
    wrong: Wrong,
    filter: Mutex<BTreeSet<Key>>,
    /// After each write.
    states: Mutex<Vec<BTreeMap<Key, Value>>>,
}

impl Map {
    fn new(wrong: Wrong, state: BTreeMap<Key, Value>) -> Self {
        let filter = Mutex::new(state.keys().copied().collect());
        let states = Mutex::new(vec![state]);
        Self {
            wrong,
            filter,
            states,
        }
    }

    fn feed(&self, changes: &[(Key, Change)]) {
        thread::yield_now();
        let keys = changes.iter().map(|(key, _)| *key);
        self.filter.lock().unwrap().extend(keys);
    }
}

impl Door for Map {
    fn write(&self, changes: &[(Key, Change)], _: u32) -> Result<&'static str, Crashed> {
        if self.wrong != Wrong::FedLate {
            self.feed(changes);
        }
        let mut states = self.states.lock().unwrap();
        if states.len() > 20 {
            return Err(Crashed);
        }
        let mut state = states.last().unwrap().clone();
        for (key, change) in changes {
            match change {
                Change::Put(value) => _ = state.insert(*key, value.clone()),
                Change::Delete => _ = state.remove(key),
                Change::Merge(more) => state.entry(*key).or_default().push(*more),
            }
        }
        states.push(state);
        let is_last = states.len() > 20;
        drop(states);
        if self.wrong == Wrong::FedLate {
            self.feed(changes);
        }
        // The last one is done, and its caller is not told.
        (!is_last).then_some("write").ok_or(Crashed)
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<Found, Crashed> {
        if keys.len() == 1 && !self.filter.lock().unwrap().contains(&keys[0]) {
            return Ok(("filter", vec![None]));
        }
        let state = self.states.lock().unwrap().last().unwrap().clone();
        let values = keys.iter().map(|key| state.get(key).cloned());
        Ok(("map", values.collect()))
    }

    fn disturb(&self, _: u32) {
        if self.wrong == Wrong::RebuiltAlone {
            let state = self.states.lock().unwrap().last().unwrap().clone();
            thread::yield_now();
            *self.filter.lock().unwrap() = state.into_keys().collect();
        }
    }

    fn renew_keys(&mut self) {
        self.states.get_mut().unwrap().push(BTreeMap::new());
    }

    fn reopen(self, _: u32) -> Self {
        let mut states = self.states.into_inner().unwrap();
        if self.wrong == Wrong::Forgets && states.len() > 10 {
            states.truncate(states.len() - 2);
        }
        Self::new(self.wrong, states.pop().unwrap())
    }

    fn merges() -> bool {
        true
    }
}

#[test]
fn map_is_linearizable_through_crashes() {
    Hunt::new("map", 2_000).run(|_| Map::new(Wrong::Nothing, BTreeMap::new()));
}

#[test]
fn each_fault_is_found() {
    for wrong in [Wrong::FedLate, Wrong::RebuiltAlone, Wrong::Forgets] {
        let (door, seed, histories) = ("map", 1, 20_000);
        let hunt = Hunt {
            door,
            seed,
            histories,
        };
        let hunted = std::panic::catch_unwind(|| hunt.run(|_| Map::new(wrong, BTreeMap::new())));
        let panic = hunted.expect_err("a violation");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(
            message.starts_with("not linearizable"),
            "{wrong:?}: {message}"
        );
    }
}

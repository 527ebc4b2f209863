//! The hunt over a map behind a filter of exact keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::*;

/// What is wrong with the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A key is visible before the filter has it.
    FedLate,
    /// A rebuilt filter lacks what was fed since its keys were read.
    RebuiltAlone,
    /// A read of several keys reads one by one.
    OneByOne,
    /// A batch is written key by key.
    BatchInParts,
    /// A write that was done is lost in a crash.
    Forgets,
}

#[derive(Debug, Default)]
struct Tables {
    map: BTreeMap<Key, Value>,
    last: BTreeMap<Key, Value>,
    writes: u32,
}

#[derive(Debug)]
struct Map {
    wrong: Wrong,
    filter: Mutex<BTreeSet<Key>>,
    tables: Mutex<Tables>,
    crash_after: u32,
}

fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Map {
    fn new(wrong: Wrong, crash_after: u32) -> Self {
        Self {
            wrong,
            filter: Mutex::default(),
            tables: Mutex::default(),
            crash_after: crash_after % 40,
        }
    }

    fn feed(&self, changes: &[(Key, Change)]) {
        thread::yield_now();
        locked(&self.filter).extend(changes.iter().map(|(key, _)| *key));
    }
}

impl Door for Map {
    fn write(&self, changes: &[(Key, Change)], _: u32) -> Result<&'static str, Crashed> {
        if self.wrong != Wrong::FedLate {
            self.feed(changes);
        }
        let apart = if self.wrong == Wrong::BatchInParts {
            1
        } else {
            changes.len()
        };
        for changes in changes.chunks(apart) {
            let mut tables = locked(&self.tables);
            if tables.writes == self.crash_after {
                return Err(Crashed);
            }
            tables.last = tables.map.clone();
            for (key, change) in changes {
                match change {
                    Change::Put(value) => _ = tables.map.insert(*key, value.clone()),
                    Change::Delete => _ = tables.map.remove(key),
                    Change::Merge(more) => tables.map.entry(*key).or_default().push(*more),
                }
            }
            drop(tables);
            thread::yield_now();
        }
        if self.wrong == Wrong::FedLate {
            self.feed(changes);
        }
        // It is done, and nobody is told.
        let mut tables = locked(&self.tables);
        tables.writes += 1;
        match tables.writes == self.crash_after {
            true => Err(Crashed),
            false => Ok("write"),
        }
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<(&'static str, Vec<Option<Value>>), Crashed> {
        if let [key] = keys
            && !locked(&self.filter).contains(key)
        {
            return Ok(("filter", vec![None]));
        }
        let apart = if self.wrong == Wrong::OneByOne {
            1
        } else {
            keys.len()
        };
        let mut values = Vec::new();
        for keys in keys.chunks(apart) {
            let tables = locked(&self.tables);
            values.extend(keys.iter().map(|key| tables.map.get(key).cloned()));
            drop(tables);
            thread::yield_now();
        }
        Ok(("map", values))
    }

    fn disturb(&self, _: u32) {
        if self.wrong == Wrong::RebuiltAlone {
            let keys = locked(&self.tables).map.keys().copied().collect();
            *locked(&self.filter) = keys;
        }
    }

    fn reopen(self, choice: u32) -> Self {
        let new = Self::new(self.wrong, choice);
        let tables = self
            .tables
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let map = if self.wrong == Wrong::Forgets {
            tables.last
        } else {
            tables.map
        };
        locked(&new.filter).extend(map.keys());
        locked(&new.tables).map = map;
        new
    }

    fn merges() -> bool {
        true
    }
}

fn hunt(wrong: Wrong) {
    let hunt = Hunt {
        door: "map",
        seed: 1,
        histories: 20_000,
    };
    hunt.run(|choice| Map::new(wrong, choice));
}

#[test]
fn map_is_linearizable_through_crashes() {
    Hunt::new("map", 2_000).run(|choice| Map::new(Wrong::Nothing, choice));
}

#[test]
#[should_panic(expected = "not linearizable")]
fn key_that_is_visible_before_its_filter_is_found() {
    hunt(Wrong::FedLate);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn filter_that_is_replaced_beside_writes_is_found() {
    hunt(Wrong::RebuiltAlone);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn read_of_several_moments_is_found() {
    hunt(Wrong::OneByOne);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn batch_of_several_moments_is_found() {
    hunt(Wrong::BatchInParts);
}

#[test]
#[should_panic(expected = "not linearizable")]
fn write_that_a_crash_takes_back_is_found() {
    hunt(Wrong::Forgets);
}

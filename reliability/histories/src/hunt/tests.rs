//! The hunt over a map behind a filter of exact keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;

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
    /// A write that was done is lost in a crash.
    Forgets,
}

#[derive(Debug)]
struct Map {
    wrong: Wrong,
    filter: Mutex<BTreeSet<Key>>,
    /// What the map is now, and before the last write.
    states: Mutex<[BTreeMap<Key, Value>; 2]>,
    writes: AtomicU32,
    crash_after: u32,
}

impl Map {
    fn new(wrong: Wrong, crash_after: u32) -> Self {
        Self {
            wrong,
            filter: Mutex::default(),
            states: Mutex::default(),
            writes: AtomicU32::new(0),
            crash_after: crash_after % 40,
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
        let nth = self.writes.fetch_add(1, Ordering::Relaxed);
        if nth > self.crash_after {
            return Err(Crashed);
        }
        states[1] = states[0].clone();
        for (key, change) in changes {
            match change {
                Change::Put(value) => _ = states[0].insert(*key, value.clone()),
                Change::Delete => _ = states[0].remove(key),
                Change::Merge(more) => states[0].entry(*key).or_default().push(*more),
            }
        }
        drop(states);
        if self.wrong == Wrong::FedLate {
            self.feed(changes);
        }
        // The last one is done, and its caller is not told.
        (nth < self.crash_after).then_some("write").ok_or(Crashed)
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<Found, Crashed> {
        if let [key] = keys
            && !self.filter.lock().unwrap().contains(key)
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
            let states = self.states.lock().unwrap();
            values.extend(keys.iter().map(|key| states[0].get(key).cloned()));
            drop(states);
            thread::yield_now();
        }
        Ok(("map", values))
    }

    fn disturb(&self, _: u32) {
        if self.wrong == Wrong::RebuiltAlone {
            let keys = self.states.lock().unwrap()[0].keys().copied().collect();
            thread::yield_now();
            *self.filter.lock().unwrap() = keys;
        }
    }

    fn reopen(self, choice: u32) -> Self {
        let new = Self::new(self.wrong, choice);
        let [now, before] = self.states.into_inner().unwrap();
        let left = if self.wrong == Wrong::Forgets {
            before
        } else {
            now
        };
        new.filter.lock().unwrap().extend(left.keys());
        new.states.lock().unwrap()[0] = left;
        new
    }

    fn merges() -> bool {
        true
    }
}

#[test]
fn map_is_linearizable_through_crashes() {
    Hunt::new("map", 2_000).run(|choice| Map::new(Wrong::Nothing, choice));
}

#[test]
fn each_fault_is_found() {
    for wrong in [
        Wrong::FedLate,
        Wrong::RebuiltAlone,
        Wrong::OneByOne,
        Wrong::Forgets,
    ] {
        let (door, seed, histories) = ("map", 1, 20_000);
        let hunt = Hunt {
            door,
            seed,
            histories,
        };
        let hunted = std::panic::catch_unwind(|| hunt.run(|choice| Map::new(wrong, choice)));
        let panic = hunted.expect_err("a violation");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(
            message.starts_with("not linearizable"),
            "{wrong:?}: {message}"
        );
    }
}

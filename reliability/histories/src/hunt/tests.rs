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
}

struct Map {
    wrong: Wrong,
    filter: Mutex<BTreeSet<Key>>,
    map: Mutex<BTreeMap<Key, Value>>,
}

impl Map {
    fn new(wrong: Wrong) -> Self {
        let (filter, map) = (Mutex::default(), Mutex::default());
        Self { wrong, filter, map }
    }

    fn feed_if(&self, is_now: bool, changes: &[(Key, Change)]) {
        if is_now {
            thread::yield_now();
            let keys = changes.iter().map(|(key, _)| *key);
            self.filter.lock().unwrap().extend(keys);
        }
    }
}

impl Door for Map {
    fn write(&self, changes: &[(Key, Change)], _: u32) -> Result<&'static str, Crashed> {
        self.feed_if(self.wrong != Wrong::FedLate, changes);
        let mut map = self.map.lock().unwrap();
        for (key, change) in changes {
            match change {
                Change::Put(value) => _ = map.insert(*key, value.clone()),
                Change::Delete => _ = map.remove(key),
                Change::Merge(more) => map.entry(*key).or_default().push(*more),
            }
        }
        drop(map);
        self.feed_if(self.wrong == Wrong::FedLate, changes);
        Ok("write")
    }

    fn read(&self, keys: &[Key], _: u32) -> Result<Found, Crashed> {
        if keys.len() == 1 && !self.filter.lock().unwrap().contains(&keys[0]) {
            return Ok(("filter", vec![None]));
        }
        let map = self.map.lock().unwrap();
        let values = keys.iter().map(|key| map.get(key).cloned());
        Ok(("map", values.collect()))
    }

    fn disturb(&self, _: u32) {
        if self.wrong == Wrong::RebuiltAlone {
            let keys = self.map.lock().unwrap().keys().copied().collect();
            thread::yield_now();
            *self.filter.lock().unwrap() = keys;
        }
    }

    fn renew_keys(&mut self) {
        *self = Self::new(self.wrong);
    }

    fn reopen(self, _: u32) -> Self {
        self
    }

    fn merges() -> bool {
        true
    }
}

#[test]
fn map_is_linearizable() {
    Hunt::new("map", 500).run(|_| Map::new(Wrong::Nothing));
}

#[test]
fn stale_absent_is_found() {
    for wrong in [Wrong::FedLate, Wrong::RebuiltAlone] {
        let (door, seed, histories) = ("map", 1, 20_000);
        let hunt = Hunt {
            door,
            seed,
            histories,
        };
        let hunted = std::panic::catch_unwind(|| hunt.run(|_| Map::new(wrong)));
        let panic = hunted.expect_err("a violation");
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.starts_with("not linearizable"), "{message}");
    }
}

//! The hunt over a map behind a filter of exact keys.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// A key is visible before the filter has it.
    FedLate,
    /// A rebuilt filter lacks what was fed since its keys were read.
    RebuiltAlone,
    /// The keys of a batch become visible one by one.
    BatchSplit,
    /// Some reads find the value that a put replaced.
    ValueStale,
    /// A key is gone after the store was opened again.
    KeyLost,
}

/// What was called, with the different choices that it got.
type Choices = BTreeMap<&'static str, BTreeSet<u32>>;

struct Map {
    wrong: Wrong,
    /// Whether some calls crash the store, before they take effect or after.
    crashes: bool,
    has_crashed: AtomicBool,
    filter: Mutex<BTreeSet<Key>>,
    map: Mutex<BTreeMap<Key, Value>>,
    replaced: Mutex<BTreeMap<Key, Value>>,
    choices: Arc<Mutex<Choices>>,
}

impl Map {
    fn new(wrong: Wrong) -> Self {
        Self {
            wrong,
            crashes: false,
            has_crashed: AtomicBool::default(),
            filter: Mutex::default(),
            map: Mutex::default(),
            replaced: Mutex::default(),
            choices: Arc::default(),
        }
    }

    fn note(&self, called: &'static str, choice: u32) {
        let mut choices = self.choices.lock().unwrap();
        choices.entry(called).or_default().insert(choice);
    }

    /// Whether the store crashes in a call of this choice, one of so many.
    fn crashes_in(&self, choice: u32, one_in: u32) -> bool {
        self.crashes && choice.is_multiple_of(one_in)
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
    fn write(&self, changes: &[(Key, Change)], choice: u32) -> Result<&'static str, Crashed> {
        self.feed_if(self.wrong != Wrong::FedLate, changes);
        let mut map = self.map.lock().unwrap();
        if self.has_crashed.load(Ordering::Relaxed) {
            return Err(Crashed);
        }
        let crashes = self.crashes_in(choice, 16);
        self.has_crashed.store(crashes, Ordering::Relaxed);
        if crashes && choice.is_multiple_of(32) {
            return Err(Crashed);
        }
        for (key, change) in changes {
            if self.wrong == Wrong::BatchSplit {
                drop(map);
                thread::yield_now();
                map = self.map.lock().unwrap();
            }
            match change {
                Change::Put(value) => {
                    if let Some(replaced) = map.insert(*key, value.clone()) {
                        self.replaced.lock().unwrap().insert(*key, replaced);
                    }
                }
                Change::Delete => _ = map.remove(key),
                Change::Merge(more) => map.entry(*key).or_default().push(*more),
            }
        }
        drop(map);
        self.feed_if(self.wrong == Wrong::FedLate, changes);
        if crashes { Err(Crashed) } else { Ok("write") }
    }

    fn read(&self, keys: &[Key], choice: u32) -> Result<Found, Crashed> {
        if keys.len() == 1 && !self.filter.lock().unwrap().contains(&keys[0]) {
            return Ok(("filter", vec![None]));
        }
        let map = self.map.lock().unwrap();
        if self.has_crashed.load(Ordering::Relaxed) || self.crashes_in(choice, 64) {
            self.has_crashed.store(true, Ordering::Relaxed);
            return Err(Crashed);
        }
        let replaced = self.replaced.lock().unwrap();
        let is_stale = self.wrong == Wrong::ValueStale && choice.is_multiple_of(16);
        let value = |key| {
            let value = map.get(key)?;
            let stale = replaced.get(key).filter(|_| is_stale);
            Some(stale.unwrap_or(value).clone())
        };
        Ok(("map", keys.iter().map(value).collect()))
    }

    fn disturb(&self, choice: u32) {
        self.note("disturb", choice);
        if self.wrong == Wrong::RebuiltAlone {
            let keys = self.map.lock().unwrap().keys().copied().collect();
            thread::yield_now();
            *self.filter.lock().unwrap() = keys;
        }
    }

    fn renew_keys(&mut self) {
        self.note("renew_keys", rand::random());
        self.filter.get_mut().unwrap().clear();
        self.map.get_mut().unwrap().clear();
        self.replaced.get_mut().unwrap().clear();
    }

    fn reopen(mut self, choice: u32) -> Self {
        self.note("reopen", choice);
        self.has_crashed = AtomicBool::new(false);
        if self.wrong == Wrong::KeyLost {
            self.map.get_mut().unwrap().pop_first();
        }
        self
    }

    fn merges() -> bool {
        true
    }
}

/// Histories that the environment does not change.
fn hunt(histories: u64) -> Hunt {
    Hunt {
        door: "map",
        seed: 1,
        histories,
    }
}

/// What a hunt over a door that is not wrong called.
fn called(histories: u64, crashes: bool) -> Choices {
    let choices = Arc::<Mutex<Choices>>::default();
    hunt(histories).run(|choice| {
        let map = Map {
            crashes,
            choices: Arc::clone(&choices),
            ..Map::new(Wrong::Nothing)
        };
        map.note("open", choice);
        map
    });
    choices.lock().unwrap().clone()
}

#[test]
fn map_is_linearizable() {
    Hunt::new("map", 500).run(|_| Map::new(Wrong::Nothing));
}

#[test]
fn wrong_doors_are_found() {
    for wrong in [
        Wrong::FedLate,
        Wrong::RebuiltAlone,
        Wrong::BatchSplit,
        Wrong::ValueStale,
        Wrong::KeyLost,
    ] {
        let hunted = std::panic::catch_unwind(|| hunt(20_000).run(|_| Map::new(wrong)));
        let panic = hunted.expect_err(&format!("a violation of {wrong:?}"));
        let message = panic.downcast_ref::<String>().expect("a message");
        assert!(message.starts_with("not linearizable"), "{message}");
    }
}

#[test]
fn stores_are_disturbed_renewed_and_reopened() {
    let called = called(500, false);
    let times = |what| called.get(what).map_or(0, BTreeSet::len);
    assert_eq!(times("open"), 10);
    assert!(times("disturb") > 250, "{}", times("disturb"));
    assert!((150..350).contains(&times("renew_keys")));
    assert!((25..100).contains(&times("reopen")), "{}", times("reopen"));
}

#[test]
fn calls_that_a_crash_cut_short_are_linearizable() {
    let called = called(1_000, true);
    assert!(called["reopen"].len() > 300, "{}", called["reopen"].len());
}

/// Another hunt than the one that was asked for would run, and pass.
#[test]
fn variable_that_is_set_to_no_number_is_refused_by_name() {
    let of = |text: &str| number("LSM_SIEVE_LINEARIZABLE", Some(text.to_owned()));
    assert_eq!(of("1000"), Some(1_000));
    assert_eq!(number("LSM_SIEVE_LINEARIZABLE", None), None);
    for text in ["1e6", "0x7", "-1", ""] {
        let panic = std::panic::catch_unwind(|| of(text)).expect_err(text);
        let message = panic.downcast_ref::<String>().expect("a message");
        assert_eq!(
            *message,
            format!("LSM_SIEVE_LINEARIZABLE={text} is no number")
        );
    }
}

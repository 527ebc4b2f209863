//! Random operations on a store and on its model. They must agree after each stretch.
//!
//! `LSM_SIEVE_SEED=n` repeats a run.

use std::ops::{Bound, ControlFlow};

use lsm_sieve_differential::{Batch, DifferentialStore, FilterChoice, Snapshot};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::model::{Failed, Model, check, check_now, key};
use super::{FIXED, TINY, open};

const KEYS: u64 = 300;
const OPERATIONS: usize = 3_000;
const RUNS: u64 = 3;

#[test]
fn store_with_a_scalable_filter_matches_its_model() {
    run_all(FilterChoice::Scalable);
}

#[test]
fn store_with_a_fixed_filter_matches_its_model() {
    run_all(FIXED);
}

#[test]
fn store_with_a_tiny_filter_matches_its_model() {
    run_all(TINY);
}

fn run_all(filter: FilterChoice) {
    let seed = std::env::var("LSM_SIEVE_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    for run in 0..RUNS {
        let seed = seed.wrapping_add(run);
        if let Err(error) = Twin::run(seed, filter) {
            panic!("LSM_SIEVE_SEED={seed}, {filter:?}: {error}");
        }
    }
}

/// A store and its model.
struct Twin {
    home: tempfile::TempDir,
    store: DifferentialStore,
    model: Model,
    filter: FilterChoice,
    random: StdRng,
    copies: u32,
}

impl Twin {
    fn run(seed: u64, filter: FilterChoice) -> Result<(), Failed> {
        let home = tempfile::tempdir()?;
        let store = open(&home.path().join("store"), filter)?;
        let mut run = Self {
            home,
            store,
            model: Model::new(),
            filter,
            random: StdRng::seed_from_u64(seed),
            copies: 0,
        };
        let first: Vec<_> = (0..KEYS / 2)
            .map(|index| (key(index), b"loaded".to_vec()))
            .collect();
        run.store.load(first.iter().cloned())?;
        run.model.extend(first);
        let mut left = OPERATIONS;
        while left > 0 {
            let stretch = run.random.random_range(1..=left.min(400));
            run.stretch(stretch)?;
            left -= stretch;
            check_now(&run.store, &run.model, KEYS)?;
            run = run.reopen_sometimes()?;
        }
        run.store.reorganize(|_| ControlFlow::Continue(()))?;
        assert_eq!(run.store.extent()?.generations, 1);
        check_now(&run.store, &run.model, KEYS)
    }

    /// Some operations, under a snapshot that must not see them.
    fn stretch(&mut self, operations: usize) -> Result<(), Failed> {
        let before = self.model.clone();
        // Borrows the store alone, so that the other fields can be changed.
        let Self {
            store,
            model,
            random,
            home,
            filter,
            copies,
        } = self;
        let snapshot = store.snapshot();
        for _ in 0..operations {
            match random.random_range(0..1_000) {
                0..550 => put(store, model, random)?,
                550..750 => delete(store, model, random)?,
                750..850 => write(store, model, random)?,
                850..950 => scan_a_range(&snapshot, &before, random)?,
                950..970 => store.freeze()?,
                970..980 => _ = store.reorganize(|_| ControlFlow::Continue(()))?,
                980..990 => _ = store.reorganize(|_| ControlFlow::Break(()))?,
                990..996 => store.flush()?,
                _ => {
                    *copies += 1;
                    let copy = home.path().join(format!("copy-{copies}"));
                    store.checkpoint(&copy)?;
                    check_now(&open(&copy, *filter)?, model, KEYS)?;
                    std::fs::remove_dir_all(copy)?;
                }
            }
        }
        check(&snapshot, &before, KEYS)
    }

    fn reopen_sometimes(mut self) -> Result<Self, Failed> {
        if self.random.random_bool(0.5) {
            let path = self.store.db().path().to_owned();
            self.store.close()?;
            self.store = open(&path, self.filter)?;
            check_now(&self.store, &self.model, KEYS)?;
        }
        Ok(self)
    }
}

fn draw(random: &mut StdRng) -> (Vec<u8>, Vec<u8>) {
    let length = random.random_range(0..600);
    (
        key(random.random_range(0..KEYS)),
        vec![random.random(); length],
    )
}

fn put(store: &DifferentialStore, model: &mut Model, random: &mut StdRng) -> Result<(), Failed> {
    let (key, value) = draw(random);
    store.put(&key, &value)?;
    assert_eq!(store.get(&key)?.as_ref(), Some(&value));
    model.insert(key, value);
    Ok(())
}

fn delete(store: &DifferentialStore, model: &mut Model, random: &mut StdRng) -> Result<(), Failed> {
    let (key, _) = draw(random);
    store.delete(&key)?;
    assert_eq!(store.get(&key)?, None);
    model.remove(&key);
    Ok(())
}

fn write(store: &DifferentialStore, model: &mut Model, random: &mut StdRng) -> Result<(), Failed> {
    let mut batch = Batch::default();
    for _ in 0..random.random_range(0..20) {
        let (key, value) = draw(random);
        if random.random_bool(0.7) {
            batch.put(&key, &value);
            model.insert(key, value);
        } else {
            batch.delete(&key);
            model.remove(&key);
        }
    }
    Ok(store.write(&batch)?)
}

fn scan_a_range(snapshot: &Snapshot<'_>, model: &Model, random: &mut StdRng) -> Result<(), Failed> {
    let mut bound = |key| match random.random_range(0..3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    };
    // The map does not accept a range that ends before it starts.
    let range = (bound(key(KEYS / 3)), bound(key(KEYS / 2)));
    let found: Vec<_> = snapshot.scan(range.clone()).collect::<Result<_, _>>()?;
    let expected = model.range(range);
    let expected: Vec<_> = expected
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    assert_eq!(found, expected);
    Ok(())
}

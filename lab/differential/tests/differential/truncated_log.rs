//! The tail of the log is lost, as by a power cut. What is left is an earlier state, and none from
//! before everything was last made durable.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::ffi::OsString;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use lsm_sieve_differential::{DifferentialStore, FilterChoice};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::model::{Model, key};
use super::{FIXED, open};
use crate::support::database_files::copy;
use crate::support::environment::number_from;

const KEYS: u64 = 50;
const STEPS: usize = 120;
const CUTS: usize = 20;

#[test]
fn log_cut_anywhere_leaves_an_earlier_state() {
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("LSM_SIEVE_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut older, mut kept) = (0, 0);
    for filter in [FilterChoice::Scalable, FIXED] {
        let home = tempfile::tempdir().unwrap();
        let (path, cut) = (home.path().join("store"), home.path().join("cut"));
        let store = open(&path, filter).unwrap();
        let mut states = vec![Model::new()];
        // The first state that may be left, and its log: all of it is synced.
        let mut floor = 0;
        let mut synced = (OsString::new(), 0);
        for _ in 0..CUTS {
            for _ in 0..STEPS / CUTS {
                let mut next = states[states.len() - 1].clone();
                let durable = step(&store, &mut next, &mut random);
                states.push(next);
                if durable {
                    floor = states.len() - 1;
                    let log = newest_log(&path);
                    let length = fs::metadata(&log).unwrap().len();
                    synced = (log.file_name().unwrap().to_owned(), length);
                }
            }
            copy(&path, &cut);
            cut_log(&cut, &synced, &mut random);
            let left = open(&cut, filter).unwrap();
            let scanned: Model = left
                .snapshot()
                .scan::<&[u8]>(..)
                .map(Result::unwrap)
                .collect();
            let may_be_left = &states[floor..];
            let lost = may_be_left.iter().rev().position(|state| *state == scanned);
            let records = scanned.len();
            older += lost.unwrap_or_else(|| {
                panic!("LSM_SIEVE_SEED={seed}: {records} records are no state from {floor}")
            });
            kept += floor;
            left.reorganize(|_| ControlFlow::Continue(())).unwrap();
            for index in 0..KEYS {
                assert_eq!(
                    left.get(key(index)).unwrap().as_ref(),
                    scanned.get(&key(index))
                );
            }
            drop(left);
            fs::remove_dir_all(&cut).unwrap();
        }
    }
    assert!(older > CUTS, "the cuts took almost nothing");
    assert!(kept > 0, "everything was at stake all the time");
}

/// An update, or a step that moves records. Returns true if all writes are durable now.
fn step(store: &DifferentialStore, model: &mut Model, random: &mut StdRng) -> bool {
    match random.random_range(0..20) {
        0 => store.freeze().unwrap(),
        how @ 1..3 => {
            let stop = how == 1;
            let done = store.reorganize(|_| match stop {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
            // Before it drops a generation, it makes all writes durable.
            return done.unwrap().generations > 0;
        }
        3 => {
            store.flush().unwrap();
            return true;
        }
        4..8 => {
            let key = key(random.random_range(0..KEYS));
            store.delete(&key).unwrap();
            model.remove(&key);
        }
        _ => {
            let key = key(random.random_range(0..KEYS));
            let value = vec![random.random(); 200];
            store.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
    false
}

/// Cuts the newest log at a random length, but not below its synced part.
fn cut_log(store: &Path, (log, length): &(OsString, u64), random: &mut StdRng) {
    let newest = newest_log(store);
    let least = if newest.file_name() == Some(log) {
        *length
    } else {
        0
    };
    let file = fs::File::options().write(true).open(newest).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(random.random_range(least..=length)).unwrap();
}

fn newest_log(store: &Path) -> PathBuf {
    let names = fs::read_dir(store).unwrap();
    let names = names.map(|entry| entry.unwrap().path());
    let logs = names.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.max().expect("an open store has a log")
}

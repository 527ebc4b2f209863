//! Histories over an etcd in memory that loses, repeats, fragments and compacts. Each answer is held
//! against a model of all revisions.

use std::path::Path;
use std::time::Duration;

use lsm_sieve_etcd::{EtcdFollower, Options};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::{sleep, timeout};

use crate::memory_etcd::{Change, Faults, Key, MemoryEtcd};

/// Small, so that keys come and go. Keys from here on are never put.
const KEYS: u32 = 300;

pub(crate) fn key(number: u32) -> Key {
    format!("/key/{number:08}").into_bytes()
}

/// Short times, so that silence and outages are noticed soon.
pub(crate) fn options() -> Options {
    Options::default().with_timeout(Duration::from_secs(1))
}

pub(crate) async fn open(etcd: &MemoryEtcd, folder: &Path) -> EtcdFollower {
    let opened = EtcdFollower::open([etcd.endpoint()], folder, options()).await;
    opened.unwrap()
}

pub(crate) async fn wait_for(follower: &EtcdFollower, revision: u64) {
    let wait = follower.wait_for(revision as i64);
    let waited = timeout(Duration::from_secs(60), wait).await;
    assert!(waited.is_ok(), "{revision}: {:?}", follower.stats());
}

fn change(rng: &mut StdRng) -> Change {
    let many = if rng.random_ratio(1, 4) { 20 } else { 2 };
    let first = rng.random_range(0..KEYS);
    let numbers = first..first + rng.random_range(1..many);
    let change = numbers.map(|number| (key(number % KEYS), rng.random_ratio(2, 3)));
    change.collect()
}

#[derive(Debug, Default)]
struct Found {
    asked: u64,
    lost: u64,
    never: u64,
    denied: u64,
    holes: u64,
    compactions: u64,
}

impl Found {
    async fn close(&mut self, follower: EtcdFollower) {
        let stats = follower.stats();
        self.holes += stats.holes;
        self.compactions += stats.compactions;
        follower.close().await;
    }

    fn check(&mut self, etcd: &MemoryEtcd, follower: &EtcdFollower, rng: &mut StdRng) {
        // All at one revision: nothing is written meanwhile.
        let state = etcd.state();
        for _ in 0..50 {
            let key = key(rng.random_range(0..KEYS));
            let at_least = rng.random_range(0..=state.model.newest() + 1);
            self.asked += 1;
            if follower.is_absent(&key, at_least as i64) && !state.model.was_absent(&key, at_least)
            {
                self.lost += 1;
            }
        }
        let Some(position) = follower.filter().position() else {
            return;
        };
        let never = (KEYS..KEYS + 50).map(key);
        self.never += 50;
        self.denied += never
            .filter(|key| follower.is_absent(key, position as i64))
            .count() as u64;
    }
}

async fn history(seed: u64, faults: Faults) -> Found {
    let mut rng = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let etcd = MemoryEtcd::start(seed, 7).await;
    etcd.state().faults = faults;
    let mut follower = open(&etcd, folder.path()).await;
    let mut found = Found::default();
    for step in 0..400 {
        match rng.random_range(0..100) {
            0..70 => _ = etcd.write(change(&mut rng)),
            70..73 => etcd.cut(),
            73..75 => {
                let mut state = etcd.state();
                let newest = state.model.newest();
                state.compacted = rng.random_range(state.compacted..=newest);
            }
            75 if step % 3 == 0 => {
                found.close(follower).await;
                follower = open(&etcd, folder.path()).await;
            }
            76..85 => wait_for(&follower, etcd.newest()).await,
            _ => sleep(Duration::from_millis(rng.random_range(0..3))).await,
        }
        found.check(&etcd, &follower, &mut rng);
    }
    wait_for(&follower, etcd.newest()).await;
    found.check(&etcd, &follower, &mut rng);
    found.close(follower).await;
    println!("{seed}: {found:?}");
    found
}

const NOTICED: Faults = Faults {
    left_out: 200,
    repeated: 20,
    silent: 100,
    ahead: 5,
    replaced: 0,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_denied_that_was_there_since_a_revision() {
    let histories: Vec<_> = (0..16)
        .map(|seed| {
            let faults = if seed % 4 == 0 {
                Faults::default()
            } else {
                NOTICED
            };
            tokio::spawn(history(seed, faults))
        })
        .collect();
    let mut all = Found::default();
    for (seed, history) in histories.into_iter().enumerate() {
        let found = history.await.unwrap();
        assert_eq!(found.lost, 0, "{seed}: {found:?}");
        all.never += found.never;
        all.denied += found.denied;
        all.holes += found.holes;
        all.compactions += found.compactions;
    }
    assert!(all.holes > 0 && all.compactions > 0, "{all:?}");
    assert!(all.denied * 100 >= all.never * 97, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_fault_is_found() {
    let faults = Faults {
        replaced: 31,
        ..Faults::default()
    };
    let found = history(1, faults).await;
    assert!(found.lost > 0, "{found:?}");
}

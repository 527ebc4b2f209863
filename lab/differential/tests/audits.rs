//! Audits find a filter of the differential file that says *absent* for a record that is there.

use std::path::{Path, PathBuf};

use lsm_sieve::{Items, SieveOptions};
use lsm_sieve_differential::{DifferentialOptions, DifferentialStore};

use crate::support::damage::without_keys;
use crate::support::model_db::{always_filtered, cover, key, options, settle};

const KEYS: u64 = 500;
const ONE_IN: u32 = 16;
const READS: u64 = 8 * ONE_IN as u64;

/// The summary has room for all keys, so that maintenance does not replace the faulty one.
fn audited() -> SieveOptions {
    let room = Items::new(2 * KEYS);
    always_filtered().expected_keys(room).audit(ONE_IN)
}

fn filters(path: &Path) -> PathBuf {
    path.join("sieve")
}

/// Reads one key until it is found. Returns the number of reads before that, which were undetected
/// false negatives.
fn reads_until_found(read: impl Fn(&[u8]) -> bool) -> u64 {
    let key = key(7);
    (1..=READS).find(|_| read(&key)).expect("no audit in time")
}

/// Here a false negative does not hide a record: it returns the older one of the main file.
#[test]
fn differential_file_false_negative_is_found() {
    let home = tempfile::tempdir().unwrap();
    let settings = DifferentialOptions {
        filters: audited(),
        ..DifferentialOptions::default()
    };
    let open = || DifferentialStore::open(&options(), &settings, home.path()).unwrap();
    let keys = || (4..4 + KEYS).map(key);
    let family = {
        let store = open();
        store.load(keys().map(|key| (key, b"old"))).unwrap();
        keys().for_each(|key| store.put(key, b"new").unwrap());
        store.flush().unwrap();
        cover(store.db());
        settle(store.db());
        store.family()
    };
    let summary = format!("summary-{:08x}.sieve", crc32fast::hash(family.as_bytes()));
    without_keys(&filters(home.path()).join(summary));
    for many in [false, true] {
        let read = |store: &DifferentialStore, key: &[u8]| {
            let value = match many {
                false => store.get(key),
                true => store.multi_get([key]).swap_remove(0),
            };
            value.unwrap().unwrap()
        };
        let store = open();
        settle(store.db());
        if !many {
            let false_negatives = reads_until_found(|key| read(&store, key) == b"new");
            assert!(false_negatives > 0);
            assert_eq!(store.db().filters().false_negative().unwrap().cf, family);
        }
        assert!(keys().all(|key| read(&store, &key) == b"new"));
    }
    let store = open();
    cover(store.db());
    assert!(keys().all(|key| store.get(key).unwrap().unwrap() == b"new"));
    assert_eq!(store.db().filters().false_negative(), None);
}

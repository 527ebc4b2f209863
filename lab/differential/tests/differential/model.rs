//! What a store must answer: a sorted map, the one-line oracle.

use std::collections::BTreeMap;

use lsm_sieve_differential::{DifferentialStore, Snapshot};

pub(super) use crate::support::history::Failed;

pub(super) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn key(index: u64) -> Vec<u8> {
    format!("key-{index:05}").into_bytes()
}

/// Compares every read of a snapshot with the model.
pub(super) fn check(snapshot: &Snapshot<'_>, model: &Model, keys: u64) -> Result<(), Failed> {
    let scanned: Model = snapshot.scan::<&[u8]>(..).collect::<Result<_, _>>()?;
    if scanned != *model {
        return Err(format!("a scan: {}", difference(&scanned, model)).into());
    }
    let keys_read: Vec<Vec<u8>> = (0..keys).map(key).collect();
    let many = snapshot.multi_get(&keys_read);
    for (key, together) in keys_read.iter().zip(many) {
        let (alone, together) = (snapshot.get(key)?, together?);
        let expected = model.get(key).cloned();
        if alone != expected || together != expected {
            let key = String::from_utf8_lossy(key);
            return Err(format!("{key}: {alone:?}, {together:?}, not {expected:?}").into());
        }
    }
    Ok(())
}

/// As [`check`], and also without a snapshot. Call it only while no thread writes.
pub(super) fn check_now(store: &DifferentialStore, model: &Model, keys: u64) -> Result<(), Failed> {
    check(&store.snapshot(), model, keys)?;
    let scanned: Model = store.scan::<&[u8]>(..).collect::<Result<_, _>>()?;
    assert_eq!(scanned, *model, "a scan of now");
    let keys_read: Vec<Vec<u8>> = (0..keys).map(key).collect();
    for (key, together) in keys_read.iter().zip(store.multi_get(&keys_read)) {
        let expected = model.get(key).cloned();
        assert_eq!(together?, expected, "multi_get of {key:?}");
        assert_eq!(store.get(key)?, expected, "get of {key:?}");
        let unfiltered = store.get_unfiltered(key)?;
        assert_eq!(unfiltered, expected, "get_unfiltered of {key:?}");
        assert!(store.may_be_modified(key) || !store.is_modified(key)?);
    }
    Ok(())
}

fn difference(found: &Model, expected: &Model) -> String {
    let lost = expected
        .iter()
        .find(|&(key, value)| found.get(key) != Some(value));
    let extra = found.iter().find(|&(key, _)| !expected.contains_key(key));
    format!(
        "{} records for {}; first lost or stale {lost:?}, first that should not be {extra:?}",
        found.len(),
        expected.len()
    )
}

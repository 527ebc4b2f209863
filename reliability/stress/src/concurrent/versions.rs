//! The possible values of a key while others write: a range of versions.
//!
//! ```text
//!   writer:   begun = v ------ write v ------ done = v
//!   reader:       low = done ------ read ------ high = begun
//! ```
//!
//! A key has one writer, whose versions grow. A read returns a version no older than the last one
//! done before it began, and no newer than the last one begun before it ended.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::check::{Certainty, Violation};
use super::super::model::{FAMILIES, number};

/// Version v of a key is its number v, or nothing if v is a multiple of this.
const ABSENT: u64 = 3;

/// Whether a key is absent in this version.
pub(super) const fn is_absent(version: u64) -> bool {
    version.is_multiple_of(ABSENT)
}

/// The next version in which a key is absent or present, as requested.
pub(super) const fn next(version: u64, absent: bool) -> u64 {
    let mut next = version + 1;
    while is_absent(next) != absent {
        next += 1;
    }
    next
}

#[derive(Default)]
struct Key {
    begun: AtomicU64,
    done: AtomicU64,
}

/// The versions of all keys of the permanent families.
pub(super) struct Versions(Vec<Vec<Key>>);

impl Versions {
    pub(super) fn new(families: usize, keys: usize) -> Self {
        let family = || (0..keys).map(|_| Key::default()).collect();
        Self((0..families).map(|_| family()).collect())
    }

    /// The newest version that its writer has written. Only the writer calls this.
    pub(super) fn last(&self, family: usize, key: usize) -> u64 {
        self.0[family][key].done.load(Ordering::SeqCst)
    }

    pub(super) fn begin(&self, family: usize, key: usize, version: u64) {
        self.0[family][key].begun.store(version, Ordering::SeqCst);
    }

    pub(super) fn end(&self, family: usize, key: usize, version: u64) {
        self.0[family][key].done.store(version, Ordering::SeqCst);
    }

    /// The oldest version that a read starting now may return.
    pub(super) fn low(&self, family: usize, key: usize) -> u64 {
        self.last(family, key)
    }

    /// The newest version that a read that has ended may have returned.
    pub(super) fn high(&self, family: usize, key: usize) -> u64 {
        self.0[family][key].begun.load(Ordering::SeqCst)
    }
}

impl Versions {
    /// [`Versions::low`] of every key of every family.
    pub(super) fn lows(&self) -> Vec<Vec<u64>> {
        self.all(|key| &key.done)
    }

    /// [`Versions::high`] of every key of every family.
    pub(super) fn highs(&self) -> Vec<Vec<u64>> {
        self.all(|key| &key.begun)
    }

    fn all(&self, which: impl Fn(&Key) -> &AtomicU64) -> Vec<Vec<u64>> {
        let load = |key: &Key| which(key).load(Ordering::SeqCst);
        let families = self.0.iter();
        families
            .map(|keys| keys.iter().map(load).collect())
            .collect()
    }
}

/// Whether a read was right.
pub(super) fn check_version(
    found: Option<&[u8]>,
    low: u64,
    high: u64,
) -> Result<Certainty, String> {
    let may_be_absent = high / ABSENT * ABSENT >= low;
    let certainty = match may_be_absent {
        false => Certainty::MustExist,
        true if low == high => Certainty::MustNotExist,
        true => Certainty::Either,
    };
    let right = match found {
        None => may_be_absent,
        Some(bytes) => number(bytes)
            .is_some_and(|version| (low..=high).contains(&version) && !is_absent(version)),
    };
    if right {
        return Ok(certainty);
    }
    let found = found.map(number);
    Err(format!(
        "{found:?}, where one of versions {low} to {high} is right"
    ))
}

/// The violation of a wrong read.
pub(super) fn violation(
    api: &str,
    family: usize,
    rank: usize,
    lost: bool,
    what: &str,
) -> Violation {
    let name = FAMILIES[family];
    Violation {
        lost,
        what: format!("{api} of key {rank} of family {name:?}: {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::model::value;
    use super::*;

    #[test]
    fn read_is_judged_by_its_version_range() {
        let held = |version| check_version(Some(&value(version)), 4, 7);
        assert_eq!(held(4), Ok(Certainty::Either));
        assert_eq!(held(7), Ok(Certainty::Either));
        assert!(held(3).is_err() && held(6).is_err() && held(8).is_err());
        assert_eq!(check_version(None, 4, 7), Ok(Certainty::Either));
        assert!(check_version(Some(b"no value"), 4, 7).is_err());
    }

    #[test]
    fn keys_that_must_exist_or_be_absent_are_judged() {
        assert_eq!(
            check_version(Some(&value(5)), 4, 5),
            Ok(Certainty::MustExist)
        );
        assert!(check_version(None, 4, 5).is_err());
        assert_eq!(check_version(None, 6, 6), Ok(Certainty::MustNotExist));
        assert!(check_version(Some(&value(6)), 6, 6).is_err());
        assert_eq!(check_version(None, 0, 0), Ok(Certainty::MustNotExist));
    }

    #[test]
    fn next_version_is_present_or_absent_as_requested() {
        assert_eq!((next(0, false), next(1, false), next(2, false)), (1, 2, 4));
        assert_eq!((next(0, true), next(1, true), next(3, true)), (3, 3, 6));
    }
}

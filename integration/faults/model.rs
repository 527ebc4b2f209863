//! What each key may hold: one version once its write was acknowledged, several while it was not.

use super::judge::Truth;
use super::steps::{Step, key, version};

/// The versions that each key may hold; `None` is "no value".
#[derive(Clone, Debug)]
pub(super) struct Model(Vec<Vec<Option<u32>>>);

impl Model {
    /// Of an empty database, of so many keys.
    pub(super) fn empty(keys: u32) -> Self {
        Self(vec![vec![None]; keys as usize])
    }

    /// A write of these keys was acknowledged.
    pub(super) fn set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize] = vec![version]);
    }

    /// A write of these keys may have happened.
    pub(super) fn may_set(&mut self, keys: impl Iterator<Item = u32>, version: Option<u32>) {
        keys.for_each(|key| self.0[key as usize].push(version));
    }

    /// The step of this number was done.
    pub(super) fn done(&mut self, number: usize, step: Step) {
        self.set(step.keys(), step.outcome(number));
    }

    /// The step of this number may have been done.
    pub(super) fn may_be_done(&mut self, number: usize, step: Step) {
        self.may_set(step.keys(), step.outcome(number));
    }

    /// Whether this may be what a key holds.
    pub(super) fn allows(&self, key: u32, held: Option<&[u8]>) -> bool {
        self.0[key as usize].contains(&held.and_then(version))
    }

    /// What a key may hold.
    pub(super) fn possible(&self, key: u32) -> &[Option<u32>] {
        &self.0[key as usize]
    }

    /// The first key that holds what it cannot.
    pub(super) fn wrong(&self, truth: &Truth) -> Option<u32> {
        let held = |index| truth.get(&key(index)).map(Vec::as_slice);
        (0..)
            .zip(&self.0)
            .map(|(key, _)| key)
            .find(|&key| !self.allows(key, held(key)))
    }
}
